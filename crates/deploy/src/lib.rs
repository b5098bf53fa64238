//! What a scheduler needs to start the nodes of a run: `gaia deploy`.
//!
//! From a [`Plan`](gaia_config::Plan) this crate computes the text of files: scripts for Slurm and for plain hosts, manifests
//! for Kubernetes, and a README beside each. A data center becomes a folder that is copied to its hosts. It writes
//! nothing, makes no certificates, and does not know whether the nodes ever start: the caller writes the files, and lays
//! the certificates of a data center's own nodes into its folder.
//!
//! `sites` decides which processes a data center has and where they listen, and `reach` whether others reach them there.
//! `local`, `slurm` and `kubernetes/` each turn that into the files of one scheduler. Scripts and prose are templates in
//! `templates/`; manifests are typed values, so that no name or address can break their syntax.

#![warn(missing_docs)]

mod kubernetes;
mod local;
mod reach;
mod sites;
mod slurm;
mod template;

use std::path::PathBuf;

pub use kubernetes::{KubernetesOptions, kubernetes};
pub use local::local;
pub use sites::{Process, Site, sites};
pub use slurm::slurm;

/// A file of a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeployedFile {
    /// Where it lies, from the folder of the deployment.
    pub path: PathBuf,
    /// Its contents.
    pub text: String,
    /// Whether it is a program.
    pub executable: bool,
}

/// Why a plan cannot be deployed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeployError {
    /// The name of a data center is that of another entry of the folder.
    #[error(
        "a data center is `{name}`, expected another name: the folder holds `{name}/` beside those of data centers"
    )]
    ReservedName {
        /// The name.
        name: String,
    },
    /// Two data centers have names that differ only in what Kubernetes does not distinguish.
    #[error(
        "data centers `{one}` and `{other}` are both `{name}` in Kubernetes, expected names that differ in more than case and `_`"
    )]
    SameName {
        /// The data center that has the name first.
        one: String,
        /// The data center that has it too.
        other: String,
        /// The name of both.
        name: String,
    },
    /// The name of an object is longer than Kubernetes allows.
    #[error("`{name}` has {found} characters, expected at most {max}: shorten the name of the run or of the data center", found = name.len())]
    LongName {
        /// The name of the object.
        name: String,
        /// The most characters that it may have.
        max: usize,
    },
    /// At an address of the topology each host reaches itself.
    #[error(
        "`{key}` has `{address}`, at which each host reaches itself, expected an address at which all other hosts reach this \
         one, or a topology without addresses"
    )]
    OwnHost {
        /// The key of the topology.
        key: String,
        /// The address.
        address: String,
    },
    /// The topology names the addresses of some nodes, and the others cannot be reached.
    #[error(
        "`{key}` has `{address}` and `{missing}` is missing, expected the addresses of the coordinator and of all servers, or \
         a topology without addresses"
    )]
    HalfNamed {
        /// The key of an address that is there.
        key: String,
        /// The address.
        address: String,
        /// The key of an address that is not there.
        missing: String,
    },
    /// Data lies where the claim for data cannot be mounted.
    #[error(
        "the data is at `{path}`, expected a path below one folder for all data, such as /data/ratings.csv"
    )]
    DataPath {
        /// The path that does not fit.
        path: String,
    },
    /// Examples on disk lie where no volume can be mounted.
    #[error(
        "`app.data.scratch` is `{folder}`, expected a folder beside those of the image, of the data and of the state, such as \
         /var/tmp, or /var/lib/gaia for the claim of each process"
    )]
    ScratchFolder {
        /// The folder that does not fit.
        folder: String,
    },
}

impl DeployedFile {
    fn new(folder: &str, name: &str, text: String) -> Self {
        Self { path: PathBuf::from(folder).join(name), text, executable: false }
    }

    fn program(folder: &str, name: &str, text: String) -> Self {
        Self { executable: true, ..Self::new(folder, name, text) }
    }
}

/// The folder of the authority and of all certificates, which stays with the operator.
pub const CERTIFICATES: &str = "certs";
