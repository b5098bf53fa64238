//! Nodes that are killed, told to leave or cut off, in the middle of runs.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "processes have the time of the machine, and a relay its threads"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{ChildStderr, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gaia_certificates::{Directory, Identity};
use rustls::pki_types::UnixTime;
use serde_json::Value;

use super::{Bench, Node, check_summary, children, evaluations, free_address, run_file};

/// Far more than any of these runs takes.
const LIMIT: Duration = Duration::from_secs(120);

/// A run whose outcome does not depend on who is when where: every clock takes the changes of all.
fn in_step(clocks: u64) -> String {
    in_step_over(&["north", "south", "west"], clocks)
}

pub(super) fn in_step_over(data_centers: &[&str], clocks: u64) -> String {
    let text = run_file(data_centers, "driver = \"real\"", "");
    let text = text.replace("[stop]\n", &format!("[stop]\nclocks = {clocks}\n"));
    text.replace("model = \"asp\"\nthreshold = 0.05", "model = \"bsp\"")
}

/// Ends processes that would let a test hang: what they have said is then part of its failure.
pub(super) struct Limit(Arc<AtomicBool>);

impl Limit {
    pub(super) fn on(processes: &[&Node]) -> Self {
        let pids: Vec<String> = processes.iter().map(|node| node.0.id().to_string()).collect();
        let over = Arc::<AtomicBool>::default();
        let watched = over.clone();
        std::thread::spawn(move || {
            let until = Instant::now() + LIMIT;
            while !watched.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(100));
                if Instant::now() > until {
                    let _ended = Command::new("kill").arg("-9").args(&pids).status();
                    return;
                }
            }
        });
        Self(over)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A run over processes of this machine that is watched while things happen to it.
struct Watched {
    bench: Bench,
    run: Node,
    said: BufReader<ChildStderr>,
    _limit: Limit,
}

impl Watched {
    fn new(text: &str) -> Self {
        let bench = Bench::new(text);
        let mut run = Node(bench.gaia("train", &["--out", "out", "--quiet"]).spawn().unwrap());
        let said = run.stderr();
        let limit = Limit::on(&[&run]);
        Self { bench, run, said, _limit: limit }
    }

    /// Waits until the run has been evaluated so many times more.
    fn goes_on(&mut self, evaluated: usize) {
        let expected = evaluations(&self.bench, "out").len() + evaluated;
        while evaluations(&self.bench, "out").len() < expected {
            assert!(self.run.0.try_wait().unwrap().is_none(), "{}", self.rest());
            std::thread::yield_now();
        }
    }

