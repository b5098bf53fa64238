//! What a server has counted, as it leaves the server: for the summary of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::server::{BrakeStats, GuardStats, LinkStats, Server};
use crate::types::{DcId, ServerId};

/// The counters of one server at the end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub(crate) server: ServerId,
    pub(crate) links: BTreeMap<DcId, LinkStats>,
    pub(crate) brakes: BrakeStats,
    /// Left out where there is no guard.
    pub(crate) guard: Option<GuardStats>,
    /// How tight the server was in the end, in steps.
    pub(crate) tightness: u8,
}

impl Tally {
    /// The counters of a server of a run over so many data centers.
    pub(crate) fn of(server: &Server, data_centers: usize) -> Self {
        let id = server.id();
        let mirrors = (0..data_centers as u16).map(DcId).filter(|dc| *dc != id.dc);
        Self {
            server: id,
            links: mirrors.map(|to| (to, server.link_stats(to))).collect(),
            brakes: server.brake_stats(),
            guard: server.guard_stats(),
            tightness: server.tightness().steps(),
        }
    }

    /// The counters of every server of a run.
    pub(crate) fn all(servers: &[Server], data_centers: usize) -> Vec<Self> {
        servers.iter().map(|server| Self::of(server, data_centers)).collect()
    }
}
