//! Slurm: a batch script for each data center, with a step for each process in one allocation.
//!
//! A step that is killed is started again inside the allocation; a job that is requeued starts all of its steps again.
//! Either way nodes continue from their state. Hosts are not known before a job starts, so servers report to the
//! coordinator where they listen. Where the topology does not place the coordinator, its job writes its address beside the
//! folders of the data centers, and the other jobs wait for it.

use serde::Serialize;

use gaia_config::Plan;

use crate::local::{COORDINATOR_PORT, KEEP, RunView, SiteView};
use crate::reach::check_hosts;
use crate::template::fill;
use crate::{DeployError, DeployedFile, sites};

/// What the scripts of a data center say.
#[derive(Serialize)]
struct JobView<'p> {
    #[serde(flatten)]
    site: SiteView<'p>,
    /// Where the topology says that the coordinator listens.
    coordinator: Option<String>,
    /// Where it listens otherwise.
    coordinator_port: u16,
}

/// The files of a deployment on Slurm clusters, one for each data center or one for all.
///
/// # Errors
/// As [`sites`], and where an address in the topology is one at which each host reaches itself.
pub fn slurm(plan: &Plan) -> Result<Vec<DeployedFile>, DeployError> {
    let sites = sites(plan)?;
    check_hosts(&sites)?;
    let run = RunView::new(plan, &sites);

    let mut files = vec![DeployedFile::new("", "README.md", fill(README, &run))];
    for site in &sites {
        let view = JobView {
            site: SiteView::new(plan, site),
            coordinator: plan.deployment.coordinator.as_ref().map(ToString::to_string),
            coordinator_port: COORDINATOR_PORT,
        };
        let folder = site.name.as_str();
        files.extend([
            DeployedFile::new(folder, "README.md", fill(SITE_README, &view)),
            DeployedFile::new(folder, "run.toml", plan.to_toml()),
            DeployedFile::new(folder, "job.sbatch", fill(JOB, &view)),
            DeployedFile::program(folder, "keep", KEEP.into()),
            DeployedFile::program(folder, "node", fill(NODE, &view)),
        ]);
    }
    Ok(files)
}

const JOB: &str = include_str!("../templates/slurm/job.sbatch");
const NODE: &str = include_str!("../templates/slurm/node");
const README: &str = include_str!("../templates/slurm/README.md");
const SITE_README: &str = include_str!("../templates/slurm/site.md");
