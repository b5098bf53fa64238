//! The environment of one process, in memory. The process can be killed at any time, and then has no further effect.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use quinn::EndpointConfig;
use rand_core::Rng;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::disk::{DiskUser, Files, MemoryDisk};
use super::pipes::{Switchboard, Way, break_off};
use gaia_checkpoint::{CheckpointError, LogDisk};
use gaia_core::topology::Topology;
use gaia_core::types::{DcId, Random, Seed};
use gaia_driver::emulated::Network;
use gaia_driver::real::environment::{Datagrams, Environment, Later, Listener, Stream};

/// The network and the disks that all processes of a run share.
#[derive(Debug)]
pub(super) struct World {
    pub(super) network: Arc<Network>,
    pub(super) streams: Switchboard,
    topology: Topology,
    seed: Seed,
    disks: Mutex<BTreeMap<PathBuf, Arc<Mutex<Files>>>>,
    /// The next unused port.
    port: AtomicU16,
    began: Instant,
}

/// The environment of one process.
pub(super) struct ProcessEnvironment {
    world: Arc<World>,
    dc: DcId,
    /// The seed of its endpoint.
    seed: Seed,
    /// The numbers that it draws as unpredictable ones.
    chance: Mutex<Random>,
    /// The time of its calendar at the start of the run.
    calendar_began: Duration,
    is_killed: AtomicBool,
    killed: Notify,
    /// An address that it cannot reach.
    disconnected_from: Mutex<Option<SocketAddr>>,
    listens: Mutex<Vec<SocketAddr>>,
    streams: Mutex<Vec<[Weak<Mutex<Way>>; 2]>>,
    disks: Mutex<Vec<Arc<Mutex<Files>>>>,
}

impl World {
    /// Must be called within a runtime.
    pub(super) fn new(topology: &Topology, seed: Seed) -> Arc<Self> {
        Arc::new(Self {
            network: Network::new(topology, seed.child("links")),
            streams: Switchboard::default(),
            topology: topology.clone(),
            seed: seed.child("endpoints"),
            disks: Mutex::default(),
            port: AtomicU16::new(PORT_MIN),
            began: Instant::now(),
        })
    }

    /// A new process in a data center, on a machine whose calendar is `behind`.
    pub(super) fn new_process(
        self: &Arc<Self>,
        dc: DcId,
        behind: Duration,
    ) -> Arc<ProcessEnvironment> {
        let seed = self.seed.nth(usize::from(self.port()));
        Arc::new(ProcessEnvironment {
            world: self.clone(),
            dc,
            seed,
            chance: Mutex::new(seed.child("process").random()),
            calendar_began: CALENDAR_BEGAN - behind,
            is_killed: AtomicBool::new(false),
            killed: Notify::new(),
            disconnected_from: Mutex::default(),
            listens: Mutex::default(),
            streams: Mutex::default(),
            disks: Mutex::default(),
        })
    }

    /// An unused port.
    pub(super) fn port(&self) -> u16 {
        self.port.fetch_add(1, Ordering::Relaxed)
    }

    /// Empties the disks below a folder, whose processes must be killed.
    pub(super) fn lose_disks(&self, folder: &Path) {
        self.disks.lock().unwrap().retain(|path, _| !path.starts_with(folder));
    }

    fn delay(&self, one: DcId, other: DcId) -> Duration {
        if one == other { LAN_DELAY } else { self.topology.link(one, other).rtt.0 / 2 }
    }
}

