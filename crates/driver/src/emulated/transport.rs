//! The WAN of the emulated driver: [`EmulatedWan::start`] connects all data centers and returns a [`DcTransport`] for each.

use std::sync::Arc;
use std::time::Duration;

use quinn::Endpoint;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connection::Joining;
use super::meter::Meter;
use super::{Certificates, Network};
use gaia_core::link::quantum;
use gaia_core::topology::Topology;
use gaia_core::types::Seed;
use gaia_quic::{Carriers, DcTransport, Finisher, GOODBYE, TransportError};

/// All connections of a run. Frames are sent by the [`DcTransport`]s.
pub struct EmulatedWan {
    network: Arc<Network>,
    meter: Meter,
    endpoints: Vec<Endpoint>,
    finishers: Vec<Finisher>,
    pumps: JoinSet<bool>,
    readers: JoinSet<()>,
    patience: Duration,
}

impl EmulatedWan {
    /// Connects the data centers of a topology, each of which has `shards` shards.
    ///
    /// All random numbers of links and QUIC come from `seed`. Must be called within a tokio runtime.
    pub async fn start(
        topology: &Topology,
        shards: usize,
        seed: Seed,
    ) -> Result<(Self, Vec<DcTransport>), TransportError> {
        let certificates = Certificates::for_data_centers(topology)?;
        Self::start_with(topology, shards, seed, &certificates).await
    }

    /// As [`Self::start`], with given certificates.
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

    /// The network in memory, on which a test can cut links.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// The meter of all links.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Sends all frames, finishes all streams, and ends all tasks.
    ///
    /// The finish of a stream is retransmitted until it is acknowledged. The close of a connection is one datagram,
    /// which a full queue may drop.
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

        // After the timeout the rest is cut off. This is safe once all peers have acknowledged the shutdown.
        let _ = timeout(self.patience, closed).await;
        self.readers.shutdown().await;
        if unfinished > 0 {
            return Err(TransportError::Unfinished { connections: unfinished });
        }
        Ok(())
    }
}

/// The longest time for the shutdown: some round trips of the longest path with full queues.
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
