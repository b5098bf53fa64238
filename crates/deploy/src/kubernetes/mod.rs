//! Kubernetes: a folder for each data center that `kubectl apply -k` takes, and a Dockerfile.
//!
//! Each process is a Job with one pod, a claim for its state and a Secret with the certificates of its own nodes. A headless
//! service for each data center gives every pod a name that outlives it. A Job, because a run ends: the pods of a
//! StatefulSet are started again after they have finished. A JobSet would make the same Jobs; these need no controller
//! beside the cluster's own.
//!
//! Where the topology names the address of a node, other clusters reach it there, and a service of type LoadBalancer takes
//! it. Other nodes are reached at the name of their pod, from within one namespace.

mod names;
mod objects;
mod site;

use std::path::{Component, Path, PathBuf};

use serde::Serialize;

use gaia_config::Plan;
use gaia_core::topology::{Address, Deployment};
use gaia_storage::is_url;

use crate::reach::{check_all_or_none, check_hosts};
use crate::template::fill;
use crate::{DeployError, DeployedFile, Process, Site, sites};
use names::Names;
use objects::Kustomization;
use site::{STATE_FOLDER, SiteManifests};

/// What the manifests say that the plan does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesOptions {
    /// The image of the nodes.
    pub image: String,
    /// The size of the claim for the state of each process, as Kubernetes writes quantities.
    pub storage: String,
    /// Whether pods have IPv6 addresses alone.
    pub ipv6: bool,
}

/// What the READMEs and the Dockerfile say.
#[derive(Serialize)]
struct View<'p> {
    run: &'p str,
    image: &'p str,
    /// The folder at which the claim for data is mounted, and the name of the claim.
    data: Option<&'p str>,
    claim: &'p str,
    /// The secret with credentials of object storage, where data is there.
    credentials: Option<&'p str>,
    /// The oldest compiler that builds the program.
    rust: &'static str,
    sites: Vec<SiteView<'p>>,
    /// Whether all data centers are in one cluster.
    together: bool,
}

/// What the README of one data center says.
#[derive(Serialize)]
struct OwnView<'p> {
    all: &'p View<'p>,
    site: &'p SiteView<'p>,
}

#[derive(Serialize)]
struct SiteView<'p> {
    name: &'p str,
    service: &'p str,
    processes: Vec<&'p str>,
    conducts: bool,
    /// The nodes that other clusters reach, with their services.
    exposed: Vec<(String, String)>,
}

/// The files of a deployment on Kubernetes clusters, one for each data center or one for all.
///
/// # Errors
/// As [`sites`], and where a name, a path or an address of the plan does not fit Kubernetes.
pub fn kubernetes(
    plan: &Plan,
    options: &KubernetesOptions,
) -> Result<Vec<DeployedFile>, DeployError> {
    let sites = sites(plan)?;
    check_hosts(&sites)?;
    check_all_or_none(&sites)?;
    let names = Names::new(plan, &sites)?;
    let (objects, files): (Vec<_>, Vec<_>) =
        data_paths(plan).into_iter().partition(|path| is_url(path));
    let data = data_folder(&files)?;
    let scratch = sites.iter().map(|site| scratch_folders(plan, site, data.as_deref()));
    let scratch: Vec<Vec<String>> = scratch.collect::<Result<_, _>>()?;
    let credentials = (!objects.is_empty()).then(|| names.credentials());
    let claim = names.data_claim();
    let exposes = |site: &Site| site.processes.iter().any(|process| process.named.is_some());
    let together = !sites.iter().any(exposes);
    let plan = &reachable(plan, &sites, &names);

    let view = View {
        run: &plan.name,
        image: &options.image,
        data: data.as_deref(),
        claim: &claim,
        credentials: credentials.as_deref(),
        rust: env!("CARGO_PKG_RUST_VERSION"),
        sites: sites.iter().map(|site| SiteView::new(site, &names)).collect(),
        together,
    };

    let mut files = vec![
        DeployedFile::new("", "README.md", fill(README, &view)),
        DeployedFile::new("", "Dockerfile", fill(DOCKERFILE, &view)),
        DeployedFile::new("", "Dockerfile.dockerignore", DOCKERIGNORE.into()),
    ];
    if together {
        let all = Kustomization::of_folders(sites.iter().map(|site| site.name.clone()).collect());
        files.push(DeployedFile::new("", "kustomization.yaml", objects::yaml(&[all])));
    }
    for ((site, own), scratch) in sites.iter().zip(&view.sites).zip(scratch) {
        let manifests = SiteManifests {
            site,
            names: &names,
            image: &options.image,
            storage: &options.storage,
            all_addresses: if options.ipv6 { "[::]" } else { "0.0.0.0" },
            data: data.as_deref(),
            reads_objects: credentials.is_some(),
            scratch,
            all_read: !plan.has_own_data(),
        };
        let folder = site.name.as_str();
        let own = OwnView { all: &view, site: own };
        files.push(DeployedFile::new(folder, "README.md", fill(SITE_README, &own)));
        files.push(DeployedFile::new(folder, "run.toml", plan.to_toml()));
        for (name, text) in manifests.files() {
            files.push(DeployedFile::new(folder, name, text));
        }
    }
    Ok(files)
}

