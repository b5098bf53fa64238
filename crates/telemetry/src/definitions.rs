//! Every metric of a process: its name, its meaning, its labels.
//!
//! Names follow Prometheus: base units, `_total` for counters. The labels `node` and `peer` are the names of folders of
//! certificates, such as `tokyo/server-0`.

use prometheus::core::Collector;
use prometheus::{
    CounterVec, Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec,
    IntGaugeVec, Opts, Registry,
};

/// The metrics of one process, over all its nodes.
pub(super) struct Definitions {
    pub(super) node_info: IntGaugeVec,
    pub(super) peer_connected: IntGaugeVec,
    pub(super) connections: IntCounterVec,
    pub(super) callers_refused: IntCounterVec,
    pub(super) clocks_finished: IntCounterVec,
    pub(super) lan_bytes: IntCounterVec,
    pub(super) sent_bytes: IntCounterVec,
    pub(super) sent_frames: IntCounterVec,
    pub(super) sent_updates: IntCounterVec,
    pub(super) sent_wire_bytes: IntCounterVec,
    pub(super) busy: CounterVec,
    pub(super) received_bytes: IntCounterVec,
    pub(super) received_frames: IntCounterVec,
    pub(super) frames_refused: IntCounterVec,
    pub(super) changes: IntCounterVec,
    pub(super) carried: IntCounterVec,
    pub(super) held_back: GaugeVec,
    pub(super) announced: IntCounterVec,
    pub(super) lag: IntGaugeVec,
    pub(super) announcements_expired: IntCounterVec,
    pub(super) mirrors_lost: IntCounterVec,
    pub(super) read_held: IntGaugeVec,
    pub(super) blocked: CounterVec,
    pub(super) iteration: HistogramVec,
    pub(super) evaluations: IntCounterVec,
    pub(super) objective: GaugeVec,
    pub(super) metric: GaugeVec,
    pub(super) data_center_clock: IntGaugeVec,
    pub(super) taken_over: IntGaugeVec,
    pub(super) log_bytes: IntCounterVec,
    pub(super) log_sync: HistogramVec,
    pub(super) watchers_refused: IntCounter,
}

impl Definitions {
    /// Registers every metric, and sets those of the whole process. `started_s` is its start in seconds since 1970.
    pub(super) fn new(registry: &Registry, started_s: f64) -> Self {
        let to = Definer { registry };
        let start =
            Gauge::new("process_start_time_seconds", "Start of the process in seconds since 1970.");
        to.put(start).set(started_s);

        let build = to.gauges("gaia_build_info", "The version of this program.", &["version"]);
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);

        let to_peer = ["node", "peer"];
        let by_lane = ["node", "peer", "lane"];

