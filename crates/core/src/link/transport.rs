//! The arithmetic model of QUIC over a link, for the simulated driver.
//!
//! **Overhead.** A datagram of at most 1452 bytes has 28 bytes of IP and UDP headers: 1480 bytes on the wire. Of these
//! the short header takes 1, the connection id 8, the packet number 2 and the AEAD tag 16. Type, stream id and offset
//! of a stream frame take 7 on average. That leaves 1418 of 1480 bytes, a payload share of 0.958, which matches
//! measurements of QUIC. A frame of a few bytes has 62 bytes of overhead.
//!
//! **Acknowledgements.** One for every two packets, about 64 bytes on the wire: 2 % of the rate, in the reverse
//! direction. [`Transport::acknowledge`] charges them to the reverse link.
//!
//! **Loss.** A lost packet is sent again, and may be lost again. The bytes of the retransmission are charged at once.
//! The packet arrives one recovery time later: a round-trip time and the acknowledgement delay. A frame arrives with
//! its last packet, and not before earlier frames of its lane.
//!
//! **Lanes.** The bottleneck serves the control lane first, but does not interrupt data: a control frame waits for at
//! most one quantum of data. The times of a frame are final once returned. So data that a control frame overtakes keeps
//! its times, and the control frame delays the data behind it. Over any period the link is busy exactly as long as its
//! bytes take.
//!
//! **No slow start.** The emulated driver sets QUIC's window from the topology. So a burst starts at the link's rate,
//! and there is no ramp to model.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Link, LinkConfig, LinkStats};
use crate::persist;
use crate::types::{Bandwidth, ByteSize, Instant, Seed};

/// The two lanes of one directed link between data centers, over QUIC.
#[derive(Clone, Debug)]
pub struct Transport {
    link: Link,
    quantum: ByteSize,
    control: LaneState,
    data: LaneState,
}

/// The packets that carry one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    /// The number of packets.
    pub packets: u64,
    /// The size on the wire in bytes, including all headers.
    pub bytes: u64,
}

/// The outcome of sending a frame. It always arrives, because QUIC retransmits lost packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameFate {
    /// When its last byte leaves the bottleneck.
    pub departs: Instant,
    /// When the frame and all earlier frames of its lane have arrived completely.
    pub arrives: Instant,
    /// The size on the wire in bytes, including headers and retransmissions.
    pub wire_bytes: u64,
    /// The number of packets, including retransmissions.
    pub packets: u64,
    /// How long the bottleneck is busy with it.
    pub busy: Duration,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct LaneState {
    idle_at: Instant,
    arrived_at: Instant,
    wire_bytes: u64,
    frames: u64,
}

impl Train {
    /// The packets of a frame of `payload_bytes`, without its length prefix.
    pub fn of(payload_bytes: u64) -> Self {
        let stream_bytes = payload_bytes + FRAME_PREFIX_BYTES;
        let packets = stream_bytes.div_ceil(STREAM_PAYLOAD_BYTES_MAX);
        Self { packets, bytes: stream_bytes + packets * PACKET_OVERHEAD_BYTES }
    }
}

impl Transport {
    /// An idle link. All its random numbers come from `seed`.
    ///
    /// # Panics
    /// If the loss probability is not in 0 to below 1.
    pub fn new(config: LinkConfig, seed: Seed) -> Self {
        let quantum = quantum(config.bandwidth);
        let link = Link::new(config, seed);
        Self { link, quantum, control: LaneState::default(), data: LaneState::default() }
    }

    /// Sends a data frame behind all frames that were sent before.
    ///
    /// The queue is not bounded here. The caller bounds it to one frame by [`Self::has_room`].
    pub fn send_data(&mut self, now: Instant, payload_bytes: u64) -> FrameFate {
        let starts = self.link.idle_at().max(now);
        let sent = self.transmit(now, starts, Train::of(payload_bytes));
        self.data.follow(sent)
    }

