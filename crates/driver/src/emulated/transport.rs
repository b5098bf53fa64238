//! The WAN as a driver's conductor sees it: [`Wan::start`] joins all data centers and gives one [`DcTransport`] for each.

use std::sync::Arc;
use std::time::Duration;

use quinn::Endpoint;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connection::Joining;
use super::meter::Meter;
use super::{Certificates, Network};
use crate::quic::{Carriers, DcTransport, Finisher, GOODBYE, TransportError};
use gaia_core::link::quantum;
use gaia_core::topology::Topology;
use gaia_core::types::Seed;

/// Every connection of a run. The [`DcTransport`]s do the talking.
pub struct Wan {
    network: Arc<Network>,
    meter: Meter,
    endpoints: Vec<Endpoint>,
    finishers: Vec<Finisher>,
    pumps: JoinSet<bool>,
    readers: JoinSet<()>,
    patience: Duration,
}

impl Wan {
    /// Joins the data centers of a topology, whose servers own `shards` shards in each.
    ///
    /// Links and QUIC draw their chance from `seed`. Call within a tokio runtime.
    pub async fn start(
        topology: &Topology,
        shards: usize,
        seed: Seed,
    ) -> Result<(Self, Vec<DcTransport>), TransportError> {
        let certificates = Certificates::for_data_centers(topology)?;
        Self::start_with(topology, shards, seed, &certificates).await
    }

    /// Joins the data centers with certificates made elsewhere.
    pub async fn start_with(
        topology: &Topology,
        shards: usize,
        seed: Seed,
        certificates: &Certificates,
    ) -> Result<(Self, Vec<DcTransport>), TransportError> {
        let network = Network::new(topology, seed.child("links"));
        let joining =
            Joining::new(topology, shards, &network, certificates, seed.child("endpoints"))?;
        let joining = Arc::new(joining);
        let endpoints = joining.endpoints().to_vec();
        let joined = joining.join_all().await?;
        let mut wan = Self {
            meter: Meter::new(network.clone()),
            network,
            endpoints,
            finishers: Vec::new(),
            pumps: JoinSet::new(),
            readers: JoinSet::new(),
            patience: patience(topology),
        };

        let mut transports: Vec<DcTransport> =
            topology.dc_ids().map(|dc| DcTransport::new(dc, 0..shards as u16)).collect();
        for joined in joined {
            let at = joined.at.index();
            let counters = wan.meter.counters(joined.at, joined.peer).clone();
            let ends = joined.ends(topology, shards, wan.patience, counters);
            let lanes = ends.open().await?;
            let Carriers { pump, listener, finisher } = transports[at].join(lanes);
            wan.pumps.spawn(pump.run());
            wan.readers.spawn(listener.run());
            wan.finishers.push(finisher);
        }

        Ok((wan, transports))
    }

    /// The network in memory, where a test severs links.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Reads what has crossed each link.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Sends what is in hand, says goodbye on every stream, and ends every task.
    ///
    /// Finishing a stream is the goodbye that cannot get lost: it is repeated until acknowledged, where the close
    /// of a connection is one datagram that a full queue may drop.
    pub async fn close(mut self) -> Result<(), TransportError> {
        self.finishers.iter().for_each(Finisher::finish);
        let mut unfinished = 0;
        while let Some(done) = self.pumps.join_next().await {
            unfinished += usize::from(!done.unwrap_or(false));
        }

        for endpoint in &self.endpoints {
            endpoint.close(GOODBYE, b"the run is over");
        }
        let closed = async {
            for endpoint in &self.endpoints {
                endpoint.wait_idle().await;
            }
            while self.readers.join_next().await.is_some() {}
        };

        // Past this, what is left is cut off, which hurts nobody who has been told.
        let _ = timeout(self.patience, closed).await;
        self.readers.shutdown().await;
        if unfinished > 0 {
            return Err(TransportError::Unfinished { connections: unfinished });
        }
        Ok(())
    }
}

/// How long the end of a run may take: some round trips of the longest path with full queues.
fn patience(topology: &Topology) -> Duration {
    let slowest = topology.links.iter().map(|link| {
        let queued = link.bandwidth.time_for(2 * quantum(link.bandwidth).0);
        link.rtt.0 + queued.min(PATIENCE_MAX)
    });
    (slowest.max().unwrap_or_default() * PATIENCE_ROUNDS).clamp(PATIENCE_MIN, PATIENCE_MAX)
}

const PATIENCE_ROUNDS: u32 = 8;
const PATIENCE_MIN: Duration = Duration::from_secs(2);
const PATIENCE_MAX: Duration = Duration::from_secs(10);
