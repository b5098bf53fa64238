//! The meters of a node: they turn its counts into metrics.
//!
//! State machines keep plain counts. A driver reads these at each heartbeat and passes them on here. Counting a frame
//! takes two additions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus::{Counter, IntCounter};
use tokio::time::Instant;

use super::definitions::{CoordinatorMetrics, Definitions, MirrorMetrics, ServerMetrics};
use super::node_health::NodeHealth;
use super::records::Progress;
use gaia_core::server::{BrakeStats, LinkStats};
use gaia_core::sync::WaitReason;
use gaia_core::types::{Clock, Lane};

/// The metrics of one node. Clones share them.
#[derive(Clone)]
pub struct NodeMeter {
    node: Arc<str>,
    definitions: Arc<Definitions>,
    health: Arc<NodeHealth>,
    /// When the process began.
    origin: Instant,
}

/// The metrics of a server's link to one mirror. Clones share them.
#[derive(Clone)]
pub struct MirrorMeter {
    node: NodeMeter,
    peer: String,
    /// By lane: bytes and frames.
    received: [(IntCounter, IntCounter); Lane::ALL.len()],
}

impl NodeMeter {
    pub(super) fn new(
        node: &str,
        definitions: Arc<Definitions>,
        health: Arc<NodeHealth>,
        origin: Instant,
    ) -> Self {
        definitions.node.callers_refused.with_label_values(&[node]);
        Self { node: node.into(), definitions, health, origin }
    }

    /// The meter of the link to a mirror. Its counters exist, at zero, from now on.
    pub fn mirror(&self, peer: &str) -> MirrorMeter {
        let MirrorMetrics { received_bytes, received_frames, frames_refused, .. } =
            &self.definitions.mirror;
        let received = Lane::ALL.map(|lane| {
            let labels = [&self.node, peer, lane.name()];
            (received_bytes.with_label_values(&labels), received_frames.with_label_values(&labels))
        });
        frames_refused.with_label_values(&[&self.node, peer]);

        MirrorMeter { node: self.clone(), peer: peer.into(), received }
    }

    /// The node's loop has completed a turn.
    pub fn on_turn(&self) {
        self.health.on_turn(self.origin.elapsed());
    }

    /// A peer is connected, for the first time or again.
    pub fn on_connected(&self, peer: &str) {
        self.health.on_connected(peer);
        self.definitions.node.connections.with_label_values(&[&self.node, peer]).inc();
        self.definitions.node.peer_connected.with_label_values(&[&self.node, peer]).set(1);
    }

    /// A peer is disconnected.
    pub fn on_lost(&self, peer: &str) {
        self.health.on_lost(peer);
        self.definitions.node.peer_connected.with_label_values(&[&self.node, peer]).set(0);
    }

    /// A peer is no member of the run. The node does not wait for it.
    pub fn on_absent(&self, peer: &str) {
        self.health.on_absent(peer);
        self.definitions.node.peer_connected.with_label_values(&[&self.node, peer]).set(0);
    }

    /// The run has begun for this node.
    pub fn on_begun(&self) {
        self.health.on_begun();
    }

    /// An incoming connection was refused.
    pub fn on_caller_refused(&self) {
        self.definitions.node.callers_refused.with_label_values(&[&*self.node]).inc();
    }

    /// The clock of a server's data center, what its brakes stopped waiting for so far, and why the first held read waits.
    pub fn on_server(&self, clock: Clock, brakes: BrakeStats, waiting: Option<WaitReason>) {
        let ServerMetrics { clocks_finished, announcements_expired, mirrors_lost, read_held } =
            &self.definitions.server;
        raise(&clocks_finished.with_label_values(&[&*self.node]), clock.0);
        let expired = announcements_expired.with_label_values(&[&*self.node]);
        raise(&expired, brakes.announcements_expired);
        raise(&mirrors_lost.with_label_values(&[&*self.node]), brakes.mirrors_lost);
        for reason in WaitReason::NAMES {
            let held = waiting.is_some_and(|waiting| waiting.name() == reason);
            read_held.with_label_values(&[&*self.node, reason]).set(held.into());
        }
    }

    /// Bytes that a worker and its servers have sent each other so far.
    pub fn on_lan(&self, bytes: u64) {
        raise(&self.definitions.worker.lan_bytes.with_label_values(&[&*self.node]), bytes);
    }

