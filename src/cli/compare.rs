//! `gaia compare`: the same training with each remote model over each WAN.

use std::sync::Arc;

use super::training::carry_out;
use super::{CompareFlags, Failure, OutputFlags, Terminal};
use gaia::{LAN, Variant, variants};
use gaia_config::{ConfigError, RunFile};
use gaia_core::application::Application;
use gaia_core::coordinator::{StopRules, target_of};
use gaia_driver::Outcome;
use gaia_report::{Comparison, Paint, RunDirectory, comparison_block, write_comparison};
use gaia_telemetry::{Progress, Summary};

/// Runs every remote model over every WAN, BSP on the LAN first: what that reaches is every other's target.
pub(super) fn compare(flags: &CompareFlags, terminal: &Terminal) -> Result<(), Failure> {
    let file = flags.run.read()?;
    let reference = reference(&file)?;
    let mut variants = variants(&file, &flags.remote, &flags.wan)?;
    variants.retain(|variant| !(variant.wan == LAN && variant.remote == BSP));
    let mut bench = Bench {
        file: &file,
        applications: Vec::new(),
        directory: RunDirectory::create(flags.run.output.out.as_deref(), &reference.plan.name)?,
        output: &flags.run.output,
        runs: Vec::new(),
    };

    let workers: usize = reference.workers_per_dc.iter().sum();
    terminal.note(&bench.application(&reference)?.describe());
    let reached = bench.run(&reference)?;
    for mut variant in variants {
        let own: usize = variant.workers_per_dc.iter().sum();
        if own != workers {
            terminal.note(&format!(
                "{} has {own} workers and the LAN {workers}: times LAN compares different machines",
                variant.wan
            ));
        }
        variant.plan.stop = towards(reached, &variant.plan.stop);
        bench.run(&variant)?;
    }

    let comparison = Comparison::new(bench.runs);
    write_comparison(&bench.directory, &reference.plan.to_toml(), &comparison)?;
    let block = comparison_block(&comparison, Some(&bench.directory.page()), Paint::for_stdout());
    terminal.line(block.trim_end());
    terminal.result(&comparison.file());

    Ok(())
}

/// BSP with the run file's machines in one data center.
fn reference(file: &RunFile) -> Result<Variant, ConfigError> {
    let mut variants = variants(file, &[BSP.to_owned()], &[LAN.to_owned()])?;
    Ok(variants.remove(0))
}

/// Stops a run where BSP on the LAN stopped, or when it has had several times the clocks for it.
fn towards(reached: Reached, own: &StopRules) -> StopRules {
    let patience = reached.clocks.saturating_mul(PATIENCE);
    StopRules {
        objective: Some(target_of(reached.objective)),
        clocks: Some(own.clocks.map_or(patience, |clocks| clocks.max(patience))),
        seconds: own.seconds,
        change: None,
    }
}

/// What BSP on the LAN had when it stopped.
#[derive(Clone, Copy, Debug)]
struct Reached {
    objective: f64,
    clocks: u64,
}

/// Where the runs of a comparison are carried out, one after the other.
struct Bench<'a> {
    file: &'a RunFile,
    /// By the split of the data, since the same data serves every run with the same split.
    applications: Vec<(Vec<usize>, Arc<dyn Application>)>,
    directory: RunDirectory,
    output: &'a OutputFlags,
    runs: Vec<(Summary, Vec<Progress>)>,
}

impl Bench<'_> {
    fn application(&mut self, variant: &Variant) -> Result<Arc<dyn Application>, Failure> {
        let split = &variant.workers_per_dc;
        if let Some((_, application)) = self.applications.iter().find(|(known, _)| known == split) {
            return Ok(application.clone());
        }
        let application = gaia_data::build(variant.plan.app.as_ref(), split, variant.plan.seed)
            .map_err(|error| Failure::data(error, self.file))?;
        self.applications.push((split.clone(), application.clone()));
        Ok(application)
    }

    fn run(&mut self, variant: &Variant) -> Result<Reached, Failure> {
        let application = self.application(variant)?;
        let name = format!("{}-{}", variant.plan.topology.name, variant.remote);
        let directory = self.directory.create_child(&name)?;
        let Outcome { summary, progress, .. } =
            carry_out(&variant.plan, &application, &directory, self.output)?;
        let reached = Reached {
            objective: progress.last().map_or(summary.objective, |last| last.objective),
            clocks: summary.clocks,
        };
        self.runs.push((summary, progress));
        Ok(reached)
    }
}

const BSP: &str = "bsp";

/// A run that has not met the target after this many times the LAN's clocks does not meet it.
const PATIENCE: u64 = 5;