    /// Sends a control frame behind earlier control frames and at most one quantum of data.
    pub fn send_control(&mut self, now: Instant, payload_bytes: u64) -> FrameFate {
        let ahead = self.link.idle_at().since(now);
        let quantum = self.link.config().serialisation(self.quantum.0);
        let starts = self.control.idle_at.max(now + ahead.min(quantum));
        let sent = self.transmit(now, starts, Train::of(payload_bytes));
        self.control.follow(sent)
    }

    /// Changes the bandwidth from `now` on. Queued bytes stay queued. Outcomes that were returned before do not change.
    pub fn set_bandwidth(&mut self, now: Instant, bandwidth: Bandwidth) {
        self.link.set_bandwidth(now, bandwidth);
        self.quantum = quantum(bandwidth);
    }

    /// Charges this link with the acknowledgements of `packets` that the reverse link has carried.
    pub fn acknowledge(&mut self, now: Instant, packets: u64) {
        let acknowledgements = packets.div_ceil(PACKETS_PER_ACKNOWLEDGEMENT);
        self.link.carry(now, acknowledgements, acknowledgements * ACKNOWLEDGEMENT_BYTES);
    }

    fn transmit(&mut self, now: Instant, starts: Instant, train: Train) -> FrameFate {
        let config = *self.link.config();
        let again = self.retransmissions(train);
        let bytes = train.bytes + again.bytes;
        let packets = train.packets + again.packets;
        self.link.carry(now, packets, bytes);
        self.link.count_lost(again.packets, again.bytes);
        let busy = config.serialisation(bytes);
        let departs = starts + busy;
        let late = again.last_departs.map(|after| starts + after);
        let arrives = departs.max(late.unwrap_or(departs)) + config.delay;
        FrameFate { departs, arrives, wire_bytes: bytes, packets, busy }
    }

    fn retransmissions(&mut self, train: Train) -> Retransmissions {
        let mut again = Retransmissions::default();
        if self.link.config().loss == 0.0 {
            return again;
        }
        let packet_bytes = train.bytes.div_ceil(train.packets);
        let recovery = self.link.config().round_trip() + ACKNOWLEDGEMENT_DELAY;

        for packet in 1..=train.packets {
            let mut recoveries = 0;
            while self.link.strikes() {
                recoveries += 1;
            }
            if recoveries > 0 {
                let first = self.link.config().serialisation(packet * packet_bytes);
                let departs = first + recovery * recoveries;
                again.packets += u64::from(recoveries);
                again.bytes += u64::from(recoveries) * packet_bytes;
                again.last_departs = again.last_departs.max(Some(departs));
            }
        }

        again
    }

    /// Whether a data frame may be sent: the bottleneck is idle.
    pub fn has_room(&self, now: Instant) -> bool {
        self.room_at() <= now
    }

    /// When a data frame may be sent if nothing else is sent before.
    pub fn room_at(&self) -> Instant {
        self.link.idle_at()
    }

    /// When the control frames sent so far will have left the bottleneck.
    pub fn control_idle_at(&self) -> Instant {
        self.control.idle_at
    }

    /// When control frames in the queue will fit into one quantum, so that a driver may add another.
    pub fn control_room_at(&self) -> Instant {
        let quantum = self.link.config().serialisation(self.quantum.0);
        Instant::ZERO + self.control.idle_at.since(Instant::ZERO + quantum)
    }

    /// The largest size of a data frame that keeps the control lane prompt.
    pub fn quantum(&self) -> ByteSize {
        self.quantum
    }

    /// The properties of the link, with the latest bandwidth.
    pub fn config(&self) -> &LinkConfig {
        self.link.config()
    }

    /// The traffic of both lanes and of acknowledgements so far.
    pub fn stats(&self) -> &LinkStats {
        self.link.stats()
    }

    /// The size on the wire of the control frames so far, in bytes.
    pub fn control_bytes(&self) -> u64 {
        self.control.wire_bytes
    }

