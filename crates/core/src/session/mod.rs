//! Delivery of frames exactly once and in order, over connections that fail.
//!
//! This room decides which frames one end of a link between mirrors must still send or acknowledge, and which of the
//! received frames are new. It does not know the meaning of a frame, the transport, and the time. The paper assumes
//! connections between mirrors that do not fail.
//!
//! A connection may lose, repeat, reorder or damage messages, and fails sooner or later. Each lane numbers its frames
//! from 1 and keeps them until the other end has acknowledged them. At the beginning of a connection both ends send a
//! hello with the number of frames that they have received. Each end then sends its frames from there again. All
//! messages carry these counts, so that a message with acknowledgements alone is needed only if frames flow in one
//! direction.
//!
//! A frame counts as received once [`Session::poll_frame`] has passed it on. A frame that arrives before an earlier one
//! waits for that one. A frame that was received before is discarded and acknowledged again, because the sender may
//! have missed the acknowledgement.
//!
//! **Incarnations.** A node has a new, higher incarnation each time it starts. Frame numbers belong to a *state*, which
//! the incarnation that began it identifies. A node that restarts with its state ([`Session::resume`]) continues with
//! its numbers. A node that has lost its state begins a new one. The other end recognises this from the hello, and
//! resets its own state, too ([`HelloKind::Reset`]). A message of other incarnations than those of the hellos is
//! rejected.
//!
//! **Losses within a connection** are repaired by the transport. If they are not, the driver closes a connection that
//! makes no [`Progress`], and the next one delivers what is missing. The driver also closes a connection on which a
//! message was rejected. So there is one rule for all errors.
//!
//! **Memory.** [`Session::room`] bounds the unacknowledged frames. While a link is down, the room is used up and no
//! further frames are cut. Updates then merge in the outbox, where the model's size bounds them.
//!
//! Each message begins with the same sixty bytes, little endian:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | `GAIS` |
//! | 4 | 2 | protocol version |
//! | 6 | 1 | kind: 0 hello, 1 control frame, 2 data frame, 3 acknowledgements |
//! | 7 | 1 | zero |
//! | 8 | 4 | bytes of the frame that follows; 0 unless kind is 1 or 2 |
//! | 12 | 4 | CRC-32 of the frame |
//! | 16 | 8 | the sender's incarnation |
//! | 24 | 8 | the receiver's incarnation; in a hello the one that began the state whose frames are counted below, or 0 |
//! | 32 | 8 | a frame's number; in a hello the incarnation that began the sender's state; else 0 |
//! | 40 | 16 | number of frames received, of the control and the data lane |
//! | 56 | 4 | CRC-32 of the header so far |

mod error;
mod header;
mod lane;
mod progress;

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::types::limits::CONTROL_FRAME_BYTES_MAX;
use crate::types::{Bandwidth, Lane};

pub use error::SessionError;
pub use header::{HEADER_BYTES, Message, message_len};
pub use lane::LaneState;
pub use progress::Progress;

use header::{Header, Kind, decode};
use lane::{Incoming, Outgoing};

/// The number of a node's start. Each start has a higher number than all before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub NonZeroU64);

/// The settings of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// The incarnation of this node.
    pub incarnation: Incarnation,
    /// The largest size of unacknowledged data frames in bytes: the [`window`] of this direction.
    pub sent_bytes_max: usize,
    /// The largest size in bytes of the peer's data frames that wait for an earlier one: the peer's `sent_bytes_max`.
    pub early_bytes_max: usize,
}

/// What of a session must outlive a restart, so that nothing is lost or doubled by it.
///
/// It changes with a [`Session`] alone: [`Session::state`] takes it out, [`Session::resume`] puts it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionState {
    began: Incarnation,
    peer: Option<Peer>,
    /// By lane.
    lanes: [LaneState; 2],
}