    /// A worker's read was held back. `from` is the data center that it waited for, empty where that is its own.
    pub fn on_held(&self, reason: WaitReason, from: &str, time: Duration) {
        let blocked = &self.definitions.worker.blocked;
        let blocked = blocked.with_label_values(&[&*self.node, reason.name(), from]);
        blocked.inc_by(time.as_secs_f64());
    }

    /// A worker has computed an iteration.
    pub fn on_iteration(&self, took: Duration) {
        let iterations = &self.definitions.worker.iteration;
        iterations.with_label_values(&[&*self.node]).observe(took.as_secs_f64());
    }

    /// All copies have been evaluated.
    pub fn on_evaluation(&self, progress: &Progress) {
        let CoordinatorMetrics { evaluations, objective, metric, .. } =
            &self.definitions.coordinator;
        evaluations.with_label_values(&[&*self.node]).inc();
        for dc in &progress.data_centers {
            objective.with_label_values(&[&*self.node, &dc.name]).set(dc.objective);
            metric.with_label_values(&[&*self.node, &dc.name]).set(dc.metric);
        }
    }

    /// The clock that a data center has finished, as the coordinator knows it.
    pub fn on_data_center_clock(&self, dc: &str, clock: u64) {
        let clocks = &self.definitions.coordinator.data_center_clock;
        clocks.with_label_values(&[&*self.node, dc]).set(i64::try_from(clock).unwrap_or(i64::MAX));
    }

    /// The coordinator has assigned the work of a lost worker to another.
    pub fn on_taken_over(&self, lost: &str, by: &str) {
        self.definitions.coordinator.taken_over.with_label_values(&[&*self.node, lost, by]).set(1);
    }

    /// The worker `by` no longer does the work of `lost`.
    pub fn on_given_back(&self, lost: &str, by: &str) {
        self.definitions.coordinator.taken_over.with_label_values(&[&*self.node, lost, by]).set(0);
    }

    /// Bytes were written to the log and synced.
    pub fn on_log_synced(&self, bytes: u64, took: Duration) {
        self.definitions.node.log_bytes.with_label_values(&[&*self.node]).inc_by(bytes);
        let syncs = &self.definitions.node.log_sync;
        syncs.with_label_values(&[&*self.node]).observe(took.as_secs_f64());
    }
}

impl MirrorMeter {
    /// A frame has arrived.
    pub fn on_frame(&self, lane: Lane, bytes: usize) {
        let (all_bytes, frames) = &self.received[lane.index()];
        all_bytes.inc_by(bytes as u64);
        frames.inc();
    }

    /// A frame was malformed or out of turn and was not applied.
    pub fn on_frame_refused(&self) {
        self.node.definitions.mirror.frames_refused.with_label_values(&self.labels()).inc();
    }

    /// The server's counts since its start.
    pub fn on_stats(&self, stats: &LinkStats) {
        let MirrorMetrics {
            sent_bytes,
            sent_frames,
            sent_updates,
            changes,
            carried,
            held_back,
            announced,
            ..
        } = &self.node.definitions.mirror;
        let labels = self.labels();
        for (lane, bytes) in [(Lane::Control, stats.control_bytes), (Lane::Data, stats.data_bytes)]
        {
            raise(&sent_bytes.with_label_values(&[labels[0], labels[1], lane.name()]), bytes);
        }

        raise(&sent_frames.with_label_values(&labels), stats.frames);
        raise(&sent_updates.with_label_values(&labels), stats.updates);
        raise(&changes.with_label_values(&labels), stats.changes);
        raise(&carried.with_label_values(&labels), stats.carried);
        raise(&announced.with_label_values(&labels), stats.announced);

        if let Some(carried) = stats.carried_fraction() {
            held_back.with_label_values(&labels).set(1.0 - carried);
        }
    }

    /// Bytes that have entered the link so far, and how long frames kept it busy.
    pub fn on_carried(&self, wire_bytes: u64, busy: Duration) {
        let MirrorMetrics { sent_wire_bytes, busy: all_busy, .. } = &self.node.definitions.mirror;
        raise(&sent_wire_bytes.with_label_values(&self.labels()), wire_bytes);
        raise_seconds(&all_busy.with_label_values(&self.labels()), busy);
    }

    /// Whether datagrams to the mirror go over a third data center, and how many datagrams on detours to others had no room
    /// on its link so far.
    pub fn on_detours(&self, takes_detour: bool, dropped: u64) {
        let MirrorMetrics { detour, detours_dropped, .. } = &self.node.definitions.mirror;
        detour.with_label_values(&self.labels()).set(i64::from(takes_detour));
        raise(&detours_dropped.with_label_values(&self.labels()), dropped);
    }

