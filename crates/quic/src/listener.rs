//! The receiving side of one connection: reads frames from its streams into a data center's inbox.
//!
//! The hello of a stream identifies its lane. An invalid hello, or a frame that exceeds a limit, ends the connection.
//! Streams are read as fast as the owner takes frames. For each lane of a peer at most the size of the longest frame is
//! in memory, however many frames there are. Beyond that QUIC's flow control blocks the sender.

use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;

use quinn::{Connection, ConnectionError, RecvStream};
use tokio::sync::mpsc::{Sender, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};

use super::event::{Event, Generation, Incoming, Of};
use super::frames::{Hello, frame_bytes_max};
use super::silence::{SILENT_REASON, close_silent, silence};
use super::stripes::{Gathering, LaneEnd, LaneReader, read_hello};
use super::{Breach, GOODBYE, TransportError, close_for};
use gaia_core::node::Lane;
use gaia_core::types::DcId;

/// The received frames and events of a data center.
#[derive(Clone, Debug)]
pub(super) struct Inbox {
    pub(super) notices: UnboundedSender<Of<Event>>,
    pub(super) control: Sender<Arrived>,
    pub(super) data: Sender<Arrived>,
}

/// A frame in the inbox, which counts against its connection's budget until it is taken.
pub(super) struct Arrived {
    pub(super) frame: Of<Incoming>,
    _permit: OwnedSemaphorePermit,
}

/// Reads what a peer sends over one connection.
pub struct Listener {
    pub(super) end: End,
    pub(super) generation: Generation,
    pub(super) connection: Connection,
    pub(super) inbox: Inbox,
}

/// The description of a connection's peer.
#[derive(Clone, Debug)]
pub struct End {
    /// The peer's data center.
    pub peer: DcId,
    /// The shards whose frames the connection carries.
    pub shards: Range<u16>,
    /// The name of this data center, for messages.
    pub at_name: String,
    /// The name of the peer's data center, for messages.
    pub peer_name: String,
}

impl End {
    pub(super) fn lost(&self, error: &impl ToString) -> TransportError {
        TransportError::ConnectionLost {
            at: self.at_name.clone(),
            peer: self.peer_name.clone(),
            reason: error.to_string(),
        }
    }

    fn broke(&self, breach: Breach) -> TransportError {
        TransportError::PeerBrokeProtocol {
            at: self.at_name.clone(),
            peer: self.peer_name.clone(),
            breach,
        }
    }

    fn check(&self, hello: Hello) -> Result<(), Breach> {
        if hello.from != self.peer {
            return Err(Breach::Origin { found: hello.from, expected: self.peer });
        }
        if !self.shards.contains(&hello.shard.0) {
            return Err(Breach::Shard { found: hello.shard, shards: self.shards.len() });
        }
        Ok(())
    }
}

impl Listener {
    /// Reads all lanes until the connection ends, and sends the event of its end.
    ///
    /// If either end closes the connection in order, all frames are taken first. If the connection fails, frames that
    /// were not taken are lost.
    pub async fn run(self) {
        let mut lanes = Lanes::default();
        let mut breach = None;
        let peer = self.end.peer;
        let mut silence = pin!(silence(&self.connection, || self.notify(Event::Silent { peer })));
        // `None`: the peer is silent.
        let reason = loop {
            tokio::select! {
                biased;
                Some(read) = lanes.tasks.join_next(), if !lanes.tasks.is_empty() => {
                    if let Err(found) = self.on_read(read, &mut lanes) {
                        close_for(&self.connection, found);
                        breach = Some(found);
                    }
                }
                accepted = self.connection.accept_uni() => match accepted {
                    Ok(stream) => {
                        lanes.tasks.spawn(open_lane(stream));
                    }
                    Err(reason) => break Some(reason),
                },
                () = &mut silence => {
                    close_silent(&self.connection);
                    break None;
                }
            }
        };

        let left = match &reason {
            Some(ConnectionError::ApplicationClosed(close)) => close.error_code == GOODBYE,
            Some(ConnectionError::LocallyClosed) => true,
            _ => false,
        };

        while left
            && breach.is_none()
            && let Some(read) = lanes.tasks.join_next().await
        {
            // An error in the last bytes of a closed connection is ignored.
            let _wrong = self.on_read(read, &mut lanes);
        }
        let event = match (breach, reason) {
            (Some(breach), _) => Event::Lost { peer, error: self.end.broke(breach) },
            (None, _) if left => Event::Left { peer },
            (None, Some(reason)) => Event::Lost { peer, error: self.end.lost(&reason) },
            (None, None) => Event::Lost { peer, error: self.end.lost(&SILENT_REASON) },
        };

        self.notify(event);
        lanes.tasks.shutdown().await;
    }

