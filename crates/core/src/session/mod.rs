//! Exactly once and in order, over connections that break.
//!
//! This room decides what one end of a link between mirrors still owes the other and which of the frames that arrive are
//! new. It refuses to know what a frame means, what carries it, and the time. In the paper mirrors are simply joined;
//! this is what joins them when connections come and go.
//!
//! A connection may lose, repeat, reorder or damage whatever is on it, and breaks sooner or later. Each lane numbers its
//! frames from 1 and keeps them until the other end has acknowledged them. At each connect both ends say hello with how
//! many frames they have received; each sends from there again. Whatever else is sent carries these counts along, so
//! that an acknowledgement of its own is needed only where traffic goes one way.
//!
//! A frame counts as received once [`Session::poll_frame`] has passed it on, and never before. One that comes ahead of
//! its turn waits; one that came before is dropped, and acknowledged again, since the other end seems not to know.
//!
//! **Incarnations.** A node has a new, higher incarnation each time it starts. Numbers belong to a *state*, named by the
//! incarnation that began it. A node that comes back with its state ([`Session::resume`]) goes on with its numbers; one
//! that has lost it begins a new one, which the other end tells from the hello and answers by beginning anew too
//! ([`Meeting::Reset`]). A message of another incarnation than those that met is refused.
//!
//! **Losses within a connection** are the transport's to repair. Where it does not, the driver breaks a connection that
//! makes no [`Progress`], and the next one brings what is missing.
//! So it does with one on which a message was refused: one rule for all that can go wrong.
//!
//! **Memory.** [`Session::room`] says how much more may be under way. While a link is down it closes, frames are cut no
//! more, and updates merge in the outbox, where the model's size bounds them.
//!
//! Every message opens with the same sixty bytes, little endian:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | `GAIS` |
//! | 4 | 2 | protocol version |
//! | 6 | 1 | kind: 0 hello, 1 control frame, 2 data frame, 3 acknowledgements |
//! | 7 | 1 | zero |
//! | 8 | 4 | bytes of the frame that follows; none but after kinds 1 and 2 |
//! | 12 | 4 | CRC-32 of the frame |
//! | 16 | 8 | the sender's incarnation |
//! | 24 | 8 | the receiver's, as the sender knows it; in a hello whose state the counts below are of, 0 for none |
//! | 32 | 8 | a frame's number; in a hello the incarnation that began the sender's state; else 0 |
//! | 40 | 16 | frames received, of the control and the data lane |
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

/// Which start of a node this is: each is higher than all before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub NonZeroU64);

/// What a session is told when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    pub incarnation: Incarnation,
    /// Bytes of the data lane that may be under way and unacknowledged, as [`window`] has it.
    pub sent_bytes_max: usize,
    /// Bytes of the peer's data lane that may wait for a frame before them: what its `sent_bytes_max` is.
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
/// On each connection: [`Self::connect`] gives the hello, which leaves first; then messages go out as
/// [`Self::poll_transmit`] gives them, those that come in go to [`Self::handle_message`], and after each the frames that
/// are in turn come from [`Self::poll_frame`].
///
/// Four methods change what must outlive a restart, and nothing else does: [`Self::push`], [`Self::pass_on`],
/// [`Self::acknowledge`] and [`Self::meet`]. A caller that keeps a log notes each of them before it makes the change. It
/// takes messages in two steps for that: [`Self::check_message`] says what a message changes, and [`Self::next_frame`]
/// which frame is in turn. Called again in the order of the log, the four methods give the same state.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    began: Incarnation,
    peer: Option<Peer>,
    /// Whether the peer's hello has come on this connection.
    met: bool,
    /// By lane.
    outgoing: [Outgoing; 2],
    incoming: [Incoming; 2],
    /// What the peer was last told of what was received.
    told: [u64; 2],
    /// Bytes passed on since.
    untold_bytes: usize,
    /// The peer sent what it had sent before.
    repeated: bool,
}

