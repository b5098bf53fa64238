//! The certificates of all nodes of all runs.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use rustls::pki_types::UnixTime;
use tempfile::TempDir;

use gaia_certificates::{Directory, Identity};
use gaia_config::Plan;
use gaia_core::types::DcId;

/// The certificates of all nodes of all runs, issued once and shared by the runs of a process.
pub(super) fn certificates(plan: &Plan) -> Arc<TempDir> {
    static MADE: Mutex<Weak<TempDir>> = Mutex::new(Weak::new());
    let mut made = MADE.lock().unwrap();
    if let Some(folder) = made.upgrade() {
        return folder;
    }
    let folder = tempfile::tempdir().unwrap();
    let (run, now) = (plan.name.as_str(), UnixTime::now());
    let mut nodes = vec![Identity::coordinator(run, &DcId(0).to_string())];

    for dc in (0..DATA_CENTERS_MAX).map(|dc| DcId(dc).to_string()) {
        for index in 0..NODES_MAX {
            nodes.push(Identity::server(run, &dc, index));
            nodes.push(Identity::worker(run, &dc, index));
        }
    }

    let mut directory = Directory::create(&folder.path().join(CERTIFICATES), run, now).unwrap();
    directory.issue(&nodes, now, Duration::from_secs(86_400)).unwrap();
    let folder = Arc::new(folder);
    *made = Arc::downgrade(&folder);
    folder
}

/// Their directory within the folder.
pub(super) const CERTIFICATES: &str = "all";

/// The largest number of data centers that scenarios draw.
const DATA_CENTERS_MAX: u16 = 4;
const NODES_MAX: u16 = 2;
