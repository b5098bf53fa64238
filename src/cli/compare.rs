//! `gaia compare`: the same training with each remote model over each WAN.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::memory::check_memory;
use super::seeds::compare_seeds;
use super::slowdown::with_slowdown;
use super::training::{Shown, carry_out, live_mode, unreported, waiting_for_data};
use super::{CompareFlags, Done, Failure, OutputFlags, Terminal, signals};
use crate::applications::{Applications, build_with};
use crate::{ComparisonPlan, Variant, write_comparison};
use gaia_config::{Plan, RunFile};
use gaia_core::application::Application;
use gaia_core::topology::DataHome;
use gaia_driver::Outcome;
use gaia_report::{Comparison, LivePage, Paint, RunDirectory, Waiting, comparison_block};

/// Runs every remote model over every WAN, BSP on the LAN first: what that reaches is every other's target.
pub(super) fn compare(
    flags: &CompareFlags,
    applications: &dyn Applications,
    terminal: &Terminal,
) -> Result<Done, Failure> {
    let file = flags.run.read(applications)?;
    let (file, slowdown) = match flags.slowdown {
        None => (file, None),
        Some(asked) => {
            let read = |plan: &Plan| {
                let read = || build_with(applications, plan, 0..plan.topology.workers());
                let read = waiting_for_data(&flags.run.output, || {
                    read().map_err(|error| Failure::data(error, &file))
                });
                Ok(read?.0)
            };
            let (file, found) = with_slowdown(&file, &flags.wan, asked, read, terminal)?;
            (file, Some(found))
        }
    };
    if flags.seeds > 1 {
        return compare_seeds(flags, (&file, slowdown), applications, terminal);
    }
    let plan = ComparisonPlan::new(&file, &flags.remote, &flags.wan)?;
    let reference = &plan.reference.plan;
    let page = flags.live.serve(terminal)?;
    let mut bench = Bench {
        file: &file,
        applications,
        built: BTreeMap::new(),
        directory: RunDirectory::create(flags.run.output.out.as_deref(), &reference.name)?,
        output: &flags.run.output,
        page,
        interrupted: signals::interrupted().map_err(Failure::run)?,
    };

    // What has ended can be reported from then on.
    bench.directory.write("run.toml", reference.to_toml())?;
    let application = bench.application(&plan.reference)?;
    terminal.note(&application.describe());
    let variants = plan.variants.iter().chain([&plan.reference]);
    let plans: Vec<_> = variants.map(|variant| &variant.plan).collect();
    check_memory(&plans, application.as_ref(), terminal)?;
    let workers = reference.topology.workers();
    let comparison = plan.run(|variant| {
        let own = variant.plan.topology.workers();
        if own != workers {
            terminal.note(&format!(
                "{} has {own} workers and the LAN has {workers}: times over different machines are not compared",
                variant.wan
            ));
        }
        bench.run(variant)
    })?;
    let comparison = Comparison { slowdown, ..comparison };

    write_comparison(&bench.directory, reference, &comparison)
        .map_err(|error| unreported(&bench.directory, error))?;
    let block = comparison_block(&comparison, Some(&bench.directory.page()), Paint::for_stdout());
    terminal.line(block.trim_end());
    terminal.result(&comparison.file());

    if bench.interrupted.load(Ordering::Relaxed) {
        let (ran, planned) = (comparison.runs.len(), plan.variants.len() + 1);
        terminal.note(&format!(
            "interrupted: {ran} of {planned} runs are compared, and the last of them may have ended early"
        ));
        return Ok(Done::Interrupted);
    }
    Ok(Done::Whole)
}

/// Where the runs of a comparison are carried out, one after the other.
struct Bench<'a> {
    file: &'a RunFile,
    applications: &'a dyn Applications,
    /// Applications by where the data lies: runs that split it alike share one.
    built: BTreeMap<Vec<DataHome>, Arc<dyn Application>>,
    directory: RunDirectory,
    output: &'a OutputFlags,
    /// The page that is served.
    page: Option<LivePage>,
    interrupted: Arc<AtomicBool>,
}

impl Bench<'_> {
    fn application(&mut self, variant: &Variant) -> Result<Arc<dyn Application>, Failure> {
        let homes = variant.plan.data_homes();
        if let Some(application) = self.built.get(&homes) {
            return Ok(application.clone());
        }

        let application = {
            let _line = Waiting::new(live_mode(self.output), "reads the data");
            build_with(self.applications, &variant.plan, 0..variant.plan.topology.workers())
                .map_err(|error| Failure::data(error, self.file))?
        };
        self.built.insert(homes, application.clone());
        Ok(application)
    }

    fn run(&mut self, variant: &Variant) -> Result<Outcome, Failure> {
        let application = self.application(variant)?;
        let name = format!("{}-{}", variant.plan.topology.name, variant.remote);
        let directory = self.directory.create_child(&name)?;

        let (interrupted, program) = (self.interrupted.clone(), self.applications.program());
        let shown = Shown { page: self.page.as_ref(), ..Shown::alone(self.output) };
        carry_out(&variant.plan, &application, &directory, shown, interrupted, program)
    }
}
