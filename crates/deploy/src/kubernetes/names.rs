//! Names of objects: labels of DNS, which have no capitals and no underscores (RFC 1123).

use std::collections::BTreeMap;

use gaia_config::Plan;

use crate::{DeployError, Site};

/// The names of all objects of a run.
pub(super) struct Names {
    /// The run, as a label.
    run: String,
    /// The headless service of each data center, by the name of the data center.
    services: BTreeMap<String, String>,
}

impl Names {
    /// # Errors
    /// [`DeployError::SameName`] where two data centers have the same label, and [`DeployError::LongName`] where a label is
    /// too long.
    pub(super) fn new(plan: &Plan, sites: &[Site]) -> Result<Self, DeployError> {
        let run = format!("gaia-{}", label(&plan.name));
        let mut owners: BTreeMap<String, &str> = BTreeMap::new();
        let mut services = BTreeMap::new();

        for site in sites {
            let name = label(&site.name);
            let service = format!("{run}-{name}");
            if let Some(one) = owners.insert(name.clone(), &site.name) {
                return Err(DeployError::SameName {
                    one: one.into(),
                    other: site.name.clone(),
                    name,
                });
            }
            services.insert(site.name.clone(), service);
        }

        let names = Self { run, services };
        let objects = sites.iter().flat_map(|site| {
            site.processes.iter().map(|process| names.object(&site.name, &process.name))
        });
        match objects.max_by_key(String::len).filter(|longest| longest.len() > LABEL_CHARACTERS_MAX)
        {
            Some(name) => Err(DeployError::LongName { name, max: LABEL_CHARACTERS_MAX }),
            None => Ok(names),
        }
    }

    /// The run, as a label.
    pub(super) fn run(&self) -> &str {
        &self.run
    }

    /// The headless service of a data center.
    pub(super) fn service(&self, dc: &str) -> &str {
        &self.services[dc]
    }

    /// The Job of a process, its claim, and its service if it has one.
    pub(super) fn object(&self, dc: &str, process: &str) -> String {
        format!("{}-{process}", self.service(dc))
    }

    /// The Secret with the certificates of a process.
    pub(super) fn secret(&self, dc: &str, process: &str) -> String {
        format!("{}-certs", self.object(dc, process))
    }

    /// The ConfigMap with the run file of a data center.
    pub(super) fn run_file(&self, dc: &str) -> String {
        format!("{}-run", self.service(dc))
    }

    /// The secret with the credentials of object storage, which the operator makes.
    pub(super) fn credentials(&self) -> String {
        format!("{}-credentials", self.run)
    }

    /// The claim for data, which the operator makes.
    pub(super) fn data_claim(&self) -> String {
        format!("{}-data", self.run)
    }
}

/// A name of letters, digits, `-` and `_` as the end of a label.
fn label(name: &str) -> String {
    let label = name.to_ascii_lowercase().replace('_', "-");
    match label.trim_end_matches('-') {
        "" => "x".into(),
        label => label.into(),
    }
}

/// Names of Jobs are labels of their pods, so they are no longer than one.
const LABEL_CHARACTERS_MAX: usize = 63;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_labels() {
        let check = |name: &str, expect: &str| assert_eq!(label(name), expect);
        check("tokyo", "tokyo");
        check("US_East-1", "us-east-1");
        check("a-_", "a");
        check("__", "x");
    }
}
