//! One process as who watches it sees it: its metrics as text, whether it lives, whether it takes part.

#![allow(clippy::disallowed_types, reason = "watchers want to know when a process began")]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{Registry, TextEncoder};
use tokio::time::Instant;

use super::definitions::Definitions;
use super::meters::NodeMeter;
use super::standing::Standing;

/// What this process tells about itself, shared by all who tell and all who ask.
#[derive(Clone)]
pub struct Telemetry(Arc<Process>);

struct Process {
    registry: Registry,
    definitions: Arc<Definitions>,
    origin: Instant,
    nodes: Mutex<Vec<Arc<Standing>>>,
}

impl Telemetry {
    /// Of a process that begins.
    pub fn new() -> Self {
        let registry = Registry::new();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let definitions = Arc::new(Definitions::new(&registry, now.as_secs_f64()));
        let nodes = Mutex::default();
        Self(Arc::new(Process { registry, definitions, origin: Instant::now(), nodes }))
    }

    /// Takes a node in: its name, its run, and the peers that it cannot do without, each with what it is to the node,
    /// such as `mirror`.
    pub fn node(&self, name: &str, run: &str, peers: BTreeMap<String, &'static str>) -> NodeMeter {
        let Process { definitions, origin, .. } = &*self.0;
        for peer in peers.keys() {
            definitions.peer_connected.with_label_values(&[name, peer]).set(0);
        }
        definitions.node_info.with_label_values(&[name, run]).set(1);
        let standing = Arc::new(Standing::new(name, peers));
        self.nodes().push(standing.clone());
        NodeMeter::new(name, definitions.clone(), standing, *origin)
    }

    /// A node, as it was taken in, is no longer one of this process; what it has counted stays.
    pub fn leave(&self, name: &str, run: &str) {
        let Definitions { node_info, peer_connected, .. } = &*self.0.definitions;
        let left: Vec<_> = self.nodes().extract_if(.., |node| node.name() == name).collect();
        // All were set when the node was taken in.
        for peer in left.iter().flat_map(|node| node.peers()) {
            let _there = peer_connected.remove_label_values(&[name, &peer]);
        }
        let _there = node_info.remove_label_values(&[name, run]);
    }

    /// All metrics, in the text format of Prometheus, version 0.0.4.
    pub fn metrics(&self) -> String {
        let gathered = self.0.registry.gather();
        TextEncoder::new().encode_to_string(&gathered).expect("a string takes every metric")
    }

    /// Whether the loops of all nodes of this process turn.
    ///
    /// # Errors
    /// Says which do not, a line each.
    pub fn alive(&self) -> Result<(), String> {
        let now = self.0.origin.elapsed();
        self.all(|node| node.alive(now))
    }

    /// Whether all nodes of this process take part in the run.
    ///
    /// # Errors
    /// Says what they wait for, a line each.
    pub fn ready(&self) -> Result<(), String> {
        if self.nodes().is_empty() {
            return Err("starts".into());
        }
        self.all(Standing::ready)
    }

    /// One who wanted to watch was turned away.
    pub fn on_watcher_refused(&self) {
        self.0.definitions.watchers_refused.inc();
    }

    fn all(&self, ask: impl Fn(&Standing) -> Result<(), String>) -> Result<(), String> {
        let said: Vec<String> = self.nodes().iter().filter_map(|node| ask(node).err()).collect();
        if said.is_empty() { Ok(()) } else { Err(said.join("\n")) }
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Arc<Standing>>> {
        self.0.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("nodes", &*self.nodes()).finish_non_exhaustive()
    }
}
