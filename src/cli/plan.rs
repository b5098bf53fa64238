//! `gaia plan`: which remote model a run should have, and what it will cost, before it starts.

use super::memory::check_memory;
use super::out::Claim;
use super::reading::{waiting_for_data, with_all_data};
use super::simulations::simulator;
use super::training::live_mode;
use super::{Done, Failure, PlanFlags, Resume, Terminal, signals};
use crate::applications::Applications;
use gaia_planner::{ClockWork, PlannerError, Request, Scaling, Step};
use gaia_report::plan::{FILE, plan_block, scaling_block};
use gaia_report::{Paint, RunDirectory, Waiting, figures, to_json};

/// Simulates the candidates for a run and shows what each is predicted to cost, or how the run scales.
pub(super) fn plan(
    flags: &PlanFlags,
    applications: &dyn Applications,
    terminal: &Terminal,
) -> Result<Done, Failure> {
    let file = flags.run.read(applications)?;
    let own = file.plan()?;
    if flags.target.is_some_and(|target| !target.is_finite()) {
        return Err(Failure::usage("--target: expected a finite number"));
    }

    let out = flags.run.output.out.as_deref().filter(|_| !flags.scaling);
    let _claim = Claim::of(out, &Resume::Never)?;
    let read = || with_all_data(&own, &file, applications);
    let application = waiting_for_data(&flags.run.output, read)?;
    terminal.note(&application.describe());

    if flags.scaling {
        let work = ClockWork::measure(&own, application.as_ref());
        let work = work.map_err(|error| Failure::planning(PlannerError::Iteration(error)))?;
        let model_bytes = 4 * application.layout().parameters() as u64;
        let servers = own.topology.data_centers[0].servers;
        let table = Scaling::of(&own, &work).table(model_bytes, servers);
        terminal.line(scaling_block(&table, Paint::for_stdout()).trim_end());
        terminal.result(&table);
        return Ok(Done::Whole);
    }

    check_memory(&[&own], application.as_ref(), &flags.run, terminal)?;
    let interrupted = Some(signals::interrupted().map_err(Failure::run)?);
    let simulator = simulator(&own, application.as_ref(), applications, interrupted);
    let request =
        Request { budget: flags.budget, target: flags.target, simulator: simulator.as_ref() };
    let found = {
        let _line = Waiting::new(live_mode(&flags.run.output), "simulates");
        gaia_planner::plan(&file, &application, &request, |step| terminal.note(&told(step)))
    };
    let found = match found {
        Err(PlannerError::Interrupted) => {
            terminal.note("interrupted: there is no plan, since not all candidates were simulated");
            return Ok(Done::Interrupted);
        }
        found => found.map_err(Failure::planning)?,
    };

    // A plan that cannot be written is shown all the same.
    terminal.line(plan_block(&found, Paint::for_stdout()).trim_end());
    terminal.result(&found);
    if let Some(out) = out {
        RunDirectory::create(Some(out), &own.name)?.write(FILE, to_json(&found))?;
    }
    Ok(Done::Whole)
}

/// What is said of a candidate that is done.
fn told(step: &Step<'_>) -> String {
    let Step { candidate, summary, done, all } = step;
    let ended = summary.map_or_else(
        || "no simulation to its end".into(),
        |summary| {
            let time = figures::seconds(summary.time_s);
            format!("{} clocks in {time} of virtual time", summary.clocks)
        },
    );
    format!("{done:>4} of {all}  {candidate:<24} {ended}")
}

pub(super) fn out_help(out: clap::Arg) -> clap::Arg {
    out.help("The directory to write plan.json into [default: nothing is written]")
}

pub(super) const PLAN_HELP: &str = "\
Examples:
  gaia plan config/run/quickstart.toml
  gaia plan config/run/movielens.toml --set app.data.path=ratings.csv --target 0.62 --budget 400
  gaia plan config/run/mnist.toml --set app.data.source=synthetic
  gaia plan config/run/quickstart.toml --scaling

Each candidate, a remote model with a few settings, trains the run's own model on the run's own data over the run's \
own links, in virtual time, for at most --budget clocks. The table says when each would be at the target, what it \
sends, what that costs at the prices of the topology and of cost.usd_per_machine_hour, and how much memory the largest \
process needs for parameters. Where a candidate is not at the target within the budget, its figures are extrapolated \
and marked so, or left out. Below the table is the candidate to choose, why, and its [sync.remote] for the run file.

The time of an iteration is that of [compute]: set examples_per_second to what one worker does, or the prediction is \
that of another machine. The output is the same to the byte with any number of processors.

--set app.data.source=synthetic takes data of the same kind where the files are not at hand.";
