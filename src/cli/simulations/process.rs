//! One process that simulates.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::answer::Answer;
use gaia_config::Plan;

/// A process that simulates one run after the other. It ends when this is dropped.
pub(super) struct Process {
    child: Child,
    runs: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// How many threads its script computes with.
    pub(super) threads: usize,
}

impl Process {
    /// Starts this program again, by its command.
    pub(super) fn start(program: &[OsString], threads: usize) -> io::Result<Self> {
        let (name, arguments) = program.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut command = Command::new(name);
        command.args(arguments).args(["simulations", "--json", "--quiet"]);
        // What a script prints in a trial is not of the user's run.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        for name in THREADS {
            let given = std::env::var_os(name).and_then(|given| given.to_str()?.parse().ok());
            command.env(name, given.map_or(threads, |given: usize| given.min(threads)).to_string());
        }

        let mut child = command.spawn()?;
        let streams = child.stdin.take().zip(child.stdout.take());
        let (runs, answers) = streams.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { child, runs, answers: BufReader::new(answers), threads })
    }

    /// Has a run simulated. `None` if the process has ended, or is ended because the flag has become true.
    pub(super) fn simulate(
        &mut self,
        plan: &Plan,
        interrupted: Option<&AtomicBool>,
    ) -> Option<Answer> {
        let run = serde_json::Value::String(plan.to_toml());
        writeln!(self.runs, "{run}").ok()?;

        let (sender, receiver) = channel();
        let (child, answers) = (&mut self.child, &mut self.answers);
        thread::scope(|scope| {
            scope.spawn(move || sender.send(next_answer(answers)));
            loop {
                match receiver.recv_timeout(LOOK_EVERY) {
                    Ok(answer) => return answer,
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => {}
                }
                if interrupted.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
                    // What waits for the answer hears that there is none.
                    let _ended = child.kill();
                }
            }
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// The next line that is an answer. Libraries of a script may write others. `None` at the end.
fn next_answer(from: &mut impl BufRead) -> Option<Answer> {
    let lines = from.lines().map_while(Result::ok);
    lines.filter_map(|line| serde_json::from_str(&line).ok()).next()
}

/// How often it is looked whether the user has interrupted the simulations.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What libraries of a script, and the simulator, take the number of their threads from.
const THREADS: [&str; 2] = ["OMP_NUM_THREADS", "RAYON_NUM_THREADS"];
