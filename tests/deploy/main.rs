//! `gaia deploy`: what it writes is complete, and starts a run.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it waits for processes, and says how long"
)]

mod certificates;
mod commands;
mod kubernetes;
mod local;
mod manifests;
mod slurm;
mod slurm_cluster;

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// A run over three data centers, of which one has two workers and one a worker on the machine of its server.
const RUN: &str = "
name = \"three\"
seed = 7
[app]
kind = \"matrix-factorization\"
rank = 4
data.synthetic = { users = 60, items = 40, ratings = 1500, rank = 2, noise = 0.3 }
[sync.remote]
model = \"bsp\"
[compute]
model = \"cost\"
[evaluate]
every = 5
[stop]
clocks = 600
[topology]
name = \"here\"
[topology.wan]
bandwidth = \"100 Mbit/s\"
rtt = \"1 ms\"
[[topology.data_center]]
name = \"virginia\"
workers = 2
[[topology.data_center]]
name = \"Tokyo_1\"
[[topology.data_center]]
name = \"ireland\"
colocated = true
";

const SCHEDULERS: [&str; 3] = ["slurm", "kubernetes", "local"];

/// The processes of each data center of [`RUN`].
const PROCESSES: [(&str, &[&str]); 3] = [
    ("virginia", &["coordinator", "server-0", "worker-0", "worker-1"]),
    ("Tokyo_1", &["server-0", "worker-0"]),
    ("ireland", &["server-0"]),
];

/// A folder with a run file, and with what `gaia` makes of it.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("run.toml"), RUN).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command in the folder, which finds `gaia` on its path, and no settings of a caller.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let gaia = Path::new(env!("CARGO_BIN_EXE_gaia")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("NO_COLOR", "1");
        command.env("PATH", format!("{}:{path}:/usr/sbin:/sbin", gaia.display()));
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("GAIA_") || name.starts_with("SLURM_") || name == "RANK" {
                command.env_remove(name);
            }
        }
        command
    }

    fn gaia(&self, arguments: &[&str]) -> Output {
        self.command("gaia").args(arguments).output().unwrap()
    }

    /// Writes a deployment into a folder.
    fn deploy(&self, scheduler: &str, out: &str, arguments: &[&str]) {
        let output = self.gaia(
            &[&["deploy", scheduler, "run.toml", "--out", out, "--quiet"], arguments].concat(),
        );
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }

    /// The run directory of `gaia train --driver real` on the same run file.
    fn trained(&self) -> PathBuf {
        let output =
            self.gaia(&["train", "run.toml", "--driver", "real", "--out", "trained", "--quiet"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        self.path("trained")
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn summary(directory: &Path) -> Value {
    let path = directory.join("summary.json");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_json::from_str(&text).unwrap()
}

/// A deployed run has come to where `gaia train --driver real` comes, whatever befell its nodes.
fn check_result(found: &Path, expect: &Path) {
    let (found, expect) = (summary(found), summary(expect));
    assert_eq!(found["driver"], "real");
    assert_eq!(found["workers"], expect["workers"]);
    // Nothing is lost or applied twice, and all copies are equal.
    assert_eq!(found["copies_equal"], true, "{found:#}");
    assert_eq!(found["conservation"]["broken"], serde_json::json!([]), "{found:#}");
    assert_eq!(found["conservation"]["links"], 6);

    // Copies are evaluated while training continues, so the last ones may be of the last clock or of the one after.
    let [found, expect] = [found, expect].map(|summary| summary["objective"].as_f64().unwrap());
    assert!((found - expect).abs() <= 0.005 * expect, "{found} is not {expect}");
}

/// The evaluations of a run so far.
fn evaluations(directory: &Path) -> usize {
    fs::read_to_string(directory.join("progress.jsonl")).unwrap_or_default().lines().count()
}

/// Waits until something holds, and fails with what is known if it does not within two minutes.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool, known: impl Fn() -> String) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(120), "not {what}:\n{}", known());
        sleep(Duration::from_millis(20));
    }
}

/// The ends of all logs below a folder.
fn logs(folder: &Path) -> String {
    let is_log = |path: &PathBuf| path.extension().is_some_and(|end| end == "log");
    let mut text = String::new();
    for path in files(folder).into_iter().filter(is_log) {
        let log = fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(6)..].join("\n");
        text += &format!("{}:\n{last}\n", path.display());
    }
    text
}

/// All files below a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect();
    found.sort_unstable();
    found
}

/// A port that is free, below those that a machine gives to whoever asks for any.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let next = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = (20_000 + (std::process::id() * 61 + next) % 12_000) as u16;
        let at = ("127.0.0.1", port);
        if TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok() {
            return port;
        }
    }
}

/// Whether a program is on the path, or where daemons are.
fn installed(program: &str) -> bool {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
