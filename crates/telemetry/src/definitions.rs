//! Every metric of a process: its name, its meaning, its labels. There is one table for each subject.
//!
//! Names follow Prometheus: base units, `_total` for counters. The labels `node` and `peer` are the names of folders of
//! certificates, such as `tokyo/server-0`.
//!
//! To add a metric, add an entry to the table of its subject: the field, its type, and how it is defined. Its row on
//! `docs/src/metrics.md` has the same words.

use prometheus::core::Collector;
use prometheus::{
    CounterVec, Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec,
    IntGaugeVec, Opts, Registry,
};

/// The metrics of one process, over all its nodes.
pub(super) struct Definitions {
    pub(super) process: ProcessMetrics,
    pub(super) node: NodeMetrics,
    pub(super) server: ServerMetrics,
    pub(super) mirror: MirrorMetrics,
    pub(super) worker: WorkerMetrics,
    pub(super) coordinator: CoordinatorMetrics,
}

impl Definitions {
    /// Registers every metric, and sets those of the whole process. `started_s` is its start in seconds since 1970.
    pub(super) fn new(registry: &Registry, started_s: f64) -> Self {
        let to = Definer { registry };
        let process = ProcessMetrics::register(&to);
        process.started.set(started_s);
        process.build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);

        Self {
            process,
            node: NodeMetrics::register(&to),
            server: ServerMetrics::register(&to),
            mirror: MirrorMetrics::register(&to),
            worker: WorkerMetrics::register(&to),
            coordinator: CoordinatorMetrics::register(&to),
        }
    }
}

