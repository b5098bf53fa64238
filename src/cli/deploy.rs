//! `gaia deploy`: what a scheduler needs to start the nodes of a run.
//!
//! `gaia-deploy` says which files there are. This verb writes them, and lays the certificates of each data center's own
//! nodes beside them. The authority stays in a folder of its own.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use rustls::pki_types::UnixTime;
use serde::Serialize;

use super::certs::{lasting, nodes};
use super::{Failure, OutputFlags, RunFlags, Terminal};
use crate::applications::Applications;
use gaia_certificates::{Credentials, Directory, Identity, State};
use gaia_config::Plan;
use gaia_deploy::{CERTIFICATES, DeployedFile, KubernetesOptions, Site};
use gaia_model::new_file;

#[derive(Debug, Subcommand)]
pub(super) enum DeployVerb {
    /// Write a batch script for each data center, which runs its nodes as steps of one allocation
    #[command(mut_arg("out", directory_help), mut_arg("driver", |driver| driver.hide(true)))]
    Slurm(DeployFlags),
    /// Write manifests for each data center, which kubectl apply -k takes, and a Dockerfile
    #[command(mut_arg("out", directory_help), mut_arg("driver", |driver| driver.hide(true)))]
    Kubernetes(KubernetesFlags),
    /// Write scripts for each data center, which start and stop its nodes on plain hosts
    #[command(mut_arg("out", directory_help), mut_arg("driver", |driver| driver.hide(true)))]
    Local(DeployFlags),
}

#[derive(Debug, Args)]
pub(super) struct DeployFlags {
    #[command(flatten)]
    run: RunFlags,
    /// How long new certificates are valid: hours or days, such as 36h or 90d
    #[arg(long, value_name = "TIME", default_value = "90d", value_parser = lasting)]
    validity: Duration,
}

#[derive(Debug, Args)]
pub(super) struct KubernetesFlags {
    #[command(flatten)]
    deploy: DeployFlags,
    /// The image of the nodes, as the clusters find it
    #[arg(long, value_name = "IMAGE", default_value = concat!("gaia:", env!("CARGO_PKG_VERSION")), value_parser = image)]
    image: String,
    /// The size of the claim for the state of each process
    #[arg(long, value_name = "QUANTITY", default_value = "10Gi", value_parser = quantity)]
    storage: String,
    /// Listen on IPv6 addresses, for clusters whose pods have no others
    #[arg(long)]
    ipv6: bool,
}

/// The JSON output of the verb.
#[derive(Debug, Serialize)]
struct Answer {
    run: String,
    scheduler: &'static str,
    directory: PathBuf,
    data_centers: Vec<SiteAnswer>,
}

/// One data center.
#[derive(Debug, Serialize)]
struct SiteAnswer {
    name: String,
    directory: PathBuf,
    processes: Vec<String>,
}

impl DeployVerb {
    fn flags(&self) -> &DeployFlags {
        match self {
            Self::Slurm(flags) | Self::Local(flags) => flags,
            Self::Kubernetes(flags) => &flags.deploy,
        }
    }

    fn scheduler(&self) -> &'static str {
        match self {
            Self::Slurm(_) => "slurm",
            Self::Kubernetes(_) => "kubernetes",
            Self::Local(_) => "local",
        }
    }

    fn files(&self, plan: &Plan) -> Result<Vec<DeployedFile>, Failure> {
        Ok(match self {
            Self::Slurm(_) => gaia_deploy::slurm(plan)?,
            Self::Local(_) => gaia_deploy::local(plan)?,
            Self::Kubernetes(KubernetesFlags { image, storage, ipv6, .. }) => {
                let options = KubernetesOptions {
                    image: image.clone(),
                    storage: storage.clone(),
                    ipv6: *ipv6,
                };
                gaia_deploy::kubernetes(plan, &options)?
            }
        })
    }

    pub(super) fn output(&self) -> &OutputFlags {
        &self.flags().run.output
    }
}

/// Writes the files of a scheduler, and shows where they are.
pub(super) fn deploy(
    verb: &DeployVerb,
    applications: &dyn Applications,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let flags = verb.flags();
    let plan = flags.run.read_for_nodes(applications)?.plan()?;
    let folder = verb.output().out.clone().unwrap_or_else(|| DIRECTORY.into());
    let sites = gaia_deploy::sites(&plan)?;
    let files = verb.files(&plan)?;

    let certificates = certificates(&folder, &plan, flags.validity)?;
    for site in &sites {
        give_certificates(&certificates, site, &folder)?;
    }
    for file in &files {
        write(&folder.join(&file.path), file)?;
    }

    let answer = Answer {
        run: plan.name.clone(),
        scheduler: verb.scheduler(),
        data_centers: sites.iter().map(|site| SiteAnswer::new(site, &folder)).collect(),
        directory: folder,
    };
    answer.show(terminal);
    Ok(())
}

