//! How long a server with a shard of 1 GB is away: from the start of its process until it is ready, connected to its
//! mirror, its worker and the coordinator, with all that it knew.
//!
//! Of a shard of 2²⁸ parameters ASP keeps the values, the sum of what its data center has changed, and for each mirror
//! what it has carried: with one mirror 3.2 GB are to be read, checked and put in place. No server can be back before
//! its disk has given it these, so that the disk's own rate stands beside it. What a disk gave a while ago the machine
//! may still have in memory: so each is measured once as it is, and once after the files were let go from there.
//!
//! Needs 13 GB of memory and 4 GB of disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::processes::{Processes, free_port};

/// 2¹⁸ rows of 2¹⁰ values, which are 1 GiB.
const ROWS: usize = 1 << 18;
const SERVER: &str = "server north";

pub(crate) fn measure() {
    let users = ROWS - (1 << 16);
    let items = 1 << 16;
    let run = format!(
        "name = \"bench\"\nseed = 7\ndriver = \"real\"\n[app]\nkind = \"matrix-factorization\"\nrank = 1023\n\
         data.synthetic = {{ users = {users}, items = {items}, ratings = 2000, rank = 2, noise = 0.3 }}\n\
         [sync.remote]\nmodel = \"asp\"\n[compute]\nmodel = \"cost\"\nclock_overhead = \"10 s\"\n\
         [evaluate]\nevery = 1000000\n[stop]\nseconds = 1000000\n"
    );
    let mut processes = Processes::new(&run);
    let (port, metrics) = watched();
    processes.start(SERVER, true, &["--metrics", &metrics]);
    for name in ["server south", "worker north", "worker south", "coordinator"] {
        processes.start(name, true, &[]);
    }
    let began = Instant::now();
    processes.wait_until_ready(SERVER, port);
    let (user, system) = processes.used(SERVER);
    println!(
        "a new server is ready after {:.2} s; processors {user:.2} s and in the kernel {system:.2} s",
        began.elapsed().as_secs_f64()
    );
    let began = Instant::now();
    // It is told to leave, which it does with a checkpoint.
    processes.end(SERVER, "-TERM");
    println!("its checkpoint is written after {:.2} s", began.elapsed().as_secs_f64());
    let files = files_under(&processes.path("state/north/server-0"));
    let bytes: u64 = files.iter().map(|file| fs::metadata(file).unwrap().len()).sum();
    let rate = disk_rate(&files);
    let read = bytes as f64 / rate;
    println!(
        "{:.2} GB, which the disk gives in {read:.2} s ({:.2} GB/s)",
        bytes as f64 / 1e9,
        rate / 1e9
    );
    for (from, lets_go) in [("memory", false), ("disk", true), ("memory", false), ("disk", true)] {
        if lets_go {
            files.iter().for_each(|file| let_go(file));
        }
        let (port, metrics) = watched();
        let began = Instant::now();
        processes.start(SERVER, true, &["--metrics", &metrics]);
        processes.wait_until_ready(SERVER, port);
        let took = began.elapsed().as_secs_f64();
        let (user, system) = processes.used(SERVER);
        println!(
            "from {from}: ready after {took:.2} s, {:.2} times the disk's time; processors {user:.2} s and in the \
             kernel {system:.2} s",
            took / read
        );
        processes.end(SERVER, "-KILL");
    }
}

/// Where a node is watched, and the port of that.
fn watched() -> (u16, String) {
    let port = free_port();
    (port, port.to_string())
}

fn files_under(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_under(&path)) } else { files.push(path) }
    }
    files
}

/// Bytes per second of the largest file, read past the machine's memory.
fn disk_rate(files: &[PathBuf]) -> f64 {
    let bytes = |file: &PathBuf| fs::metadata(file).unwrap().len();
    let largest = files.iter().max_by_key(|file| bytes(file)).unwrap();
    let began = Instant::now();
    dd(largest, &["of=/dev/null", "bs=8M", "iflag=direct"]);
    bytes(largest) as f64 / began.elapsed().as_secs_f64()
}

/// Has the machine forget what it has of a file in memory.
fn let_go(file: &Path) {
    dd(file, &["of=/dev/null", "iflag=nocache", "count=0"]);
}

fn dd(file: &Path, words: &[&str]) {
    let from = format!("if={}", file.display());
    let done = Command::new("dd").arg(from).args(words).args(["status=none"]).status();
    assert!(done.unwrap().success());
}
