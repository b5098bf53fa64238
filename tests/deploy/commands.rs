//! What users type: the commands in the READMEs, counted, and scripts that parse.

use std::fs;

use super::*;

#[test]
fn a_site_is_started_by_at_most_five_commands_as_the_book_says() {
    let bench = Bench::new();
    let page = fs::read_to_string("docs/src/schedulers.md").unwrap();

    for scheduler in SCHEDULERS {
        bench.deploy(scheduler, scheduler, &[]);
        let once = match scheduler {
            // The image.
            "kubernetes" => commands(&bench.path("kubernetes/README.md"))
                .iter()
                .filter(|command| command.starts_with("docker "))
                .count(),
            _ => 0,
        };
        // And `gaia deploy` itself.
        let once = once + 1;
        for (dc, _) in PROCESSES {
            let own = commands(&bench.path(scheduler).join(dc).join("README.md"));
            assert!((1..=5).contains(&own.len()), "{scheduler}: {own:?}");
            let row = format!("| `{scheduler}` | {once} | {} |", own.len());
            assert!(page.contains(&row), "the book does not say {row}");
        }
    }
}

#[test]
fn scripts_are_right_for_the_shell() {
    let bench = Bench::new();
    let addresses = [
        "--set",
        "topology.coordinator_address=a.example.org:5000",
        "--set",
        "topology.data_center.0.server_addresses=[\"[fd00::1]:5001\"]",
    ];
    let mut seen = 0;
    for (scheduler, named) in [("slurm", false), ("slurm", true), ("local", false), ("local", true)]
    {
        let out = format!("{scheduler}-{named}");
        bench.deploy(scheduler, &out, if named { &addresses } else { &[] });
        for file in files(&bench.path(&out)) {
            let text = fs::read_to_string(&file).unwrap();
            if text.starts_with("#!/usr/bin/env bash\n") {
                let output = bench.command("bash").arg("-n").arg(&file).output().unwrap();
                assert!(output.status.success(), "{file:?}: {}", said(&output));
                assert!(!text.contains("{{") && !text.contains("{%"), "{file:?}");
                seen += 1;
            }
        }
    }
    // job.sbatch, keep and node; keep, node, start and stop; twice, for three data centers.
    assert_eq!(seen, 2 * 3 * (3 + 4));
}

/// What would be written for them could not work: nodes of other hosts would call themselves, or nobody.
#[test]
fn addresses_at_which_other_hosts_do_not_reach_a_node_are_refused() {
    let bench = Bench::new();
    let coordinator = |at: &str| format!("topology.coordinator_address={at}");
    let server =
        |dc: usize, at: &str| format!("topology.data_center.{dc}.server_addresses=[\"{at}\"]");
    let deploy = |scheduler: &str, settings: &[String]| {
        let settings = settings.iter().flat_map(|setting| ["--set", setting.as_str()]);
        let verb = ["deploy", scheduler, "run.toml", "--out", "out"];
        bench.gaia(&verb.into_iter().chain(settings).collect::<Vec<_>>())
    };
    let check = |scheduler: &str, settings: &[String], expect: &str| {
        let output = deploy(scheduler, settings);
        assert_eq!(output.status.code(), Some(2), "{settings:?}: {}", said(&output));
        assert!(said(&output).contains(expect), "{settings:?}: {}", said(&output));
        assert!(!bench.path("out").exists(), "{settings:?}");
    };

    let own = "`topology.coordinator_address` has `localhost:7000`, at which each host reaches";
    for scheduler in ["slurm", "kubernetes"] {
        check(scheduler, &[coordinator("localhost:7000")], own);
    }
    let own = "`topology.data_center.1.server_addresses` has `[::1]:7001`, at which each host";
    for scheduler in SCHEDULERS {
        check(scheduler, &[coordinator("a.example.org:7000"), server(1, "[::1]:7001")], own);
    }

    let half = "has `a.example.org:7000` and `topology.data_center.0.server_addresses` is missing";
    check("kubernetes", &[coordinator("a.example.org:7000")], half);
    let half = "has `192.0.2.7:7001` and `topology.coordinator_address` is missing";
    for scheduler in ["kubernetes", "local"] {
        check(scheduler, &[server(2, "192.0.2.7:7001")], half);
    }

    // All on this machine.
    let here = deploy("local", &[coordinator("localhost:7000"), server(1, "127.0.0.1:7001")]);
    assert_eq!(here.status.code(), Some(0), "{}", said(&here));
}