    fn notify(&self, what: Event) {
        let notice = Of { peer: self.end.peer, generation: self.generation, what };
        // The owner may have ended.
        let _ = self.inbox.notices.send(notice);
    }

    /// Continues with a stream whose hello was read, or records that a stream has ended.
    fn on_read(&self, read: Result<Read, JoinError>, lanes: &mut Lanes) -> Result<(), Breach> {
        let read = read.expect("a stream's task does not panic and is not cancelled");
        let Some((hello, stream)) = read? else { return Ok(()) };
        self.end.check(hello)?;
        if let Some(reader) = lanes.gathering.insert(hello, stream)? {
            let budget = lanes.budgets[hello.lane.index()].clone();
            let (generation, inbox) = (self.generation, self.inbox.clone());
            lanes.tasks.spawn(read_lane(hello, generation, reader, inbox, budget));
        }
        Ok(())
    }
}

/// The lanes of one connection.
struct Lanes {
    tasks: JoinSet<Read>,
    gathering: Gathering,
    /// Bytes of the peer's frames that may be in memory before the owner takes them, by lane.
    budgets: [Arc<Semaphore>; 2],
}

impl Default for Lanes {
    fn default() -> Self {
        let budgets = Lane::ALL.map(|lane| Arc::new(Semaphore::new(frame_bytes_max(lane))));
        Self { tasks: JoinSet::new(), gathering: Gathering::default(), budgets }
    }
}

/// The result of a stream's task: the stream behind its hello, or nothing at its end.
type Read = Result<Option<(Hello, RecvStream)>, Breach>;

async fn open_lane(mut stream: RecvStream) -> Read {
    match read_hello(&mut stream).await {
        Ok(hello) => Ok(Some((hello, stream))),
        Err(end) => ended(end),
    }
}

/// Reads the frames of one lane into the inbox, no faster than they are taken.
async fn read_lane(
    hello: Hello,
    generation: Generation,
    mut reader: LaneReader,
    inbox: Inbox,
    budget: Arc<Semaphore>,
) -> Read {
    let Hello { from, shard, lane, .. } = hello;
    let frames = match lane {
        Lane::Control => &inbox.control,
        Lane::Data => &inbox.data,
    };

    loop {
        let length = match reader.length().await {
            Ok(length) => length,
            Err(end) => return ended(end),
        };
        let bytes = u32::try_from(length).expect("a lane's limit is far below 4 GiB");
        let permit = budget.clone().acquire_many_owned(bytes).await;
        let permit = permit.expect("a budget is never closed");
        let frame = match reader.frame(length).await {
            Ok(frame) => frame,
            Err(end) => return ended(end),
        };
        let what = Incoming { from, shard, lane, frame };
        let frame = Of { peer: from, generation, what };
        if frames.send(Arrived { frame, _permit: permit }).await.is_err() {
            return Ok(None);
        }
    }
}

fn ended(end: LaneEnd) -> Read {
    match end {
        LaneEnd::Breach(breach) => Err(breach),
        LaneEnd::Finished | LaneEnd::Lost => Ok(None),
    }
}

/// The largest number of control frames that wait for the owner before their stream is blocked.
pub(super) const CONTROL_INBOX_FRAMES_MAX: usize = 1 << 10;

/// The largest number of data frames that wait for the owner before their streams are blocked.
pub const DATA_INBOX_FRAMES_MAX: usize = 8;