    /// Sends a signal to the process of a node, and waits until it is started again.
    fn signal(&mut self, signal: &str, dc: &str, role: &str) {
        let pid = children(self.run.0.id()).into_iter().find(|pid| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            command.contains(&format!("--dc {dc} ")) && command.contains(&format!("--{role} "))
        });
        let pid = pid.unwrap().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let mut line = String::new();
        while !line.contains("is restarted") {
            line.clear();
            assert_ne!(self.said.read_line(&mut line).unwrap(), 0, "the run has ended");
        }
        assert!(line.contains(&format!("{role} 0 of {dc}")), "{line}");
    }

    /// Waits for the end of the run.
    fn ends(mut self) -> Value {
        let said = self.rest();
        assert_eq!(self.run.end().0, Some(0), "{said}");
        assert!(!self.bench.path("out/nodes").exists(), "of a run that is over nothing goes on");
        let summary = self.bench.summary("out");
        check_summary(&summary, 3, 3);
        summary
    }

    fn rest(&mut self) -> String {
        self.said.by_ref().lines().map_while(Result::ok).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn nodes_that_are_killed_in_turn_come_back_and_nothing_is_lost_or_doubled() {
    let clocks = 120;
    let mut run = Watched::new(&in_step(clocks));
    run.goes_on(2);
    for (signal, dc, role) in [
        ("-KILL", "north", "server"),
        ("-KILL", "north", "worker"),
        ("-KILL", "west", "server"),
        ("-TERM", "south", "server"),
        ("-KILL", "south", "worker"),
        ("-TERM", "west", "worker"),
    ] {
        run.signal(signal, dc, role);
        run.goes_on(1);
    }
    is_as_if_nothing_failed(&run.ends(), clocks, in_step);
}

/// A stop may reach workers late by a clock or two, and all go on to the clock of the furthest; however many clocks there
/// were, each counts as in virtual time, where nothing fails.
fn is_as_if_nothing_failed(stormy: &Value, clocks: u64, text: impl Fn(u64) -> String) {
    let judged = stormy["clocks"].as_u64().unwrap();
    assert!((clocks..clocks + 3).contains(&judged), "{judged}");
    let reached = stormy["data_center_clocks"][0].as_u64().unwrap();
    assert!(reached > judged, "{reached}");
    // In virtual time everyone hears of a stop during the clock after it.
    let bench = Bench::new(&text(reached - 1));
    let arguments = ["--driver", "simulated", "--out", "out", "--quiet"];
    assert!(bench.gaia("train", &arguments).status().unwrap().success());
    let calm = bench.summary("out");
    for key in ["objective", "data_center_clocks", "metric"] {
        assert_eq!(stormy[key], calm[key], "{key}");
    }
}

#[test]
fn nodes_that_do_not_wait_for_their_disks_come_back_from_a_kill() {
    let clocks = 80;
    let text = |clocks| in_step(clocks).replace("[stop]", "[log]\nsync = \"never\"\n[stop]");
    let mut run = Watched::new(&text(clocks));
    run.goes_on(2);
    for (dc, role) in [("north", "server"), ("west", "worker")] {
        run.signal("-KILL", dc, role);
        run.goes_on(1);
    }
    is_as_if_nothing_failed(&run.ends(), clocks, text);
}

/// Every update and every read counts as bulky here, so that a kill takes a data center back.
#[test]
fn nodes_that_answer_before_they_log_come_back_from_a_kill_and_repeat_what_was_lost() {
    let clocks = 120;
    let text = |clocks| in_step(clocks).replace("[stop]", "[log]\nbulky = \"0 B\"\n[stop]");
    let mut run = Watched::new(&text(clocks));
    run.goes_on(2);
    for (signal, dc, role) in [
        ("-KILL", "north", "server"),
        ("-KILL", "west", "worker"),
        ("-KILL", "west", "server"),
        ("-TERM", "south", "server"),
        ("-KILL", "south", "worker"),
    ] {
        run.signal(signal, dc, role);
        run.goes_on(1);
    }
    is_as_if_nothing_failed(&run.ends(), clocks, text);
}

#[test]
fn a_server_whose_disk_is_full_ends_and_goes_on_where_it_has_room() {
    let names = ["north", "south"];
    let clocks = 120;
    let text = |clocks| in_step_over(&names, clocks);
    let mut run = Bare::new(&text(clocks), &names);
    let south = ["--dc", "south", "--server", "0", "--listen", "127.0.0.1:0", "--state", "kept"];
    let full = run.bench.node_within(SMALL_DISK_BLOCKS, &run.coordinator, "certs", &south);
    let mut nodes: Vec<Node> = vec![run.server("north", "127.0.0.1:0")];
    nodes.extend(names.map(|dc| run.worker(dc)));
    let _limit = Limit::on(&[&run.conductor, &full, &nodes[0]]);
    run.goes_on(1);
    let (code, said) = full.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("cannot be written: File too large"), "{said}");

    nodes.push(run.bench.node(&run.coordinator, "certs", &south));
    is_as_if_nothing_failed(&run.ends(nodes), clocks, text);
}

