//! Data that stays home: each process has the files of its own data center, and no others exist where it runs.

use std::fs;
use std::process::{Command, Stdio};

use super::{Bench, Node, free_address, last_clock, said, send};
use serde_json::Value;

const DATA_CENTERS: [&str; 2] = ["north", "south"];

/// A run of matrix factorisation over ratings that each data center has in a file of its own, and whose users each have
/// one worker.
fn run_file(clocks: u64) -> String {
    let mut text = format!(
        "name = \"real\"\nseed = 7\n\
         [app]\nkind = \"matrix-factorization\"\nrank = 2\nclocks_per_pass = 2\n\
         data = {{ source = \"movielens\", path = \"ratings-{{dc}}.csv\", split = \"by-user\" }}\n\
         [sync.remote]\nmodel = \"bsp\"\n[compute]\nmodel = \"cost\"\nclock_overhead = \"10 ms\"\n\
         [evaluate]\nevery = 4\n[stop]\nclocks = {clocks}\n\
         [topology]\nname = \"here\"\n\
         [topology.wan]\nbandwidth = \"20 Mbit/s\"\nrtt = \"10 ms\"\nprice = \"0.02 USD/GB\"\n"
    );
    for name in DATA_CENTERS {
        text += &format!("[[topology.data_center]]\nname = \"{name}\"\nworkers = 2\n");
    }
    text
}

/// Ratings of some users, which are other ones in each data center, of items that are the same.
///
/// No two users of a data center rate the same item, so that its workers have no row in common: one that is late would
/// see changes that another one has made in the same clock, and could not be compared with a simulation.
fn ratings(first_user: usize) -> String {
    let rating = |at: usize| {
        let (user, item) = (first_user + at / 5, 10 + at);
        format!("{user},{item},{}\n", 1 + (user * item) % 5)
    };
    (0..120).map(rating).collect()
}

/// A machine: a folder with a run file, and the files that a process finds there.
fn machine(bench: &Bench, name: &str, files: &[(&str, String)]) {
    fs::create_dir_all(bench.path(name)).unwrap();
    fs::copy(bench.path("run.toml"), bench.path(name).join("run.toml")).unwrap();
    for (file, text) in files {
        fs::write(bench.path(name).join(file), text).unwrap();
    }
}

/// Two data centers and a machine without data, with certificates for all nodes.
fn bench(clocks: u64) -> Bench {
    bench_of(&run_file(clocks))
}

fn bench_of(run_file: &str) -> Bench {
    let bench = Bench::new(run_file);
    bench.certify("certs", &DATA_CENTERS);
    machine(&bench, "north", &[("ratings-north.csv", ratings(1))]);
    machine(&bench, "south", &[("ratings-south.csv", ratings(40))]);
    machine(&bench, "nowhere", &[]);
    bench
}

/// The program on a machine.
fn gaia(bench: &Bench, machine: &str, verb: &str, arguments: &[&str]) -> Command {
    let mut command = bench.gaia_with(&format!("{machine}/run.toml"), verb, arguments);
    command.current_dir(bench.path(machine));
    command
}

/// Starts a node on a machine; `place` says which.
fn start(bench: &Bench, machine: &str, coordinator: &str, place: &[&str]) -> Node {
    let mut command = gaia(bench, machine, "node", place);
    command.arg("--certs").arg(bench.path("certs")).env("GAIA_COORDINATOR", coordinator);
    Node(command.spawn().unwrap())
}

/// Starts all nodes but the coordinator. Servers are on the machine without data.
fn start_nodes(bench: &Bench, coordinator: &str) -> Vec<Node> {
    let mut nodes = Vec::new();
    for dc in DATA_CENTERS {
        let server = ["--dc", dc, "--server", "0", "--listen", "127.0.0.1:0"];
        nodes.push(start(bench, "nowhere", coordinator, &server));
        for worker in ["0", "1"] {
            nodes.push(start(bench, dc, coordinator, &["--dc", dc, "--worker", worker]));
        }
    }
    nodes
}

fn coordinator(bench: &Bench, address: &str, more: &[&str]) -> Node {
    let out = bench.path("out");
    let place = ["--coordinator", "--listen", address, "--out", out.to_str().unwrap(), "--quiet"];
    start(bench, "nowhere", address, &[&place, more].concat())
}

/// Waits for a moment before the next look at a file.
#[allow(clippy::disallowed_methods, reason = "processes take real time")]
fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(10));
}

