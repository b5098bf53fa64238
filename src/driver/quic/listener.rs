//! The receiving side of one connection: its streams, read frame by frame into a data center's inbox.
//!
//! Each stream says in its hello whose lane it is; one that lies, or a frame that breaks a limit, ends the
//! connection. Streams are read no faster than the conductor takes frames: QUIC's flow control then holds
//! the sender back.

use std::ops::Range;

use quinn::{Connection, ConnectionError, RecvStream};
use tokio::sync::mpsc::{Sender, UnboundedSender};
use tokio::task::JoinSet;

use super::event::{Event, Generation, Incoming, Of};
use super::frames::{Hello, StreamEnd, read_frame, read_hello};
use super::{Breach, GOODBYE, TransportError, close_for};
use crate::node::Lane;
use crate::types::DcId;

/// Where what arrives at a data center goes.
#[derive(Clone, Debug)]
pub(super) struct Inbox {
    pub(super) notices: UnboundedSender<Of<Event>>,
    pub(super) control: Sender<Of<Incoming>>,
    pub(super) data: Sender<Of<Incoming>>,
}

/// Reads what a peer sends over one connection.
pub(in crate::driver) struct Listener {
    pub(super) end: End,
    pub(super) generation: Generation,
    pub(super) connection: Connection,
    pub(super) inbox: Inbox,
}

/// What one end of a connection knows of its peer.
#[derive(Clone, Debug)]
pub(in crate::driver) struct End {
    pub(in crate::driver) peer: DcId,
    pub(in crate::driver) shards: Range<u16>,
    pub(in crate::driver) at_name: String,
    pub(in crate::driver) peer_name: String,
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
    /// Reads every stream until the connection ends, and says why it did.
    ///
    /// Of a peer that says goodbye every frame is taken first; with a connection that is lost what nobody has taken is.
    pub(in crate::driver) async fn run(self) {
        let mut streams = JoinSet::new();
        let mut breach = None;
        let reason = loop {
            tokio::select! {
                biased;
                Some(done) = streams.join_next(), if !streams.is_empty() => {
                    if let Ok(Err(found)) = done {
                        close_for(&self.connection, found);
                        breach = Some(found);
                    }
                }
                accepted = self.connection.accept_uni() => match accepted {
                    Ok(stream) => {
                        let (end, inbox) = (self.end.clone(), self.inbox.clone());
                        streams.spawn(read_lane(end, self.generation, stream, inbox));
                    }
                    Err(reason) => break reason,
                },
            }
        };
        let peer = self.end.peer;
        let left = matches!(&reason,
            ConnectionError::ApplicationClosed(close) if close.error_code == GOODBYE);
        if left {
            while streams.join_next().await.is_some() {}
        }
        let event = match (breach, reason) {
            (Some(breach), _) => Some(Event::Lost { peer, error: self.end.broke(breach) }),
            (None, ConnectionError::LocallyClosed) => None,
            (None, _) if left => Some(Event::Left { peer }),
            (None, reason) => Some(Event::Lost { peer, error: self.end.lost(&reason) }),
        };
        if let Some(event) = event {
            // An owner that has gone does not care.
            let _ = self.inbox.notices.send(Of { peer, generation: self.generation, what: event });
        }
        streams.shutdown().await;
    }
}

/// Reads the frames of one stream into the inbox, no faster than they are taken.
async fn read_lane(
    end: End,
    generation: Generation,
    mut stream: RecvStream,
    inbox: Inbox,
) -> Result<(), Breach> {
    let ended = |stream_end: StreamEnd| match stream_end {
        StreamEnd::Breach(breach) => Err(breach),
        StreamEnd::Finished | StreamEnd::Lost => Ok(()),
    };
    let hello = match read_hello(&mut stream).await {
        Ok(hello) => hello,
        Err(stream_end) => return ended(stream_end),
    };
    end.check(hello)?;
    let Hello { from, shard, lane } = hello;
    let frames = match lane {
        Lane::Control => &inbox.control,
        Lane::Data => &inbox.data,
    };
    loop {
        let frame = match read_frame(&mut stream, lane).await {
            Ok(frame) => frame,
            Err(stream_end) => return ended(stream_end),
        };
        let what = Incoming { from, shard, lane, frame };
        if frames.send(Of { peer: from, generation, what }).await.is_err() {
            return Ok(());
        }
    }
}

/// Frames that wait for a conductor before their streams are held back.
pub(super) const CONTROL_INBOX_FRAMES_MAX: usize = 1 << 10;
pub(in crate::driver) const DATA_INBOX_FRAMES_MAX: usize = 8;
