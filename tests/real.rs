//! Runs over real processes on this machine: `gaia train --driver real`, `gaia node`, `gaia check --connect`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod addresses;
#[path = "real/failures.rs"]
mod failures;
#[path = "real/hostile.rs"]
mod hostile;
#[path = "real/members.rs"]
mod members;
#[path = "real/own_data.rs"]
mod own_data;
#[path = "real/take_over.rs"]
mod take_over;

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

use addresses::free_address;
use gaia_certificates::{Directory, Identity};
use gaia_core::sync::RemoteSync;
use rustls::pki_types::UnixTime;
use safetensors::SafeTensors;
use serde_json::Value;
use tempfile::TempDir;

/// A run of a few seconds over two or three data centers.
fn run_file(data_centers: &[&str], keys: &str, stop: &str) -> String {
    let mut text = format!(
        "name = \"real\"\nseed = 7\n{keys}\n\
         [app]\nkind = \"matrix-factorization\"\nrank = 4\n\
         data.synthetic = {{ users = 60, items = 40, ratings = 1500, rank = 2, noise = 0.3 }}\n\
         [sync.remote]\nmodel = \"asp\"\nthreshold = 0.05\n\
         [compute]\nmodel = \"cost\"\nclock_overhead = \"10 ms\"\n\
         [evaluate]\nevery = 5\n[stop]\n{stop}\n\
         [topology]\nname = \"here\"\n\
         [topology.wan]\nbandwidth = \"20 Mbit/s\"\nrtt = \"10 ms\"\nprice = \"0.02 USD/GB\"\n"
    );
    for name in data_centers {
        text += &format!("[[topology.data_center]]\nname = \"{name}\"\n");
    }
    text
}

struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new(run: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("run.toml"), run).unwrap();
        fs::create_dir(folder.path().join("temporary")).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A certificate for every node of data centers with a server and at most two workers each.
    fn certify(&self, folder: &str, data_centers: &[&str]) {
        let mut nodes = vec![Identity::coordinator("real", data_centers[0])];
        for dc in data_centers {
            nodes.push(Identity::server("real", dc, 0));
            nodes.extend([0, 1].map(|index| Identity::worker("real", dc, index)));
        }
        let now = UnixTime::now();
        let mut directory = Directory::create(&self.path(folder), "real", now).unwrap();
        directory.issue(&nodes, now, Duration::from_secs(86_400)).unwrap();
    }

    fn gaia(&self, verb: &str, arguments: &[&str]) -> Command {
        self.gaia_with("run.toml", verb, arguments)
    }

    /// As [`Self::gaia`], with another run file.
    fn gaia_with(&self, run_file: &str, verb: &str, arguments: &[&str]) -> Command {
        let mut command = self.command(assert_cmd::cargo::cargo_bin!("gaia"));
        command.arg(verb).arg(self.path(run_file)).args(arguments);
        command
    }

    /// A command in the folder of the bench, with nothing of the environment that says what a node is to do.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for name in
            ["GAIA_LOG", "GAIA_LOG_FORMAT", "GAIA_METRICS", "GAIA_COORDINATOR", "GAIA_ROLE", "RANK"]
        {
            command.env_remove(name);
        }
        command.current_dir(self.folder.path()).env("NO_COLOR", "1");
        // A run that is killed cannot remove its temporary folder.
        command.env("TMPDIR", self.path("temporary"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// Starts a node; `place` says which.
    fn node(&self, coordinator: &str, certs: &str, place: &[&str]) -> Node {
        let mut command = self.gaia("node", place);
        command.args(["--certs", certs]).env("GAIA_COORDINATOR", coordinator);
        Node(command.spawn().unwrap())
    }

    /// The same, where no file may be larger than this many blocks of 512 bytes.
    fn node_within(&self, blocks: u64, coordinator: &str, certs: &str, place: &[&str]) -> Node {
        let limit = r#"trap "" XFSZ; ulimit -f "$0"; exec "$@""#;
        let node = self.gaia("node", place);
        let mut command = self.command("sh");
        command.args(["-c", limit, &blocks.to_string()]);
        command.arg(node.get_program()).args(node.get_args()).args(["--certs", certs]);
        command.env("GAIA_COORDINATOR", coordinator);
        Node(command.spawn().unwrap())
    }

    fn summary(&self, directory: &str) -> Value {
        let text = fs::read_to_string(self.path(directory).join("summary.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

/// A process that does not outlive its test.
struct Node(Child);

impl Node {
    fn stderr(&mut self) -> BufReader<ChildStderr> {
        BufReader::new(self.0.stderr.take().unwrap())
    }

    /// Waits for the end of the process; answers its exit code and what it said.
    fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        if self.0.stderr.is_some() {
            for line in self.stderr().lines() {
                said += &format!("{}\n", line.unwrap());
            }
        }
        (self.0.wait().unwrap().code(), said)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // One that has ended cannot be killed.
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The processes that a process has started.
fn children(of: u32) -> Vec<u32> {
    let listed = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Sends a signal to a process that may have ended.
#[cfg(unix)]
fn send(signal: &str, process: u32) {
    Command::new("kill").args([signal, &process.to_string()]).status().unwrap();
}

fn check_summary(summary: &Value, data_centers: usize, workers: u64) {
    for key in [
        "name",
        "app",
        "driver",
        "seed",
        "version",
        "local_sync",
        "remote_sync",
        "wan",
        "data_centers",
        "servers",
        "workers",
        "converged",
        "target_objective",
        "time_to_target_s",
        "clocks_to_target",
        "objective",
        "metric",
        "wan_bytes",
        "wan_bytes_to_target",
        "wan_cost_usd",
        "lan_bytes",
        "significant_fraction",
        "blocked_s",
        "wall_s",
    ] {
        assert!(summary.get(key).is_some(), "{key} is missing: {summary:#}");
    }
    assert_eq!(summary["driver"], "real");
    assert_eq!(summary["data_centers"].as_array().unwrap().len(), data_centers);
    assert_eq!(summary["workers"], workers);
    assert_eq!(summary["copies_equal"], true);
    for key in ["wan_bytes", "lan_bytes"] {
        assert!(summary[key].as_u64().unwrap() > 0, "{key}: {summary:#}");
    }
    // Both ends of every link have booked the same frames, whatever befell them.
    let conservation = &summary["conservation"];
    assert_eq!(conservation["links"], data_centers * (data_centers - 1), "{summary:#}");
    assert_eq!(conservation["broken"], serde_json::json!([]), "{summary:#}");
    assert!(conservation["frames"].as_u64().unwrap() > 0, "{summary:#}");
}

#[test]
fn a_run_over_processes_that_diverges_ends_with_code_1_and_the_name_of_a_worker() {
    let bench = Bench::new(&run_file(&["north", "south"], "driver = \"real\"", "clocks = 400"));
    // Each step overshoots ten thousand times.
    let settings = [
        "app.kind=softmax-regression",
        "app.optimizer=sgd",
        "app.learning_rate=100",
        "app.weight_decay=100",
    ];
    let mut train = bench.gaia("train", &["--out", "out", "--quiet"]);
    train.args(settings.iter().flat_map(|setting| ["--set", setting]));
    let output = train.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let named = "training has diverged: worker 0 of ";
    assert!(said(&output).contains(named), "{}", said(&output));
    assert_eq!(bench.summary("out")["stopped_by"], "diverged");
    assert!(!bench.path("out/model.safetensors").exists());
}

#[test]
fn a_run_over_processes_reaches_its_target_and_ends_with_equal_copies() {
    let text = run_file(
        &["north", "south", "west"],
        "driver = \"real\"",
        "objective = 0.35\nclocks = 400",
    );
    let bench = Bench::new(&text);
    let output = bench.gaia("train", &["--out", "out", "--quiet"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let summary = bench.summary("out");
    check_summary(&summary, 3, 3);
    assert_eq!(summary["converged"], true, "{summary:#}");
    assert!(summary["objective"].as_f64().unwrap() < 0.4, "{summary:#}");
    for file in ["run.toml", "progress.jsonl", "report.html", "convergence.svg"] {
        assert!(bench.path("out").join(file).is_file(), "{file}");
    }
    let model = fs::read(bench.path("out/model.safetensors")).unwrap();
    let tables = SafeTensors::deserialize(&model).unwrap();
    let tables = tables.iter().filter(|(_, table)| table.shape().len() == 2);
    let values = tables.map(|(_, table)| table.data().len() / 4).sum::<usize>();
    assert_eq!(summary["parameters"], values);
    let links = summary["links"].as_array().unwrap();
    assert!(links.iter().all(|link| link["frames"].as_u64().unwrap() > 0), "{links:?}");
}

#[test]
fn every_remote_model_runs_over_processes() {
    for remote in RemoteSync::NAMES {
        let text = run_file(&["north", "south"], "", "clocks = 12");
        let bench = Bench::new(&text);
        let model = match remote {
            "ssp" => "sync.remote={model = 'ssp', staleness = 2}".to_owned(),
            other => format!("sync.remote.model={other}"),
        };
        let arguments = ["--driver", "real", "--set", &model, "--out", "out", "--quiet"];
        let output = bench.gaia("train", &arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{remote}: {}", said(&output));
        check_summary(&bench.summary("out"), 2, 2);
    }
}

/// The setting with which a simulation ends at the clock at which a run over processes has ended: in both, workers finish
/// the iteration that they are in.
fn last_clock(summary: &Value) -> String {
    format!("stop.clocks={}", summary["data_center_clocks"][0].as_u64().unwrap() - 1)
}

/// Under BSP all copies are equal, and the processes find together what one process finds of all data.
#[test]
fn processes_evaluate_their_own_data_and_find_what_a_simulation_finds() {
    let text = run_file(&["north", "south"], "sync.remote.model = \"bsp\"", "clocks = 12");
    let text = text.replace("[sync.remote]\nmodel = \"asp\"\nthreshold = 0.05\n", "");
    let bench = Bench::new(&text);
    let train = |driver: &str, stop: &str, out: &str| {
        let arguments = ["--driver", driver, "--set", stop, "--out", out, "--quiet"];
        let output = bench.gaia("train", &arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{driver}: {}", said(&output));
        bench.summary(out)
    };
    let found = train("real", "stop.clocks=12", "processes");
    let expected = train("simulated", &last_clock(&found), "simulation");
    assert_eq!(found["data_center_clocks"], expected["data_center_clocks"]);
    assert_eq!(
        (&found["evaluated"], &expected["evaluated"]),
        (&"home".into(), &"everywhere".into())
    );
    assert_eq!(found["at_home"].as_array().unwrap().len(), 2);
    for figure in ["/objective", "/metric/value"] {
        let [found, expected] =
            [&found, &expected].map(|summary| summary.pointer(figure).unwrap().as_f64().unwrap());
        assert!((found / expected - 1.0).abs() < 1e-6, "{figure}: {found} {expected}");
    }

    let arguments = ["--driver", "real", "--set", "evaluate.where=everywhere", "--out", "no"];
    let output = bench.gaia("train", &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("evaluate.where"), "{}", said(&output));
}

#[test]
fn a_killed_node_that_nobody_waits_for_ends_the_run_and_is_named_and_none_is_left() {
    let text = run_file(&["north", "south"], "driver = \"real\"", "clocks = 1000000");
    let text = text.replace("[stop]", "[failures]\ngive_up_after = \"0 s\"\n[stop]");
    let bench = Bench::new(&text);
    let mut run = Node(bench.gaia("train", &["--out", "out", "--quiet"]).spawn().unwrap());
    let progress = bench.path("out").join("progress.jsonl");
    while fs::read_to_string(&progress).unwrap_or_default().lines().count() < 2 {
        assert!(run.0.try_wait().unwrap().is_none(), "{:?}", run.end());
        std::thread::yield_now();
    }
    let nodes = children(run.0.id());
    assert_eq!(nodes.len(), 4);
    let killed = nodes[0];
    let command = fs::read(format!("/proc/{killed}/cmdline")).unwrap();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    let role = if command.contains("--server") { "server" } else { "worker" };
    let dc = if command.contains("north") { "north" } else { "south" };
    let kill = Command::new("kill").args(["-9", &killed.to_string()]).status().unwrap();
    assert!(kill.success());
    let (code, said) = run.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("{role} 0 of {dc}")), "{said}");
    for node in nodes {
        let alive = fs::read_to_string(format!("/proc/{node}/cmdline")).unwrap_or_default();
        assert!(!alive.contains("--ends-with-stdin"), "{node} is left: {alive}");
    }
}

#[test]
fn nodes_end_with_who_started_them() {
    let text = run_file(&["north", "south"], "driver = \"real\"", "clocks = 1000000");
    let bench = Bench::new(&text);
    let mut run = Node(bench.gaia("train", &["--out", "out", "--quiet"]).spawn().unwrap());
    while children(run.0.id()).len() < 4 {
        assert!(run.0.try_wait().unwrap().is_none(), "{:?}", run.end());
        std::thread::yield_now();
    }
    let nodes = children(run.0.id());
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    // It hangs, and so the test fails, where one goes on.
    for node in nodes {
        let path = format!("/proc/{node}/cmdline");
        while fs::read_to_string(&path).unwrap_or_default().contains("--ends-with-stdin") {
            std::thread::yield_now();
        }
    }
}

/// What a run over processes of this machine has in the folder for temporary files, which is this bench's.
#[cfg(unix)]
fn temporary(bench: &Bench) -> Vec<PathBuf> {
    fs::read_dir(bench.path("temporary")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_leaves_no_keys_behind_and_while_it_lasts_only_its_user_can_read_them() {
    use std::os::unix::fs::PermissionsExt;

    for signal in ["-TERM", "-INT"] {
        let text = run_file(&["north", "south"], "driver = \"real\"", "clocks = 1000000");
        let bench = Bench::new(&text);
        let mut run = Node(bench.gaia("train", &["--out", "out", "--quiet"]).spawn().unwrap());
        while children(run.0.id()).len() < 4 {
            assert!(run.0.try_wait().unwrap().is_none(), "{:?}", run.end());
            std::thread::yield_now();
        }

        let folders = temporary(&bench);
        assert_eq!(folders.len(), 1, "{folders:?}");
        let mode = fs::metadata(&folders[0]).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{mode:o}");
        let certificates = folders[0].join("certificates");
        assert!(certificates.join("nodes").is_dir());
        assert!(!certificates.join("authority").exists(), "nobody needs its key");

        send(signal, run.0.id());
        let (code, said) = run.end();
        // It depends on whether training had begun.
        let expect = if code == Some(75) { "ends in order" } else { "the run was interrupted" };
        assert!(matches!(code, Some(1 | 75)) && said.contains(expect), "{code:?}: {said}");
        assert_eq!(temporary(&bench), Vec::<PathBuf>::new(), "{signal}");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_ends_in_order_with_its_model_and_its_report() {
    for signal in ["-TERM", "-INT"] {
        let text = run_file(&["north", "south"], "driver = \"real\"", "clocks = 1000000");
        let bench = Bench::new(&text);
        let mut run = Node(bench.gaia("train", &["--out", "out", "--quiet"]).spawn().unwrap());
        while evaluations(&bench, "out").len() < 2 {
            assert!(run.0.try_wait().unwrap().is_none(), "{:?}", run.end());
            std::thread::yield_now();
        }

        let resume = ["--out", "out", "--resume", "auto"];
        let second = bench.gaia("train", &resume).output().unwrap();
        assert_eq!(second.status.code(), Some(2), "{}", said(&second));
        assert!(said(&second).contains("is used by another process"), "{}", said(&second));

        send(signal, run.0.id());
        let (code, text) = run.end();
        assert_eq!(code, Some(75), "{text}");
        assert!(text.contains("a second signal ends it at once"), "{text}");
        let summary = bench.summary("out");
        assert_eq!(summary["stopped_by"], "interrupted");
        assert_eq!(summary["copies_equal"], true);
        for file in ["model.safetensors", "report.html", "convergence.svg"] {
            assert!(bench.path("out").join(file).is_file(), "{file}");
        }

        let again = bench.gaia("train", &resume).output().unwrap();
        assert!(again.status.success(), "{}", said(&again));
        assert!(said(&again).contains("has finished"), "{}", said(&again));

        // Its model is a beginning for another run.
        let mut next =
            bench.gaia("train", &["--out", "next", "--quiet", "--set", "stop.clocks=10"]);
        let next = next.args(["--init", "out/model.safetensors"]).output().unwrap();
        assert_eq!(next.status.code(), Some(0), "{}", said(&next));
        let first = |of: &str| evaluations(&bench, of)[0]["objective"].as_f64().unwrap();
        assert!(first("next") < first("out"), "{} after {}", first("next"), first("out"));
        assert_eq!(bench.summary("out"), summary);
    }
}

/// A snapshot is there before the run has ended, and lasts where all of it is killed.
#[test]
fn a_model_is_written_during_a_run_over_processes() {
    let keys = "driver = \"real\"\nmodel.every = 10";
    let bench = Bench::new(&run_file(&["north", "south"], keys, "clocks = 1000000"));
    let mut run = Node(bench.gaia("train", &["--out", "out", "--quiet"]).spawn().unwrap());
    while !bench.path("out/model.safetensors").is_file() {
        assert!(run.0.try_wait().unwrap().is_none(), "{:?}", run.end());
        std::thread::yield_now();
    }
    run.0.kill().unwrap();
    run.0.wait().unwrap();

    for file in ["out/model.safetensors", "out/model-best.safetensors"] {
        let model = bench.path(file);
        let mut evaluate = Command::new(assert_cmd::cargo::cargo_bin!("gaia"));
        let output = evaluate.arg("evaluate").arg(&model).arg("--json").output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let clock = found["trained"]["clock"].as_u64().unwrap();
        assert!(clock >= 10 && clock.is_multiple_of(5), "{clock}");
        // One copy on all data, beside each copy on its own.
        let [now, then] = [&found["objective"], &found["trained"]["objective"]];
        let (now, then) = (now.as_f64().unwrap(), then.as_f64().unwrap());
        assert!((now / then - 1.0).abs() < 0.1, "{now} {then}");
    }
}

/// With `model.keep = "home"` no copy of the model reaches the coordinator.
#[test]
fn models_stay_in_their_data_centers_where_they_are_to() {
    let keys = "driver = \"real\"\nmodel = { keep = \"home\", every = 10 }";
    let text = run_file(&["north", "south"], keys, "clocks = 25");
    let bench = Bench::new(
        &text.replace("[[topology.data_center]]", "[[topology.data_center]]\nservers = 2"),
    );
    let output = bench.gaia("train", &["--out", "out", "--quiet"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let summary = bench.summary("out");
    assert!(!bench.path("out/model.safetensors").exists());

    let models = ["north", "south"].map(|dc| {
        let folder = bench.path("out/home").join(dc);
        assert!(folder.join("best/model-00002-of-00002.safetensors").is_file());
        gaia_model::TrainedModel::read(&folder).unwrap()
    });
    let [north, south] = &models;
    assert_eq!((&north.tables, &north.attachments), (&south.tables, &south.attachments));
    assert!(north.attachments.contains_key("users.names"));
    let description = north.description.as_ref().unwrap();
    assert_eq!(summary["metric"]["value"], description.metric.value);
    assert_eq!(summary["objective"], description.objective);

    // The folder of all shards is a beginning for another run.
    let mut next = bench.gaia("train", &["--out", "next", "--quiet", "--set", "stop.clocks=5"]);
    next.args(["--set", "model.keep=coordinator", "--init", "out/home/north"]);
    let next = next.output().unwrap();
    assert_eq!(next.status.code(), Some(0), "{}", said(&next));
    let first = |of: &str| evaluations(&bench, of)[0]["objective"].as_f64().unwrap();
    assert!(first("next") < first("out"), "{} after {}", first("next"), first("out"));
}

#[test]
fn a_server_without_a_folder_for_its_model_does_not_start() {
    let bench = Bench::new(&run_file(&["north", "south"], "model.keep = \"home\"", "clocks = 5"));
    bench.certify("certs", &["north", "south"]);
    let arguments = ["--dc", "north", "--server", "0", "--listen", "127.0.0.1:0"];
    let mut node = bench.gaia("node", &arguments);
    let output = node.env("GAIA_COORDINATOR", "127.0.0.1:1").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("expected --out DIR for each server"), "{}", said(&output));
}

/// As by a power failure, or by a scheduler that ends a job.
#[cfg(unix)]
#[test]
fn a_run_of_which_all_processes_were_killed_continues_where_it_was() {
    let text = run_file(&["north", "south"], "driver = \"real\"", "clocks = 250");
    let bench = Bench::new(&text);
    let resume = ["--out", "out", "--resume", "auto", "--quiet"];
    let mut kept = 0;
    for (evaluated, kills_nodes) in [(3, true), (12, false)] {
        let mut run = Node(bench.gaia("train", &resume).spawn().unwrap());
        while evaluations(&bench, "out").len() < evaluated {
            assert!(run.0.try_wait().unwrap().is_none(), "{:?}", run.end());
            std::thread::yield_now();
        }
        let nodes = children(run.0.id());
        run.0.kill().unwrap();
        // Nodes end by themselves, too, once the process that has started them is gone.
        nodes.iter().filter(|_| kills_nodes).for_each(|node| send("-KILL", *node));
        run.0.wait().unwrap();
        assert!(!bench.path("out").join("summary.json").exists());
        kept = evaluations(&bench, "out").len();
    }

    let before = evaluations(&bench, "out");
    let run = bench.gaia("train", &resume).output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", said(&run));
    check_summary(&bench.summary("out"), 2, 2);
    let all = evaluations(&bench, "out");
    // The last evaluation may have been shown before it was written to the coordinator's state.
    assert_eq!(all[..kept - 1], before[..kept - 1]);
    assert!(!bench.path("out").join("nodes").exists(), "nobody needs them any more");
}

#[test]
fn nodes_start_in_any_order_and_say_whom_they_wait_for() {
    for keys in ["", "topology.lan_tls = false"] {
        let names = ["north", "south"];
        let text = run_file(&names, "", "clocks = 20");
        let text = text.replace(
            "name = \"here\"",
            &format!("name = \"here\"\n{}", keys.replace("topology.", "")),
        );
        let bench = Bench::new(&text);
        bench.certify("certs", &names);
        let coordinator = free_address();
        let listen = ["--listen", "127.0.0.1:0"];
        let north = ["--dc", "north", "--server", "0", "--worker", "0"];
        let mut first = bench.node(&coordinator, "certs", &[&north[..], &listen].concat());
        let mut line = String::new();
        let mut stderr = first.stderr();
        stderr.read_line(&mut line).unwrap();
        let expected =
            format!("waiting for the coordinator at {coordinator}: port: connection refused");
        assert!(line.contains(&expected), "{line}");
        let last = ["--coordinator", "--out", "out", "--quiet"];
        let mut conductor = bench.node(&coordinator, "certs", &last);
        let mut waiting = String::new();
        let mut told = conductor.stderr();
        told.read_line(&mut waiting).unwrap();
        assert!(waiting.contains("server 0 of south, worker 0 of south"), "{waiting}");
        let south = ["--dc", "south", "--server", "0"];
        let server = bench.node(&coordinator, "certs", &[&south[..], &listen].concat());
        let worker = bench.node(&coordinator, "certs", &["--dc", "south", "--worker", "0"]);
        let rest: Vec<String> = told.lines().map(Result::unwrap).collect();
        assert_eq!(conductor.end().0, Some(0), "{rest:?}");
        for node in [server, worker] {
            let (code, said) = node.end();
            assert_eq!(code, Some(0), "{said}");
        }
        let rest: Vec<String> = stderr.lines().map(Result::unwrap).collect();
        assert_eq!(first.end().0, Some(0), "{rest:?}");
        check_summary(&bench.summary("out"), 2, 2);
    }
}

#[test]
fn nodes_that_are_started_one_by_one_get_the_remote_model_that_their_coordinator_chooses() {
    let names = ["north", "south"];
    let text = run_file(&names, "", "clocks = 20");
    let bench = Bench::new(&text.replace("model = \"asp\"\nthreshold = 0.05", "model = \"auto\""));
    bench.certify("certs", &names);
    let coordinator = free_address();
    let listen = ["--listen", "127.0.0.1:0"];
    let node = |dc: &'static str| ["--dc", dc, "--server", "0", "--worker", "0"];
    // One waits for the coordinator, and one comes when it has chosen.
    let north = bench.node(&coordinator, "certs", &[&node("north")[..], &listen].concat());
    let mut conductor = bench.node(&coordinator, "certs", &["--coordinator", "--out", "out"]);
    let mut told = conductor.stderr().lines().map(Result::unwrap);
    let chosen = told.find(|line| line.contains("was chosen by model = \"auto\"")).unwrap();
    let south = bench.node(&coordinator, "certs", &[&node("south")[..], &listen].concat());
    let rest: Vec<String> = told.collect();
    assert_eq!(conductor.end().0, Some(0), "{rest:?}");
    for node in [north, south] {
        let (code, said) = node.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains(&chosen), "{said}, expected {chosen}");
    }
    let summary = bench.summary("out");
    check_summary(&summary, 2, 2);
    let (name, reason) = chosen.split_once(" was chosen by model = \"auto\". ").unwrap();
    assert_eq!(
        (&summary["remote_sync"], &summary["remote_sync_reason"]),
        (&name.into(), &reason.into())
    );
}

#[test]
fn a_node_that_names_a_remote_model_is_turned_away_by_a_coordinator_that_chooses() {
    let names = ["north", "south"];
    let bench = Bench::new(&run_file(&names, "", "clocks = 20"));
    bench.certify("certs", &names);
    let coordinator = free_address();
    let auto = ["--coordinator", "--out", "out", "--set", "sync.remote={model = 'auto'}"];
    let _conductor = bench.node(&coordinator, "certs", &auto);
    let (code, said) = bench.node(&coordinator, "certs", &["--dc", "south", "--worker", "0"]).end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("start all nodes with the same run file"), "{said}");
}

#[test]
fn a_node_with_a_wrong_certificate_is_turned_away() {
    let names = ["north", "south"];
    let bench = Bench::new(&run_file(&names, "", "clocks = 20"));
    bench.certify("certs", &names);
    bench.certify("forged", &names);
    let coordinator = free_address();
    let _conductor = bench.node(&coordinator, "certs", &["--coordinator", "--out", "out"]);
    let node = ["--dc", "south", "--worker", "0"];
    let (code, said) = bench.node(&coordinator, "forged", &node).end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("certificate") && said.contains("the coordinator"), "{said}");
    let mistaken = bench.path("certs/nodes/north/worker-0");
    let (code, said) = bench.node(&coordinator, mistaken.to_str().unwrap(), &node).end();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("gaia://real/north/worker/0"), "{said}");
}

#[test]
fn a_node_with_another_run_file_is_turned_away() {
    let names = ["north", "south"];
    let bench = Bench::new(&run_file(&names, "", "clocks = 20"));
    bench.certify("certs", &names);
    let coordinator = free_address();
    let _conductor = bench.node(&coordinator, "certs", &["--coordinator", "--out", "out"]);
    let node = ["--dc", "south", "--worker", "0", "--set", "sync.remote.threshold=0.5"];
    let (code, said) = bench.node(&coordinator, "certs", &node).end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("start all nodes with the same run file"), "{said}");
}

#[test]
fn a_check_says_of_each_link_what_is_wrong() {
    let names = ["north", "south", "west"];
    let mut text = run_file(&names, "", "clocks = 20");
    let (coordinator, north) = (free_address(), free_address());
    for (name, address) in [("north", north.as_str()), ("west", "no-such-host.invalid:4433")] {
        let line = format!("name = \"{name}\"");
        text = text.replace(&line, &format!("{line}\nserver_addresses = [\"{address}\"]"));
    }
    let bench = Bench::new(&text);
    bench.certify("certs", &names);
    bench.certify("forged", &names);
    let _conductor = bench.node(&coordinator, "certs", &["--coordinator", "--out", "out"]);
    let mut server = bench.node(&coordinator, "certs", &["--dc", "north", "--server", "0"]);
    let check = |certs: &str, place: &[&str]| {
        let mut command = bench.gaia("check", &["--connect", "--json", "--certs", certs, "--dc"]);
        command.args(place).env("GAIA_COORDINATOR", &coordinator).stdout(Stdio::piped());
        let output = command.output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let links = found["connections"].as_array().cloned().unwrap_or_default();
        let faults: Vec<(String, Option<String>)> = links
            .iter()
            .map(|link| {
                let text = |key: &str| link[key].as_str().map(str::to_owned);
                (text("to").unwrap_or_default(), text("fault"))
            })
            .collect();
        (output.status.code(), faults, said(&output))
    };
    // The server is up once a worker's link to it works.
    loop {
        let (code, faults, said) = check("certs", &["north", "--worker", "0"]);
        if code == Some(0) {
            assert_eq!(faults.len(), 2, "{faults:?}");
            break;
        }
        assert!(
            faults.iter().flat_map(|(_, fault)| fault).all(|fault| fault.contains("refused")),
            "{faults:?} {said}"
        );
        assert!(server.0.try_wait().unwrap().is_none());
    }
    let (code, faults, said) = check("certs", &["south", "--server", "0"]);
    assert_eq!(code, Some(1), "{said}");
    let expected = ["the coordinator", "server 0 of north", "server 0 of west"];
    assert_eq!(faults.iter().map(|(to, _)| to.as_str()).collect::<Vec<_>>(), expected);
    assert_eq!((&faults[0].1, &faults[1].1), (&None, &None), "{faults:?}");
    assert!(faults[2].1.as_ref().unwrap().starts_with("name: "), "{faults:?}");
    let (_, faults, said) = check("forged", &["south", "--server", "0"]);
    for (to, fault) in &faults[..2] {
        let fault = fault.as_deref().unwrap_or("none");
        assert!(fault.starts_with("certificate: "), "{to}: {fault} {said}");
    }
}

#[test]
fn a_node_that_nobody_places_says_how_to_place_it() {
    let bench = Bench::new(&run_file(&["north", "south"], "", "clocks = 20"));
    let check = |arguments: &[&str], environment: &[(&str, &str)], expected: &str| {
        let mut command = bench.gaia("node", arguments);
        let output = command.envs(environment.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(expected), "{}", said(&output));
    };
    check(&[], &[], "GAIA_ROLE");
    check(&["--dc", "north"], &[], "--server N");
    check(&["--dc", "nord", "--server", "0"], &[], "expected one of north, south");
    check(&["--dc", "north", "--server", "1"], &[], "--server is `1`, expected 0 to 0 for north");
    check(&[], &[("RANK", "9")], "RANK is `9`, expected a rank below 5");
}

/// The evaluations in a run directory.
fn evaluations(bench: &Bench, directory: &str) -> Vec<Value> {
    let path = bench.path(directory).join("progress.jsonl");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// No node is there that it could wait for.
#[test]
fn a_coordinator_does_not_wait_for_nodes_if_it_cannot_write_its_results() {
    let names = ["north", "south"];
    let bench = Bench::new(&run_file(&names, "", "clocks = 20"));
    bench.certify("certs", &names);
    fs::create_dir(bench.path("thesis")).unwrap();
    fs::write(bench.path("thesis/thesis.tex"), "years of work").unwrap();
    for state in [&[][..], &["--state", "state"]] {
        let conduct = [&["--coordinator", "--out", "thesis"], state].concat();
        let (code, said) = bench.node(&free_address(), "certs", &conduct).end();
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("thesis: not empty, expected a new or an empty directory"), "{said}");
    }
}

#[test]
fn a_coordinator_that_was_killed_goes_on_where_it_was() {
    let names = ["north", "south"];
    let bench = Bench::new(&run_file(&names, "", "clocks = 250"));
    bench.certify("certs", &names);
    let coordinator = free_address();
    let north = ["--dc", "north", "--server", "0", "--worker", "0"];
    let south = ["--dc", "south", "--server", "0", "--worker", "0"];
    let listen = ["--listen", "127.0.0.1:0"];
    let nodes = [north, south]
        .map(|place| bench.node(&coordinator, "certs", &[&place[..], &listen].concat()));
    let conduct = ["--coordinator", "--out", "out", "--state", "state", "--quiet"];
    let mut first = bench.node(&coordinator, "certs", &conduct);
    while evaluations(&bench, "out").len() < 3 {
        assert!(first.0.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    let before = evaluations(&bench, "out");
    let (code, said) = bench.node(&coordinator, "certs", &conduct).end();
    assert_eq!(code, Some(0), "{said}");
    for node in nodes {
        let (code, said) = node.end();
        assert_eq!(code, Some(0), "{said}");
    }
    check_summary(&bench.summary("out"), 2, 2);
    let all = evaluations(&bench, "out");
    assert!(all.len() > before.len());
    // Its state is written once an evaluation is told of, so that the last of them may be asked for again.
    let kept = before.len() - 1;
    assert_eq!(all[..kept], before[..kept]);
    let time = |line: &Value| line["time_s"].as_f64().unwrap();
    assert!(all.windows(2).all(|pair| time(&pair[0]) <= time(&pair[1])));
}
