//! `gaia compare`: the same training with each remote model over each WAN.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::ended::{directory_in, directory_of_runs, ended};
use super::memory::check_memory;
use super::out::Claim;
use super::reading::{ByHomes, waiting_for_data, with_all_data};
use super::seeds::compare_seeds;
use super::slowdown::with_slowdown;
use super::training::{Shown, carry_out, check_sound, name_among, show_comparison, unreported};
use super::{CompareFlags, Done, Failure, OutputFlags, Resume, Terminal, signals};
use crate::applications::Applications;
use crate::{ComparisonPlan, Variant, write_comparison};
use gaia_config::Plan;
use gaia_driver::Outcome;
use gaia_report::{Comparison, LivePage, RunDirectory};

/// Runs every remote model over every WAN, BSP on the LAN first: what that reaches is every other's target.
///
/// # Errors
/// Where a run fails, after which no other begins; and where one has diverged, once all are reported.
pub(super) fn compare(
    flags: &CompareFlags,
    applications: &dyn Applications,
    terminal: &Terminal,
) -> Result<Done, Failure> {
    check_each_once("--remote", &flags.remote)?;
    check_each_once("--wan", &flags.wan)?;
    let file = flags.run.read(applications)?;
    // What is wrong with the run file or a flag is said before anything is simulated.
    check_topologies(&ComparisonPlan::new(&file, &flags.remote, &flags.wan)?)?;
    let out = flags.run.output.out.as_deref();
    let _claim = Claim::of(out, &flags.ended.resume)?;
    let page = flags.live.serve(terminal)?;
    let (file, slowdown) = match flags.slowdown {
        None => (file, None),
        Some(asked) => {
            let read = |plan: &Plan| {
                let application = waiting_for_data(&flags.run.output, || {
                    with_all_data(plan, &file, applications)
                })?;
                check_memory(&[plan], application.as_ref(), &flags.run, terminal)?;
                Ok(application)
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
    let plans: Vec<&Plan> = plan.plans().collect();
    let built = waiting_for_data(&flags.run.output, || {
        let mut built = ByHomes::default();
        for plan in &plans {
            built.build(plan, &file, applications)?;
        }
        Ok(built)
    })?;
    let application = built.of(reference);
    check_memory(&plans, application.as_ref(), &flags.run, terminal)?;
    let (directory, _lock) = directory_of_runs((&flags.ended.resume, out), reference)?;
    let bench = Bench {
        applications,
        built: &built,
        directory,
        resume: &flags.ended.resume,
        terminal,
        output: &flags.run.output,
        page,
        interrupted: signals::interrupted().map_err(Failure::run)?,
    };

    // What has ended can be reported from then on.
    bench.directory.write("run.toml", reference.to_toml())?;
    terminal.note(&application.describe());
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
    show_comparison(&comparison, &bench.directory, terminal);

    let is_interrupted = bench.interrupted.load(Ordering::Relaxed);
    if is_interrupted {
        let (ran, planned) = (comparison.runs.len(), plan.variants.len() + 1);
        terminal.note(&format!(
            "interrupted: {ran} of {planned} runs are compared, and the last of them may have ended early; the same command with \
             --resume auto --out {} goes on",
            bench.directory.path().display()
        ));
    }
    check_sound(comparison.runs.iter().map(|run| &run.row.summary), name_among)?;
    Ok(if is_interrupted { Done::Interrupted } else { Done::Whole })
}

/// Refuses a value that a flag names again: its runs would have one directory.
fn check_each_once(flag: &str, values: &[String]) -> Result<(), Failure> {
    let is_again = |at: &usize| values[..*at].contains(&values[*at]);
    match (0..values.len()).find(is_again) {
        None => Ok(()),
        Some(at) => Err(Failure::usage(format!(
            "{flag} names `{}` more than once, expected each value once",
            values[at]
        ))),
    }
}

/// Refuses two names of WANs whose topologies have the same name, which their directories have too.
fn check_topologies(plan: &ComparisonPlan) -> Result<(), Failure> {
    let mut checked = vec![&plan.reference];
    for variant in &plan.variants {
        if let Some(other) = checked.iter().find(|other| other.name() == variant.name()) {
            return Err(Failure::usage(format!(
                "--wan names `{}`, whose topology has the name `{}` as that of `{}` has, expected topologies of different names",
                variant.wan, variant.plan.topology.name, other.wan
            )));
        }
        checked.push(variant);
    }
    Ok(())
}

/// Where the runs of a comparison are carried out, one after the other.
struct Bench<'a> {
    applications: &'a dyn Applications,
    built: &'a ByHomes,
    directory: RunDirectory,
    output: &'a OutputFlags,
    resume: &'a Resume,
    terminal: &'a Terminal,
    /// The page that is served.
    page: Option<LivePage>,
    interrupted: Arc<AtomicBool>,
}

impl Bench<'_> {
    fn run(&self, variant: &Variant) -> Result<Outcome, Failure> {
        let application = self.built.of(&variant.plan);
        let directory = directory_in(&self.directory, &variant.name(), &variant.plan, self.resume)?;
        if let Some(outcome) = ended(&directory, &variant.plan, application.as_ref())? {
            self.terminal.note(&format!("{} has ended before", directory.path().display()));
            return Ok(outcome);
        }

        let (interrupted, program) = (self.interrupted.clone(), self.applications.program());
        let shown = Shown { page: self.page.as_ref(), ..Shown::alone(self.output) };
        carry_out(&variant.plan, application, &directory, shown, interrupted, program)
    }
}

pub(super) const COMPARE_HELP: &str = "\
Examples:
  gaia compare config/run/movielens.toml --set app.data.path=ratings.csv --wan lan,gaia-2016-ec2-all
  gaia compare config/run/a9a.toml --remote bsp,tap,asp --wan gaia-2016-vc,my-wan.toml
  gaia compare config/run/quickstart.toml --driver simulated --seeds 5
  gaia compare config/run/quickstart.toml --driver simulated --slowdown 4.5

[sync.remote] of the run file applies to the model that it names. The other models run with their \
defaults (SSP with a staleness of 1). An inline bandwidth_scale of the run file applies to every WAN.

--slowdown TIMES fits the bandwidth scale for one WAN instead, by short simulations of BSP there and on its LAN. A small model \
over slow links waits as long as a large one over fast links. The scale that is found is said, and recorded in compare.json.

--seeds N repeats the comparison with N seeds: that of the run, the next, and so on. Figures are medians with their lowest and \
highest value, and a difference that does not have the same sign with every seed is called noise. Simulated runs go on in \
parallel, those of the other drivers one at a time. Ctrl-C keeps the runs that have ended.

A run that diverges is part of the report. Once that is written, the command names the run and ends with exit code 1.

--resume auto --out DIR goes on with a comparison that was interrupted or killed: runs that have ended in DIR are taken, the \
others are run. It also adds seeds, models and WANs to a comparison in DIR.";
