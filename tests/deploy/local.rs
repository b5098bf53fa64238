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

    // As where a job is requeued after its coordinator has ended.
    let summary = fs::read(running.directory().join("summary.json")).unwrap();
    let coordinator = bench.path("out/virginia/node");
    let again = bench.command(coordinator).arg("coordinator").output().unwrap();
    assert_eq!(again.status.code(), Some(0), "{}", said(&again));
    assert!(said(&again).contains("the run in out has finished"), "{}", said(&again));
    assert_eq!(fs::read(running.directory().join("summary.json")).unwrap(), summary);
}

/// The process that keeps a node can be killed alone, as by the out-of-memory killer. Its node goes on.
#[cfg(target_os = "linux")]
#[test]
fn a_node_whose_keeper_was_killed_is_left_alone_by_start_and_ended_by_stop() {
    let bench = Bench::new();
    bench.deploy("local", "out", &[]);
    let running = Running { bench: &bench };
    let site = bench.path("out/Tokyo_1");
    let script = |name: &str| {
        let output = bench.command(site.join(name)).arg("server-0").output().unwrap();
        assert!(output.status.success(), "{name}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    // Written by a process of its own: one that this process has open for writing could not be started.
    let mut write = bench.command("bash");
    write.current_dir(&site).env("NODE", STANDS_IN_FOR_A_NODE);
    let write = write.args(["-c", "printf %s \"$NODE\" >gaia && chmod +x gaia"]).status();
    assert!(write.unwrap().success());

    script("start");
    let began = || fs::read_to_string(site.join("began")).unwrap_or_default();
    wait_until("begun", || began().ends_with('\n'), || logs(&site));
    let node = began().trim().to_owned();
    let keeper = fs::read_to_string(site.join("pids/server-0")).unwrap();
    let keeper = keeper.trim();
    let killed = Command::new("kill").args(["-9", keeper]).status().unwrap();
    assert!(killed.success());
    let has_ended = |pid: &str| {
        let process = PathBuf::from(format!("/proc/{pid}"));
        !process.exists() || is_zombie(&process)
    };
    wait_until("killed", || has_ended(keeper), || logs(&site));

    let told = script("start");
    assert!(told.contains(&format!("runs as process {node}, which nothing restarts")), "{told}");
    assert_eq!(began().trim(), node, "a second node was started");
    let told = script("stop");
    assert!(told.contains("Tokyo_1/server-0 is stopped"), "{told}");
    assert!(has_ended(&node), "{node} goes on");
    drop(running);
}

/// It notes its process, and waits until it is told to end.
#[cfg(target_os = "linux")]
const STANDS_IN_FOR_A_NODE: &str = "#!/usr/bin/env bash
trap 'kill $!; exit 75' TERM
sleep 120 &
echo $$ >>began
wait
";

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
