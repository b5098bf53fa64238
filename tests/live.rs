//! `--live`: the report of a run under way, over HTTP, for which the run does not wait.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// Two data centers, for longer than any test waits.
const RUN: &str = r#"name = "shown"
seed = 7
driver = "emulated"
[app]
kind = "matrix-factorization"
rank = 4
data.synthetic = { users = 60, items = 40, ratings = 1500, rank = 2, noise = 0.3 }
[sync.remote]
model = "asp"
threshold = 0.05
[compute]
model = "cost"
clock_overhead = "5 ms"
[evaluate]
every = 5
[stop]
clocks = 1000000
[topology]
name = "here"
[topology.wan]
bandwidth = "20 Mbit/s"
rtt = "10 ms"
[[topology.data_center]]
name = "north"
[[topology.data_center]]
name = "south"
"#;

fn bench() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("run.toml"), RUN).unwrap();
    folder
}

fn gaia(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("gaia"));
    command.args(arguments).current_dir(folder.path()).env("NO_COLOR", "1");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    for name in ["GAIA_LOG", "GAIA_LOG_FORMAT", "GAIA_ROLE", "RANK"] {
        command.env_remove(name);
    }
    command
}

/// A run that is shown. It does not outlive its test.
struct Shown {
    child: Child,
    address: String,
    progress: PathBuf,
}

impl Shown {
    fn start(folder: &TempDir) -> Self {
        let log = folder.path().join("log");
        let mut command = gaia(folder, &["train", "run.toml", "--out", "out", "--live", "0"]);
        let mut child = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
        let address = loop {
            let said = fs::read_to_string(&log).unwrap();
            let found = said.lines().find_map(|line| line.strip_prefix("live at http://"));
            if let Some(address) = found.and_then(|found| found.strip_suffix('/')) {
                break address.to_owned();
            }
            assert!(child.try_wait().unwrap().is_none(), "{said}");
            std::thread::yield_now();
        };
        Self { child, address, progress: folder.path().join("out/progress.jsonl") }
    }

    fn ask(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream
    }

    fn get(&self, path: &str) -> String {
        let mut answer = String::new();
        self.ask(path).read_to_string(&mut answer).unwrap();
        answer
    }

    fn evaluations(&self) -> usize {
        fs::read_to_string(&self.progress).unwrap_or_default().lines().count()
    }

    /// Waits until the run has had so many evaluations more.
    fn go_on(&mut self, more: usize) {
        let enough = self.evaluations() + more;
        while self.evaluations() < enough {
            assert!(self.child.try_wait().unwrap().is_none(), "the run has ended");
            std::thread::yield_now();
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // One that has ended cannot be killed.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

#[test]
fn the_report_of_a_run_under_way_is_served_and_renewed() {
    let folder = bench();
    let mut run = Shown::start(&folder);
    assert!(run.address.starts_with("127.0.0.1:"));
    run.go_on(2);
    let page = run.get("/");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("text/html"), "{page}");
    for text in [
        "<title>shown: asp over here</title>",
        "under way",
        "Objective over time",
        "north",
        "live.js",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("never"), "a run under way may yet meet its target");
    assert!(run.get("/live.js").contains("EventSource"));
    assert!(run.get("/secret").starts_with("HTTP/1.1 404"));

    let mut versions = BufReader::new(run.ask("/events")).lines().filter_map(|line| {
        line.unwrap().strip_prefix("data: ").map(|version| version.parse::<u64>().unwrap())
    });
    let (first, second) = (versions.next().unwrap(), versions.next().unwrap());
    assert!(first < second, "{first}, {second}");
}

#[test]
fn a_run_waits_for_no_browser() {
    let folder = bench();
    let mut run = Shown::start(&folder);
    run.go_on(1);
    // More than the server keeps, none of which reads what it is sent.
    let deaf: Vec<TcpStream> = (0..40).map(|_| run.ask("/events")).collect();
    run.go_on(10);
    assert!(run.get("/").starts_with("HTTP/1.1 200"));
    drop(deaf);
    run.go_on(1);
}

#[test]
fn what_cannot_be_shown_is_said_before_the_run() {
    let folder = bench();
    let check = |arguments: &[&str], expect: &str| {
        let out = gaia(&folder, arguments).output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains(expect), "{said}");
        assert!(!folder.path().join("out").exists());
    };

    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    check(
        &["train", "run.toml", "--out", "out", "--live", &port],
        &format!("--live: cannot listen on 127.0.0.1:{port}: "),
    );
    // Before the remote model is chosen, and before a slowdown is fitted: each is said on standard error.
    let auto = "sync.remote={ model = 'auto' }";
    let check_at_once = |arguments: &[&str]| {
        let out =
            gaia(&folder, arguments).args(["--out", "out", "--live", &port]).output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.starts_with("error: --live: cannot listen on"), "{said}");
        assert!(!folder.path().join("out").exists());
    };
    check_at_once(&["train", "run.toml", "--set", auto]);
    check_at_once(&["compare", "run.toml", "--slowdown", "4", "--driver", "simulated"]);

    check(&["train", "--live", "run.toml"], "--live stands after the run file");
    check(
        &["node", "run.toml", "--dc", "north", "--server", "0", "--live"],
        "--live: only the coordinator receives the progress of the run",
    );
}
