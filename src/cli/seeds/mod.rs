//! The same training with several seeds: `--seeds N` of `gaia train` and `gaia compare`.
//!
//! Each seed has a directory of its own, which is that of the same command with this seed alone. This room decides
//! how many runs go on at once, and what is kept of those that ended when the others did not.

mod at_once;
mod compare;
mod room;
mod train;

pub(super) use compare::compare_seeds;
pub(super) use train::train_seeds;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use self::room::{Bounds, Room, why_one_at_a_time};
use super::memory::held;
use super::reading::waiting_for_data;
use super::training::{Shown, check_sound, live_mode, name_among, unreported};
use super::{Done, Failure, OutputFlags, RunFlags, Terminal};
use gaia_config::{Override, Plan, RunFile};
use gaia_core::application::Application;
use gaia_core::coordinator::StopReason;
use gaia_driver::processors;
use gaia_report::{
    Comparison, LiveMode, Paint, RunDirectory, RunsView, SeededComparison, figures, seeds_block,
    write_seeds,
};
use gaia_telemetry::Summary;

/// The run file with each of so many seeds, from its own on.
fn files_of_seeds(
    file: &RunFile,
    run: &RunFlags,
    seeds: u64,
) -> Result<Vec<(u64, RunFile)>, Failure> {
    let first = file.plan()?.seed.0;
    let last = first.checked_add(seeds - 1).filter(|last| *last <= i64::MAX as u64);
    let Some(last) = last else {
        let flag = if run.seed.is_some() { "--seed" } else { "seed" };
        return Err(Failure::usage(format!(
            "--seeds {seeds}: {flag} is {first}, expected at most {} for so many seeds",
            i64::MAX as u64 - (seeds - 1)
        )));
    };
    let with_seed = |seed: u64| -> Result<(u64, RunFile), Failure> {
        let setting = Override::flag("--seeds", "seed", &seed.to_string());
        Ok((seed, file.with_setting(&setting)?))
    };
    (first..=last).map(with_seed).collect()
}

/// Reads the data of the first seed, and by how many bytes that has reduced the memory that is free.
fn measured<T>(
    output: &OutputFlags,
    read: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, u64), Failure> {
    let before = gaia_data::free_memory();
    let read = waiting_for_data(output, read)?;
    let taken = before.zip(gaia_data::free_memory());
    Ok((read, taken.map_or(0, |(before, after)| before.saturating_sub(after))))
}

/// How many runs go on at once, which is said. The plans are those of one seed; `counts` are the seeds, and the runs
/// of each that need not follow one another; `read` is the application of the first seed and the memory that its data
/// takes.
fn room_of(
    plans: &[&Plan],
    (seeds, inside): (usize, usize),
    (application, data): (&dyn Application, u64),
    terminal: &Terminal,
) -> Room {
    let first = plans.first().map_or(0, |plan| plan.seed.0);
    let said = format!("{seeds} seeds, {first} to {}", first + (seeds as u64 - 1));
    if let Some(why) = plans.first().and_then(|plan| why_one_at_a_time(plan)) {
        terminal.note(&format!("{said}, one run at a time: {why}"));
        return Room::ONE;
    }

    let room = Room::within(Bounds {
        processors: processors(),
        seeds,
        inside,
        data,
        model: plans.iter().map(|plan| held(plan, application)).max().unwrap_or(0),
        free: gaia_data::free_memory().map(|free| free + data),
    });
    let short = match room.is_short_of_memory {
        true => "; the memory that is free holds no more",
        false => "",
    };
    terminal.note(&format!("{said}, {} at a time{short}", counted(room.seeds * room.inside)));
    room
}

fn counted(runs: usize) -> String {
    if runs == 1 { "1 run".into() } else { format!("{runs} runs") }
}

/// What is shown while runs of several seeds go on.
struct Progress<'a> {
    terminal: &'a Terminal,
    output: &'a OutputFlags,
    /// `None` where one run goes on at a time, which is shown as if it were alone.
    view: Option<RunsView>,
    ended: AtomicUsize,
    all: usize,
}