/// Declares the metrics of one subject. Each entry is a field, its type, and the call of a [`Definer`]'s method that
/// registers it.
macro_rules! metrics {
    (
        $(#[$attribute:meta])*
        struct $subject:ident {
            $($field:ident: $kind:ty = $define:ident $definition:tt,)*
        }
    ) => {
        $(#[$attribute])*
        pub(super) struct $subject {
            $(pub(super) $field: $kind,)*
        }

        impl $subject {
            fn register(to: &Definer<'_>) -> Self {
                Self { $($field: to.$define $definition,)* }
            }

            #[cfg(test)]
            fn all(&self) -> Vec<&dyn Collector> {
                vec![$(&self.$field,)*]
            }
        }
    };
}

metrics! {
    /// The process, and its page of metrics.
    struct ProcessMetrics {
        started: Gauge = real(
            "process_start_time_seconds",
            "Start of the process in seconds since 1970.",
        ),
        build: IntGaugeVec = gauges(
            "gaia_build_info",
            "The version of this program.",
            &["version"],
        ),
        watchers_refused: IntCounter = counter(
            "gaia_watchers_refused_total",
            "Connections to this page that were closed because too many were open.",
        ),
    }
}

metrics! {
    /// A node of any kind: its run, its peers, its log.
    struct NodeMetrics {
        info: IntGaugeVec = gauges(
            "gaia_node_info",
            "A node of this process, and its run.",
            &["node", "run"],
        ),
        peer_connected: IntGaugeVec = gauges(
            "gaia_peer_connected",
            "Whether the node is connected to the peer.",
            TO_PEER,
        ),
        connections: IntCounterVec = counters(
            "gaia_peer_connections_total",
            "Connections made with the peer, reconnects included.",
            TO_PEER,
        ),
        callers_refused: IntCounterVec = counters(
            "gaia_callers_refused_total",
            "Incoming connections that the node refused: of another run, without a valid certificate, or not authenticated in time.",
            &["node"],
        ),
        log_bytes: IntCounterVec = counters(
            "gaia_log_written_bytes_total",
            "Bytes written to the log.",
            &["node"],
        ),
        log_sync: HistogramVec = histograms(
            "gaia_log_sync_seconds",
            "Duration of writes to the log, with their syncs.",
            SYNC_S,
        ),
    }
}

metrics! {
    /// A parameter server: its clock, its brakes, and the reads that it holds back.
    struct ServerMetrics {
        clocks_finished: IntCounterVec = counters(
            "gaia_clocks_finished_total",
            "Clocks that all workers of the server's data center have finished.",
            &["node"],
        ),
        announcements_expired: IntCounterVec = counters(
            "gaia_announcements_expired_total",
            "Announced parameters whose deadline passed before they arrived.",
            &["node"],
        ),
        mirrors_lost: IntCounterVec = counters(
            "gaia_mirrors_lost_total",
            "Times that reads stopped waiting for a mirror: it was silent, lost its state, paused or reported no clock.",
            &["node"],
        ),
        read_held: IntGaugeVec = gauges(
            "gaia_read_held",
            "Whether a worker's read is held back; the reason is that of the first such read.",
            &["node", "reason"],
        ),
    }
}

metrics! {
    /// A server's link to one mirror, in both directions.
    struct MirrorMetrics {
        sent_bytes: IntCounterVec = counters(
            "gaia_mirror_sent_bytes_total",
            "Bytes of frames sent to the mirror.",
            BY_LANE,
        ),
        sent_frames: IntCounterVec = counters(
            "gaia_mirror_sent_frames_total",
            "Frames sent to the mirror.",
            TO_PEER,
        ),
        sent_updates: IntCounterVec = counters(
            "gaia_mirror_sent_updates_total",
            "Parameters changed by the frames sent to the mirror.",
            TO_PEER,
        ),
        sent_wire_bytes: IntCounterVec = counters(
            "gaia_mirror_sent_wire_bytes_total",
            "Bytes that entered the link to the mirror: frames, all that QUIC, UDP and IP add, and datagrams on detours.",
            TO_PEER,
        ),
        detour: IntGaugeVec = gauges(
            "gaia_mirror_detour",
            "Whether datagrams to the mirror go over a third data center, since it does not receive them directly.",
            TO_PEER,
        ),
        detours_dropped: IntCounterVec = counters(
            "gaia_mirror_detour_dropped_total",
            "Datagrams on detours to others that had no room on the link to the mirror, of whose rate they may use half, or in the socket.",
            TO_PEER,
        ),
        busy: CounterVec = seconds(
            "gaia_mirror_busy_seconds_total",
            "Seconds that frames kept the link to the mirror busy.",
            TO_PEER,
        ),
        changes: IntCounterVec = counters(
            "gaia_mirror_changes_total",
            "Parameters changed in this data center, counted once each clock, that the link to the mirror could carry.",
            TO_PEER,
        ),
        carried: IntCounterVec = counters(
            "gaia_mirror_carried_changes_total",
            "Changes of this data center that the link to the mirror carried.",
            TO_PEER,
        ),
        held_back: GaugeVec = reals(
            "gaia_mirror_held_back_ratio",
            "Share of the changes of this data center that was merged or held back, 0 to 1.",
            TO_PEER,
        ),
        announced: IntCounterVec = counters(
            "gaia_mirror_announced_updates_total",
            "Parameters announced to the mirror by selective barriers.",
            TO_PEER,
        ),
        received_bytes: IntCounterVec = counters(
            "gaia_mirror_received_bytes_total",
            "Bytes of frames received from the mirror.",
            BY_LANE,
        ),
        received_frames: IntCounterVec = counters(
            "gaia_mirror_received_frames_total",
            "Frames received from the mirror.",
            BY_LANE,
        ),
        frames_refused: IntCounterVec = counters(
            "gaia_mirror_frames_refused_total",
            "Frames of the mirror that were malformed or out of order, and were not applied.",
            TO_PEER,
        ),
        lag: IntGaugeVec = gauges(
            "gaia_mirror_lag_clocks",
            "Clocks that this data center is ahead of the last clock received from the mirror; negative where behind.",
            TO_PEER,
        ),
    }
}

metrics! {
    /// A worker: its iterations, its traffic on the LAN, and the time that its reads waited.
    struct WorkerMetrics {
        lan_bytes: IntCounterVec = counters(
            "gaia_lan_bytes_total",
            "Bytes that a worker and its servers have sent each other.",
            &["node"],
        ),
        blocked: CounterVec = seconds(
            "gaia_blocked_seconds_total",
            "Seconds that the worker's reads were held back; `from` is the other data center that they waited for, if any.",
            &["node", "reason", "from"],
        ),
        iteration: HistogramVec = histograms(
            "gaia_iteration_seconds",
            "Duration of the worker's iterations.",
            ITERATION_S,
        ),
    }
}

metrics! {
    /// The coordinator: the evaluations, and what it knows of data centers and workers.
    struct CoordinatorMetrics {
        evaluations: IntCounterVec = counters(
            "gaia_evaluations_total",
            "Evaluations of all copies.",
            &["node"],
        ),
        objective: GaugeVec = reals(
            "gaia_objective",
            "The objective of the data center's copy over all data, at the latest evaluation.",
            &["node", "dc"],
        ),
        metric: GaugeVec = reals(
            "gaia_held_out_metric",
            "The held-out metric of the data center's copy, at the latest evaluation.",
            &["node", "dc"],
        ),
        data_center_clock: IntGaugeVec = gauges(
            "gaia_data_center_clock",
            "The clock that the data center has finished, as the coordinator sees it.",
            &["node", "dc"],
        ),
        taken_over: IntGaugeVec = gauges(
            "gaia_worker_taken_over",
            "Whether the worker `by` does the work of the lost worker.",
            &["node", "worker", "by"],
        ),
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

    fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.put(IntCounter::new(name, help))
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

    fn real(&self, name: &str, help: &str) -> Gauge {
        self.put(Gauge::new(name, help))
    }

    fn reals(&self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        self.put(GaugeVec::new(Opts::new(name, help), labels))
    }

    fn histograms(&self, name: &str, help: &str, buckets: &[f64]) -> HistogramVec {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.put(HistogramVec::new(options, &["node"]))
    }
}

const TO_PEER: &[&str] = &["node", "peer"];
const BY_LANE: &[&str] = &["node", "peer", "lane"];

/// Bounds of the buckets in seconds: from a small kernel to a large network on one core.
const ITERATION_S: &[f64] =
    &[0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0];

/// Bounds of the buckets in seconds: from a disk with a protected cache to an overloaded one.
const SYNC_S: &[f64] = &[0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prometheus::proto::MetricType;

    use super::*;
    use gaia_core::sync::WaitReason;
    use gaia_core::types::Lane;

    /// The page on which users look metrics up.
    const PAGE: &str = include_str!("../../../docs/src/metrics.md");

    /// The row of a metric on the page.
    fn row(metric: &dyn Collector) -> String {
        let (described, collected) = (metric.desc(), metric.collect());
        let kind = match collected[0].get_field_type() {
            MetricType::COUNTER => "counter",
            MetricType::GAUGE => "gauge",
            MetricType::HISTOGRAM => "histogram",
            other => panic!("{other:?} has no word on the page"),
        };
        let labels: Vec<String> =
            described[0].variable_labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
        format!("| `{}` | {kind} | {labels} | {} |", described[0].fq_name, described[0].help)
    }

    #[test]
    fn the_page_of_metrics_has_every_metric_and_no_other() {
        let Definitions { process, node, server, mirror, worker, coordinator } =
            &Definitions::new(&Registry::new(), 0.0);
        let all = [
            process.all(),
            node.all(),
            server.all(),
            mirror.all(),
            worker.all(),
            coordinator.all(),
        ];
        let expected: BTreeSet<String> = all.concat().into_iter().map(row).collect();
        let shown = PAGE
            .lines()
            .filter(|line| ["| `gaia_", "| `process_"].iter().any(|start| line.starts_with(start)));
        let shown: BTreeSet<String> = shown.map(str::to_owned).collect();

        let missing: Vec<&String> = expected.difference(&shown).collect();
        assert!(missing.is_empty(), "docs/src/metrics.md has no row {missing:#?}");
        let unknown: Vec<&String> = shown.difference(&expected).collect();
        assert!(unknown.is_empty(), "docs/src/metrics.md has a row of no metric: {unknown:#?}");
    }

    #[test]
    fn the_page_of_metrics_has_every_value_of_a_label() {
        let of_lanes = Lane::ALL.map(Lane::name);
        for value in of_lanes.into_iter().chain(WaitReason::NAMES) {
            assert!(PAGE.contains(&format!("`{value}`")), "{value} is not in docs/src/metrics.md");
        }
    }
}