/// Its nodes train on without it, as after a kill.
#[test]
fn a_coordinator_whose_disk_is_full_ends_alone_and_goes_on_where_it_has_room() {
    let names = ["north", "south"];
    let clocks = 120;
    let text = |clocks| in_step_over(&names, clocks);
    let mut run = Bare::telling(&text(clocks), &names);
    let mut nodes: Vec<Node> = names.map(|dc| run.server(dc, "127.0.0.1:0")).into();
    nodes.extend(names.map(|dc| run.worker(dc)));
    let _limit = Limit::on(&[&run.conductor, &nodes[0], &nodes[1]]);
    run.goes_on(1);
    // Nothing is written where a folder has the name of the draft.
    let draft = run.bench.path("decided/coordinator.part");
    while fs::create_dir(&draft).is_err() {
        std::thread::yield_now();
    }

    let Bare { bench, coordinator, conductor } = run;
    let (code, said) = conductor.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("coordinator.part cannot be written"), "{said}");
    fs::remove_dir(&draft).unwrap();
    let conductor = telling(&bench, &coordinator);
    is_as_if_nothing_failed(&Bare { bench, coordinator, conductor }.ends(nodes), clocks, text);
}

/// Room for the log of some clocks, and not for that of a run.
const SMALL_DISK_BLOCKS: u64 = 64;

/// Nodes that keep nothing, each in a process of its own, and their coordinator.
pub(super) struct Bare {
    pub(super) bench: Bench,
    pub(super) coordinator: String,
    pub(super) conductor: Node,
}

impl Bare {
    pub(super) fn new(text: &str, names: &[&str]) -> Self {
        let bench = Bench::new(text);
        bench.certify("certs", names);
        Self::over(bench, "certs")
    }

    /// The same on a bench with certificates, of which the coordinator has its own in this folder.
    fn over(bench: Bench, certs: &str) -> Self {
        let coordinator = free_address();
        let conductor =
            bench.node(&coordinator, certs, &["--coordinator", "--out", "out", "--quiet"]);
        Self { bench, coordinator, conductor }
    }

    /// The same, whose coordinator also tells of changes that are no trouble, and keeps what it decides.
    pub(super) fn telling(text: &str, names: &[&str]) -> Self {
        let bench = Bench::new(text);
        bench.certify("certs", names);
        let coordinator = free_address();
        let conductor = telling(&bench, &coordinator);
        Self { bench, coordinator, conductor }
    }

    /// Kills a coordinator that keeps what it decides, and starts it again.
    pub(super) fn restart_coordinator(&mut self) {
        self.conductor.0.kill().unwrap();
        self.conductor.0.wait().unwrap();
        self.conductor = telling(&self.bench, &self.coordinator);
    }

    pub(super) fn server(&self, dc: &str, listen: &str) -> Node {
        let place = ["--dc", dc, "--server", "0", "--listen", listen];
        self.bench.node(&self.coordinator, "certs", &place)
    }

    pub(super) fn worker(&self, dc: &str) -> Node {
        self.bench.node(&self.coordinator, "certs", &["--dc", dc, "--worker", "0"])
    }

    /// Waits until the run has been evaluated so many times more.
    pub(super) fn goes_on(&mut self, evaluated: usize) {
        let expected = evaluations(&self.bench, "out").len() + evaluated;
        while evaluations(&self.bench, "out").len() < expected {
            assert!(self.conductor.0.try_wait().unwrap().is_none(), "the run has ended");
            std::thread::yield_now();
        }
    }

    /// Waits for the end of the run, and of nodes.
    pub(super) fn ends(self, nodes: Vec<Node>) -> Value {
        let (code, said) = self.conductor.end();
        assert_eq!(code, Some(0), "{said}");
        for node in nodes {
            let (code, said) = node.end();
            assert_eq!(code, Some(0), "{said}");
        }
        self.bench.summary("out")
    }
}

fn telling(bench: &Bench, coordinator: &str) -> Node {
    let place = ["--coordinator", "--out", "out", "--state", "decided", "--quiet"];
    let mut command = bench.gaia("node", &place);
    command.args(["--certs", "certs"]).env("GAIA_COORDINATOR", coordinator);
    Node(command.env("GAIA_LOG", "info").spawn().unwrap())
}

