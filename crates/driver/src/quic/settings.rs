//! How a connection is set up: its windows and streams, when silence is death, and what a peer may cost.
//!
//! Windows come from the link that fills them. On a link that others use too they are 1.25 bandwidth-delay products, or
//! some frames where that is more, so that Cubic cannot overshoot by more; on a dedicated one, whose sender does not probe,
//! there is room for the two round trips that a lost packet takes. No stream has more than 1.25 products either way, nor
//! more than keeps it under quinn's 1024 gaps: what a link needs beyond that lies on more streams.
//!
//! A peer that says nothing for [`IDLE_MAX`] is dead. Any packet is a sign of life, so a transfer may take as long as it
//! likes; who has nothing to say says so every [`KEEP_ALIVE`]. Where packets take long, QUIC waits for three of its probe
//! timeouts, however short this time is.
//!
//! 0-RTT is off, as is all resumption: every connection begins with a whole handshake, in which both ends prove
//! themselves before a byte of a frame leaves.

use std::time::Duration;

use quinn::{IdleTimeout, TransportConfig, VarInt};

use super::congestion::Provision;
use super::lanes::CONTROL_IN_HAND_BYTES;
use super::pump::CONTROL_WINDOW;
use super::stripes::STRIPES_MAX;
use gaia_core::link::{LinkConfig, quantum};
use gaia_core::types::limits::{BULK_FRAME_BYTES_MAX, CONTROL_FRAME_BYTES_MAX};

/// What a receiver grants the lanes of one shard, and on how many streams they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    /// Of each stream, in bytes.
    pub(crate) stream: u64,
    /// Of the data lane, in bytes.
    pub(crate) data: u64,
    /// On how many streams the data lane lies.
    pub(crate) stripes: u8,
}

impl Windows {
    /// For frames over `link`, whose acknowledgements come back over `back`. Both ends of a connection reckon the same.
    pub(crate) fn new(link: &LinkConfig, back: &LinkConfig, dedicated: bool) -> Self {
        let frames = 4 * quantum(link.bandwidth).0;
        let shared = (path_bytes(link, back) / 4 * 5).max(frames).max(WINDOW_BYTES_MIN);
        let bytes = if dedicated { recovering(&Provision::new(link, back)) } else { shared };
        Self::striped(bytes, shared)
    }

    /// For a sender that keeps a provisioned window, on as few streams as may be.
    pub(crate) fn provisioned(provision: &Provision) -> Self {
        Self::striped(recovering(provision), STREAM_WINDOW_BYTES_MAX)
    }

    /// So many bytes on streams of at most `stream_max`.
    fn striped(bytes: u64, stream_max: u64) -> Self {
        let stream_max = stream_max.min(STREAM_WINDOW_BYTES_MAX);
        let stripes = bytes.div_ceil(stream_max).clamp(1, u64::from(STRIPES_MAX));
        let stream = bytes.div_ceil(stripes).min(stream_max);
        let stripes = u8::try_from(stripes).expect("stripes are bounded");
        Self { stream, data: stream * u64::from(stripes), stripes }
    }

    /// What fits both.
    pub(crate) fn wider(self, other: Self) -> Self {
        Self {
            stream: self.stream.max(other.stream),
            data: self.data.max(other.data),
            stripes: self.stripes.max(other.stripes),
        }
    }

    /// Of a connection that carries the lanes of so many shards: data can fill its own part and leaves control credit.
    pub(crate) fn connection(&self, shards: usize) -> VarInt {
        varint((self.data + self.stream).saturating_mul(shards as u64))
    }

    /// The settings of a connection that receives the lanes of so many shards.
    pub(crate) fn transport(&self, shards: usize) -> TransportConfig {
        let streams = shards.saturating_mul(1 + usize::from(self.stripes));
        let idle =
            IdleTimeout::try_from(IDLE_MAX).expect("some seconds are a time that QUIC knows");
        let mut config = TransportConfig::default();
        config
            .stream_receive_window(varint(self.stream))
            .receive_window(self.connection(shards))
            .max_concurrent_uni_streams(varint(streams as u64))
            .max_concurrent_bidi_streams(VarInt::from_u32(0))
            .datagram_receive_buffer_size(None)
            .keep_alive_interval(Some(KEEP_ALIVE))
            .max_idle_timeout(Some(idle));
        config
    }
}