impl ProcessEnvironment {
    pub(super) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Relaxed)
    }

    /// Kills the process: its streams fail, its datagrams end, and it has no access to its disks.
    pub(super) fn kill(&self) {
        self.is_killed.store(true, Ordering::Relaxed);
        for address in self.listens.lock().unwrap().drain(..) {
            self.world.network.unplug(address);
            self.world.streams.forget(address);
        }
        self.streams.lock().unwrap().drain(..).for_each(|ways| break_off(&ways));
        self.killed.notify_one();
    }

    /// Fails its streams. It cannot open new ones to `address` until this is called with `None`.
    pub(super) fn disconnect_from(&self, address: Option<SocketAddr>) {
        *self.disconnected_from.lock().unwrap() = address;
        if address.is_some() {
            self.streams.lock().unwrap().drain(..).for_each(|ways| break_off(&ways));
        }
    }

    /// Waits until it is killed.
    pub(super) async fn killed(&self) {
        self.killed.notified().await;
    }

    /// The disks that the process has opened.
    pub(super) fn disks(&self) -> Vec<Arc<Mutex<Files>>> {
        self.disks.lock().unwrap().clone()
    }

    fn present(&self) -> io::Result<()> {
        if self.is_killed() { Err(io::ErrorKind::NotConnected.into()) } else { Ok(()) }
    }
}

impl DiskUser for ProcessEnvironment {
    fn is_killed(&self) -> bool {
        self.is_killed()
    }

    fn kill(&self) {
        self.kill();
    }
}

/// The environment as the real driver uses it. A task that outlives its process uses it, too.
#[derive(Debug)]
pub(super) struct SharedEnvironment(pub(super) Arc<ProcessEnvironment>);

impl Environment for SharedEnvironment {
    fn listen(&self, at: SocketAddr) -> Later<'_, Box<dyn Listener>> {
        Box::pin(async move {
            let environment = &self.0;
            environment.present()?;
            let listener = environment.world.streams.listen(at)?;
            environment.listens.lock().unwrap().push(at);
            Ok(Box::new(listener) as Box<dyn Listener>)
        })
    }

    fn connect(&self, to: SocketAddr) -> Later<'_, Box<dyn Stream>> {
        Box::pin(async move {
            let environment = &self.0;
            environment.present()?;
            if *environment.disconnected_from.lock().unwrap() == Some(to) {
                return Err(io::ErrorKind::HostUnreachable.into());
            }
            let from = Network::address(environment.dc, environment.world.port());
            let far = environment.world.network.dc_at(to).ok_or(io::ErrorKind::HostUnreachable)?;
            let delay = environment.world.delay(environment.dc, far);
            let calling =
                environment.world.streams.connect(&environment.world.network, from, to, delay);
            let (pipe, ways) = calling.await?;
            let mut streams = environment.streams.lock().unwrap();
            streams.retain(|ways| ways[0].strong_count() > 0);
            streams.push(ways.clone());
            drop(streams);
            if environment.is_killed() {
                break_off(&ways);
            }
            Ok(Box::new(pipe) as Box<dyn Stream>)
        })
    }

    fn datagrams(&self, at: SocketAddr) -> io::Result<Datagrams> {
        let environment = &self.0;
        environment.present()?;
        let socket = environment.world.network.bind(at)?;
        let mut bytes = [0; 32];
        environment.seed.random().fill_bytes(&mut bytes);
        let mut config = EndpointConfig::default();
        config.rng_seed(Some(bytes));
        Ok(Datagrams { socket, config: Some(config) })
    }

    fn log(&self, path: &Path) -> Result<Box<dyn LogDisk>, CheckpointError> {
        let (environment, mut disks) = (self.0.clone(), self.0.world.disks.lock().unwrap());
        let files = disks.entry(path.to_owned()).or_default().clone();
        environment.disks.lock().unwrap().push(files.clone());
        Ok(Box::new(MemoryDisk { files, user: environment }))
    }

    fn since_epoch(&self) -> Duration {
        self.0.calendar_began + self.0.world.began.elapsed()
    }

    fn random(&self) -> io::Result<u64> {
        Ok(self.0.chance.lock().unwrap().next_u64())
    }
}

impl fmt::Debug for ProcessEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessEnvironment").field("dc", &self.dc).finish_non_exhaustive()
    }
}

const PORT_MIN: u16 = 10_000;
/// The time at which a run begins, on calendars that are not behind.
const CALENDAR_BEGAN: Duration = Duration::from_secs(1_800_000_000);

pub(super) const LAN_DELAY: Duration = Duration::from_micros(100);
