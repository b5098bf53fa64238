//! Metrics of nodes, read from the counters of their machines at each heartbeat.

use std::collections::BTreeMap;
use std::time::Duration;

use tracing::warn;

use crate::real::connections::throttle::LogThrottle;
use crate::real::node::context::NodeContext;
use crate::recorder::LinkCounters;
use gaia_config::Plan;
use gaia_core::server::{OutlierStats, Server};
use gaia_core::sync::WaitReason;
use gaia_core::types::{DcId, Lane, NodeId, ServerId, WorkerId};
use gaia_telemetry::{MirrorMeter, ModelSnapshot, NodeMeter, Observer, Progress};

/// The metrics of a server and its links.
pub(in crate::real) struct Meters {
    node: NodeMeter,
    mirrors: BTreeMap<DcId, MirrorMeter>,
    /// The names of the workers in the data center.
    workers: Vec<String>,
    /// By worker, the limited updates that were logged.
    outliers: Vec<OutlierStats>,
    outlier_lines: LogThrottle,
}

impl Meters {
    pub(in crate::real) fn new(context: &NodeContext, id: ServerId) -> Self {
        let workers = 0..context.run_context.plan.topology.dc(id.dc).workers as u16;
        let worker = |index| NodeId::Worker(WorkerId { dc: id.dc, index });
        let others = context.run_context.plan.topology.dc_ids().filter(|dc| *dc != id.dc);
        let meter = |dc| {
            context.meter.mirror(
                &context.run_context.label(NodeId::Server(ServerId { dc, shard: id.shard })),
            )
        };
        Self {
            node: context.meter.clone(),
            mirrors: others.map(|dc| (dc, meter(dc))).collect(),
            workers: workers.map(|index| context.run_context.label(worker(index))).collect(),
            outliers: Vec::new(),
            outlier_lines: LogThrottle::default(),
        }
    }

    pub(in crate::real) fn on_frame(&self, from: DcId, lane: Lane, bytes: usize) {
        if let Some(mirror) = self.mirrors.get(&from) {
            mirror.on_frame(lane, bytes);
        }
    }

    /// Counts a frame of a mirror that could not be applied.
    pub(in crate::real) fn on_frame_refused(&self, from: DcId) {
        if let Some(mirror) = self.mirrors.get(&from) {
            mirror.on_frame_refused();
        }
    }

    /// Reads the counters of the server and its links.
    pub(in crate::real) fn read(&mut self, server: &Server, links: &[(DcId, LinkCounters)]) {
        let clock = server.clock();
        self.node.on_server(clock, server.brake_stats(), server.waiting());
        for (dc, mirror) in &self.mirrors {
            mirror.on_stats(&server.link_stats(*dc));
            if let Some(clock_of_mirror) = server.mirror_clock(*dc) {
                mirror.on_clocks(clock, clock_of_mirror);
            }
        }
        for (dc, counters) in links {
            self.mirrors[dc].on_carried(counters.bytes, counters.busy);
        }
        self.report_outliers(server.outlier_stats());
    }

    /// Records of each mirror whether datagrams to it go over a third data center, and how many datagrams on detours to others
    /// had no room on its link so far.
    pub(in crate::real) fn on_detours(&self, detours: impl Fn(DcId) -> (bool, u64)) {
        for (dc, mirror) in &self.mirrors {
            let (takes_detour, dropped) = detours(*dc);
            mirror.on_detours(takes_detour, dropped);
        }
    }

    /// Names the workers of which updates were limited since the last heartbeat.
    fn report_outliers(&mut self, stats: &[OutlierStats]) {
        self.outliers.resize(stats.len(), OutlierStats::default());
        for ((known, stats), worker) in self.outliers.iter_mut().zip(stats).zip(&self.workers) {
            if stats.updates > known.updates
                && let Some(left_out) = self.outlier_lines.pass()
            {
                let (updates, norm_max) = (stats.updates - known.updates, stats.norm_max);
                warn!(updates, norm_max, "updates of {worker} were above the limit{left_out}");
                *known = *stats;
            }
        }
    }
}

/// Records why a worker's reads were held back, as servers report it. A report may name a data center that does not
/// exist.
pub(in crate::real) fn report_held(context: &NodeContext, held: &[(WaitReason, Duration)]) {
    for (reason, time) in held {
        let named = |dc: DcId| context.run_context.plan.topology.data_centers.get(dc.index());
        let from = reason.from().and_then(named).map_or("", |dc| &dc.name);
        context.meter.on_held(*reason, from, *time);
    }
}

/// Passes on what the coordinator observes, and counts it.
pub(in crate::real) struct Measured<'a> {
    pub(in crate::real) observer: &'a mut dyn Observer,
    pub(in crate::real) meter: &'a NodeMeter,
    pub(in crate::real) plan: &'a Plan,
}

impl Observer for Measured<'_> {
    fn on_progress(&mut self, progress: &Progress) {
        self.meter.on_evaluation(progress);
        self.observer.on_progress(progress);
    }

    fn on_model(&mut self, snapshot: &ModelSnapshot) {
        self.observer.on_model(snapshot);
    }

    fn on_tick(&mut self, time_s: f64, clocks: &[Option<u64>], wan_sent_bytes: &[u64]) {
        for (dc, clock) in self.plan.topology.data_centers.iter().zip(clocks) {
            if let Some(clock) = clock {
                self.meter.on_data_center_clock(&dc.name, *clock);
            }
        }
        self.observer.on_tick(time_s, clocks, wan_sent_bytes);
    }

    fn on_taken_over(&mut self, lost: &str, by: &str) {
        self.meter.on_taken_over(lost, by);
        self.observer.on_taken_over(lost, by);
    }

    fn on_given_back(&mut self, lost: &str, by: &str) {
        self.meter.on_given_back(lost, by);
        self.observer.on_given_back(lost, by);
    }
}