#[test]
fn a_worker_that_kept_nothing_takes_up_its_work_where_its_servers_know_it() {
    let names = ["north", "south", "west"];
    let clocks = 120;
    let mut run = Bare::new(&in_step(clocks), &names);
    let mut nodes: Vec<Node> = names.map(|dc| run.server(dc, "127.0.0.1:0")).into();
    nodes.extend(["north", "west"].map(|dc| run.worker(dc)));
    let mut worker = run.worker("south");
    let _limit = Limit::on(&[&run.conductor, &nodes[0]]);
    for _ in 0..3 {
        run.goes_on(2);
        worker.0.kill().unwrap();
        worker.0.wait().unwrap();
        worker = run.worker("south");
    }
    nodes.push(worker);
    // What it computes again it computes from the same values, so that nothing tells it from the one before.
    is_as_if_nothing_failed(&run.ends(nodes), clocks, in_step);
}

#[test]
fn of_two_processes_of_one_worker_the_earlier_is_refused_by_name_and_the_run_goes_on() {
    let names = ["north", "south"];
    let clocks = 120;
    let text = |clocks| in_step_over(&names, clocks);
    let mut run = Bare::new(&text(clocks), &names);
    let mut nodes: Vec<Node> = names.map(|dc| run.server(dc, "127.0.0.1:0")).into();
    nodes.push(run.worker("north"));
    let earlier = run.worker("south");
    let _limit = Limit::on(&[&run.conductor, &nodes[0], &earlier]);
    run.goes_on(2);
    nodes.push(run.worker("south"));

    let (code, said) = earlier.end();
    assert_eq!(code, Some(1), "{said}");
    let reason = "a later process of worker 0 of south takes part, expected only one";
    assert!(said.contains(reason), "{said}");
    is_as_if_nothing_failed(&run.ends(nodes), clocks, text);
}

/// It waits for its coordinator no longer than the run would wait for it.
#[test]
fn a_worker_that_comes_back_after_the_end_of_its_run_says_so_and_ends() {
    let names = ["north", "south"];
    let failures = "[failures]\ngive_up_after = \"2 s\"\n[stop]";
    let run = Bare::new(&in_step_over(&names, 20).replace("[stop]", failures), &names);
    let worker = |run: &Bare| {
        let place = ["--dc", "south", "--worker", "0", "--state", "kept"];
        run.bench.node(&run.coordinator, "certs", &place)
    };
    let mut nodes: Vec<Node> = names.map(|dc| run.server(dc, "127.0.0.1:0")).into();
    nodes.extend([run.worker("north"), worker(&run)]);
    let _limit = Limit::on(&[&run.conductor, &nodes[0]]);
    for node in nodes {
        let (code, said) = node.end();
        assert_eq!(code, Some(0), "{said}");
    }

    let late = worker(&run);
    let _limit = Limit::on(&[&late]);
    let (code, said) = late.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the run may have ended without this node"), "{said}");
    let (code, said) = run.conductor.end();
    assert_eq!(code, Some(0), "{said}");
}

/// Carries connections to an address, until they are cut.
struct Wire {
    address: String,
    open: Arc<std::sync::Mutex<Vec<TcpStream>>>,
}

impl Wire {
    fn to(to: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let open = Arc::<std::sync::Mutex<Vec<TcpStream>>>::default();
        let carried = open.clone();
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let Ok(near) = near else { return };
                let Ok(far) = TcpStream::connect(&to) else { continue };
                for (from, into) in [(&near, &far), (&far, &near)] {
                    let (mut from, mut into) =
                        (from.try_clone().unwrap(), into.try_clone().unwrap());
                    std::thread::spawn(move || {
                        let _cut = std::io::copy(&mut from, &mut into);
                        let _gone = into.shutdown(Shutdown::Both);
                    });
                }
                carried.lock().unwrap().extend([near, far]);
            }
        });
        Self { address, open }
    }

    /// Cuts what it carries; whoever calls again is carried again.
    fn cut(&self) {
        let open = std::mem::take(&mut *self.open.lock().unwrap());
        assert!(!open.is_empty(), "nothing to cut");
        for stream in open {
            let _gone = stream.shutdown(Shutdown::Both);
        }
    }
}