/// What is known of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Peer {
    incarnation: Incarnation,
    began: Incarnation,
}

/// What a hello told of the other end that must outlive a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Met(Peer);

impl Met {
    /// The incarnation that began what the other end knows.
    pub fn began(self) -> Incarnation {
        self.0.began
    }
}

/// What a message that was found valid changes of what must outlive a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedMessage {
    /// Whom one meets, where it is a hello.
    pub hello: Option<(Meeting, Met)>,
    /// How many frames of each lane the other end has.
    pub received: [u64; 2],
}

/// What a hello said of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// The two have not met before.
    First,
    /// The one that was met before, over another connection.
    Again,
    /// It has restarted with its state.
    Resumed,
    /// It has restarted since it was met and knows nothing of that: all that it was sent is gone with it, `lost` frames
    /// of this end were waiting to be acknowledged and are not sent again, and both ends count from 1. The incarnation
    /// `began` began what it knows. What it must be told to go on is not this room's business.
    Reset { lost: usize, began: Incarnation },
}

impl Session {
    /// A session that begins.
    pub fn new(config: SessionConfig) -> Self {
        Self::resume(config, &SessionState::new(config.incarnation))
    }

    /// A session that goes on after a restart.
    ///
    /// # Panics
    /// Where the incarnation is not above those before.
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

    /// A connection begins, in place of any before: what is left of those is not to be handed in. The hello must be the
    /// first message on it.
    pub fn connect(&mut self) -> Message {
        self.met = false;
        let peer = self.peer.map(|peer| peer.began);
        self.message(Kind::Hello { began: self.began }, peer, Bytes::new())
    }

    /// Takes a frame to be sent. Ask [`Self::room`] before.
    pub fn push(&mut self, lane: Lane, frame: Bytes) {
        self.outgoing[lane.index()].push(frame);
    }

    /// Takes a message from the other end, and says whom one meets where it is a hello.
    ///
    /// # Errors
    /// Where the peer sent what it must not; nothing of it was taken. The connection is to be broken.
    pub fn handle_message(&mut self, message: &Bytes) -> Result<Option<Meeting>, SessionError> {
        let CheckedMessage { hello, received } = self.check_message(message)?;
        if let Some((meeting, met)) = hello
            && meeting != Meeting::Again
        {
            self.meet(met);
        }
        self.acknowledge(received);

        Ok(hello.map(|(meeting, _)| meeting))
    }

    /// The first step of [`Self::handle_message`]: takes what belongs to the connection, and says what the message
    /// changes besides.
    ///
    /// Before anything else is done with this session the caller has to let it [meet](Self::meet) whom it has not met,
    /// which is every [`Meeting`] but [`Meeting::Again`], and then [acknowledge](Self::acknowledge).
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

    /// Meets the other end in an incarnation that is new to this one. Where it has lost its state, both count from 1 again.
    pub fn meet(&mut self, Met(peer): Met) -> Meeting {
        let meeting = match self.peer {
            None => Meeting::First,
            Some(known) if known.began == peer.began => Meeting::Resumed,
            Some(_) => Meeting::Reset { lost: self.kept_frames(), began: peer.began },
        };

        match meeting {
            Meeting::First | Meeting::Again => {}
            // Its state may be from before these frames: under their numbers it may send others.
            Meeting::Resumed => self.incoming.iter_mut().for_each(Incoming::forget_early),
            Meeting::Reset { .. } => self.reset(),
        }
        self.peer = Some(peer);

        meeting
    }

    /// The other end has so many frames of each lane. What it acknowledged before stays so.
    pub fn acknowledge(&mut self, received: [u64; 2]) {
        for (outgoing, received) in self.outgoing.iter_mut().zip(received) {
            outgoing.acknowledge(received);
        }
    }

    /// The next frame of the other end that is in turn, of the control lane first. With this it counts as received.
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

    /// The next message for a lane of this connection, once the other end has said hello. Acknowledgements by
    /// themselves go with the control lane, where enough has come that the other end may be waiting for them.
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