/// One end of a link.
///
/// On each connection the driver first sends the hello that [`Self::connect`] returns. Then it sends the messages that
/// [`Self::poll_transmit`] returns, and passes received messages to [`Self::handle_message`]. After each received
/// message it takes the frames that [`Self::poll_frame`] returns.
///
/// Four methods change what must outlive a restart, and nothing else does: [`Self::push`], [`Self::pass_on`],
/// [`Self::acknowledge`] and [`Self::accept_hello`]. A caller that keeps a log records each of them before it makes the
/// change. So it takes messages in two steps: [`Self::check_message`] returns what a message changes, and
/// [`Self::next_frame`] the frame that is in turn. If the four methods are called again in the order of the log, they
/// give the same state.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    began: Incarnation,
    peer: Option<Peer>,
    /// Whether the peer's hello was received on this connection.
    met: bool,
    /// By lane.
    outgoing: [Outgoing; 2],
    incoming: [Incoming; 2],
    /// The counts of the last acknowledgement.
    told: [u64; 2],
    /// The size of the frames passed on since the last acknowledgement, in bytes.
    untold_bytes: usize,
    /// Whether the peer sent a frame that was received before.
    repeated: bool,
}

/// The incarnations of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Peer {
    incarnation: Incarnation,
    began: Incarnation,
}

/// The durable part of a received hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PeerHello(Peer);

impl PeerHello {
    /// The incarnation that began the other end's state.
    pub fn began(self) -> Incarnation {
        self.0.began
    }
}

/// The durable changes that a valid message makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedMessage {
    /// If the message is a hello: how it relates to those before, and its durable part.
    pub hello: Option<(HelloKind, PeerHello)>,
    /// The number of frames of each lane that the other end has received.
    pub received: [u64; 2],
}

/// How a received hello relates to those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloKind {
    /// The first hello of the other end.
    First,
    /// The same incarnation, on another connection.
    Reconnected,
    /// The other end has restarted with its state.
    Resumed,
    /// The other end has restarted without its state. All frames that it had received are lost with it. Both ends reset
    /// their state and count from 1. This room does not decide what the other end needs to continue.
    Reset {
        /// The number of frames of this end that were not acknowledged. They are not sent again.
        lost: usize,
        /// The incarnation that began the other end's new state.
        began: Incarnation,
    },
}

impl Session {
    /// A session with a new state.
    pub fn new(config: SessionConfig) -> Self {
        Self::resume(config, &SessionState::new(config.incarnation))
    }

    /// A session that continues with a state after a restart.
    ///
    /// # Panics
    /// If the incarnation is lower than the one that began the state.
    pub fn resume(config: SessionConfig, state: &SessionState) -> Self {
        assert!(config.incarnation >= state.began, "incarnations rise");
        Self {
            config,
            began: state.began,
            peer: state.peer,
            met: false,
            outgoing: [0, 1].map(|lane| Outgoing::resume(&state.lanes[lane])),
            incoming: [0, 1].map(|lane| Incoming::resume(&state.lanes[lane])),
            told: [0, 1].map(|lane| state.lanes[lane].received),
            untold_bytes: 0,
            repeated: false,
        }
    }

    /// Begins a connection, which replaces any before. Returns the hello, which must be the first message on the
    /// connection.
    ///
    /// After that, messages of earlier connections must not be passed in.
    pub fn connect(&mut self) -> Message {
        self.met = false;
        let peer = self.peer.map(|peer| peer.began);
        self.message(Kind::Hello { began: self.began }, peer, Bytes::new())
    }

    /// Adds a frame to be sent. The caller checks [`Self::room`] before.
    pub fn push(&mut self, lane: Lane, frame: Bytes) {
        self.outgoing[lane.index()].push(frame);
    }

    /// Handles a message of the other end. For a hello, returns how it relates to those before.
    ///
    /// # Errors
    /// If the message is invalid. It has changed nothing. The connection must be closed.
    pub fn handle_message(&mut self, message: &Bytes) -> Result<Option<HelloKind>, SessionError> {
        let CheckedMessage { hello, received } = self.check_message(message)?;
        if let Some((kind, met)) = hello
            && kind != HelloKind::Reconnected
        {
            self.accept_hello(met);
        }
        self.acknowledge(received);

        Ok(hello.map(|(kind, _)| kind))
    }