    /// The clock of this data center, and the latest clock received from the mirror.
    pub fn on_clocks(&self, own: Clock, mirror: Clock) {
        let lag = i128::from(own.0) - i128::from(mirror.0);
        let lag = i64::try_from(lag).unwrap_or(i64::MAX);
        self.node.definitions.mirror.lag.with_label_values(&self.labels()).set(lag);
    }

    fn labels(&self) -> [&str; 2] {
        [&self.node.node, &self.peer]
    }
}

/// Sets a counter to a total. It never falls: where a rebuilt node counts from the start again, the counter stays until
/// the new total is larger.
fn raise(counter: &IntCounter, total: u64) {
    counter.inc_by(total.saturating_sub(counter.get()));
}

fn raise_seconds(counter: &Counter, total: Duration) {
    counter.inc_by((total.as_secs_f64() - counter.get()).max(0.0));
}

impl fmt::Debug for NodeMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeMeter").field(&self.health).finish()
    }
}

impl fmt::Debug for MirrorMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MirrorMeter").field("peer", &self.peer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Telemetry;
    use gaia_core::types::{DcId, WorkerId};

    fn check(telemetry: &Telemetry, expected: &[&str]) {
        let page = telemetry.metrics();
        for line in expected {
            assert!(page.lines().any(|found| found == *line), "{line} is not in\n{page}");
        }
    }

    #[test]
    fn counts_of_a_server_and_its_links_become_metrics() {
        let telemetry = Telemetry::new();
        let peers = BTreeMap::from([("b/server-0".to_owned(), "mirror")]);
        let node = telemetry.node("a/server-0", "r", peers);
        let mirror = node.mirror("b/server-0");

        check(&telemetry, OF_A_NEW_SERVER);

        for _ in 0..2 {
            node.on_connected("b/server-0");
            node.on_lost("b/server-0");
            node.on_caller_refused();
        }

        node.on_connected("b/server-0");
        mirror.on_frame(Lane::Data, 100);
        mirror.on_frame(Lane::Data, 11);
        mirror.on_frame_refused();
        mirror.on_clocks(Clock(3), Clock(5));

        let mut stats =
            LinkStats { data_bytes: 7, control_bytes: 5, frames: 3, ..LinkStats::default() };
        mirror.on_stats(&stats);
        (stats.data_bytes, stats.changes, stats.carried, stats.updates) = (9, 8, 2, 2);
        mirror.on_stats(&stats);

        for busy in [1, 4] {
            mirror.on_carried(1000 * busy, Duration::from_millis(500 * busy));
            mirror.on_detours(true, busy);
        }

        let waiting = WaitReason::MirrorClock { from: DcId(1) };
        let brakes = BrakeStats { announcements_expired: 6, mirrors_lost: 1 };
        node.on_server(Clock(12), brakes, Some(waiting));
        node.on_log_synced(64, Duration::from_millis(2));
        node.on_log_synced(6, Duration::from_millis(20));

        check(&telemetry, OF_A_COUNTED_SERVER);
    }

    #[test]
    fn a_counter_as_large_as_can_be_stays() {
        let counter = IntCounter::new("bytes", "Bytes").unwrap();
        for total in [1, u64::MAX, 5, u64::MAX] {
            raise(&counter, total);
        }
        assert_eq!(counter.get(), u64::MAX);
    }

    #[test]
    fn taken_over_work_is_a_metric_and_a_node_that_leaves_is_not() {
        let telemetry = Telemetry::new();
        let node = telemetry.node("a/coordinator", "r", BTreeMap::new());
        node.on_taken_over("a/worker-1", "a/worker-0");
        node.on_given_back("a/worker-1", "a/worker-0");
        node.on_taken_over("a/worker-1", "a/worker-2");
        node.on_begun();

        let peers = BTreeMap::from([("a/server-0".to_owned(), "server")]);
        telemetry.node("a/worker-1", "r", peers).on_iteration(Duration::from_millis(3));
        assert!(telemetry.ready().is_err());
        telemetry.leave("a/worker-1", "r");
        assert_eq!(telemetry.ready(), Ok(()));
        check(
            &telemetry,
            &[
                r#"gaia_worker_taken_over{by="a/worker-0",node="a/coordinator",worker="a/worker-1"} 0"#,
                r#"gaia_worker_taken_over{by="a/worker-2",node="a/coordinator",worker="a/worker-1"} 1"#,
                r#"gaia_iteration_seconds_count{node="a/worker-1"} 1"#,
            ],
        );

        let page = telemetry.metrics();
        assert!(!page.contains(r#"gaia_node_info{node="a/worker-1""#), "{page}");
        assert!(!page.contains(r#"gaia_peer_connected{node="a/worker-1""#), "{page}");
    }

    #[test]
    fn counts_of_a_worker_are_metrics_by_reason() {
        let telemetry = Telemetry::new();
        let node = telemetry.node("a/worker-1", "r", BTreeMap::new());
        node.on_lan(70);
        node.on_lan(90);
        node.on_iteration(Duration::from_millis(3));

        let worker = WorkerId { dc: DcId(0), index: 0 };
        for _ in 0..2 {
            node.on_held(WaitReason::LocalWorker { worker }, "", Duration::from_millis(250));
        }

        node.on_held(WaitReason::Updates { from: DcId(1) }, "b", Duration::from_secs(2));
        check(
            &telemetry,
            &[
                r#"gaia_lan_bytes_total{node="a/worker-1"} 90"#,
                r#"gaia_iteration_seconds_count{node="a/worker-1"} 1"#,
                r#"gaia_blocked_seconds_total{from="",node="a/worker-1",reason="local"} 0.5"#,
                r#"gaia_blocked_seconds_total{from="b",node="a/worker-1",reason="bandwidth"} 2"#,
            ],
        );
    }

    /// The metrics of a server that has just been added.
    const OF_A_NEW_SERVER: &[&str] = &[
        r#"gaia_peer_connected{node="a/server-0",peer="b/server-0"} 0"#,
        r#"gaia_mirror_frames_refused_total{node="a/server-0",peer="b/server-0"} 0"#,
        r#"gaia_callers_refused_total{node="a/server-0"} 0"#,
    ];

    /// The metrics of that server after all its counts.
    const OF_A_COUNTED_SERVER: &[&str] = &[
        r#"gaia_peer_connected{node="a/server-0",peer="b/server-0"} 1"#,
        r#"gaia_peer_connections_total{node="a/server-0",peer="b/server-0"} 3"#,
        r#"gaia_callers_refused_total{node="a/server-0"} 2"#,
        r#"gaia_mirror_received_bytes_total{lane="data",node="a/server-0",peer="b/server-0"} 111"#,
        r#"gaia_mirror_received_frames_total{lane="data",node="a/server-0",peer="b/server-0"} 2"#,
        r#"gaia_mirror_received_frames_total{lane="control",node="a/server-0",peer="b/server-0"} 0"#,
        r#"gaia_mirror_frames_refused_total{node="a/server-0",peer="b/server-0"} 1"#,
        r#"gaia_mirror_lag_clocks{node="a/server-0",peer="b/server-0"} -2"#,
        r#"gaia_mirror_sent_bytes_total{lane="data",node="a/server-0",peer="b/server-0"} 9"#,
        r#"gaia_mirror_sent_bytes_total{lane="control",node="a/server-0",peer="b/server-0"} 5"#,
        r#"gaia_mirror_sent_updates_total{node="a/server-0",peer="b/server-0"} 2"#,
        r#"gaia_mirror_held_back_ratio{node="a/server-0",peer="b/server-0"} 0.75"#,
        r#"gaia_mirror_sent_wire_bytes_total{node="a/server-0",peer="b/server-0"} 4000"#,
        r#"gaia_mirror_busy_seconds_total{node="a/server-0",peer="b/server-0"} 2"#,
        r#"gaia_mirror_detour{node="a/server-0",peer="b/server-0"} 1"#,
        r#"gaia_mirror_detour_dropped_total{node="a/server-0",peer="b/server-0"} 4"#,
        r#"gaia_clocks_finished_total{node="a/server-0"} 12"#,
        r#"gaia_announcements_expired_total{node="a/server-0"} 6"#,
        r#"gaia_mirrors_lost_total{node="a/server-0"} 1"#,
        r#"gaia_read_held{node="a/server-0",reason="mirror_clock"} 1"#,
        r#"gaia_read_held{node="a/server-0",reason="barrier"} 0"#,
        r#"gaia_log_written_bytes_total{node="a/server-0"} 70"#,
        r#"gaia_log_sync_seconds_count{node="a/server-0"} 2"#,
        r#"gaia_log_sync_seconds_bucket{node="a/server-0",le="0.003"} 1"#,
    ];
}
