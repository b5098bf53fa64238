//! `scripts/faults`: runs drawn schedules of faults and reports the invariants that they break.

use std::error::Error;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use gaia_config::ConfigError;
use gaia_faults::{Campaign, Report, Scenario};

/// Run the protocol under random faults in virtual time, and check every invariant
#[derive(Debug, Parser)]
#[command(name = "scripts/faults", after_help = AFTER_HELP)]
struct Flags {
    /// The first seed; the same seed gives the same schedule and the same bytes of output [default: that of the
    /// scenario, or 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,
    /// The number of seeds to run, from the first on, on all cores
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX))]
    seeds: u64,
    /// A TOML file that fixes values which seeds would choose; its keys are listed below
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// The directory for the shortest failing scenario of each seed that violates an invariant [default: none]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write nothing but errors
    #[arg(long)]
    quiet: bool,
    /// Write the report to standard output as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match simulate(&Flags::parse()) {
        Ok(code) => code,
        Err(error) => {
            let _closed_pipe = writeln!(stderr(), "error: {error}");
            ExitCode::from(BAD_INPUT)
        }
    }
}

/// Runs one schedule for each seed, and reports the broken invariants.
fn simulate(flags: &Flags) -> Result<ExitCode, Box<dyn Error>> {
    let first = scenario(flags, flags.seed)?;
    let mut campaign = Campaign::default();
    let mut next = vec![first.clone()];

    for number in 1..=flags.seeds {
        if number.is_multiple_of(NOTE_EVERY) || number == flags.seeds {
            campaign.run_all(&std::mem::take(&mut next));
            note_progress(flags, number);
        }
        if number < flags.seeds {
            next.push(scenario(flags, Some(first.seed.saturating_add(number)))?);
        }
    }

    let report = campaign.report();
    print(flags, &report)?;
    if let Some(directory) = &flags.out {
        save(directory, &report)?;
    }

    let (failures, schedules) = (report.failures.len(), report.schedules);
    if failures == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let _closed_pipe =
        writeln!(stderr(), "error: {failures} of {schedules} schedules violated an invariant");
    Ok(ExitCode::from(BROKEN_LAW))
}

fn scenario(flags: &Flags, seed: Option<u64>) -> Result<Scenario, ConfigError> {
    match &flags.scenario {
        Some(file) => Scenario::read(file, seed),
        None => Ok(Scenario::draw(seed.unwrap_or_default())),
    }
}

/// Reports the progress of a long campaign on a terminal.
fn note_progress(flags: &Flags, number: u64) {
    if stderr().is_terminal() && !flags.quiet {
        let _closed_pipe = writeln!(stderr(), "{number} of {} schedules", flags.seeds);
    }
}

fn print(flags: &Flags, report: &Report) -> Result<(), Box<dyn Error>> {
    if flags.json {
        let text = serde_json::to_string_pretty(report)?;
        let _closed_pipe = writeln!(stdout(), "{text}");
        return Ok(());
    }
    if flags.quiet {
        return Ok(());
    }

    let scenario = flags.scenario.as_ref().map(|file| format!(" --scenario {}", file.display()));
    for line in report.lines(&format!("scripts/faults{}", scenario.unwrap_or_default())) {
        let _closed_pipe = writeln!(stdout(), "{line}");
    }
    Ok(())
}

/// Writes the shortest schedule of each failure to a directory.
fn save(directory: &Path, report: &Report) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    for failure in &report.failures {
        let file = directory.join(format!("seed-{}.toml", failure.scenario.seed));
        std::fs::write(file, failure.shortest.to_text())?;
    }
    Ok(())
}

const SEEDS_MAX: u64 = 1_000_000_000;
const NOTE_EVERY: u64 = 1_000;

/// The exit code if a schedule violated an invariant.
const BROKEN_LAW: u8 = 1;

/// The exit code for an invalid flag or scenario file, as that of clap.
const BAD_INPUT: u8 = 2;

const AFTER_HELP: &str = "\
Each seed chooses a small cluster, its synchronisation models, its links and a schedule of faults. No invariant may be \
violated while the faults occur. After the last fault, the run must finish and send no more messages. Structural \
faults (partitions, resets, stragglers, slow links) are counted apart from faults of single packets. For a seed that \
violates an invariant, the output shows its choices, the command that repeats it, and the shortest schedule found that \
still fails. --out writes that schedule to DIR/seed-N.toml.

Examples:
  scripts/faults --seed 1 --seeds 1000
  scripts/faults --seed 7 --json
  scripts/faults --scenario cut.toml --seeds 100

A scenario file fixes the values that it sets, and seeds choose the rest. All keys are optional:
  seed = 7
  data_centers = 3                  # 2 to 8
  servers = 1                       # of each data center, 1 to 4
  workers = 2                       # of each data center, 1 to 4
  rows = 20                         # of the model, 1 to 10000
  clocks = 10                       # 1 to 10000
  remote = \"asp\"                    # bsp, ssp, tap, asp, local-steps; seeds choose its settings
  [packets]                         # the probability for each message, 0 to 0.5
  loss = 0.01
  repetition = 0.0
  reordering = 0.05
  damage = 0.0
  delay = 0.1
  [[fault]]
  kind = \"partition\"
  at = \"500 ms\"                    # at most 30 minutes, as `lasts`
  lasts = \"1 s\"                    # not for a reset
  dc = 0
  peer = 1                          # not for a straggler
  # factor = 4.0                    # 1 to 100, for stragglers and slow links

Kinds of faults:
  partition, one-way-partition, silent-link, reset, slow-link
                     of the link to a peer, which is required
  straggler          of a data center
  crash              of a server, a worker or a whole data center; at its next write if `write`
                     is before, torn or after; a worker also loses its disk if `blank` is true
  disk-full          of a server or a worker
  lost-disk          of a server
  clock-step         of a server, by `step_s` seconds
  coordinator-crash  with dc = 0; at its next write if `write` is set
  diverged-update    of a worker
  late-join, leave   of a data center
Stragglers and slow links have a factor.

Exit codes:
  0  no invariant was violated
  1  an invariant was violated
  2  wrong usage or a wrong scenario file";