/// The most bytes of frames that one peer makes this process keep, for the lanes of so many shards: `received` are the
/// windows that it was granted, `sent` those that it granted.
///
/// Received: what waits in QUIC's windows, and of each lane the longest frame, be it one frame or many short ones that
/// nobody has taken. Sent: what QUIC keeps until it is acknowledged, and what waits for QUIC.
pub(crate) fn peer_bytes_max(received: &Windows, sent: &Windows, shards: usize) -> u64 {
    let control_frame = CONTROL_FRAME_BYTES_MAX as u64;
    let data_frame = BULK_FRAME_BYTES_MAX as u64;
    let inbox = control_frame + data_frame;
    let in_hand = CONTROL_IN_HAND_BYTES as u64 + control_frame + data_frame;
    received.connection(shards).into_inner()
        + inbox
        + sent.connection(shards).into_inner()
        + CONTROL_WINDOW
        + shards as u64 * in_hand
}

/// Room for the two round trips that pass between the loss of a packet and the credit for what follows it.
fn recovering(provision: &Provision) -> u64 {
    provision.window * 5 / 2
}

/// What is on its way while a byte goes there and its acknowledgement comes back, in bytes.
pub(super) fn path_bytes(link: &LinkConfig, back: &LinkConfig) -> u64 {
    link.bandwidth.bytes_in(link.delay + back.delay) as u64
}

fn varint(value: u64) -> VarInt {
    VarInt::from_u64(value).unwrap_or(VarInt::MAX)
}

/// A dead peer is noticed within this time, whatever is under way.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// Several of these fit into that time, so that a few may be lost.
const KEEP_ALIVE: Duration = Duration::from_millis(500);

/// quinn-proto closes a connection whose stream has 1024 gaps. Gaps are at least two packets apart, so a
/// stream of this many bytes cannot have as many.
const STREAM_WINDOW_BYTES_MAX: u64 = 2_800_000;
const WINDOW_BYTES_MIN: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use gaia_core::types::{Bandwidth, ByteSize};

    fn link(mbit: f64, rtt_ms: u64) -> LinkConfig {
        let bandwidth = Bandwidth::from_mbit(mbit);
        let queue = ByteSize(bandwidth.bytes_in(Duration::from_millis(100)) as u64);
        LinkConfig { bandwidth, delay: Duration::from_millis(rtt_ms) / 2, queue, loss: 0.0 }
    }

    fn check(mbit: f64, rtt_ms: u64, dedicated: bool, expect: Windows) {
        let link = link(mbit, rtt_ms);
        assert_eq!(Windows::new(&link, &link, dedicated), expect, "{mbit} Mbit/s, {rtt_ms} ms");
    }

    #[test]
    fn windows_are_as_large_as_the_link_and_no_stream_larger_than_is_safe() {
        let least = WINDOW_BYTES_MIN;
        check(1.0, 200, false, Windows { stream: least, data: least, stripes: 1 });
        check(50.0, 200, false, Windows { stream: 1_562_500, data: 1_562_500, stripes: 1 });
        check(400.0, 200, false, Windows { stream: 2_500_000, data: 12_500_000, stripes: 5 });
        let most = Windows { stream: 2_800_000, data: 16 * 2_800_000, stripes: 16 };
        check(10_000.0, 300, false, most);
        check(10_000.0, 300, true, most);
        for (mbit, rtt_ms) in [(1.0, 200), (50.0, 60), (400.0, 200)] {
            let link = link(mbit, rtt_ms);
            let path = link.bandwidth_delay_product() as u64;
            let Windows { stream, data, .. } = Windows::new(&link, &link, true);
            assert!(stream <= (path * 5 / 4).max(4 * quantum(link.bandwidth).0).max(least));
            assert!(data >= path * 5 / 2, "{mbit} Mbit/s: {data}");
        }
    }

    #[test]
    fn what_a_peer_may_cost_is_known() {
        let link = link(50.0, 200);
        let windows = Windows::new(&link, &link, false);
        let frames = (BULK_FRAME_BYTES_MAX + CONTROL_FRAME_BYTES_MAX) as u64;
        let windows_bytes = 2 * 2 * 1_562_500;
        let control = (CONTROL_IN_HAND_BYTES as u64) + CONTROL_WINDOW;
        let most = peer_bytes_max(&windows, &windows, 1);
        assert_eq!(most, windows_bytes + 2 * frames + control);
        assert!(most < 150 << 20, "{most}");
    }
}
