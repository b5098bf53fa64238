//! What QUIC makes of a frame, as arithmetic: the simulated driver's view of a link.
//!
//! **Bytes.** A datagram of at most 1452 bytes costs 28 more in IP and UDP headers: 1480 on the wire. Inside, the
//! short header takes 1, the connection id 8, the packet number 2 and the AEAD tag 16; a stream frame's
//! type, stream id and offset take 7 on average. That leaves 1418 of 1480, a payload share of 0.958, which
//! is what QUIC is measured to reach. A frame of a few bytes pays the 62 bytes of overhead alone.
//!
//! **Acknowledgements.** One for every two packets, about 64 bytes on the wire: 2 % of the rate, against the
//! traffic. [`Transport::acknowledge`] charges them to the link that goes back.
//!
//! **Loss.** A lost packet is sent again, at once in the link's bytes and one recovery time later (a round trip
//! and the acknowledgement delay) in its arrival; chance may take it again. A frame arrives with its last
//! packet, and no earlier than the frames before it in its lane.
//!
//! **Lanes.** The bottleneck serves control first, but what it has been given it sends: a control frame waits
//! behind at most one quantum of data. A frame's fate is final when it is told, so the data that a control
//! frame overtakes keeps its times and the bytes are charged to the data behind it; over any stretch the
//! link is busy for exactly as long as its bytes take.
//!
//! **No ramp.** The emulated driver gives QUIC a window sized from the topology, not one that slow-start
//! must find, so a burst starts at the link's rate and there is no ramp to model here.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Link, LinkConfig, LinkStats};
use crate::persist;
use crate::types::{Bandwidth, ByteSize, Instant, Seed};

/// The two lanes of one directed link between data centers, with QUIC between them and the wire.
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
    pub packets: u64,
    /// On the wire, with every header.
    pub bytes: u64,
}

/// What became of a frame. It always arrives: QUIC sends again what is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameFate {
    /// When the last of its bytes has left this side.
    pub departs: Instant,
    /// When the whole of it is there, and all of its lane before it.
    pub arrives: Instant,
    /// What it cost on the wire, retransmissions included.
    pub wire_bytes: u64,
    pub packets: u64,
    /// How long it kept the bottleneck.
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
    /// The packets of a frame of `payload_bytes`, its length prefix not counted.
    pub fn of(payload_bytes: u64) -> Self {
        let stream_bytes = payload_bytes + FRAME_PREFIX_BYTES;
        let packets = stream_bytes.div_ceil(STREAM_PAYLOAD_BYTES_MAX);
        Self { packets, bytes: stream_bytes + packets * PACKET_OVERHEAD_BYTES }
    }
}

impl Transport {
    /// An idle link. All its chance comes from `seed`.
    pub fn new(config: LinkConfig, seed: Seed) -> Self {
        let quantum = quantum(config.bandwidth);
        let link = Link::new(config, seed);
        Self { link, quantum, control: LaneState::default(), data: LaneState::default() }
    }

    /// Sends a data frame behind everything that was sent before it.
    ///
    /// The queue has no bound here: the caller keeps it to one frame by asking [`Self::has_room`].
    pub fn send_data(&mut self, now: Instant, payload_bytes: u64) -> FrameFate {
        let starts = self.link.idle_at().max(now);
        let sent = self.transmit(now, starts, Train::of(payload_bytes));
        self.data.follow(sent)
    }

    /// Sends a control frame behind the control frames before it and at most one quantum of data.
    pub fn send_control(&mut self, now: Instant, payload_bytes: u64) -> FrameFate {
        let ahead = self.link.idle_at().since(now);
        let quantum = self.link.config().serialisation(self.quantum.0);
        let starts = self.control.idle_at.max(now + ahead.min(quantum));
        let sent = self.transmit(now, starts, Train::of(payload_bytes));
        self.control.follow(sent)
    }

    /// Changes the bandwidth from `now` on. What is queued stays queued; fates that have been told stand.
    pub fn set_bandwidth(&mut self, now: Instant, bandwidth: Bandwidth) {
        self.link.set_bandwidth(now, bandwidth);
        self.quantum = quantum(bandwidth);
    }

