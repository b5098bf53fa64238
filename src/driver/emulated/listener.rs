//! The receiving side of one connection: its streams, read frame by frame into a data center's inbox.
//!
//! Each stream says in its hello whose lane it is; one that lies, or a frame that breaks a limit, ends the
//! connection. Streams are read no faster than the conductor takes frames: QUIC's flow control then holds
//! the sender back.

use quinn::{Connection, ConnectionError, RecvStream};
use tokio::sync::mpsc::{Sender, UnboundedSender};
use tokio::task::JoinSet;

use super::connection::{GOODBYE, close_for};
use super::event::{Event, Incoming};
use super::frames::{Hello, StreamEnd, read_frame, read_hello};
use super::{Breach, TransportError};
use crate::node::Lane;
use crate::types::DcId;

/// Where what arrives at a data center goes.
#[derive(Clone)]
pub(super) struct Inbox {
    pub(super) notices: UnboundedSender<Event>,
    pub(super) control: Sender<Incoming>,
    pub(super) data: Sender<Incoming>,
}

/// What one end of a connection knows of the run.
#[derive(Clone)]
pub(super) struct End {
    pub(super) peer: DcId,
    pub(super) shards: usize,
    pub(super) at_name: String,
    pub(super) peer_name: String,
}

impl End {
    pub(super) fn lost(&self, error: &ConnectionError) -> TransportError {
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
        if hello.shard.index() >= self.shards {
            return Err(Breach::Shard { found: hello.shard, shards: self.shards });
        }
        Ok(())
    }
}

/// Reads every stream of a peer until the connection ends, and says why it did.
pub(super) async fn listen(end: End, connection: Connection, inbox: Inbox) {
    let mut streams = JoinSet::new();
    let mut breach = None;
    let reason = loop {
        tokio::select! {
            biased;
            Some(done) = streams.join_next(), if !streams.is_empty() => {
                if let Ok(Err(found)) = done {
                    close_for(&connection, found);
                    breach = Some(found);
                }
            }
            accepted = connection.accept_uni() => match accepted {
                Ok(stream) => {
                    streams.spawn(read_lane(end.clone(), stream, inbox.clone()));
                }
                Err(reason) => break reason,
            },
        }
    };
    let peer = end.peer;
    let left = matches!(&reason,
        ConnectionError::ApplicationClosed(close) if close.error_code == GOODBYE);
    if left {
        while streams.join_next().await.is_some() {}
    }
    let event = match (breach, reason) {
        (Some(breach), _) => Some(Event::Lost { peer, error: end.broke(breach) }),
        (None, ConnectionError::LocallyClosed) => None,
        (None, _) if left => Some(Event::Left { peer }),
        (None, reason) => Some(Event::Lost { peer, error: end.lost(&reason) }),
    };
    if let Some(event) = event {
        // An owner that has gone does not care.
        let _ = inbox.notices.send(event);
    }
    while streams.join_next().await.is_some() {}
}

/// Reads the frames of one stream into the inbox, no faster than they are taken.
async fn read_lane(end: End, mut stream: RecvStream, inbox: Inbox) -> Result<(), Breach> {
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
        if frames.send(Incoming { from, shard, lane, frame }).await.is_err() {
            return Ok(());
        }
    }
}