/// The certificates of the run in a deployment: new ones, or those of an earlier deployment and those that it lacks.
fn certificates(folder: &Path, plan: &Plan, validity: Duration) -> Result<Directory, Failure> {
    let path = folder.join(CERTIFICATES);
    let now = UnixTime::now();
    let expected = "a new folder, an empty one or that of an earlier deployment";
    let occupied = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(reason) => {
            return Err(Failure::usage(format!(
                "--out is `{}`, which cannot be opened: {reason}, expected {expected}",
                folder.display()
            )));
        }
    };
    if occupied && !path.is_dir() {
        return Err(Failure::usage(format!(
            "--out is `{}`, which holds other files, expected {expected}",
            folder.display()
        )));
    }

    let mut directory =
        if occupied { Directory::open(&path)? } else { Directory::create(&path, &plan.name, now)? };
    if directory.run() != plan.name {
        return Err(Failure::usage(format!(
            "--out is `{}`, which holds run `{}`, expected a folder of run `{}`",
            folder.display(),
            directory.run(),
            plan.name
        )));
    }

    let listed = directory.list(now)?;
    let present = listed.iter().filter(|entry| entry.state != State::Absent);
    let known: Vec<&Identity> = present.filter_map(|entry| entry.identity.as_ref()).collect();
    let mut new = nodes(&plan.name, &plan.topology);
    new.retain(|node| !known.contains(&node));
    directory.issue(&new, now, validity)?;

    Ok(directory)
}

/// Copies the certificates of a data center's nodes into its folder.
fn give_certificates(from: &Directory, site: &Site, folder: &Path) -> Result<(), Failure> {
    let own = folder.join(&site.name).join(CERTIFICATES).join("nodes");
    for node in site.processes.iter().flat_map(|process| &process.nodes) {
        Credentials::load(&from.folder(node))?.save(&own.join(node.folder()))?;
    }
    Ok(())
}

/// Writes a file in place of what has its name, and makes its folder.
fn write(path: &Path, file: &DeployedFile) -> Result<(), Failure> {
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or_else(|| Path::new(".")))?;
        let mut written = new_file(path)?;
        written.write_all(file.text.as_bytes())?;
        #[cfg(unix)]
        if file.executable {
            written.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        }
        Ok(())
    };
    write().map_err(|reason| Failure::NotWritten { path: path.into(), reason })
}

impl Answer {
    fn show(&self, terminal: &Terminal) {
        let folder = self.directory.display();
        terminal.line(&format!("{} for {}, in {folder}", self.run, self.scheduler));
        for site in &self.data_centers {
            terminal.line(&format!(
                "  {}  {}",
                site.directory.display(),
                site.processes.join(", ")
            ));
        }
        terminal.note(&format!(
            "{folder}/README.md says how to start it; do not copy {folder}/{CERTIFICATES}"
        ));
        terminal.result(self);
    }
}

impl SiteAnswer {
    fn new(site: &Site, folder: &Path) -> Self {
        Self {
            name: site.name.clone(),
            directory: folder.join(&site.name),
            processes: site.processes.iter().map(|process| process.name.clone()).collect(),
        }
    }
}

/// A reference of an image, which scripts and manifests quote as it is.
fn image(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if first && text.chars().all(fits) {
        return Ok(text.into());
    }
    Err("expected the name of an image, such as registry.example.org/gaia:1".into())
}

/// A quantity of bytes as Kubernetes writes it.
fn quantity(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let whole = digits.parse::<u64>().is_ok_and(|number| number > 0);
    if whole && ["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"].contains(&unit) {
        return Ok(text.into());
    }
    Err("expected a number of bytes with a unit, such as 500Mi or 10Gi".into())
}

fn directory_help(out: clap::Arg) -> clap::Arg {
    out.help(format!("The folder to write [default: {DIRECTORY}]"))
}

const DIRECTORY: &str = "deploy";

pub(super) const DEPLOY_HELP: &str = "\
Examples:
  gaia deploy slurm config/run/quickstart.toml --out deploy
  gaia deploy kubernetes config/run/quickstart.toml --out deploy --image registry.example.org/gaia:0.1.0
  gaia deploy local config/run/hosts.toml --out deploy && deploy/virginia/start && deploy/ireland/start

The folder has a folder for each data center of the topology: its run file, the certificates of its own nodes, and the \
scripts or manifests that start them, with a README. Copy each to its data center. certs/ has the authority and all \
certificates: keep it to yourself.

Nodes keep their state, so a job, a pod or a process that was killed continues the run when it starts again.

Where the topology names addresses (`coordinator_address`, `server_addresses`) nodes are reached there. Otherwise all \
of them run on one machine (local), in one namespace of one cluster (kubernetes), or on clusters whose hosts reach \
each other (slurm). An address such as localhost is refused where nodes are on several hosts.

Run again with the same --out, the verb writes the files again, issues certificates for nodes that have none, and copies \
those that gaia certs --out DIR/certs has changed. It deletes nothing.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_and_quantities_are_checked() {
        for good in ["gaia:0.1.0", "registry.example.org:5000/team/gaia@sha256:0f"] {
            assert_eq!(image(good).as_deref(), Ok(good));
        }
        for wrong in ["", "-x", "a b", "a\nb", "a\"b"] {
            assert!(image(wrong).is_err(), "{wrong}");
        }
        for good in ["1", "10Gi", "500M"] {
            assert_eq!(quantity(good).as_deref(), Ok(good));
        }
        for wrong in ["", "Gi", "0Gi", "-1Gi", "1.5Gi", "10GB", "1 Gi"] {
            assert!(quantity(wrong).is_err(), "{wrong}");
        }
    }
}