    /// Charges this link with acknowledging `packets` that came the other way.
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

    /// Whether a data frame may be asked for: everything handed over has left.
    pub fn has_room(&self, now: Instant) -> bool {
        self.room_at() <= now
    }

    /// When there will be room for the next data frame if nothing more is sent.
    pub fn room_at(&self) -> Instant {
        self.link.idle_at()
    }

    /// The size of data frame that keeps control prompt.
    pub fn quantum(&self) -> ByteSize {
        self.quantum
    }

    pub fn config(&self) -> &LinkConfig {
        self.link.config()
    }

    /// Both lanes and the acknowledgements.
    pub fn stats(&self) -> &LinkStats {
        self.link.stats()
    }

    /// Of the bytes carried, those of the control lane.
    pub fn control_bytes(&self) -> u64 {
        self.control.wire_bytes
    }

    /// Frames sent in both lanes.
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
    /// Holds a frame to the order of its lane.
    fn follow(&mut self, frame: FrameFate) -> FrameFate {
        self.idle_at = frame.departs;
        self.arrived_at = self.arrived_at.max(frame.arrives);
        self.wire_bytes += frame.wire_bytes;
        self.frames += 1;
        FrameFate { arrives: self.arrived_at, ..frame }
    }
}

/// What chance adds to a train.
#[derive(Clone, Copy, Debug, Default)]
struct Retransmissions {
    packets: u64,
    bytes: u64,
    /// When the last of them leaves, counted from the train's start.
    last_departs: Option<Duration>,
}

/// The most data that may stand between a control frame and the wire: 50 ms of the link, 4 to 256 KiB.
pub fn quantum(bandwidth: Bandwidth) -> ByteSize {
    let bytes = bandwidth.bytes_in(QUANTUM_TIME) as u64;
    ByteSize(bytes.clamp(QUANTUM_BYTES_MIN, QUANTUM_BYTES_MAX))
}

const QUANTUM_TIME: Duration = Duration::from_millis(50);
const QUANTUM_BYTES_MIN: u64 = 4 << 10;
const QUANTUM_BYTES_MAX: u64 = 256 << 10;

/// The largest UDP payload: what crosses an Ethernet path with room for an IPv6 header.
pub const DATAGRAM_BYTES_MAX: u64 = 1452;

/// IPv4 and UDP headers of one datagram.
pub const IP_UDP_HEADER_BYTES: u64 = 28;

/// The most stream bytes in one datagram.
pub const STREAM_PAYLOAD_BYTES_MAX: u64 =
    DATAGRAM_BYTES_MAX - QUIC_HEADER_BYTES - STREAM_HEADER_BYTES;

/// The most of a link's bandwidth that can be frames.
pub const PAYLOAD_SHARE_MAX: f64 =
    STREAM_PAYLOAD_BYTES_MAX as f64 / (DATAGRAM_BYTES_MAX + IP_UDP_HEADER_BYTES) as f64;

/// The length that goes before each frame on its stream.
pub const FRAME_PREFIX_BYTES: u64 = 4;

/// Flags, connection id, packet number and AEAD tag.
const QUIC_HEADER_BYTES: u64 = 1 + 8 + 2 + 16;

/// Type, stream id and offset, on average.
const STREAM_HEADER_BYTES: u64 = 7;

const PACKET_OVERHEAD_BYTES: u64 = IP_UDP_HEADER_BYTES + QUIC_HEADER_BYTES + STREAM_HEADER_BYTES;

const PACKETS_PER_ACKNOWLEDGEMENT: u64 = 2;

/// A short packet with one ACK frame of 9 bytes.
const ACKNOWLEDGEMENT_BYTES: u64 = IP_UDP_HEADER_BYTES + QUIC_HEADER_BYTES + 9;

/// The longest that a receiver waits before it acknowledges (RFC 9000, section 18.2).
const ACKNOWLEDGEMENT_DELAY: Duration = Duration::from_millis(25);