    /// The first step of [`Self::handle_message`]: handles what belongs to the connection, and returns the durable
    /// changes that the message makes.
    ///
    /// The caller must apply these before it calls any other method: it [accepts the hello](Self::accept_hello) for every
    /// [`HelloKind`] but [`HelloKind::Reconnected`], and then [acknowledges](Self::acknowledge) frames.
    ///
    /// # Errors
    /// As [`Self::handle_message`].
    pub fn check_message(&mut self, message: &Bytes) -> Result<CheckedMessage, SessionError> {
        let (header, frame) = decode(message)?;
        if let Kind::Hello { began } = header.kind {
            return self.check_hello(&header, began);
        }
        let known = self.peer.filter(|_| self.met).ok_or(SessionError::PeerSkippedHello)?;

        if header.from != known.incarnation {
            let (found, known) = (header.from, known.incarnation);
            return Err(SessionError::PeerChangedIncarnation { found, known });
        }

        if header.to != Some(self.config.incarnation) {
            let (found, own) = (header.to, self.config.incarnation);
            return Err(SessionError::PeerSpeaksToAnother { found, own });
        }

        for lane in Lane::ALL {
            self.outgoing[lane.index()].check(lane, header.received[lane.index()])?;
        }
        if let Kind::Frame { lane, number } = header.kind {
            self.take(lane, number, frame)?;
        }

        Ok(CheckedMessage { hello: None, received: header.received })
    }

    /// Accepts the hello of an incarnation that is new to this end. If the other end has lost its state, both ends count
    /// from 1 again.
    pub fn accept_hello(&mut self, PeerHello(peer): PeerHello) -> HelloKind {
        let kind = match self.peer {
            None => HelloKind::First,
            Some(known) if known.began == peer.began => HelloKind::Resumed,
            Some(_) => HelloKind::Reset { lost: self.kept_frames(), began: peer.began },
        };

        match kind {
            HelloKind::First | HelloKind::Reconnected => {}
            // Its state may be from before these frames: under their numbers it may send others.
            HelloKind::Resumed => self.forget_early(),
            HelloKind::Reset { .. } => self.reset(),
        }
        self.peer = Some(peer);

        kind
    }

    /// The other end has so many frames of each lane. What it acknowledged before stays so.
    pub fn acknowledge(&mut self, received: [u64; 2]) {
        for (outgoing, received) in self.outgoing.iter_mut().zip(received) {
            outgoing.acknowledge(received);
        }
    }

    /// The next frame of the other end in the order of its lane, the control lane first. It then counts as received.
    pub fn poll_frame(&mut self) -> Option<(Lane, Bytes)> {
        let (lane, frame) = self.next_frame()?;
        self.pass_on(lane);
        Some((lane, frame))
    }

    /// The first step of [`Self::poll_frame`]: the frame that [`Self::pass_on`] is to be called for.
    pub fn next_frame(&self) -> Option<(Lane, Bytes)> {
        Lane::ALL.into_iter().find_map(|lane| {
            let frame = self.incoming[lane.index()].in_turn()?;
            Some((lane, frame.clone()))
        })
    }

    /// The next frame of a lane is passed on, and counts as received.
    pub fn pass_on(&mut self, lane: Lane) {
        if let Some(frame) = self.incoming[lane.index()].pass_on() {
            self.untold_bytes += HEADER_BYTES + frame.len();
        }
    }

    /// Drops the received frames that were not passed on. The caller closes the connection, and the other end sends them
    /// again on the next one.
    pub fn forget_early(&mut self) {
        self.incoming.iter_mut().for_each(Incoming::forget_early);
    }

    /// The next message for a lane of this connection. `None` until the other end's hello is received.
    ///
    /// Acknowledgements without a frame are sent in the control lane, once enough frames were received that the other
    /// end may wait for them.
    pub fn poll_transmit(&mut self, lane: Lane) -> Option<Message> {
        let to = self.peer.filter(|_| self.met)?.incarnation;
        if let Some((number, frame)) = self.outgoing[lane.index()].next() {
            return Some(self.message(Kind::Frame { lane, number }, Some(to), frame));
        }
        let due = self.repeated
            || self.untold_frames() >= UNTOLD_FRAMES_MAX
            || self.untold_bytes >= self.config.early_bytes_max / UNTOLD_PARTS;
        if lane == Lane::Control && due { self.poll_acknowledgement() } else { None }
    }

