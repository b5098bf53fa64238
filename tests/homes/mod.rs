//! Data centers as the places of training data.

use gaia_core::topology::DataHome;

/// Data centers `dc-0`, `dc-1` and on, with these numbers of workers.
pub(crate) fn homes(workers_per_dc: &[usize]) -> Vec<DataHome> {
    let home = |(at, &workers)| DataHome { name: format!("dc-{at}"), workers };
    workers_per_dc.iter().enumerate().map(home).collect()
}