    /// An acknowledgement by itself, where there is something that the other end has not been told. A driver asks for
    /// it when nothing else has gone that way for a while, so that the other end's memory is freed.
    pub fn poll_acknowledgement(&mut self) -> Option<Message> {
        let to = self.peer.filter(|_| self.met)?.incarnation;
        let due = self.repeated || self.untold_frames() > 0;
        due.then(|| self.message(Kind::Acknowledgement, Some(to), Bytes::new()))
    }

    /// Bytes of frames that may yet be pushed; the last of them may go beyond it.
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

    /// How many frames of a lane the other end has acknowledged.
    pub fn acknowledged(&self, lane: Lane) -> u64 {
        self.outgoing[lane.index()].acknowledged()
    }

    /// How many frames of a lane were pushed.
    pub fn pushed(&self, lane: Lane) -> u64 {
        self.outgoing[lane.index()].last()
    }

    /// How many frames of a lane have yet to leave on this connection.
    pub fn unsent(&self, lane: Lane) -> usize {
        self.outgoing[lane.index()].unsent()
    }

    /// How many frames of a lane have been passed on.
    pub fn received(&self, lane: Lane) -> u64 {
        self.incoming[lane.index()].passed()
    }

    /// Bytes of the frames of a lane that wait to be acknowledged or for one before them, headers included.
    pub fn held_bytes(&self, lane: Lane) -> usize {
        self.outgoing[lane.index()].kept_bytes() + self.incoming[lane.index()].early_bytes()
    }

    /// Whether the other end has said hello on this connection.
    pub fn has_met(&self) -> bool {
        self.met
    }

    /// The incarnation that began this end's state.
    pub fn began(&self) -> Incarnation {
        self.began
    }

    /// Whom the other end was when it last said hello.
    pub fn met(&self) -> Option<Met> {
        self.peer.map(Met)
    }

    /// What must outlive a restart.
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
        let meeting = match self.peer {
            Some(known) if incarnation < known.incarnation => {
                return Err(SessionError::PeerIsStale {
                    found: incarnation,
                    known: known.incarnation,
                });
            }
            Some(known) if incarnation == known.incarnation && began == known.began => {
                Meeting::Again
            }
            Some(known) if incarnation > known.incarnation && began == known.began => {
                Meeting::Resumed
            }
            Some(known) if began > known.incarnation && began <= incarnation => {
                Meeting::Reset { lost: self.kept_frames(), began }
            }
            None if began <= incarnation => Meeting::First,
            _ => return Err(SessionError::PeerClaimsForeignState { incarnation, began }),
        };

        let is_reset = matches!(meeting, Meeting::Reset { .. });
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

        Ok(CheckedMessage { hello: Some((meeting, Met(Peer { incarnation, began }))), received })
    }

    /// What a hello counts of this end's frames: nothing, where it counts those of a state that was lost.
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

    /// A message, which tells what was received.
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

    /// Whether counts and frames agree with each other, as those of a session do.
    pub fn is_sound(&self) -> bool {
        self.lanes.iter().all(|lane| lane.last >= lane.kept.len() as u64)
    }
}

impl Incarnation {
    /// The first.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// Its number, from 1.
    pub fn number(self) -> u64 {
        self.0.get()
    }

    /// The one after this.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a link can have under way: two bandwidth-delay products, one on its way and one that waits to be acknowledged,
/// and no less than 64 KiB.
pub fn window(bandwidth: Bandwidth, rtt: Duration) -> usize {
    ((2.0 * bandwidth.bytes_in(rtt)) as usize).max(WINDOW_BYTES_MIN)
}

const WINDOW_BYTES_MIN: usize = 64 << 10;

/// After so many frames the other end is told, whatever else is said.
const UNTOLD_FRAMES_MAX: u64 = 16;

/// As after this part of what may be under way, so that a window never closes for want of news.
const UNTOLD_PARTS: usize = 4;
