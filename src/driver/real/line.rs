//! A node's line to the coordinator.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::channel::{Parcel, Reader};
use super::error::{ChannelError, RealError};
use super::message::{Hello, MESSAGE_BYTES_MAX, Order, Purpose, Report, pack, unpack};
use super::site::Seat;
use super::{HEARTBEAT, SILENCE_MAX};
use crate::topology::Address;
use crate::types::{NodeId, ServerId};
use crate::wire::LanKind;

/// What the coordinator says, and where to answer.
pub(super) struct Line {
    orders: Receiver<Result<Order, ChannelError>>,
    parcels: Sender<Parcel>,
    writing: JoinHandle<()>,
    reading: JoinHandle<()>,
}

impl Line {
    /// Calls the coordinator, waiting for it to start.
    pub(super) async fn open(
        seat: &Seat,
        coordinator: &Address,
        listens: Option<SocketAddr>,
    ) -> Result<Self, RealError> {
        let hello = Hello { listens, ..seat.hello(Purpose::Join) };
        let joined = seat.join(NodeId::Coordinator, coordinator, &hello).await?;
        seat.on_connected(NodeId::Coordinator);
        let (reader, parcels, writing) = joined.start(PARCELS_MAX);
        let (sender, orders) = channel(PARCELS_MAX);
        let reading = tokio::spawn(read(reader, sender));
        Ok(Self { orders, parcels, writing, reading })
    }

    /// Waits until all nodes are here; answers where servers listen. Says meanwhile that this node is there.
    pub(super) async fn begin(&mut self) -> Result<BTreeMap<ServerId, Address>, RealError> {
        let mut beat = tokio::time::interval(HEARTBEAT);
        loop {
            let order = tokio::select! {
                order = self.order() => order?,
                _ = beat.tick() => {
                    self.report(&Report::Alive { links: Vec::new(), lan_bytes: 0 }).await;
                    continue;
                }
            };
            match order {
                Order::Begin { servers } => {
                    let parsed = servers.into_iter().map(|(server, text)| {
                        let address =
                            text.parse::<Address>().map_err(|error| RealError::Broken {
                                from: "the coordinator".into(),
                                reason: error.to_string(),
                            })?;
                        Ok((server, address))
                    });
                    return parsed.collect();
                }
                Order::Alive => {}
                other => return Err(Self::unexpected(&other)),
            }
        }
    }

    /// The next order. Dropping the future loses none.
    ///
    /// # Errors
    /// Where the coordinator is lost, or has ended the run.
    pub(super) async fn order(&mut self) -> Result<Order, RealError> {
        let lost = |reason: String| RealError::Lost { node: "the coordinator".into(), reason };
        match self.orders.recv().await {
            Some(Ok(Order::Abort { reason })) => Err(RealError::Ended { reason }),
            Some(Ok(order)) => Ok(order),
            Some(Err(error)) => Err(lost(error.to_string())),
            None => Err(lost(ChannelError::Closed.to_string())),
        }
    }

    /// Waits for the end of the run while nothing else is due, and says that this node is there.
    pub(super) async fn end(&mut self) -> RealError {
        let mut beat = tokio::time::interval(HEARTBEAT);
        loop {
            tokio::select! {
                order = self.order() => match order {
                    Ok(Order::Alive) => {}
                    Ok(other) => return Self::unexpected(&other),
                    Err(error) => return error,
                },
                _ = beat.tick() => {
                    self.report(&Report::Alive { links: Vec::new(), lan_bytes: 0 }).await;
                }
            }
        }
    }

    pub(super) async fn report(&self, report: &Report) {
        self.send(LanKind::Report, pack(report)).await;
    }

    pub(super) async fn send(&self, kind: LanKind, body: Vec<u8>) {
        // A coordinator that has gone is noticed by who waits for its orders.
        let _gone = self.parcels.send((kind, body)).await;
    }

    /// Tells the coordinator of a failure, if there is one that it does not know; sends what is in hand, and hangs up.
    pub(super) async fn finish(self, done: Result<(), RealError>) -> Result<(), RealError> {
        if let Err(error) = &done
            && !matches!(error, RealError::Ended { .. })
        {
            self.report(&Report::Failed { reason: error.to_string() }).await;
        }
        drop(self.parcels);
        let _late = timeout(SILENCE_MAX, self.writing).await;
        self.reading.abort();
        done
    }

    pub(super) fn unexpected(order: &Order) -> RealError {
        RealError::Broken {
            from: "the coordinator".into(),
            reason: format!("it gave an order that is not due: {order:?}"),
        }
    }
}

async fn read(mut reader: Reader, orders: Sender<Result<Order, ChannelError>>) {
    loop {
        let next = reader.next(|_| MESSAGE_BYTES_MAX, Some(SILENCE_MAX)).await;
        let order = next.and_then(|(kind, body)| match kind {
            LanKind::Order => unpack(&body),
            other => Err(ChannelError::Other(format!("a {other:?} where an order was due"))),
        });
        let last = order.is_err();
        if orders.send(order).await.is_err() || last {
            return;
        }
    }
}

const PARCELS_MAX: usize = 256;
