//! Plain hosts: the scripts start a run, keep it running, stop it and continue it.

use std::fs;

use super::*;
use crate::commands::commands;

/// A deployment whose nodes do not outlive its test.
struct Running<'b> {
    bench: &'b Bench,
}

impl Running<'_> {
    /// Runs the commands of the README over all data centers.
    fn start(&self) {
        for command in commands(&self.bench.path("out/README.md")) {
            let mut shell = self.bench.command("bash");
            let output =
                shell.current_dir(self.bench.path("out")).args(["-c", &command]).output().unwrap();
            assert!(output.status.success(), "{command}: {}", said(&output));
        }
    }

    fn stop(&self) {
        for (dc, _) in PROCESSES {
            let stop = self.bench.path("out").join(dc).join("stop");
            let output = self.bench.command(stop).output().unwrap();
            assert!(output.status.success(), "{dc}: {}", said(&output));
        }
    }

    fn directory(&self) -> PathBuf {
        self.bench.path("out/virginia/out")
    }

    fn wait_for_evaluations(&self, count: usize) {
        let reached = || evaluations(&self.directory()) >= count;
        let what = format!("at {count} evaluations");
        wait_until(&what, reached, || logs(&self.bench.path("out")));
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_on_plain_hosts_survives_a_killed_node_and_a_stop_of_all() {
    let bench = Bench::new();
    let coordinator = format!("topology.coordinator_address=127.0.0.1:{}", free_port());
    bench.deploy("local", "out", &["--set", &coordinator]);
    let running = Running { bench: &bench };

    running.start();
    running.wait_for_evaluations(5);
    kill_the_node(&bench.path("out/Tokyo_1"), "server-0");
    let log = bench.path("out/Tokyo_1/logs/server-0.log");
    let again = || {
        fs::read_to_string(&log)
            .unwrap()
            .contains("server-0 has ended with exit code 137 and is started again")
    };
    wait_until("started again", again, || logs(&bench.path("out")));
    running.wait_for_evaluations(evaluations(&running.directory()) + 5);

    running.stop();
    assert!(!running.directory().join("summary.json").exists(), "it ended before it was stopped");
    running.start();
    let done = || running.directory().join("summary.json").exists();
    wait_until("done", done, || logs(&bench.path("out")));

    check_result(&running.directory(), &bench.trained());
    // Who keeps a node ends with it.
    for (dc, processes) in PROCESSES {
        for process in processes {
            let pid = fs::read_to_string(bench.path("out").join(dc).join("pids").join(process));
            let keeper = PathBuf::from(format!("/proc/{}", pid.unwrap().trim()));
            let ended = || !keeper.exists() || is_zombie(&keeper);
            wait_until("ended", ended, || logs(&bench.path("out")));
        }
    }
}

/// Kills the process of a node, not the one that keeps it.
#[cfg(target_os = "linux")]
fn kill_the_node(site: &Path, name: &str) {
    let keeper = fs::read_to_string(site.join("pids").join(name)).unwrap();
    let keeper = keeper.trim();
    let children = fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children")).unwrap();
    let killed = Command::new("kill").args(["-9", children.trim()]).status().unwrap();
    assert!(killed.success(), "{keeper} has children {children}");
}

/// Whether a process has ended, and only its parent has not noticed. In a container there may be nobody to notice.
#[cfg(target_os = "linux")]
fn is_zombie(process: &Path) -> bool {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}
