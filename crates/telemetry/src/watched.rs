//! The telemetry of one process: its metrics as text, whether it is alive, whether it is ready.

#![allow(clippy::disallowed_types, reason = "a metric says when the process started")]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{Registry, TextEncoder};
use tokio::time::Instant;

use super::definitions::{Definitions, NodeMetrics};
use super::meters::NodeMeter;
use super::node_health::NodeHealth;

/// The metrics and the health of this process. Clones share them.
#[derive(Clone)]
pub struct Telemetry(Arc<Process>);

struct Process {
    registry: Registry,
    definitions: Arc<Definitions>,
    origin: Instant,
    nodes: Mutex<Vec<Arc<NodeHealth>>>,
}

impl Telemetry {
    /// The telemetry of a process that starts, without nodes.
    pub fn new() -> Self {
        let registry = Registry::new();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let definitions = Arc::new(Definitions::new(&registry, now.as_secs_f64()));
        let nodes = Mutex::default();
        Self(Arc::new(Process { registry, definitions, origin: Instant::now(), nodes }))
    }

    /// Adds a node: its name, its run, and the peers that it needs, each with its role, such as `mirror`.
    ///
    /// The node is not ready before it is connected to all of them and the run has begun.
    pub fn node(&self, name: &str, run: &str, peers: BTreeMap<String, &'static str>) -> NodeMeter {
        let Process { definitions, origin, .. } = &*self.0;
        for peer in peers.keys() {
            definitions.node.peer_connected.with_label_values(&[name, peer]).set(0);
        }
        definitions.node.info.with_label_values(&[name, run]).set(1);
        let health = Arc::new(NodeHealth::new(name, peers));
        self.nodes().push(health.clone());
        NodeMeter::new(name, definitions.clone(), health, *origin)
    }

    /// Removes a node that was added with the same name and run. Its counters stay.
    pub fn leave(&self, name: &str, run: &str) {
        let NodeMetrics { info, peer_connected, .. } = &self.0.definitions.node;
        let left: Vec<_> = self.nodes().extract_if(.., |node| node.name() == name).collect();
        // All were set when the node was added.
        for peer in left.iter().flat_map(|node| node.peers()) {
            let _there = peer_connected.remove_label_values(&[name, &peer]);
        }
        let _there = info.remove_label_values(&[name, run]);
    }

    /// All metrics, in the text format of Prometheus, version 0.0.4.
    pub fn metrics(&self) -> String {
        let gathered = self.0.registry.gather();
        TextEncoder::new().encode_to_string(&gathered).expect("a string takes every metric")
    }

    /// Whether the loops of all nodes of this process turn.
    ///
    /// # Errors
    /// The nodes whose loops do not, one a line.
    pub fn alive(&self) -> Result<(), String> {
        let now = self.0.origin.elapsed();
        self.all(|node| node.alive(now))
    }

    /// Whether there is a node, and all nodes of this process take part in the run.
    ///
    /// # Errors
    /// What the nodes wait for, one a line.
    pub fn ready(&self) -> Result<(), String> {
        if self.nodes().is_empty() {
            return Err("starts".into());
        }
        self.all(NodeHealth::ready)
    }

    /// A connection to the page of metrics was closed because too many were open.
    pub fn on_watcher_refused(&self) {
        self.0.definitions.process.watchers_refused.inc();
    }

    fn all(&self, ask: impl Fn(&NodeHealth) -> Result<(), String>) -> Result<(), String> {
        let problems: Vec<String> =
            self.nodes().iter().filter_map(|node| ask(node).err()).collect();
        if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Arc<NodeHealth>>> {
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
