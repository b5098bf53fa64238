//! `gaia simulations`: a process that simulates what another one asks it to.

use std::io::{Write, stdin, stdout};
use std::sync::mpsc::channel;
use std::{process, thread};

use super::answer::Answer;
use crate::applications::Applications;
use crate::cli::reading::with_all_data;
use crate::cli::{Failure, Terminal};
use gaia_config::RunFile;
use gaia_planner::{InThisProcess, Simulated, Simulator};

/// Simulates each run file that standard input has, one after the other, and writes an [`Answer`] for each. A run file is a line
/// of JSON, its whole text as one string. The process ends with standard input, or with a run that has no result: who has asked
/// for it simulates it himself then.
pub(in crate::cli) fn simulations(applications: &dyn Applications, terminal: &Terminal) {
    let (sender, runs) = channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for line in stdin().lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
            // Nobody waits for the run that is being simulated.
            process::exit(0);
        });
        for line in runs {
            if let Err(failure) = answer(&line, applications) {
                terminal.fail(&failure);
                // Standard input may stay open.
                process::exit(failure.exit_code().into());
            }
        }
    });
}

fn answer(line: &str, applications: &dyn Applications) -> Result<(), Failure> {
    let simulated = simulated(line, applications)?;
    let answer = Answer { simulated, peak_bytes: gaia_data::peak_memory() };
    let mut out = stdout().lock();
    // A line of its own, whatever a script has left of one.
    let said = writeln!(out, "\n{}", serde_json::to_string(&answer).map_err(Failure::run)?)
        .and_then(|()| out.flush());
    said.map_err(Failure::run)
}

/// What comes of a run file.
fn simulated(line: &str, applications: &dyn Applications) -> Result<Simulated, Failure> {
    let text: String = serde_json::from_str(line).map_err(Failure::run)?;
    let file = RunFile::from_text(ORIGIN, &text, &[])?;
    let plan = file.plan()?;
    let application = with_all_data(&plan, &file, applications)?;
    let here = InThisProcess { threads: 1, interrupted: None };
    here.simulate(&plan, &application, 1).map_err(Failure::run)
}

/// What messages call the run file.
const ORIGIN: &str = "a run to simulate";