    /// A message with acknowledgements alone, if there are any that were not sent. A driver calls this if it has sent
    /// no other message for a while, so that the other end can free its memory.
    pub fn poll_acknowledgement(&mut self) -> Option<Message> {
        let to = self.peer.filter(|_| self.met)?.incarnation;
        let due = self.repeated || self.untold_frames() > 0;
        due.then(|| self.message(Kind::Acknowledgement, Some(to), Bytes::new()))
    }

    /// The size in bytes of further frames that may be pushed. The last one may exceed it.
    pub fn room(&self, lane: Lane) -> usize {
        let most = match lane {
            Lane::Control => CONTROL_FRAME_BYTES_MAX,
            Lane::Data => self.config.sent_bytes_max,
        };
        most.saturating_sub(self.outgoing[lane.index()].kept_bytes() + HEADER_BYTES)
    }

    /// How many frames of each lane the other end has acknowledged.
    pub fn acknowledged_by_lane(&self) -> [u64; 2] {
        Lane::ALL.map(|lane| self.acknowledged(lane))
    }

    /// The number of frames of a lane that the other end has acknowledged.
    pub fn acknowledged(&self, lane: Lane) -> u64 {
        self.outgoing[lane.index()].acknowledged()
    }

    /// The number of frames of a lane that were pushed.
    pub fn pushed(&self, lane: Lane) -> u64 {
        self.outgoing[lane.index()].last()
    }

    /// The number of frames of a lane that were not sent on this connection.
    pub fn unsent(&self, lane: Lane) -> usize {
        self.outgoing[lane.index()].unsent()
    }

    /// The number of frames of a lane that were passed on.
    pub fn received(&self, lane: Lane) -> u64 {
        self.incoming[lane.index()].passed()
    }

    /// The size in bytes of a lane's frames that are not acknowledged or wait for an earlier one, including headers.
    pub fn held_bytes(&self, lane: Lane) -> usize {
        self.outgoing[lane.index()].kept_bytes() + self.incoming[lane.index()].early_bytes()
    }

    /// Whether the other end's hello was received on this connection.
    pub fn has_hello(&self) -> bool {
        self.met
    }

    /// The incarnation that began this end's state.
    pub fn began(&self) -> Incarnation {
        self.began
    }

    /// The durable part of the other end's last hello. `None` before the first.
    pub fn peer_hello(&self) -> Option<PeerHello> {
        self.peer.map(PeerHello)
    }

    /// The durable state of the session.
    pub fn state(&self) -> SessionState {
        let lane = |lane: usize| LaneState {
            last: self.outgoing[lane].last(),
            kept: self.outgoing[lane].kept().cloned().collect(),
            received: self.incoming[lane].passed(),
        };
        SessionState { began: self.began, peer: self.peer, lanes: [lane(0), lane(1)] }
    }

    /// Checks a hello, and has what is kept leave again on this connection.
    fn check_hello(
        &mut self,
        header: &Header,
        began: Incarnation,
    ) -> Result<CheckedMessage, SessionError> {
        let incarnation = header.from;
        if self.met {
            return Err(SessionError::PeerSaidHelloTwice);
        }
        let kind = match self.peer {
            Some(known) if incarnation < known.incarnation => {
                return Err(SessionError::PeerIsStale {
                    found: incarnation,
                    known: known.incarnation,
                });
            }
            Some(known) if incarnation == known.incarnation && began == known.began => {
                HelloKind::Reconnected
            }
            Some(known) if incarnation > known.incarnation && began == known.began => {
                HelloKind::Resumed
            }
            Some(known) if began > known.incarnation && began <= incarnation => {
                HelloKind::Reset { lost: self.kept_frames(), began }
            }
            None if began <= incarnation => HelloKind::First,
            _ => return Err(SessionError::PeerClaimsForeignState { incarnation, began }),
        };

        let is_reset = matches!(kind, HelloKind::Reset { .. });
        let received = if is_reset { [0, 0] } else { self.received_of_ours(header) };
        for lane in Lane::ALL.into_iter().filter(|_| !is_reset) {
            let (outgoing, received) = (&self.outgoing[lane.index()], received[lane.index()]);
            outgoing.check(lane, received)?;
            let acknowledged = outgoing.acknowledged();
            if received < acknowledged {
                return Err(SessionError::PeerForgot { lane, received, acknowledged });
            }
        }

        self.outgoing.iter_mut().for_each(Outgoing::rewind);
        self.met = true;

        Ok(CheckedMessage { hello: Some((kind, PeerHello(Peer { incarnation, began }))), received })
    }

