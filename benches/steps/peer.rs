//! Peers in Python, which answer how long their step takes.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A process that runs `benches/peers/steps.py`; `None` inside where there is no Python.
pub(crate) struct Peers(Option<Process>);

struct Process {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peers {
    /// Starts the Python that follows `--python` among the arguments, else `python3`.
    pub(crate) fn start() -> Self {
        let mut arguments = std::env::args().skip_while(|argument| argument != "--python");
        let python = arguments.nth(1).unwrap_or_else(|| "python3".into());
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers/steps.py");
        let child = Command::new(python)
            .arg(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        Self(child.ok().map(|mut child| Process {
            questions: child.stdin.take().expect("stdin is piped"),
            answers: BufReader::new(child.stdout.take().expect("stdout is piped")),
            child,
        }))
    }

    /// Processor seconds of the unit of work that `question` names, or why `peer` does not say.
    pub(crate) fn ask(&mut self, peer: &str, question: &str) -> Result<f64, String> {
        let absent = || format!("{peer} is not installed");
        let process = self.0.as_mut().ok_or_else(absent)?;
        let answer = process.answer(question);
        let answer = answer.map_err(|error| format!("{peer} gave no answer: {error}"))?;
        let answer = answer.trim();
        match answer.split_once(' ') {
            Some(("none", _)) => Err(absent()),
            Some(("failed", why)) => Err(format!("{peer} failed: {why}")),
            _ => answer.parse().map_err(|_| format!("{peer} gave no answer")),
        }
    }
}

impl Process {
    fn answer(&mut self, question: &str) -> io::Result<String> {
        writeln!(self.questions, "{question}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        if let Some(mut process) = self.0.take() {
            // It ends with its input.
            drop(process.questions);
            process.child.wait().ok();
        }
    }
}