#[test]
fn a_worker_and_its_server_that_are_cut_off_from_each_other_go_on_where_they_were() {
    let clocks = 100;
    let text = |clocks: u64| in_step_over(&["north"], clocks);
    let listen = free_address();
    let wire = Wire::to(listen.clone());
    let named = format!("name = \"north\"\nserver_addresses = [\"{}\"]", wire.address);
    let mut run = Bare::new(&text(clocks).replace("name = \"north\"", &named), &["north"]);
    let nodes = vec![run.server("north", &listen), run.worker("north")];
    let _limit = Limit::on(&[&run.conductor, &nodes[0], &nodes[1]]);
    for _ in 0..4 {
        run.goes_on(2);
        wire.cut();
    }
    is_as_if_nothing_failed(&run.ends(nodes), clocks, text);
}

#[test]
fn a_server_that_shares_its_process_with_a_worker_comes_back_with_it() {
    let text = in_step(80).replace("[topology.wan]", "defaults.colocated = true\n[topology.wan]");
    let mut run = Watched::new(&text);
    run.goes_on(2);
    for dc in ["south", "north"] {
        run.signal("-KILL", dc, "server");
        run.goes_on(1);
    }
    run.ends();
}

/// Carries datagrams between two servers, or does not.
fn relay(to: String, cut: Arc<AtomicBool>) -> String {
    let (front, back) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = front.local_addr().unwrap().to_string();
    let (answers, carries) = (front.try_clone().unwrap(), back.try_clone().unwrap());
    let (answering, carrying) = (cut.clone(), cut);
    let caller = Arc::new(std::sync::Mutex::new(None));
    let known = caller.clone();
    std::thread::spawn(move || {
        let mut datagram = [0; 1 << 16];
        while let Ok((bytes, from)) = front.recv_from(&mut datagram) {
            *caller.lock().unwrap() = Some(from);
            if !carrying.load(Ordering::Relaxed) {
                let _gone = carries.send_to(&datagram[..bytes], &to);
            }
        }
    });
    std::thread::spawn(move || {
        let mut datagram = [0; 1 << 16];
        while let Ok((bytes, _)) = back.recv_from(&mut datagram) {
            let from = *known.lock().unwrap();
            if let (Some(from), false) = (from, answering.load(Ordering::Relaxed)) {
                let _gone = answers.send_to(&datagram[..bytes], from);
            }
        }
    });
    address
}

#[test]
fn mirrors_that_were_cut_off_meet_again() {
    let names = ["north", "south"];
    let (coordinator, south, cut) = (free_address(), free_address(), Arc::<AtomicBool>::default());
    // The mirror is called where the relay listens; its worker is in its process.
    let address = relay(south.clone(), cut.clone());
    let text = run_file(&names, "", "clocks = 100");
    let named = format!("name = \"south\"\nserver_addresses = [\"{address}\"]");
    let bench = Bench::new(&text.replace("name = \"south\"", &named));
    bench.certify("certs", &names);
    let place = |dc, listen| ["--dc", dc, "--server", "0", "--worker", "0", "--listen", listen];
    let node = |place: &[&str]| {
        let mut command = bench.gaia("node", place);
        command.args(["--certs", "certs"]).env("GAIA_COORDINATOR", &coordinator);
        Node(command.env("GAIA_LOG", "info").spawn().unwrap())
    };
    let mut first = node(&place("north", "127.0.0.1:0"));
    let second = node(&place("south", &south));
    let mut conductor = node(&["--coordinator", "--out", "out", "--quiet"]);
    let _limit = Limit::on(&[&first, &second, &conductor]);
    while evaluations(&bench, "out").is_empty() {
        assert!(conductor.0.try_wait().unwrap().is_none(), "{}", conductor.end().1);
        std::thread::yield_now();
    }
    cut.store(true, Ordering::Relaxed);
    let mut said = first.stderr();
    let mut line = String::new();
    let lost = "server 0 of north is disconnected from server 0 of south";
    while !line.contains(lost) {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0);
    }
    cut.store(false, Ordering::Relaxed);
    let mut ends = vec![conductor.end(), second.end()];
    let rest: Vec<String> = said.lines().map_while(Result::ok).collect();
    ends.push((first.end().0, rest.join("\n")));
    assert!(ends.iter().all(|(code, _)| *code == Some(0)), "{ends:#?}");
    let summary = bench.summary("out");
    check_summary(&summary, 2, 2);
    assert_eq!(summary["clocks"], 100);
}

