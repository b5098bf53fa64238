//! What an operator sees of nodes: their metrics, health and readiness over HTTP, and their logs.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gaia_certificates::{Directory, Identity};
use rustls::pki_types::UnixTime;
use serde_json::Value;
use tempfile::TempDir;

/// Two data centers with a server and a worker each, for so many clocks.
fn run_file(clocks: u64) -> String {
    format!(
        "name = \"watched\"\nseed = 7\n\
         [app]\nkind = \"matrix-factorization\"\nrank = 4\n\
         data.synthetic = {{ users = 60, items = 40, ratings = 1500, rank = 2, noise = 0.3 }}\n\
         [sync.remote]\nmodel = \"asp\"\nthreshold = 0.05\n\
         [compute]\nmodel = \"cost\"\nclock_overhead = \"5 ms\"\n\
         [evaluate]\nevery = 5\n[stop]\nclocks = {clocks}\n\
         [topology]\nname = \"here\"\n\
         [topology.wan]\nbandwidth = \"20 Mbit/s\"\nrtt = \"10 ms\"\nprice = \"0.02 USD/GB\"\n\
         [[topology.data_center]]\nname = \"north\"\n[[topology.data_center]]\nname = \"south\"\n"
    )
}

struct Bench {
    folder: TempDir,
    coordinator: String,
}

impl Bench {
    fn new(clocks: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("run.toml"), run_file(clocks)).unwrap();
        let coordinator = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let coordinator = coordinator.local_addr().unwrap().to_string();
        Self { folder, coordinator }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn certify(&self) {
        let mut nodes = vec![Identity::coordinator("watched", "north")];
        for dc in ["north", "south"] {
            nodes.push(Identity::server("watched", dc, 0));
            nodes.push(Identity::worker("watched", dc, 0));
        }
        let now = UnixTime::now();
        let mut directory = Directory::create(&self.path("certs"), "watched", now).unwrap();
        directory.issue(&nodes, now, Duration::from_secs(86_400)).unwrap();
    }

    fn gaia(&self, verb: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("gaia"));
        command.arg(verb).arg("run.toml").args(arguments).current_dir(self.folder.path());
        for name in ["GAIA_LOG", "GAIA_LOG_FORMAT", "GAIA_METRICS", "GAIA_ROLE", "RANK"] {
            command.env_remove(name);
        }
        command.env("GAIA_COORDINATOR", &self.coordinator).env("NO_COLOR", "1");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Starts a node that can be watched, and waits until it says where.
    fn node(&self, label: &str, place: &[&str]) -> Node {
        let log = self.path(&format!("{}.log", label.replace('/', "-")));
        let mut command = self.gaia("node", place);
        command.args(["--certs", "certs", "--metrics", "0", "--log", "json"]);
        let child = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
        let mut node = Node { child, label: label.into(), log, address: String::new() };
        node.address = node.wait_for(|node| {
            let lines = events(&fs::read_to_string(&node.log).unwrap());
            let said = lines.iter().filter_map(|line| line["fields"]["message"].as_str());
            said.filter_map(|said| said.strip_prefix("metrics at http://"))
                .find_map(|at| at.strip_suffix("/metrics"))
                .map(str::to_owned)
        });
        node
    }
}

/// A process that does not outlive its test.
struct Node {
    child: Child,
    label: String,
    log: PathBuf,
    address: String,
}

impl Node {
    fn wait_for<T>(&mut self, find: impl Fn(&Self) -> Option<T>) -> T {
        loop {
            if let Some(found) = find(self) {
                return found;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "{}: {}", self.label, fs::read_to_string(&self.log).unwrap());
            std::thread::yield_now();
        }
    }

    /// The status of a page, and its body.
    fn get(&self, page: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {page} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        (status, body.into())
    }

    fn wait_until_it_says(&mut self, page: &str, status: u16, expected: &str) {
        let expected = format!("{expected}\n");
        self.wait_for(|node| (node.get(page) == (status, expected.clone())).then_some(()));
    }