impl<'a> Progress<'a> {
    fn new(
        terminal: &'a Terminal,
        output: &'a OutputFlags,
        is_one_at_a_time: bool,
        all: usize,
    ) -> Self {
        let view = (!is_one_at_a_time).then(|| RunsView::new(live_mode(output)));
        Self { terminal, output, view, ended: AtomicUsize::new(0), all }
    }

    /// How the run of a seed is shown.
    fn shown(&self, seed: u64) -> Shown<'_> {
        Shown { among: self.view.as_ref(), seed: Some(seed), ..Shown::alone(self.output) }
    }

    /// Says that a run has ended.
    fn on_ended(&self, summary: &Summary) {
        let (time, objective) =
            (figures::seconds(summary.time_s), figures::objective(summary.objective));
        let clocks = summary.clocks;
        if summary.was_stopped_by(StopReason::Interrupted) {
            self.say(summary, "not ended", &format!("interrupted after {clocks} clocks"));
        } else {
            self.count(summary, &format!("{clocks} clocks in {time}, objective {objective}"));
        }
    }

    /// Says that a run has ended before, and is not run again.
    fn on_ended_before(&self, summary: &Summary) {
        self.count(summary, "has ended before");
    }

    fn count(&self, summary: &Summary, how: &str) {
        let ended = 1 + self.ended.fetch_add(1, Ordering::Relaxed);
        self.say(summary, &format!("{ended:>4} of {}", self.all), how);
    }

    fn say(&self, summary: &Summary, place: &str, how: &str) {
        let (seed, what) = (summary.seed, name_among(summary));
        let said = format!("{place}  seed {seed:<6} {what:<24} {how}");
        match &self.view {
            Some(view) if live_mode(self.output) != LiveMode::Quiet => view.say(&said),
            _ => self.terminal.note(&said),
        }
    }
}

/// Shows the result of runs over several seeds that a directory holds.
pub(super) fn show_seeds(seeds: &SeededComparison, directory: &RunDirectory, terminal: &Terminal) {
    let block = seeds_block(seeds, Some(&directory.page()), Paint::for_stdout());
    terminal.line(block.trim_end());
    terminal.result(&seeds.file());
}

/// Reports the runs that have ended, and says how it went: a failure comes after the report of the others.
///
/// # Errors
/// The failure in `found`; where the report cannot be written; and where runs have diverged.
fn finish(
    directory: &RunDirectory,
    run_toml: &str,
    found: (Vec<(u64, Comparison)>, Option<Failure>),
    all: usize,
    interrupted: &AtomicBool,
    terminal: &Terminal,
) -> Result<Done, Failure> {
    let (comparisons, failure) = found;
    let runs = comparisons.iter().flat_map(|(_, comparison)| &comparison.runs);
    let sound = check_sound(runs.map(|run| &run.row.summary), |run| {
        format!("seed {}, {}", run.seed, name_among(run))
    });
    let seeds = SeededComparison::new(comparisons);
    let (ended, path) = (seeds.runs(), directory.path().display());
    if ended > 0 {
        let written = write_seeds(directory, run_toml, &seeds);
        if let Err(error) = written {
            return Err(failure.unwrap_or_else(|| unreported(directory, error)));
        }
        show_seeds(&seeds, directory, terminal);
    }

    if let Some(failure) = failure {
        terminal.note(&format!(
            "{ended} of {all} runs are reported; the same command with --resume auto --out {path} goes on"
        ));
        return Err(failure);
    }
    let is_interrupted = interrupted.load(Ordering::Relaxed);
    if is_interrupted && ended == 0 {
        terminal.note(&format!(
            "interrupted before a run had ended: what each came to is in {path}; the same command with --resume auto --out {path} goes on"
        ));
    } else if is_interrupted {
        terminal.note(&format!(
            "interrupted: {ended} of {all} runs have ended and are reported; the same command with --resume auto --out {path} goes on"
        ));
    }
    sound?;
    Ok(if is_interrupted { Done::Interrupted } else { Done::Whole })
}

/// The failure of a seed, with the seed.
fn of_seed(seed: u64, failure: Failure) -> Failure {
    match failure {
        Failure::Run(error) => Failure::run(format!("seed {seed}: {error}")),
        other => other,
    }
}