#[test]
fn a_node_goes_on_only_in_its_own_directory() {
    let names = ["north", "south"];
    let bench = Bench::new(&run_file(&names, "", "clocks = 20"));
    bench.certify("certs", &names);
    let coordinator = free_address();
    let node = |dc, more: &[&str]| {
        let place = ["--dc", dc, "--server", "0", "--listen", "127.0.0.1:0", "--state", "kept"];
        bench.node(&coordinator, "certs", &[&place[..], more].concat())
    };
    // It has its directory when it calls the coordinator, which nobody answers; told to leave, it leaves.
    let mut first = node("north", &[]);
    let mut line = String::new();
    let mut said = first.stderr();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("waiting for the coordinator"), "{line}");
    let (code, refused) = node("north", &[]).end();
    assert_eq!(code, Some(1), "{refused}");
    assert!(refused.contains("kept/north/server-0"), "{refused}");
    let pid = first.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(first.0.wait().unwrap().code(), Some(75));
    let (code, refused) = node("north", &["--set", "sync.remote.threshold=0.5"]).end();
    assert_eq!(code, Some(2), "{refused}");
    assert!(refused.contains("is of another run"), "{refused}");
    fs::create_dir_all(bench.path("kept/south")).unwrap();
    fs::rename(bench.path("kept/north/server-0"), bench.path("kept/south/server-0")).unwrap();
    let (code, refused) = node("south", &[]).end();
    assert_eq!(code, Some(2), "{refused}");
    assert!(refused.contains("gaia://real/north/server/0"), "{refused}");
}

/// A run of two data centers in which a server of one is killed, and comes back without anything that it had.
struct Lost {
    bench: Bench,
    conductor: Node,
    others: Vec<Node>,
}

impl Lost {
    fn server(text: &str) -> Self {
        let names = ["north", "south", "west"];
        let bench = Bench::new(text);
        bench.certify("certs", &names);
        let coordinator = free_address();
        let node = |place: &[&str]| bench.node(&coordinator, "certs", place);
        let all = ["--server", "0", "--worker", "0", "--listen", "127.0.0.1:0"];
        let mut others: Vec<Node> =
            ["north", "west"].map(|dc| node(&[&["--dc", dc][..], &all].concat())).into();
        others.push(node(&["--dc", "south", "--worker", "0"]));
        let south = ["--dc", "south", "--server", "0", "--listen", "127.0.0.1:0"];
        let mut server = node(&south);
        let mut conductor = node(&["--coordinator", "--out", "out", "--quiet"]);
        while evaluations(&bench, "out").len() < 2 {
            assert!(conductor.0.try_wait().unwrap().is_none(), "{}", conductor.end().1);
            std::thread::yield_now();
        }
        server.0.kill().unwrap();
        server.0.wait().unwrap();
        others.push(node(&south));
        Self { bench, conductor, others }
    }
}

#[test]
fn a_server_that_has_lost_its_disk_takes_the_copy_of_a_mirror() {
    let names = ["north", "south", "west"];
    let Lost { bench, conductor, others } = Lost::server(&run_file(&names, "", "clocks = 150"));
    let _limit = Limit::on(&others.iter().chain([&conductor]).collect::<Vec<_>>());
    let (code, said) = conductor.end();
    let rest: Vec<_> = others.into_iter().map(Node::end).collect();
    assert_eq!(code, Some(0), "{said}\n{rest:#?}");
    assert!(rest.iter().all(|(code, _)| *code == Some(0)), "{rest:#?}");
    let summary = bench.summary("out");
    check_summary(&summary, 3, 3);
    assert_eq!(summary["clocks"], 150);
}