/// The plan with an address for each node that listens: that of the topology, or else the name of its pod.
fn reachable(plan: &Plan, sites: &[Site], names: &Names) -> Plan {
    let address = |site: &Site, process: &Process| {
        let host = || format!("{}.{}", process.name, names.service(&site.name));
        let named = process.named.clone();
        named.unwrap_or_else(|| Address { host: host(), port: port(process) })
    };
    let mut coordinator = None;
    let mut servers = Vec::new();
    for site in sites {
        let (conductors, others): (Vec<_>, Vec<_>) =
            site.processes.iter().partition(|process| process.is_coordinator());
        coordinator = coordinator.or_else(|| Some(address(site, conductors.first()?)));
        let listening = others.into_iter().filter(|process| process.listens());
        servers.push(listening.map(|process| address(site, process)).collect());
    }
    let deployment = Deployment { coordinator, servers, ..plan.deployment.clone() };
    Plan { deployment, ..plan.clone() }
}

/// The port at which a process listens in its pod.
fn port(process: &Process) -> u16 {
    let default = if process.is_coordinator() { COORDINATOR_PORT } else { SERVER_PORT };
    process.named.as_ref().map_or(default, |address| address.port)
}

/// Every path that a node reads data, a validation set or an initial model from.
fn data_paths(plan: &Plan) -> Vec<PathBuf> {
    let homes: Vec<String> = plan.topology.data_homes().into_iter().map(|home| home.name).collect();
    let data = plan.app.iter().flat_map(|app| app.paths(&homes));
    data.chain(plan.evaluate.data.clone()).chain(plan.model.init.clone()).collect()
}

/// The folders of a data center that examples on disk need a volume for. The claim for the state can be written as it is.
fn scratch_folders(
    plan: &Plan,
    site: &Site,
    data: Option<&str>,
) -> Result<Vec<String>, DeployError> {
    let (topology, homes) = (&plan.topology, plan.topology.data_homes());
    let own = topology.dc_named(&site.name).map(|dc| topology.homes_of(dc)).unwrap_or_default();
    let names: Vec<String> = homes[own].iter().map(|home| home.name.clone()).collect();
    let folders = plan.app.iter().flat_map(|app| app.scratch_folders(&names));

    let needed = folders.filter(|folder| folder != Path::new(STATE_FOLDER));
    needed.map(|folder| scratch_folder(&folder, data)).collect()
}