    /// The number of this end's frames that a hello acknowledges. 0 if it counts frames of a state that was lost.
    fn received_of_ours(&self, hello: &Header) -> [u64; 2] {
        if hello.to == Some(self.began) { hello.received } else { [0, 0] }
    }

    /// Both ends count from 1 again.
    fn reset(&mut self) {
        let nothing = LaneState::default();
        self.outgoing = [0, 1].map(|_| Outgoing::resume(&nothing));
        self.incoming = [0, 1].map(|_| Incoming::resume(&nothing));
        self.told = [0, 0];
        self.untold_bytes = 0;
        self.repeated = false;
    }

    fn take(&mut self, lane: Lane, number: u64, frame: Bytes) -> Result<(), SessionError> {
        let incoming = &mut self.incoming[lane.index()];
        if incoming.has(number) {
            self.repeated = true;
            return Ok(());
        }
        let (held, most) = (incoming.early_bytes_with(number, &frame), self.config.early_bytes_max);
        let most = if lane == Lane::Data { most } else { CONTROL_FRAME_BYTES_MAX };
        if held > most {
            return Err(SessionError::PeerSentTooMuch { lane, number, held, most });
        }
        incoming.insert(number, frame);
        Ok(())
    }

    /// Frames of this end that wait to be acknowledged.
    fn kept_frames(&self) -> usize {
        self.outgoing.iter().map(|lane| lane.kept().count()).sum()
    }

    fn untold_frames(&self) -> u64 {
        Lane::ALL.map(|lane| self.received(lane) - self.told[lane.index()]).iter().sum()
    }

    /// A message, which acknowledges all frames passed on.
    fn message(&mut self, kind: Kind, to: Option<Incarnation>, frame: Bytes) -> Message {
        let received = Lane::ALL.map(|lane| self.received(lane));
        self.told = received;
        self.untold_bytes = 0;
        self.repeated = false;
        Message::new(&Header { kind, from: self.config.incarnation, to, received }, frame)
    }
}

impl SessionState {
    /// One that begins.
    pub fn new(began: Incarnation) -> Self {
        Self { began, peer: None, lanes: [LaneState::default(), LaneState::default()] }
    }

    /// The incarnation that began it.
    pub fn began(&self) -> Incarnation {
        self.began
    }

    /// Whether the counts and the number of kept frames are consistent.
    pub fn is_sound(&self) -> bool {
        self.lanes.iter().all(|lane| lane.last >= lane.kept.len() as u64)
    }
}

impl Incarnation {
    /// The first incarnation of a node, 1.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// The number, from 1.
    pub fn number(self) -> u64 {
        self.0.get()
    }

    /// The next incarnation.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The window of a link in bytes: two bandwidth-delay products, one for frames on their way and one for frames whose
/// acknowledgement is on its way. At least 64 KiB.
pub fn window(bandwidth: Bandwidth, rtt: Duration) -> usize {
    ((2.0 * bandwidth.bytes_in(rtt)) as usize).max(WINDOW_BYTES_MIN)
}

const WINDOW_BYTES_MIN: usize = 64 << 10;

/// The number of received frames after which an acknowledgement is sent, even without a frame.
const UNTOLD_FRAMES_MAX: u64 = 16;

/// The part of the window after which an acknowledgement is sent, so that the window does not close for lack of
/// acknowledgements.
const UNTOLD_PARTS: usize = 4;