#[test]
fn where_the_model_has_no_other_copy_a_server_that_has_lost_its_disk_ends_the_run() {
    let Lost { bench: _bench, conductor, others: _others } = Lost::server(&in_step(100_000));
    let _limit = Limit::on(&[&conductor]);
    let (code, said) = conductor.end();
    assert_eq!(code, Some(1), "{said}");
    let expected = "server 0 of south has lost its copy and cannot rebuild it: under bsp no other data center has";
    assert!(said.contains(expected), "{said}");
}

/// A host with a copy of a node's folder of certificates.
struct Host {
    folder: PathBuf,
    original: PathBuf,
}

impl Host {
    fn new(folder: PathBuf, original: PathBuf) -> Self {
        fs::create_dir(&folder).unwrap();
        let host = Self { folder, original };
        for file in ["node.pem", "trust.pem"] {
            host.copy(file);
        }
        host
    }

    /// Copies a file, which a process that reads it finds whole.
    fn copy(&self, file: &str) {
        let part = self.folder.join("part");
        fs::copy(self.original.join(file), &part).unwrap();
        fs::rename(&part, self.folder.join(file)).unwrap();
    }
}

#[test]
fn a_node_that_is_removed_is_parted_from_and_comes_back_with_another_certificate() {
    let names = ["north", "south", "west"];
    let bench = Bench::new(&in_step(150));
    bench.certify("certs", &names);
    let mut directory = Directory::open(&bench.path("certs")).unwrap();
    let original = directory.folder(&Identity::coordinator("real", "north"));
    let host = Host::new(bench.path("host"), original);
    let mut run = Bare::over(bench, "host");
    let server = |dc| {
        let place = ["--dc", dc, "--server", "0", "--listen", "127.0.0.1:0", "--state", "kept"];
        run.bench.node(&run.coordinator, "certs", &place)
    };
    let (mut north, south, mut west) = (server("north"), server("south"), server("west"));
    let workers = names.map(|dc| run.worker(dc));
    let [worker_north, worker_south, worker_west] = workers;
    let _limit = Limit::on(&[&run.conductor, &north, &south, &west, &worker_west]);
    let mut conductor_said = run.conductor.stderr();
    let (mut north_said, mut west_said) = (north.stderr(), west.stderr());
    run.goes_on(2);
    let removed = [Identity::server("real", "south", 0), Identity::worker("real", "west", 0)];
    for node in &removed {
        directory.remove(node, UnixTime::now()).unwrap();
    }
    let waits_for = |said: &mut BufReader<ChildStderr>, parts: &[&str]| {
        let (mut line, mut before) = (String::new(), String::new());
        while !parts.iter().all(|part| line.contains(part)) {
            before += &std::mem::take(&mut line);
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "{parts:?} after\n{before}");
        }
    };
    for said in [&mut north_said, &mut west_said] {
        waits_for(said, &["closes the connection to server 0 of south", "has been revoked"]);
    }
    // Whom the coordinator refuses leaves: mirrors that have yet to look would see it go, and have nobody to part from.
    host.copy("trust.pem");
    for _ in &removed {
        waits_for(&mut conductor_said, &["is lost", "has been revoked"]);
    }
    for node in [south, worker_west] {
        let (code, said) = node.end();
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("the peer refused the certificate of this node"), "{said}");
    }
    directory.issue(&removed, UnixTime::now(), Duration::from_secs(86_400)).unwrap();
    let place = ["--dc", "south", "--server", "0", "--listen", "127.0.0.1:0", "--state", "kept"];
    let again = run.bench.node(&run.coordinator, "certs", &place);
    let nodes = vec![north, again, west, worker_north, worker_south, run.worker("west")];
    // What is not read would keep the others from ending.
    for mut said in [conductor_said, north_said, west_said] {
        std::thread::spawn(move || said.read_to_end(&mut Vec::new()));
    }
    is_as_if_nothing_failed(&run.ends(nodes), 150, in_step);
}