fn check_equal(bench: &Bench, found: &Value) {
    machine(
        bench,
        "here",
        &[("ratings-north.csv", ratings(1)), ("ratings-south.csv", ratings(40))],
    );
    let out = bench.path("simulation");
    let stop = last_clock(found);
    let settings = ["--driver", "simulated", "--set", &stop, "--quiet"];
    let arguments = [&settings[..], &["--out", out.to_str().unwrap()]].concat();
    let output = gaia(bench, "here", "train", &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let expected = bench.summary("simulation");
    assert_eq!(found["parameters"], expected["parameters"]);
    assert_eq!(found["data_center_clocks"], expected["data_center_clocks"]);
    for figure in ["/objective", "/metric/value"] {
        let [found, expected] =
            [found, &expected].map(|summary| summary.pointer(figure).unwrap().as_f64().unwrap());
        assert!((found / expected - 1.0).abs() < 1e-6, "{figure}: {found} {expected}");
    }
}

#[test]
fn nodes_train_on_their_own_files_as_one_process_trains_on_all() {
    let bench = bench(20);
    let address = free_address();
    let conductor = coordinator(&bench, &address, &[]);
    for node in start_nodes(&bench, &address) {
        let (code, told) = node.end();
        assert_eq!(code, Some(0), "{told}");
    }
    let (code, told) = conductor.end();
    assert_eq!(code, Some(0), "{told}");
    let summary = bench.summary("out");
    assert_eq!(summary["copies_equal"], true);
    assert_eq!(summary["at_home"].as_array().unwrap().len(), 2);
    check_equal(&bench, &summary);
}

#[test]
fn a_rehearsal_on_one_machine_reads_in_each_process_what_its_data_center_has() {
    let bench = bench(20);
    machine(
        &bench,
        "here",
        &[("ratings-north.csv", ratings(1)), ("ratings-south.csv", ratings(40))],
    );
    let out = bench.path("out");
    let arguments = ["--driver", "real", "--quiet", "--out", out.to_str().unwrap()];
    let output = gaia(&bench, "here", "train", &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    check_equal(&bench, &bench.summary("out"));
}

/// Waits until a run has been evaluated some times, with all nodes alive.
fn wait_for_progress(bench: &Bench, nodes: &mut [Node]) {
    let progress = bench.path("out/progress.jsonl");
    while fs::read_to_string(&progress).unwrap_or_default().lines().count() < 5 {
        assert!(nodes.iter_mut().all(|node| node.0.try_wait().unwrap().is_none()));
        pause();
    }
}

/// The coordinator that comes back has what the nodes agreed on, so that nobody needs to report it again.
#[test]
fn a_coordinator_that_comes_back_knows_what_was_agreed() {
    let bench = bench(400);
    let address = free_address();
    let mut nodes = start_nodes(&bench, &address);
    let state = bench.path("state");
    let more = ["--state", state.to_str().unwrap()];
    let first = coordinator(&bench, &address, &more);
    wait_for_progress(&bench, &mut nodes);
    drop(first);

    let (code, told) = coordinator(&bench, &address, &more).end();
    assert_eq!(code, Some(0), "{told}");
    assert!(!told.contains("waiting for a worker to report"), "{told}");
    for node in nodes {
        assert_eq!(node.end().0, Some(0));
    }
    check_equal(&bench, &bench.summary("out"));
}

/// The choice is kept in the state of the coordinator, and a node that comes back asks for it again.
#[test]
fn a_coordinator_chooses_the_remote_model_of_all_nodes_by_the_sizes_of_data_that_stays_home() {
    let text = run_file(400).replace("model = \"bsp\"", "model = \"auto\"");
    let bench = bench_of(&text);
    let address = free_address();
    let mut nodes = start_nodes(&bench, &address);
    let state = bench.path("state");
    let more = ["--state", state.to_str().unwrap()];
    let first = coordinator(&bench, &address, &more);
    wait_for_progress(&bench, &mut nodes);
    drop(first);
    drop(nodes.pop());
    nodes.push(start(&bench, "south", &address, &["--dc", "south", "--worker", "1"]));

    let (code, told) = coordinator(&bench, &address, &more).end();
    assert_eq!(code, Some(0), "{told}");
    for node in nodes {
        let (code, told) = node.end();
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains("was chosen by model = \"auto\""), "{told}");
    }
    let summary = bench.summary("out");
    assert_eq!(summary["copies_equal"], true);
    let reason = summary["remote_sync_reason"].as_str().unwrap();
    assert!(reason.starts_with("Data stays in its data centers"), "{reason}");
    let run = fs::read_to_string(bench.path("out/run.toml")).unwrap();
    assert!(run.contains(reason) && !run.contains("model = \"auto\"\n"), "{run}");
}

#[test]
fn workers_of_one_data_center_with_other_files_are_turned_away() {
    let bench = bench(20);
    machine(&bench, "other", &[("ratings-north.csv", ratings(2))]);
    let address = free_address();
    let mut conductor = coordinator(&bench, &address, &[]);
    let first = start(&bench, "north", &address, &["--dc", "north", "--worker", "0"]);
    // The one that reports first is right.
    let mut log = conductor.stderr();
    let mut line = String::new();
    while !line.contains("to report the data of south") {
        line.clear();
        assert_ne!(std::io::BufRead::read_line(&mut log, &mut line).unwrap(), 0);
    }
    let other = start(&bench, "other", &address, &["--dc", "north", "--worker", "1"]);
    let (code, told) = other.end();
    assert_eq!(code, Some(1), "{told}");
    let found = "the data of worker 1 of north is 108 examples and 12 held out, digest ";
    assert!(told.contains(found), "{told}");
    assert!(told.contains("expected what worker 0 of north has: 108 examples"), "{told}");
    drop(first);
}

/// A worker that comes back without its file says so, and the run waits for one that has it.
#[test]
fn a_file_that_vanishes_during_a_run_is_named_by_the_worker_that_needs_it() {
    let bench = bench(300);
    let address = free_address();
    let conductor = coordinator(&bench, &address, &[]);
    let mut nodes = start_nodes(&bench, &address);
    let progress = bench.path("out/progress.jsonl");
    while fs::read_to_string(&progress).unwrap_or_default().lines().count() < 5 {
        assert!(nodes.iter_mut().all(|node| node.0.try_wait().unwrap().is_none()));
        pause();
    }

    let file = bench.path("south/ratings-south.csv");
    fs::remove_file(&file).unwrap();
    drop(nodes.pop());
    let place = ["--dc", "south", "--worker", "1"];
    let (code, told) = start(&bench, "south", &address, &place).end();
    assert_eq!(code, Some(2), "{told}");
    assert!(
        told.contains("cannot read `") && told.contains("ratings-south.csv`: No such"),
        "{told}"
    );
    assert!(!told.contains("panicked"), "{told}");

    fs::write(&file, ratings(40)).unwrap();
    nodes.push(start(&bench, "south", &address, &place));
    for node in nodes {
        let (code, told) = node.end();
        assert_eq!(code, Some(0), "{told}");
    }
    let (code, told) = conductor.end();
    assert_eq!(code, Some(0), "{told}");
    let summary = bench.summary("out");
    assert_eq!((&summary["copies_equal"], &summary["clocks"]), (&true.into(), &300.into()));
}

#[test]
fn data_that_does_not_go_together_ends_the_run_for_all_with_both_names() {
    let text =
        run_file(20).replace("kind = \"matrix-factorization\"\nrank = 2", "kind = \"topic-model\"");
    let text = text.replace(
        "source = \"movielens\", path = \"ratings",
        "source = \"docword\", path = \"words",
    );
    let text = text.replace(".csv", ".txt").replace(", split = \"by-user\"", "");
    let bench = Bench::new(&text);
    bench.certify("certs", &DATA_CENTERS);
    let words = |vocabulary: usize| format!("3\n{vocabulary}\n3\n1 1 2\n2 2 1\n3 1 4\n");
    machine(&bench, "north", &[("words-north.txt", words(3))]);
    machine(&bench, "south", &[("words-south.txt", words(4))]);
    machine(&bench, "nowhere", &[]);

    let address = free_address();
    let nodes = start_nodes(&bench, &address);
    let conductor = coordinator(&bench, &address, &[]);
    let expected =
        "the data of south: found documents of 4 words, expected 3 words, as in the data of north";
    for node in nodes.into_iter().chain([conductor]) {
        let (code, told) = node.end();
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn a_check_says_what_each_data_center_would_read() {
    let bench = bench(20);
    let check = |machine: &str, arguments: &[&str]| {
        let mut command = gaia(&bench, machine, "check", &[&["--data"], arguments].concat());
        command.stdout(Stdio::piped()).output().unwrap()
    };
    let shown =
        |output: &std::process::Output| String::from_utf8_lossy(&output.stdout).into_owned();

    let own = check("south", &["--dc", "south"]);
    assert_eq!(own.status.code(), Some(0), "{}", said(&own));
    assert!(shown(&own).contains("data of south: 1 file of "), "{}", shown(&own));
    assert!(shown(&own).contains("108 examples and 12 held out, digest "), "{}", shown(&own));
    assert!(!shown(&own).contains("north:"), "{}", shown(&own));

    let all = check("south", &[]);
    assert_eq!(all.status.code(), Some(2), "{}", said(&all));
    assert!(shown(&all).contains("ratings-north.csv: cannot be read"), "{}", shown(&all));
    assert!(shown(&all).contains("data of south: 1 file of "), "{}", shown(&all));

    let json = check("south", &["--dc", "south", "--json"]);
    let found: Value = serde_json::from_str(&shown(&json)).unwrap();
    assert_eq!(found["places"][0]["train"], 108);
    let file = found["places"][0]["files"][0].as_str().unwrap();
    assert!(file.ends_with("ratings-south.csv"), "{file}");
    assert!(found.get("parameters").is_none(), "{found}");
}

/// After `kill -9` of everything, the launcher and its nodes go on with what was agreed.
#[cfg(unix)]
#[test]
fn a_rehearsal_of_which_all_processes_were_killed_continues() {
    let bench = bench(300);
    machine(
        &bench,
        "here",
        &[("ratings-north.csv", ratings(1)), ("ratings-south.csv", ratings(40))],
    );
    let out = bench.path("out");
    let train = || {
        let arguments =
            ["--driver", "real", "--quiet", "--resume", "auto", "--out", out.to_str().unwrap()];
        gaia(&bench, "here", "train", &arguments)
    };
    let first = Node(train().spawn().unwrap());
    while fs::read_to_string(out.join("progress.jsonl")).unwrap_or_default().lines().count() < 5 {
        pause();
    }
    for child in super::children(first.0.id()) {
        send("-KILL", child);
    }
    drop(first);
    let output = train().output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    check_equal(&bench, &bench.summary("out"));
}