/// A folder at which a volume hides nothing, and whose place can be made.
fn scratch_folder(folder: &Path, data: Option<&str>) -> Result<String, DeployError> {
    let overlaps = |other: &str| folder.starts_with(other) || Path::new(other).starts_with(folder);
    let mut components = folder.components();
    let is_rooted = components.next() == Some(Component::RootDir);
    let mut names = components.map(|component| match component {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    let first = names.next().flatten().filter(|first| *first == VAR || !TAKEN.contains(first));
    let is_plain = is_rooted && first.is_some() && names.all(|name| name.is_some());

    let text = folder.to_str().filter(|text| is_plain && !text.contains(':'));
    let text = text.filter(|_| !overlaps(STATE_FOLDER) && !data.is_some_and(overlaps));
    text.map(str::to_owned)
        .ok_or_else(|| DeployError::ScratchFolder { folder: folder.display().to_string() })
}

/// The folder at the root that holds all data; nothing where the run reads no file.
fn data_folder(paths: &[PathBuf]) -> Result<Option<String>, DeployError> {
    let mut found: Option<String> = None;
    for path in paths {
        let folder =
            top_folder(path).filter(|folder| found.as_ref().is_none_or(|own| own == folder));
        let wrong = || DeployError::DataPath { path: path.display().to_string() };
        found = Some(folder.ok_or_else(wrong)?);
    }
    Ok(found)
}

/// The first folder of an absolute path, unless the image or the manifests have files there.
fn top_folder(path: &Path) -> Option<String> {
    let mut components = path.components();
    let (Some(Component::RootDir), Some(Component::Normal(first)), Some(_)) =
        (components.next(), components.next(), components.next())
    else {
        return None;
    };
    let first = first.to_str().filter(|first| !TAKEN.contains(first))?;
    first
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        .then(|| format!("/{first}"))
}

impl<'p> SiteView<'p> {
    fn new(site: &'p Site, names: &'p Names) -> Self {
        let named = site.processes.iter().filter_map(|process| {
            let address = process.named.as_ref()?.to_string();
            Some((names.object(&site.name, &process.name), address))
        });
        Self {
            name: &site.name,
            service: names.service(&site.name),
            processes: site.processes.iter().map(|process| process.name.as_str()).collect(),
            conducts: site.processes.iter().any(Process::is_coordinator),
            exposed: named.collect(),
        }
    }
}

const COORDINATOR_PORT: u16 = 4432;
const SERVER_PORT: u16 = 4433;

/// Folders of the image, and those that manifests mount.
const TAKEN: [&str; 11] =
    ["bin", "dev", "etc", "lib", "lib64", "proc", "root", "sbin", "sys", "usr", VAR];

/// The folder of the image with that for large temporary files, `/var/tmp`.
const VAR: &str = "var";

const README: &str = include_str!("../../templates/kubernetes/README.md");
const SITE_README: &str = include_str!("../../templates/kubernetes/site.md");
const DOCKERFILE: &str = include_str!("../../templates/kubernetes/Dockerfile");
const DOCKERIGNORE: &str = include_str!("../../templates/kubernetes/Dockerfile.dockerignore");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_lies_below_one_folder() {
        let check = |paths: &[&str], expect: Result<Option<&str>, &str>| {
            let paths: Vec<_> = paths.iter().map(PathBuf::from).collect();
            let found = data_folder(&paths);
            let expect = expect
                .map(|folder| folder.map(str::to_owned))
                .map_err(|path| DeployError::DataPath { path: path.into() });
            assert_eq!(found, expect, "{paths:?}");
        };
        check(&[], Ok(None));
        check(&["/data/ratings.csv"], Ok(Some("/data")));
        check(&["/data/a/*.csv", "/data/b"], Ok(Some("/data")));
        check(&["/data"], Err("/data"));
        check(&["/data/a", "/other/b"], Err("/other/b"));
        check(&["/etc/passwd"], Err("/etc/passwd"));
        check(&["data/a"], Err("data/a"));
    }

    #[test]
    fn examples_on_disk_go_where_a_volume_hides_nothing() {
        for fits in ["/var/tmp", "/tmp", "/mnt/fast/disk", "/database"] {
            assert_eq!(scratch_folder(Path::new(fits), Some("/data")), Ok(fits.into()));
        }
        let of_the_image = ["/", "/usr", "/etc/gaia", "/dev/shm", "/var", "/var/lib"];
        let of_others = ["/data", "/data/scratch", "/var/lib/gaia/scratch"];
        for folder in of_the_image.into_iter().chain(of_others).chain(["tmp", "/tmp/../usr"]) {
            let wrong = DeployError::ScratchFolder { folder: folder.into() };
            assert_eq!(scratch_folder(Path::new(folder), Some("/data")), Err(wrong));
        }
    }
}
