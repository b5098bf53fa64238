//! The settings of a connection: its windows and streams, its idle timeout, and the memory limit of a peer.
//!
//! Windows follow from the link. On a shared link they are 1.25 bandwidth-delay products, or some frames if that is
//! more, so that Cubic cannot overshoot further. On a dedicated link, whose sender does not probe, they also cover the
//! two round trips of a lost packet. No stream has more than 1.25 products, nor more than keeps it below quinn's limit
//! of 1024 gaps. A link that needs more uses more streams.
//!
//! An idle end sends a packet every [`KEEP_ALIVE`]. Any packet is a sign of life, so a transfer may take any time. Where none
//! arrives the connection is closed ([`super::silence`]).
//!
//! Datagrams begin at a size that every path carries. Path MTU discovery (RFC 8899) then finds the largest that a path
//! carries: a probe that is lost costs nothing but itself, and where large datagrams stop arriving, QUIC goes back to the
//! smallest. A datagram costs both ends nearly the same processor time whatever its size, so few large ones are cheap. On a
//! slow link they stay small, because control frames wait behind them.
//!
//! 0-RTT and all resumption are off: each connection begins with a complete handshake, in which both ends authenticate
//! before a frame is sent.

use std::time::Duration;

use quinn::{IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};

use super::congestion::Provision;
use super::pump::CONTROL_WINDOW;
use super::silence::KEEP_ALIVE;
use super::stripe::STRIPES_MAX;
use gaia_core::link::{DATAGRAM_BYTES_MAX, LinkConfig, quantum};
use gaia_core::types::Bandwidth;
use gaia_core::types::limits::{BULK_FRAME_BYTES_MAX, CONTROL_FRAME_BYTES_MAX};

/// The flow-control windows of the lanes of one shard, and the number of their streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Of each stream, in bytes.
    pub stream: u64,
    /// Of the data lane, in bytes.
    pub data: u64,
    /// The number of streams of the data lane.
    pub stripes: u8,
}

impl Windows {
    /// The windows for frames over `link`, whose acknowledgements return over `back`. Both ends of a connection compute
    /// the same.
    pub fn new(link: &LinkConfig, back: &LinkConfig, dedicated: bool) -> Self {
        let frames = 4 * quantum(link.bandwidth).0;
        let shared = (path_bytes(link, back) / 4 * 5).max(frames).max(WINDOW_BYTES_MIN);
        let bytes = if dedicated { recovering(&Provision::new(link, back)) } else { shared };
        Self::striped(bytes, shared)
    }

    /// The windows for a sender with a provisioned window, on as few streams as possible.
    pub fn provisioned(provision: &Provision) -> Self {
        Self::striped(recovering(provision), STREAM_WINDOW_BYTES_MAX)
    }

    /// `bytes` on streams of at most `stream_max` bytes.
    fn striped(bytes: u64, stream_max: u64) -> Self {
        let stream_max = stream_max.min(STREAM_WINDOW_BYTES_MAX);
        let stripes = bytes.div_ceil(stream_max).clamp(1, u64::from(STRIPES_MAX));
        let stream = bytes.div_ceil(stripes).min(stream_max);
        let stripes = u8::try_from(stripes).expect("stripes are bounded");
        Self { stream, data: stream * u64::from(stripes), stripes }
    }

    /// The larger of two windows.
    pub fn wider(self, other: Self) -> Self {
        Self {
            stream: self.stream.max(other.stream),
            data: self.data.max(other.data),
            stripes: self.stripes.max(other.stripes),
        }
    }

    /// The window of a connection with the lanes of `shards` shards. Data can fill its own part, and leaves credit for
    /// control frames.
    pub fn connection(&self, shards: usize) -> VarInt {
        varint((self.data + self.stream).saturating_mul(shards as u64))
    }

    /// The settings of a connection that receives the lanes of `shards` shards.
    pub fn transport(&self, shards: usize) -> TransportConfig {
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

/// The discovery of the largest datagrams of a path, the slowest of whose links has this bandwidth. Datagrams of the largest size
/// that is probed for leave room for `reserved` bytes.
pub fn datagram_discovery(slowest: Bandwidth, reserved: u16) -> MtuDiscoveryConfig {
    let fleeting = slowest.bytes_in(DATAGRAM_TIME_MAX) as u64;
    let largest = fleeting.clamp(DATAGRAM_BYTES_MAX, u64::from(DATAGRAM_BYTES_PROBED_MAX));
    let mut config = MtuDiscoveryConfig::default();
    let largest = u16::try_from(largest).expect("a datagram has at most 64 KiB");
    config.upper_bound(largest - reserved);
    config
}

/// The largest size of the frames that one peer makes this process keep, in bytes, for the lanes of `shards` shards.
/// `received` are the windows that it was granted, `sent` those that it granted.
///
/// Of received frames: the bytes in QUIC's windows, and for each lane the size of the longest frame, in one frame or in
/// many short ones that were not taken. Of sent frames: those that are not acknowledged, and those that wait for QUIC.
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

/// The window for the two round trips from the loss of a packet to the credit for the packets behind it.
fn recovering(provision: &Provision) -> u64 {
    provision.window * 5 / 2
}

/// The number of bytes in flight from the sending of a byte to its acknowledgement.
pub(super) fn path_bytes(link: &LinkConfig, back: &LinkConfig) -> u64 {
    link.bandwidth.bytes_in(link.delay + back.delay) as u64
}

fn varint(value: u64) -> VarInt {
    VarInt::from_u64(value).unwrap_or(VarInt::MAX)
}

/// The idle timeout of QUIC. The silence that closes a connection is noticed before, since a timeout tells the peer nothing. But
/// packets that only look like the peer's break a silence, and not this timeout.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// The largest datagram that is probed for, in bytes of UDP payload. Networks of clouds carry 8,500 and more. quinn hands
/// ten datagrams at once to the kernel, which takes no more than 65,507 bytes; of more it would drop all.
pub const DATAGRAM_BYTES_PROBED_MAX: u16 = 6_500;

/// The longest time that a link is busy with one datagram, where it could have smaller ones.
const DATAGRAM_TIME_MAX: Duration = Duration::from_millis(1);

/// quinn-proto closes a connection whose stream has 1024 gaps. Gaps are at least two packets apart, so a
/// stream of this many bytes cannot have as many.
const STREAM_WINDOW_BYTES_MAX: u64 = 2_800_000;
const WINDOW_BYTES_MIN: u64 = 256 << 10;

/// The size of unsent frames at which a control lane accepts no more.
pub(super) const CONTROL_IN_HAND_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use gaia_core::types::ByteSize;

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
    fn a_slow_link_keeps_small_datagrams() {
        let expected = |largest: u16| {
            let mut config = MtuDiscoveryConfig::default();
            config.upper_bound(largest);
            format!("{config:?}")
        };
        for (mbit, largest) in [(0.1, 1_452), (10.0, 1_452), (20.0, 2_500), (1_000.0, 6_500)] {
            for reserved in [0, 13] {
                let found = datagram_discovery(Bandwidth::from_mbit(mbit), reserved);
                assert_eq!(format!("{found:?}"), expected(largest - reserved), "{mbit} Mbit/s");
            }
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