    /// Waits until each of these series is above 0.
    fn wait_until_counted(&mut self, series: &[&str]) -> BTreeMap<String, f64> {
        self.wait_for(|node| {
            let (status, page) = node.get("/metrics");
            assert_eq!(status, 200);
            let found = exposition(&page);
            series.iter().all(|name| found.get(*name).is_some_and(|at| *at > 0.0)).then_some(found)
        })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // One that has ended cannot be killed.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// Every series of a page with its value; fails where the page is not as Prometheus has it.
fn exposition(page: &str) -> BTreeMap<String, f64> {
    let legal = |name: &str| {
        let first = name.chars().next().is_some_and(|c| c.is_ascii_lowercase());
        first && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let (mut described, mut typed) = (BTreeSet::new(), BTreeMap::new());
    let mut series = BTreeMap::new();
    assert!(page.ends_with('\n'));
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').unwrap();
            assert!(legal(name) && !text.is_empty(), "{line}");
            assert!(described.insert(name), "described twice: {line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(described.contains(name), "{line}");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(typed.insert(name, kind).is_none(), "typed twice: {line}");
        } else {
            let (key, value) = line.rsplit_once(' ').unwrap();
            let name = key.split('{').next().unwrap();
            let parts = ["_bucket", "_sum", "_count"];
            let family = parts.iter().find_map(|part| {
                let family = name.strip_suffix(part)?;
                (typed.get(family) == Some(&"histogram")).then_some(family)
            });
            let family = family.unwrap_or(name);
            let kind = typed.get(family).unwrap_or_else(|| panic!("of no type: {line}"));
            assert_eq!(*kind == "counter", name.ends_with("_total"), "{line}");
            if let Some(labels) = key.strip_prefix(name).and_then(|rest| rest.strip_prefix('{')) {
                for label in labels.strip_suffix('}').unwrap().split(',') {
                    let (label, value) = label.split_once('=').unwrap();
                    assert!(legal(label), "{line}");
                    assert!(value.starts_with('"') && value.ends_with('"'), "{line}");
                }
            }
            let value: f64 = value.replace("Inf", "inf").parse().unwrap();
            assert!(series.insert(key.to_owned(), value).is_none(), "twice: {line}");
        }
    }
    series
}

/// The lines of a log that are whole.
fn events(log: &str) -> Vec<Value> {
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect()
}

/// Fails where a line lacks what merging logs takes.
fn check_log(path: &Path, node: &str) {
    let lines = events(&fs::read_to_string(path).unwrap());
    assert!(!lines.is_empty(), "{}", path.display());
    for line in lines {
        assert_eq!(line["node"], node, "{line}");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
        for key in ["level", "target"] {
            assert!(line[key].is_string(), "{line}");
        }
        assert!(line["fields"]["message"].is_string(), "{line}");
    }
}

#[test]
fn a_run_can_be_watched_while_it_gathers_and_while_it_goes() {
    let bench = Bench::new(1_000_000);
    bench.certify();
    let north = ["--dc", "north", "--server", "0", "--listen", "127.0.0.1:0"];
    let mut server = bench.node("north/server-0", &north);
    assert_eq!(server.get("/healthz"), (200, "ok\n".into()));
    let all = format!("north/server-0: waits for coordinator north/coordinator, {REST}");
    server.wait_until_it_says("/readyz", 503, &all);
    let mut coordinator = bench.node("north/coordinator", &["--coordinator", "--out", "out"]);
    server.wait_until_it_says("/readyz", 503, &format!("north/server-0: waits for {REST}"));
    let missing = "worker north/worker-0, server south/server-0, worker south/worker-0";
    let said = format!("north/coordinator: waits for {missing}");
    coordinator.wait_until_it_says("/readyz", 503, &said);
    let south = ["--dc", "south", "--server", "0", "--worker", "0", "--listen", "127.0.0.1:0"];
    let mut both = bench.node("south/server-0+south/worker-0", &south);
    let mut worker = bench.node("north/worker-0", &["--dc", "north", "--worker", "0"]);
    for node in [&mut server, &mut coordinator, &mut both, &mut worker] {
        node.wait_until_it_says("/readyz", 200, "ok");
        assert_eq!(node.get("/healthz"), (200, "ok\n".into()), "{}", node.label);
    }
    let link = "node=\"north/server-0\",peer=\"south/server-0\"";
    let of_lane =
        |what: &str, lane: &str| format!("gaia_mirror_{what}_total{{lane=\"{lane}\",{link}}}");
    let of_link = |what: &str| format!("gaia_mirror_{what}_total{{{link}}}");
    let mut due = vec!["gaia_clocks_finished_total{node=\"north/server-0\"}".to_owned()];
    for what in ["sent_bytes", "received_bytes", "received_frames"] {
        due.extend(["control", "data"].map(|lane| of_lane(what, lane)));
    }
    let counted = ["sent_frames", "sent_updates", "sent_wire_bytes", "changes", "carried_changes"];
    due.extend(counted.map(of_link));
    due.push(of_link("busy_seconds"));
    let due: Vec<&str> = due.iter().map(String::as_str).collect();
    let found = server.wait_until_counted(&due);
    for (series, value) in [
        (format!("gaia_peer_connected{{{link}}}"), 1.0),
        (format!("gaia_peer_connections_total{{{link}}}"), 1.0),
        (of_link("frames_refused"), 0.0),
        ("gaia_mirrors_lost_total{node=\"north/server-0\"}".into(), 0.0),
        ("gaia_node_info{node=\"north/server-0\",run=\"watched\"}".into(), 1.0),
        (format!("gaia_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), 1.0),
    ] {
        assert_eq!(found.get(&series), Some(&value), "{series}: {found:#?}");
    }
    let held_back = found[&format!("gaia_mirror_held_back_ratio{{{link}}}")];
    assert!((0.0..=1.0).contains(&held_back), "{held_back}");
    assert!(found.contains_key(&format!("gaia_mirror_lag_clocks{{{link}}}")), "{found:#?}");
    assert!(found["process_start_time_seconds"] > 1.7e9);
    let at = "{node=\"north/worker-0\"}";
    let due = [format!("gaia_iteration_seconds_count{at}"), format!("gaia_lan_bytes_total{at}")];
    worker.wait_until_counted(&due.each_ref().map(String::as_str));
    let at = "{dc=\"south\",node=\"north/coordinator\"}";
    let due = [
        "gaia_evaluations_total{node=\"north/coordinator\"}".into(),
        format!("gaia_data_center_clock{at}"),
        format!("gaia_objective{at}"),
        format!("gaia_held_out_metric{at}"),
    ];
    coordinator.wait_until_counted(&due.each_ref().map(String::as_str));
    // A process of two nodes tells of both.
    both.wait_until_counted(&[
        "gaia_clocks_finished_total{node=\"south/server-0\"}",
        "gaia_iteration_seconds_count{node=\"south/worker-0\"}",
    ]);
    for node in [&server, &coordinator, &both, &worker] {
        check_log(&node.log, &node.label);
    }
}

#[test]
fn a_mirror_that_is_gone_is_told_of_and_that_it_is_back() {
    let bench = Bench::new(1_000_000);
    bench.certify();
    let _coordinator = bench.node("north/coordinator", &["--coordinator", "--out", "out"]);
    let start = |dc: &str| {
        let listen = ["--listen", "127.0.0.1:0", "--state", "state"];
        let place = ["--dc", dc, "--server", "0", "--worker", "0"];
        bench.node(&format!("{dc}/server-0+{dc}/worker-0"), &[&place[..], &listen].concat())
    };
    let [mut server, other] = ["north", "south"].map(start);
    server.wait_until_it_says("/readyz", 200, "ok");
    let link = "{node=\"north/server-0\",peer=\"south/server-0\"}";
    let (connected, connections) =
        (format!("gaia_peer_connected{link}"), format!("gaia_peer_connections_total{link}"));
    let found = server.wait_until_counted(&[&connected]);
    assert_eq!(found[&connections], 1.0);
    drop(other);
    let reason = "north/server-0: waits for mirror south/server-0";
    server.wait_until_it_says("/readyz", 503, reason);
    assert_eq!(server.get("/healthz"), (200, "ok\n".into()));
    assert_eq!(exposition(&server.get("/metrics").1)[&connected], 0.0);
    let _back = start("south");
    server.wait_until_it_says("/readyz", 200, "ok");
    let synced = "gaia_log_sync_seconds_count{node=\"north/server-0\"}";
    let written = "gaia_log_written_bytes_total{node=\"north/server-0\"}";
    let found = server.wait_until_counted(&[&connected, synced, written]);
    assert!(found[&connections] >= 2.0, "{found:#?}");
}

#[test]
fn nodes_that_a_run_starts_keep_a_log_each() {
    for format in ["text", "json"] {
        let bench = Bench::new(12);
        let mut command = bench.gaia("train", &["--driver", "real", "--out", "out", "--quiet"]);
        // A port for one is not for all.
        command.env("GAIA_LOG_FORMAT", format).env("GAIA_METRICS", "1");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert_eq!(said, "");
        for dc in ["north", "south"] {
            for node in ["server-0", "worker-0"] {
                let label = format!("{dc}/{node}");
                let log = bench.path("out/logs").join(format!("{label}.log"));
                if format == "json" {
                    check_log(&log, &label);
                }
                let text = fs::read_to_string(log).unwrap();
                assert!(text.contains("is connected to the coordinator"), "{label}: {text}");
            }
        }
    }
}

#[test]
fn a_run_whose_log_is_in_json_says_all_of_it_so() {
    let bench = Bench::new(12);
    let run = |settings: &[&str]| {
        let arguments = ["--driver", "real", "--out", "out", "--log", "json"];
        let mut command = bench.gaia("train", &[&arguments, settings].concat());
        command.env("GAIA_LOG", "gaia=info").output().unwrap()
    };
    let output = run(&["--set", "topology.wan.bandwidth=none"]);
    assert_eq!(output.status.code(), Some(2));
    let lines = events(&String::from_utf8_lossy(&output.stderr));
    assert_eq!((lines.len(), &lines[0]["level"]), (1, &"ERROR".into()), "{lines:?}");
    let output = run(&[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    fs::write(bench.path("said"), &said).unwrap();
    check_log(&bench.path("said"), "north/coordinator");
    let evaluated = events(&said).into_iter().filter(|line| line["fields"]["objective"].is_f64());
    assert!(evaluated.count() >= 2, "{said}");
}

#[test]
fn an_address_that_cannot_be_had_is_named() {
    let bench = Bench::new(12);
    bench.certify();
    let holds = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let taken = holds.local_addr().unwrap().to_string();
    let node = |metrics: &str, log: &str| {
        let place = ["--coordinator", "--certs", "certs", "--metrics", metrics, "--log", log];
        let output = bench.gaia("node", &place).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = node("here", "text");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("`here`") || said.contains("'here'"), "{said}");
    assert!(said.contains("GAIA_METRICS"), "{said}");
    let (code, said) = node(&taken, "json");
    assert_eq!(code, Some(1), "{said}");
    let lines = events(&said);
    let message = lines[0]["fields"]["message"].as_str().unwrap();
    assert!(message.contains(&format!("cannot listen on {taken}")), "{said}");
    assert_eq!(lines[0]["node"], "north/coordinator", "{said}");
}

/// What a server waits for once it has the coordinator.
const REST: &str = "worker north/worker-0, mirror south/server-0";
