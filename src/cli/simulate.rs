//! `gaia simulate`: looks for trouble in drawn schedules of faults.

use std::path::PathBuf;

use clap::Args;

use super::{Failure, OutputFlags, Terminal};
use crate::config::ConfigError;
use crate::faults::{Campaign, Report, Scenario};

#[derive(Debug, Args)]
pub struct SimulateFlags {
    /// The first seed; the same seed draws the same schedule and gives the same bytes of output [default: the
    /// scenario's, or 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// How many seeds to run, from the first on, on all cores
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX))]
    pub seeds: u64,
    /// A TOML file that fixes some of what seeds draw
    ///
    /// Its keys are seed, data_centers, servers, workers, rows, clocks, remote, `[packets]` with the chances loss,
    /// repetition, reordering, damage, delay and stale, and for each fault a `[[fault]]` with kind, at, lasts and dc.
    /// Kinds are partition, one-way-partition, reset and slow-link, which need a peer; straggler; crash, of a server, a
    /// worker or the whole data center, at its next write where write is before, torn or after, and with the disk of a
    /// worker where blank is true; disk-full, of a server or a worker; lost-disk, of a server; clock-step, of a server by
    /// step_s seconds; coordinator-crash, with 0 as its dc, at its next write where write says so. Stragglers and slow
    /// links have a factor.
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputFlags,
}

/// Runs one schedule a seed and says which promises were broken.
pub(super) fn simulate(flags: &SimulateFlags, terminal: &Terminal) -> Result<(), Failure> {
    let first = scenario(flags, flags.seed)?;
    let mut campaign = Campaign::default();
    let mut next = vec![first.clone()];
    for number in 1..=flags.seeds {
        if number.is_multiple_of(NOTE_EVERY) || number == flags.seeds {
            campaign.run_all(&std::mem::take(&mut next));
            if terminal.live() {
                terminal.note(&format!("{number} of {} schedules", flags.seeds));
            }
        }
        if number < flags.seeds {
            next.push(scenario(flags, Some(first.seed.saturating_add(number)))?);
        }
    }
    let report = campaign.report();
    let file = flags.scenario.as_ref().map(|file| format!(" --scenario {}", file.display()));
    for line in report.lines(&format!("gaia simulate{}", file.unwrap_or_default())) {
        terminal.line(&line);
    }
    terminal.result(&report);
    save(flags, &report)?;
    match report.failures.len() {
        0 => Ok(()),
        failures => {
            let of = report.schedules;
            Err(Failure::run(format!("{failures} of {of} schedules broke a promise")))
        }
    }
}

fn scenario(flags: &SimulateFlags, seed: Option<u64>) -> Result<Scenario, ConfigError> {
    match &flags.scenario {
        Some(file) => Scenario::read(file, seed),
        None => Ok(Scenario::draw(seed.unwrap_or_default())),
    }
}

/// Writes the shortest schedule of each failure to the directory asked for.
fn save(flags: &SimulateFlags, report: &Report) -> Result<(), Failure> {
    let Some(directory) = &flags.output.out else { return Ok(()) };
    std::fs::create_dir_all(directory).map_err(Failure::run)?;
    for failure in &report.failures {
        let file = directory.join(format!("seed-{}.toml", failure.scenario.seed));
        std::fs::write(file, failure.shortest.to_text()).map_err(Failure::run)?;
    }
    Ok(())
}

const SEEDS_MAX: u64 = 1_000_000_000;
const NOTE_EVERY: u64 = 1_000;