/// A run file for simulations would have nodes wait for computed times, without a word.
#[test]
fn settings_that_follow_from_the_driver_are_those_of_the_real_one() {
    let bench = Bench::new();
    fs::write(bench.path("run.toml"), RUN.replace("[compute]\nmodel = \"cost\"\n", "")).unwrap();
    let emulated = ["--set", "driver=emulated", "--set", "checkpoint.every=9"];
    bench.deploy("local", "out", &emulated);
    let deployed = fs::read_to_string(bench.path("out/Tokyo_1/run.toml")).unwrap();
    let deployed: toml::Table = deployed.parse().unwrap();
    assert_eq!(deployed["driver"].as_str(), Some("real"));
    assert_eq!(deployed["compute"]["model"].as_str(), Some("measured"));
    assert_eq!(deployed["checkpoint"]["every"].as_integer(), Some(9));

    // The nodes would refuse what the deployment has taken.
    let everywhere = ["--set", "evaluate.where=everywhere"];
    for verb in [
        &["deploy", "local", "run.toml", "--out", "other"][..],
        &["node", "run.toml", "--coordinator"],
        &["check", "run.toml", "--connect", "--coordinator"],
    ] {
        let output = bench.gaia(&[verb, &everywhere].concat());
        assert_eq!(output.status.code(), Some(2), "{verb:?}: {}", said(&output));
        assert!(said(&output).contains("evaluate.where"), "{verb:?}: {}", said(&output));
    }
    assert!(!bench.path("other").exists());

    // What it lacks is a certificate.
    let node = bench.gaia(&[&["node", "run.toml", "--coordinator"], &emulated[..]].concat());
    assert!(!said(&node).contains("checkpoint.every"), "{}", said(&node));
}

/// A folder that somebody else has made may have links where scripts are to be.
#[cfg(unix)]
#[test]
fn a_deployment_writes_to_no_file_that_a_link_leads_to() {
    let bench = Bench::new();
    let victim = bench.path("victim");
    fs::write(&victim, "of somebody else").unwrap();
    for scheduler in SCHEDULERS {
        bench.deploy(scheduler, scheduler, &[]);
        let all = files(&bench.path(scheduler));
        let written = all.iter().filter(|path| !path.iter().any(|part| part == "certs"));
        let written: Vec<_> = written.map(|path| (path, fs::read(path).unwrap())).collect();
        assert!(written.len() > 3, "{scheduler}: {written:?}");
        for (path, _) in &written {
            fs::remove_file(path).unwrap();
            std::os::unix::fs::symlink(&victim, path).unwrap();
        }

        bench.deploy(scheduler, scheduler, &[]);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "of somebody else");
        for (path, text) in written {
            assert!(!path.is_symlink(), "{}", path.display());
            assert_eq!(fs::read(path).unwrap(), text, "{}", path.display());
        }
    }
}

#[test]
fn a_node_that_a_data_center_does_not_have_is_refused_by_its_scripts() {
    let bench = Bench::new();
    bench.deploy("local", "local", &[]);
    bench.deploy("slurm", "slurm", &[]);
    for script in ["local/Tokyo_1/node", "local/Tokyo_1/start", "slurm/Tokyo_1/node"] {
        let output = bench.command(bench.path(script)).arg("server-7").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{script}");
        let expect = "found `server-7`, expected a node: server-0 worker-0";
        assert!(said(&output).contains(expect), "{script}: {}", said(&output));
    }
}

/// Servers would listen there, and the coordinator on the loopback interface.
#[test]
fn an_address_of_the_host_is_refused_where_the_topology_names_none() {
    let bench = Bench::new();
    bench.deploy("local", "out", &[]);
    let output = bench
        .command(bench.path("out/Tokyo_1/node"))
        .arg("server-0")
        .env("GAIA_HOST", "192.0.2.7")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let expect = "found GAIA_HOST `192.0.2.7`, expected a topology that names addresses";
    assert!(said(&output).contains(expect), "{}", said(&output));

    let coordinator = "topology.coordinator_address=192.0.2.7:7000";
    bench.deploy("local", "named", &["--set", coordinator]);
    let script = fs::read_to_string(bench.path("named/virginia/node")).unwrap();
    assert!(!script.contains("expected a topology"), "{script}");
}

#[test]
fn what_is_killed_is_started_again_and_what_fails_is_not() {
    let bench = Bench::new();
    bench.deploy("local", "out", &[]);
    let check = |command: &str, code: i32, runs: usize| {
        let ran = bench.path("ran");
        fs::write(&ran, "").unwrap();
        let command = format!("echo >>ran; {command}");
        let mut keep = bench.command(bench.path("out/ireland/keep"));
        let output = keep.args(["node", "bash", "-c", &command]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{command}: {}", said(&output));
        assert_eq!(fs::read_to_string(&ran).unwrap().lines().count(), runs, "{command}");
    };
    check("true", 0, 1);
    check("exit 1", 1, 1);
    check("exit 2", 2, 1);
    let until_the_third = |end: &str| format!("[ $(wc -l <ran) -ge 3 ] || {end}");
    check(&until_the_third("kill -9 $$"), 0, 3);
    check(&until_the_third("exit 101"), 0, 3);
    check(&until_the_third("exit 75"), 0, 3);
    check("kill -9 $$", 137, 6);
    // Who keeps it is told to end.
    check("trap 'exit 75' TERM; kill $PPID; while :; do :; done", 75, 1);
}

/// The commands of a README: the lines of its `sh` blocks.
pub(crate) fn commands(readme: &Path) -> Vec<String> {
    let text = fs::read_to_string(readme).unwrap();
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}
