//! Which runs a comparison is made of.

use gaia_config::{ConfigError, Plan, RunFile};

/// One cell of a comparison.
#[derive(Clone, Debug)]
pub struct Variant {
    /// As `--wan` named it.
    pub wan: String,
    /// The remote model's name.
    pub remote: String,
    pub plan: Plan,
    /// Workers of each data center before a LAN joins them: what the data is split by.
    pub workers_per_dc: Vec<usize>,
}

/// Every plan of a comparison, WAN by WAN, all of them checked before the first one runs.
///
/// `lan` is the run file's own machines in one data center. Without any WAN it is the run file's own.
pub fn variants(
    file: &RunFile,
    remotes: &[String],
    wans: &[String],
) -> Result<Vec<Variant>, ConfigError> {
    let own = [file.plan()?.topology.name];
    let wans = if wans.is_empty() { &own } else { wans };
    let mut variants = Vec::new();
    for wan in wans {
        let there = match wan.as_str() {
            LAN => file.clone(),
            name if *name == own[0] => file.clone(),
            name => file.with_wan(name)?,
        };
        for remote in remotes {
            let plan = there.with_remote(remote)?.plan()?;
            let workers_per_dc = plan.topology.workers_per_dc();
            let plan = if wan == LAN { plan.on_lan() } else { plan };
            variants.push(Variant {
                wan: wan.clone(),
                remote: remote.clone(),
                plan,
                workers_per_dc,
            });
        }
    }

    Ok(variants)
}

/// What `--wan` calls the same machines in one data center.
pub const LAN: &str = "lan";