/// Frames that wait for a conductor before their streams are held back.
pub(super) const CONTROL_INBOX_FRAMES_MAX: usize = 1 << 10;
pub(super) const DATA_INBOX_FRAMES_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quinn::VarInt;
    use tokio::sync::mpsc::{channel, unbounded_channel};

    use super::super::connection::Joining;
    use super::super::{Certificates, Network};
    use super::*;
    use crate::topology::{DataCenter, Topology, WanLink};
    use crate::types::{Bandwidth, Bytes, Seed, ShardId, Time, UsdPerGb};

    fn pair() -> Topology {
        let link = |from, to| WanLink {
            from: DcId(from),
            to: DcId(to),
            bandwidth: Bandwidth::from_mbit(10.0),
            rtt: Time::default(),
            price: UsdPerGb::default(),
            loss: 0.0,
            queue: Bytes(100_000),
        };
        let dc = |name: &str| DataCenter {
            name: name.into(),
            servers: 1,
            workers: 1,
            lan_bandwidth: Bandwidth::from_mbit(1_000.0),
            lan_rtt: Time::default(),
            colocated: false,
        };
        Topology {
            name: "pair".into(),
            data_centers: vec![dc("honest"), dc("broken")],
            links: vec![link(0, 1), link(1, 0)],
            groups: Vec::new(),
            bandwidth_scale: 1.0,
        }
    }

    async fn join() -> (Connection, Connection) {
        let topology = pair();
        let network = Network::new(&topology, Seed(1));
        let certificates = Certificates::for_data_centers(&topology).unwrap();
        let joining = Joining::new(&topology, 1, &network, &certificates, Seed(1)).unwrap();
        let mut joined = Arc::new(joining).join_all().await.unwrap();
        (joined.remove(0).connection, joined.remove(0).connection)
    }

    fn end() -> End {
        End { peer: DcId(1), shards: 1, at_name: "honest".into(), peer_name: "broken".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_has_left_only_once_the_last_of_its_frames_is_in_the_inbox() {
        let (connection, leaver) = join().await;
        let (notices, mut events) = unbounded_channel();
        let (data, mut frames) = channel(1);
        let inbox = Inbox { notices, control: channel(1).0, data };
        let listening = tokio::spawn(listen(end(), connection, inbox));
        let mut stream = leaver.open_uni().await.unwrap();
        let hello = Hello { from: DcId(1), shard: ShardId(0), lane: Lane::Data };
        let bytes = [&hello.encode()[..], &[1, 0, 0, 0, 7], &[1, 0, 0, 0, 8], &[0; 4]].concat();
        stream.write_all(&bytes).await.unwrap();
        stream.finish().unwrap();
        stream.stopped().await.unwrap();
        leaver.close(GOODBYE, b"");
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert!(events.try_recv().is_err(), "two frames still wait for the inbox");
        for expected in [&[7][..], &[8], &[]] {
            assert_eq!(frames.recv().await.unwrap().frame, expected);
        }
        assert_eq!(events.recv().await, Some(Event::Left { peer: DcId(1) }));
        listening.await.unwrap();
    }

    /// What the honest end makes of a stream that the broken end sends, and what the broken end is told.
    async fn check(stream_bytes: &[u8], expect: Breach) {
        let (honest, broken) = join().await;
        let (notices, mut events) = unbounded_channel();
        let inbox = Inbox { notices, control: channel(1).0, data: channel(1).0 };
        let listening = tokio::spawn(listen(end(), honest, inbox));
        let mut stream = broken.open_uni().await.unwrap();
        stream.write_all(stream_bytes).await.unwrap();
        stream.finish().unwrap();
        let error = TransportError::PeerBrokeProtocol {
            at: "honest".into(),
            peer: "broken".into(),
            breach: expect,
        };
        assert_eq!(events.recv().await, Some(Event::Lost { peer: DcId(1), error }));
        listening.await.unwrap();
        let ConnectionError::ApplicationClosed(close) = broken.closed().await else {
            panic!("the broken end is not told why");
        };
        assert_eq!(close.error_code, VarInt::from_u32(1));
        assert_eq!(close.reason, expect.to_string().as_bytes());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_breaks_the_protocol_ends_the_connection_with_its_reason() {
        let hello = |from, shard, lane| Hello { from: DcId(from), shard: ShardId(shard), lane };
        let control = hello(1, 0, Lane::Control).encode();
        check(b"GET / HTTP/1.1", Breach::NotGaia { found: *b"GET " }).await;
        check(&control[..5], Breach::Truncated).await;
        let liar = hello(0, 0, Lane::Data).encode();
        check(&liar, Breach::Origin { found: DcId(0), expected: DcId(1) }).await;
        let stray = hello(1, 7, Lane::Data).encode();
        check(&stray, Breach::Shard { found: ShardId(7), shards: 1 }).await;
        let endless = [&control[..], &[0xff; 4]].concat();
        let (bytes, max) = (u32::MAX as usize, crate::types::limits::CONTROL_FRAME_BYTES_MAX);
        check(&endless, Breach::FrameTooLong { lane: Lane::Control, bytes, max }).await;
        let short = [&control[..], &[9, 0, 0, 0, 1, 2]].concat();
        check(&short, Breach::Truncated).await;
    }
}
