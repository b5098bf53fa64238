//! The data of one process of a cluster, where each data center has its own.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::Failure;
use crate::applications::{Applications, build_with};
use gaia_config::{Plan, RunFile};
use gaia_core::application::Application;
use gaia_core::types::{DcId, NodeId, messagepack};
use gaia_data::{DataError, DataSummary, OwnData, PlaceOfData, initialized};
use gaia_driver::real::{self, RunData, Summary};
use gaia_ml::apps::AppConfig;

/// What the nodes of a process read.
pub(super) struct NodeData {
    data: OwnData,
    /// The number of places of data in each data center.
    places: Vec<usize>,
    app: Option<AppConfig>,
    /// The file that the application starts from.
    init: Option<PathBuf>,
}

/// What the nodes of a process train on. Only workers have data.
pub(super) fn data_of(
    plan: &Plan,
    nodes: &[NodeId],
    file: &RunFile,
    applications: &dyn Applications,
) -> Result<RunData, Failure> {
    let worker = nodes.iter().find_map(|node| match node {
        NodeId::Worker(worker) => Some(*worker),
        _ => None,
    });
    let read = || {
        if !plan.has_own_data() {
            let worker = worker
                .map(|worker| plan.topology.first_worker(worker.dc) + usize::from(worker.index));
            let workers = worker.map_or(0..0, |worker| worker..worker + 1);
            return Ok(RunData::Whole(build_with(applications, plan, workers)?));
        }
        let dc = worker.map(|worker| worker.dc);
        Ok(RunData::Own(Box::new(NodeData::read(plan, dc)?)))
    };
    read().map_err(|error| Failure::data(error, file))
}

impl NodeData {
    /// Reads the data of one data center, or of none.
    pub(super) fn read(plan: &Plan, dc: Option<DcId>) -> Result<Self, DataError> {
        Self::read_places(plan, dc.map_or(0..0, |dc| plan.topology.homes_of(dc)))
    }

    /// Reads the data of all data centers.
    pub(super) fn read_all(plan: &Plan) -> Result<Self, DataError> {
        Self::read_places(plan, 0..plan.data_homes().len())
    }

    fn read_places(plan: &Plan, own: Range<usize>) -> Result<Self, DataError> {
        let topology = &plan.topology;
        Ok(Self {
            data: OwnData::read(
                plan.app.as_ref(),
                &plan.data_homes(),
                own,
                plan.seed,
                plan.evaluate.data.as_deref(),
            )?,
            places: topology.dc_ids().map(|dc| topology.homes_of(dc).len()).collect(),
            app: plan.app.clone(),
            init: plan.model.init.clone(),
        })
    }

    /// What was read.
    pub(super) fn places(&self) -> Vec<PlaceOfData> {
        self.data.places()
    }

    pub(super) fn summaries(&self) -> Vec<DataSummary> {
        self.data.summaries()
    }

    /// The application of this data and of the summaries of all places of data.
    pub(super) fn application(
        self,
        summaries: &[DataSummary],
    ) -> Result<Arc<dyn Application>, DataError> {
        let built = self.data.into_application(summaries)?;
        match &self.init {
            Some(file) => initialized(built, self.app.as_ref(), file),
            None => Ok(built),
        }
    }
}

impl real::OwnData for NodeData {
    fn summary(&self) -> Option<Summary> {
        let summaries = self.summaries();
        let description: Vec<String> = summaries.iter().map(in_words).collect();
        (!summaries.is_empty()).then(|| Summary {
            bytes: messagepack::encode(&summaries),
            description: description.join(", "),
        })
    }

    fn into_application(
        self: Box<Self>,
        summaries: &[Vec<u8>],
    ) -> Result<Arc<dyn Application>, String> {
        let mut all: Vec<DataSummary> = Vec::new();
        for (summaries, places) in summaries.iter().zip(&self.places) {
            let found: Vec<DataSummary> =
                messagepack::decode(summaries).map_err(|error| error.to_string())?;
            if found.len() != *places {
                return Err(format!("found {} summaries of data, expected {places}", found.len()));
            }
            all.extend(found);
        }
        self.application(&all).map_err(|error| error.to_string())
    }
}

/// A summary in a few words.
fn in_words(summary: &DataSummary) -> String {
    let DataSummary { train, test, digest, .. } = summary;
    format!("{train} examples and {test} held out, digest {digest:016x}")
}
