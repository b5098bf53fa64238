//! Where a node takes connections over TCP: callers are proven and heard, and their owner decides.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tracing::warn;

use super::channel::Channel;
use super::error::RealError;
use super::ground::{Ground, Listener};
use super::message::{Answer, Hello, Purpose};
use super::site::Seat;
use crate::certificates::accepting;
use crate::types::NodeId;

/// A caller that is who it says, of this run, and one that may call.
pub(super) struct Guest {
    pub(super) hello: Hello,
    /// Where it called from.
    pub(super) from: SocketAddr,
    pub(super) channel: Channel,
}

/// Takes connections until it is dropped.
pub(super) struct Door {
    guests: Receiver<Guest>,
    /// Ends with the door.
    _taking: JoinSet<()>,
}

impl Door {
    /// Opens a door for these nodes. At most twice as many connections are in hand at any time.
    pub(super) fn open(
        seat: &Seat,
        listener: Box<dyn Listener>,
        callers: BTreeSet<NodeId>,
    ) -> Self {
        let (sender, guests) = channel(callers.len().max(1));
        let mut taking = JoinSet::new();
        taking.spawn(take_all(seat.clone(), listener, Arc::new(callers), sender));
        Self { guests, _taking: taking }
    }

    /// The next caller. Dropping the future loses nobody.
    pub(super) async fn guest(&mut self) -> Option<Guest> {
        self.guests.recv().await
    }
}

/// Listens on an address.
pub(super) async fn listen(
    ground: &dyn Ground,
    address: SocketAddr,
) -> Result<Box<dyn Listener>, RealError> {
    ground.listen(address).await.map_err(|error| RealError::Listen {
        address: address.to_string(),
        reason: error.to_string(),
    })
}

async fn take_all(
    seat: Seat,
    listener: Box<dyn Listener>,
    callers: Arc<BTreeSet<NodeId>>,
    guests: Sender<Guest>,
) {
    let tls = callers.iter().any(|caller| seat.site.speaks_tls(seat.node, *caller));
    let identities = callers.iter().map(|caller| seat.site.identity(*caller));
    let tls = tls.then(|| Arc::new(accepting(&seat.credentials, identities)));
    let permits = Arc::new(Semaphore::new(2 * callers.len() + HANDSHAKES_SPARE));
    let mut taken = JoinSet::new();
    loop {
        while taken.try_join_next().is_some() {}
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let (stream, from) = match poll_fn(|cx| listener.poll_accept(cx)).await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, as a rule: others may give some back.
                warn!("{} cannot take a connection: {error}", seat.name());
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let (seat, tls, callers, guests) =
            (seat.clone(), tls.clone(), callers.clone(), guests.clone());
        taken.spawn(async move {
            let _permit = permit;
            match Channel::take(stream, tls).await {
                Ok((channel, hello)) => {
                    let channel = channel.held_to(&seat.credentials);
                    let believed = may_call(&callers, &hello)
                        .and_then(|()| seat.believe(&hello, channel.chain()));
                    receive(&seat, Guest { hello, from, channel }, believed, guests).await;
                }
                Err(error) => {
                    seat.meter.on_caller_refused();
                    warn!("{} turned away {from}: {error}", seat.name());
                }
            }
        });
    }
}

/// Whether a node may call here at all, and in the place of whom it says.
fn may_call(callers: &BTreeSet<NodeId>, hello: &Hello) -> Result<(), String> {
    let Hello { node, stand_in, .. } = hello;
    for caller in std::iter::once(*node).chain(stand_in.map(NodeId::Worker)) {
        if !callers.contains(&caller) {
            return Err(format!("{caller} does not call here"));
        }
    }
    match (stand_in, node) {
        (None, _) => Ok(()),
        (Some(own), NodeId::Worker(lost)) if own.dc == lost.dc && own != lost => Ok(()),
        (Some(own), _) => Err(format!("{own} cannot stand in for {node}")),
    }
}

async fn receive(
    seat: &Seat,
    mut guest: Guest,
    believed: Result<(), String>,
    guests: Sender<Guest>,
) {
    if let Err(reason) = believed {
        seat.meter.on_caller_refused();
        warn!("{} turned away {}: {reason}", seat.name(), guest.from);
        guest.channel.refuse(reason).await;
        return;
    }
    match guest.hello.purpose {
        Purpose::Check => {
            // A caller that only checks may hang up before it has heard.
            let _gone = guest.channel.answer(&Answer::Welcome).await;
        }
        // An owner that has gone takes nobody.
        Purpose::Join => drop(guests.send(guest).await),
    }
}

/// Handshakes beyond those of the nodes that are due.
const HANDSHAKES_SPARE: usize = 16;
const PAUSE: Duration = Duration::from_millis(100);