        Self {
            node_info: to.gauges(
                "gaia_node_info",
                "A node of this process, and its run.",
                &["node", "run"],
            ),
            peer_connected: to.gauges(
                "gaia_peer_connected",
                "Whether the node is connected to the peer.",
                &to_peer,
            ),
            connections: to.counters(
                "gaia_peer_connections_total",
                "Connections made with the peer, reconnects included.",
                &to_peer,
            ),
            callers_refused: to.counters(
                "gaia_callers_refused_total",
                "Incoming connections that the node refused: of another run, without a valid certificate, or not authenticated in time.",
                &["node"],
            ),
            clocks_finished: to.counters(
                "gaia_clocks_finished_total",
                "Clocks that all workers of the server's data center have finished.",
                &["node"],
            ),
            lan_bytes: to.counters(
                "gaia_lan_bytes_total",
                "Bytes that a worker and its servers have sent each other.",
                &["node"],
            ),
            sent_bytes: to.counters(
                "gaia_mirror_sent_bytes_total",
                "Bytes of frames sent to the mirror.",
                &by_lane,
            ),
            sent_frames: to.counters(
                "gaia_mirror_sent_frames_total",
                "Frames sent to the mirror.",
                &to_peer,
            ),
            sent_updates: to.counters(
                "gaia_mirror_sent_updates_total",
                "Parameters changed by the frames sent to the mirror.",
                &to_peer,
            ),
            sent_wire_bytes: to.counters(
                "gaia_mirror_sent_wire_bytes_total",
                "Bytes that entered the link to the mirror: frames, and all that QUIC, UDP and IP add.",
                &to_peer,
            ),
            busy: to.seconds(
                "gaia_mirror_busy_seconds_total",
                "Seconds that frames kept the link to the mirror busy.",
                &to_peer,
            ),
            received_bytes: to.counters(
                "gaia_mirror_received_bytes_total",
                "Bytes of frames received from the mirror.",
                &by_lane,
            ),
            received_frames: to.counters(
                "gaia_mirror_received_frames_total",
                "Frames received from the mirror.",
                &by_lane,
            ),
            frames_refused: to.counters(
                "gaia_mirror_frames_refused_total",
                "Frames of the mirror that were malformed or out of order, and were not applied.",
                &to_peer,
            ),
            changes: to.counters(
                "gaia_mirror_changes_total",
                "Parameters changed in this data center, counted once each clock, that the link to the mirror could carry.",
                &to_peer,
            ),
            carried: to.counters(
                "gaia_mirror_carried_changes_total",
                "Changes of this data center that the link to the mirror carried.",
                &to_peer,
            ),
            held_back: to.reals(
                "gaia_mirror_held_back_ratio",
                "Share of the changes of this data center that was merged or held back, 0 to 1.",
                &to_peer,
            ),
            announced: to.counters(
                "gaia_mirror_announced_updates_total",
                "Parameters announced to the mirror by selective barriers.",
                &to_peer,
            ),
            lag: to.gauges(
                "gaia_mirror_lag_clocks",
                "Clocks that this data center is ahead of the last clock received from the mirror; negative where behind.",
                &to_peer,
            ),
            announcements_expired: to.counters(
                "gaia_announcements_expired_total",
                "Announced parameters whose deadline passed before they arrived.",
                &["node"],
            ),
            mirrors_lost: to.counters(
                "gaia_mirrors_lost_total",
                "Times that reads stopped waiting for a silent mirror.",
                &["node"],
            ),
            read_held: to.gauges(
                "gaia_read_held",
                "Whether a worker's read is held back; the reason is that of the first such read.",
                &["node", "reason"],
            ),
            blocked: to.seconds(
                "gaia_blocked_seconds_total",
                "Seconds that the worker's reads were held back; `from` is the other data center that they waited for, if any.",
                &["node", "reason", "from"],
            ),
            iteration: to.histograms(
                "gaia_iteration_seconds",
                "Duration of the worker's iterations.",
                ITERATION_S,
            ),
            evaluations: to.counters(
                "gaia_evaluations_total",
                "Evaluations of all copies.",
                &["node"],
            ),
            objective: to.reals(
                "gaia_objective",
                "The objective of the data center's copy over all data, at the latest evaluation.",
                &["node", "dc"],
            ),
            metric: to.reals(
                "gaia_held_out_metric",
                "The held-out metric of the data center's copy, at the latest evaluation.",
                &["node", "dc"],
            ),
            data_center_clock: to.gauges(
                "gaia_data_center_clock",
                "The clock that the data center has finished, as the coordinator sees it.",
                &["node", "dc"],
            ),
            taken_over: to.gauges(
                "gaia_worker_taken_over",
                "Whether the worker `by` does the work of the lost worker.",
                &["node", "worker", "by"],
            ),
            log_bytes: to.counters(
                "gaia_log_written_bytes_total",
                "Bytes written to the log.",
                &["node"],
            ),
            log_sync: to.histograms(
                "gaia_log_sync_seconds",
                "Duration of writes to the log, with their syncs.",
                SYNC_S,
            ),
            watchers_refused: to.put(IntCounter::new(
                "gaia_watchers_refused_total",
                "Connections to this page that were closed because too many were open.",
            )),
        }
    }
}

/// Registers metrics.
struct Definer<'a> {
    registry: &'a Registry,
}

impl Definer<'_> {
    fn put<C: Collector + Clone + 'static>(&self, made: prometheus::Result<C>) -> C {
        let made = made.expect("the names and labels are constant and legal");
        self.registry.register(Box::new(made.clone())).expect("each metric is defined once");
        made
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.put(IntCounterVec::new(Opts::new(name, help), labels))
    }

    fn seconds(&self, name: &str, help: &str, labels: &[&str]) -> CounterVec {
        self.put(CounterVec::new(Opts::new(name, help), labels))
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.put(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    fn reals(&self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        self.put(GaugeVec::new(Opts::new(name, help), labels))
    }

    fn histograms(&self, name: &str, help: &str, buckets: &[f64]) -> HistogramVec {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.put(HistogramVec::new(options, &["node"]))
    }
}

/// Bounds of the buckets in seconds: from a small kernel to a large network on one core.
const ITERATION_S: &[f64] =
    &[0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0];

/// Bounds of the buckets in seconds: from a disk with a protected cache to an overloaded one.
const SYNC_S: &[f64] = &[0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0];
