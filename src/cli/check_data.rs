//! What `gaia check` finds of the data of a run: what each data center would read.

use std::sync::Arc;

use serde::Serialize;

use super::Failure;
use super::node_data::NodeData;
use crate::applications::{Applications, build_with};
use gaia_config::{Plan, RunFile};
use gaia_core::application::Application;
use gaia_core::types::{ByteSize, DcId};
use gaia_data::{DataError, PlaceOfData};

/// What was found of the data.
pub(super) struct CheckedData {
    /// Unknown where this machine has not the data of all data centers.
    pub(super) application: Option<Arc<dyn Application>>,
    /// Of each data center that was looked at.
    pub(super) places: Vec<PlaceFindings>,
    /// Why data could not be read, if that is no reason to show nothing else.
    pub(super) unread: Option<Failure>,
}

/// What one data center would read.
#[derive(Debug, Serialize)]
pub(super) struct PlaceFindings {
    data_center: String,
    files: Vec<String>,
    bytes: u64,
    train: u64,
    held_out: u64,
    /// Hexadecimal, as JSON has no such whole numbers.
    digest: String,
    /// Why it could not be read; nothing where it could.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

/// Reads the data of all data centers one after the other, or of the one that is `own`. If `is_shown`, data that cannot be
/// read is a finding, and the others are read.
pub(super) fn check_data(
    plan: &Plan,
    own: Option<DcId>,
    is_shown: bool,
    file: &RunFile,
    applications: &dyn Applications,
) -> Result<CheckedData, Failure> {
    let failed = |error| Failure::data(error, file);
    if plan.external().is_some() {
        // Its model is enough: what its workers train on is their own.
        let application = Some(build_with(applications, plan, 0..0).map_err(failed)?);
        return Ok(CheckedData { application, places: Vec::new(), unread: None });
    }
    if !plan.has_own_data() {
        let data = NodeData::read_all(plan).map_err(failed)?;
        let places = data.places().iter().map(PlaceFindings::new).collect();
        let summaries = data.summaries();
        let application = Some(data.application(&summaries).map_err(failed)?);
        return Ok(CheckedData { application, places, unread: None });
    }

    let (mut places, mut summaries, mut unread) = (Vec::new(), Vec::new(), None);
    let all = plan.topology.dc_ids().filter(|dc| own.is_none_or(|own| own == *dc));
    for dc in all {
        match NodeData::read(plan, Some(dc)) {
            Ok(data) => {
                places.extend(data.places().iter().map(PlaceFindings::new));
                summaries.extend(data.summaries());
            }
            Err(error @ DataError::Config(_)) => return Err(failed(error)),
            Err(error) if is_shown => {
                places.push(PlaceFindings::unread(&plan.topology.dc(dc).name, &error));
                unread.get_or_insert_with(|| failed(error));
            }
            Err(error) => return Err(failed(error)),
        }
    }

    let is_whole = own.is_none() && unread.is_none();
    let application = is_whole.then(|| NodeData::read(plan, None)?.application(&summaries));
    let application = application.transpose().map_err(failed)?;
    Ok(CheckedData { application, places, unread })
}

impl PlaceFindings {
    fn new(place: &PlaceOfData) -> Self {
        Self {
            data_center: place.name.clone(),
            files: place.files.iter().map(|file| file.display().to_string()).collect(),
            bytes: place.bytes,
            train: place.train,
            held_out: place.test,
            digest: format!("{:016x}", place.digest),
            fault: None,
        }
    }

    fn unread(data_center: &str, error: &DataError) -> Self {
        Self {
            data_center: data_center.into(),
            files: Vec::new(),
            bytes: 0,
            train: 0,
            held_out: 0,
            digest: String::new(),
            fault: Some(error.to_string()),
        }
    }

    pub(super) fn line(&self) -> String {
        let Self { data_center, files, bytes, train, held_out, digest, fault } = self;
        if let Some(fault) = fault {
            return format!("  data of {data_center}: {fault}");
        }
        let from = match files.len() {
            0 => "generated".into(),
            1 => format!("1 file of {}", ByteSize(*bytes)),
            count => format!("{count} files of {}", ByteSize(*bytes)),
        };
        format!(
            "  data of {data_center}: {from}, {train} examples and {held_out} held out, digest {digest}"
        )
    }
}