    /// The number of frames sent in both lanes so far.
    pub fn frames(&self) -> u64 {
        self.control.frames + self.data.frames
    }
}

persist! {
    impl Persist<()> for Transport {
        fn walk(Self { link, quantum: _, control, data }, walk, ()) {
            walk.flatten(link, ())?;
            walk.record("control", control)?;
            walk.record("data", data)
        }
    }
}

impl LaneState {
    /// Delays a frame until the frames before it in the lane have arrived.
    fn follow(&mut self, frame: FrameFate) -> FrameFate {
        self.idle_at = frame.departs;
        self.arrived_at = self.arrived_at.max(frame.arrives);
        self.wire_bytes += frame.wire_bytes;
        self.frames += 1;
        FrameFate { arrives: self.arrived_at, ..frame }
    }
}

/// The retransmissions of a train's lost packets.
#[derive(Clone, Copy, Debug, Default)]
struct Retransmissions {
    packets: u64,
    bytes: u64,
    /// When the last of them leaves, after the start of the train.
    last_departs: Option<Duration>,
}

/// The largest amount of data that a control frame waits for: 50 ms of the link's bandwidth, between 4 and 256 KiB.
pub fn quantum(bandwidth: Bandwidth) -> ByteSize {
    let bytes = bandwidth.bytes_in(QUANTUM_TIME) as u64;
    ByteSize(bytes.clamp(QUANTUM_BYTES_MIN, QUANTUM_BYTES_MAX))
}

const QUANTUM_TIME: Duration = Duration::from_millis(50);
const QUANTUM_BYTES_MIN: u64 = 4 << 10;
const QUANTUM_BYTES_MAX: u64 = 256 << 10;

/// The largest UDP payload in bytes. It fits an Ethernet path with an IPv6 header.
pub const DATAGRAM_BYTES_MAX: u64 = 1452;

/// The size of the IPv4 and UDP headers of one datagram.
pub const IP_UDP_HEADER_BYTES: u64 = 28;

/// The largest number of stream bytes in one datagram.
pub const STREAM_PAYLOAD_BYTES_MAX: u64 =
    DATAGRAM_BYTES_MAX - QUIC_HEADER_BYTES - STREAM_HEADER_BYTES;

/// The largest share of a link's bandwidth that frames can use.
pub const PAYLOAD_SHARE_MAX: f64 =
    STREAM_PAYLOAD_BYTES_MAX as f64 / (DATAGRAM_BYTES_MAX + IP_UDP_HEADER_BYTES) as f64;

/// The same of a link that also carries the acknowledgements of as many packets in the other direction.
pub const PAYLOAD_SHARE_MAX_BOTH_WAYS: f64 = STREAM_PAYLOAD_BYTES_MAX as f64
    / (DATAGRAM_BYTES_MAX
        + IP_UDP_HEADER_BYTES
        + ACKNOWLEDGEMENT_BYTES / PACKETS_PER_ACKNOWLEDGEMENT) as f64;

/// The size of the length prefix of each frame on its stream.
pub const FRAME_PREFIX_BYTES: u64 = 4;

/// Flags, connection id, packet number and AEAD tag.
const QUIC_HEADER_BYTES: u64 = 1 + 8 + 2 + 16;

/// Type, stream id and offset, on average.
const STREAM_HEADER_BYTES: u64 = 7;

const PACKET_OVERHEAD_BYTES: u64 = IP_UDP_HEADER_BYTES + QUIC_HEADER_BYTES + STREAM_HEADER_BYTES;

const PACKETS_PER_ACKNOWLEDGEMENT: u64 = 2;

/// The size of a short packet with one ACK frame of 9 bytes.
const ACKNOWLEDGEMENT_BYTES: u64 = IP_UDP_HEADER_BYTES + QUIC_HEADER_BYTES + 9;

/// The longest time that a receiver delays an acknowledgement (`max_ack_delay` of RFC 9000, section 18.2).
const ACKNOWLEDGEMENT_DELAY: Duration = Duration::from_millis(25);
