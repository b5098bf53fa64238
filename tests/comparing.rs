//! `--seeds N` and `--slowdown TIMES`: what a seed does beside others is what it does alone, what has ended is kept,
//! and a slowdown is found or refused.

#![allow(clippy::unwrap_used)]

mod small_run;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use gaia_report::{ComparisonFile, SeedsFile};
use small_run::RUN;

/// Calls the program in a folder with the run file; its exit code, what it prints, and what it says.
fn gaia(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    fs::write(folder.join("run.toml"), RUN).unwrap();
    let mut command = Command::new(cargo_bin("gaia"));
    let output = command.current_dir(folder).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Calls the program, which must succeed; what it prints.
fn done(folder: &Path, arguments: &[&str]) -> String {
    let (code, printed, said) = gaia(folder, arguments);
    assert_eq!(code, 0, "{said}");
    printed
}

/// Calls the program in a folder with the run file, and interrupts it once it has said a line with which it `has_begun`. Its exit
/// code, what it prints, and what it says from then on.
#[cfg(unix)]
fn interrupted(
    folder: &Path,
    arguments: &[&str],
    has_begun: impl Fn(&str) -> bool,
) -> (Option<i32>, String, Vec<String>) {
    fs::write(folder.join("run.toml"), RUN).unwrap();
    // A pipe that nobody reads until the end could be full before.
    let printed = folder.join("printed");
    let mut command = Command::new(cargo_bin("gaia"));
    command.current_dir(folder).stderr(Stdio::piped()).stdout(File::create(&printed).unwrap());
    let mut program = command.args(arguments).spawn().unwrap();
    let mut said = BufReader::new(program.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| has_begun(&line)), "it begins");
    let interrupt = Command::new("kill").args(["-INT", &program.id().to_string()]).status();
    assert!(interrupt.unwrap().success());

    let said = said.collect();
    (program.wait().unwrap().code(), fs::read_to_string(printed).unwrap(), said)
}

fn compare_json(folder: &Path) -> SeedsFile {
    let text = fs::read_to_string(folder.join("compare.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[track_caller]
fn assert_same_file(one: &Path, other: &Path) {
    assert!(fs::read(one).unwrap() == fs::read(other).unwrap(), "{one:?} and {other:?}");
}

#[test]
fn the_run_of_a_seed_is_the_one_that_it_is_alone() {
    let place = tempfile::tempdir().unwrap();
    let printed = done(place.path(), &["train", "run.toml", "--seeds", "3", "--out", "all"]);
    assert!(
        printed.contains("small: asp over three-regions, simulated, seeds 7 to 9"),
        "{printed}"
    );
    done(place.path(), &["train", "run.toml", "--seed", "8", "--out", "alone"]);

    let all = place.path().join("all");
    let alone = place.path().join("alone");
    for file in ["run.toml", "progress.jsonl", "model.safetensors", "convergence.svg"] {
        assert_same_file(&all.join("seed-8").join(file), &alone.join(file));
    }
    let file = compare_json(&all);
    assert_eq!(file.seeds, [7, 8, 9]);
    let seeds: Vec<u64> = file.rows.iter().map(|row| row.summary.seed).collect();
    assert_eq!(seeds, [7, 8, 9]);
}

#[test]
fn one_seed_is_the_run_without_the_flag() {
    let place = tempfile::tempdir().unwrap();
    done(place.path(), &["train", "run.toml", "--out", "plain"]);
    done(place.path(), &["train", "run.toml", "--seeds", "1", "--out", "one"]);
    let names = |folder: &str| {
        let entries = fs::read_dir(place.path().join(folder)).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names("plain"), names("one"));
    assert_same_file(
        &place.path().join("plain/progress.jsonl"),
        &place.path().join("one/progress.jsonl"),
    );
}

#[test]
fn a_comparison_over_seeds_is_renewed_and_joined_with_others() {
    let place = tempfile::tempdir().unwrap();
    let compare = ["compare", "run.toml", "--remote", "bsp,asp", "--seeds", "2", "--out", "two"];
    let printed = done(place.path(), &compare);
    let two = place.path().join("two");
    let file = compare_json(&two);
    assert_eq!((file.spreads.len(), file.rows.len()), (3, 6));
    for child in ["lan-bsp", "three-regions-bsp", "three-regions-asp"] {
        assert!(two.join("seed-8").join(child).join("summary.json").is_file(), "{child}");
    }
    assert!(two.join("seed-8/compare.html").is_file());

    let page = fs::read_to_string(two.join("compare.html")).unwrap();
    fs::remove_file(two.join("compare.html")).unwrap();
    assert_eq!(done(place.path(), &["report", "two"]), printed);
    assert_eq!(fs::read_to_string(two.join("compare.html")).unwrap(), page);
    assert_eq!(compare_json(&two), file);

    let remote = ["--set", "sync.remote.model=local-steps"];
    let train = ["train", "run.toml", "--seeds", "2", "--out", "steps"];
    done(place.path(), &[&train[..], &remote].concat());
    done(place.path(), &["report", "two", "steps", "--out", "joined"]);
    let joined = compare_json(&place.path().join("joined"));
    assert_eq!((joined.seeds, joined.spreads.len()), (vec![7, 8], 4));

    done(place.path(), &["train", "run.toml", "--out", "alone"]);
    let (code, _, said) = gaia(place.path(), &["report", "two", "alone", "--out", "mixed"]);
    assert_eq!(code, 2);
    let expect = "error: alone: a run or a comparison of one seed, expected the same seeds as in two, seeds 7 to 8\n";
    assert_eq!(said, expect);
}

#[cfg(unix)]
#[test]
fn what_has_ended_before_an_interrupt_is_kept() {
    let place = tempfile::tempdir().unwrap();
    let train = ["train", "run.toml", "--seeds", "500", "--out", "all"];
    let (code, _, said) =
        interrupted(place.path(), &train, |line| line.trim_start().starts_with("1 of 500"));
    let last = said.last().unwrap();

    assert_eq!(code, Some(75), "{last}");
    let file = compare_json(&place.path().join("all"));
    assert!(!file.rows.is_empty() && file.rows.len() < 500);
    let expect =
        format!("interrupted: {} of 500 runs have ended and are reported; ", file.rows.len());
    assert!(last.starts_with(&expect), "{last}");
    assert!(last.ends_with("the same command with --resume auto --out all goes on"), "{last}");
}

#[test]
fn runs_that_were_all_interrupted_are_reported_one_by_one() {
    let place = tempfile::tempdir().unwrap();
    done(place.path(), &["train", "run.toml", "--seeds", "2", "--out", "all"]);
    for seed in [7, 8] {
        let path = place.path().join(format!("all/seed-{seed}/summary.json"));
        let summary = fs::read_to_string(&path).unwrap();
        let cut = summary.replace("\"stopped_by\": \"clocks\"", "\"stopped_by\": \"interrupted\"");
        fs::write(&path, cut).unwrap();
    }
    let (code, printed, said) = gaia(place.path(), &["report", "all"]);
    assert_eq!((code, &*printed), (2, ""));
    assert!(
        said.starts_with("error: all: all runs were interrupted, expected one that has"),
        "{said}"
    );
    let printed = done(place.path(), &["report", "all/seed-7"]);
    assert!(printed.contains("interrupted after 40 clocks"), "{printed}");
}

#[cfg(unix)]
#[test]
fn an_interrupted_plan_is_none_and_no_failure() {
    let place = tempfile::tempdir().unwrap();
    let plan = ["plan", "run.toml", "--set", "stop.clocks=100000", "--budget", "4000"];
    let (code, printed, said) =
        interrupted(place.path(), &plan, |line| line.trim_start().starts_with("1 of "));
    let last = said.last().unwrap();

    assert_eq!((code, &*printed), (Some(75), ""), "{last}");
    assert_eq!(last, "interrupted: there is no plan, since not all candidates were simulated");
}

/// Interrupted before the first evaluation, as by Ctrl-C a moment after the start.
#[cfg(unix)]
#[test]
fn an_interrupt_before_a_run_has_ended_says_where_its_part_is() {
    let place = tempfile::tempdir().unwrap();
    let clocks = "stop.clocks=1000000";
    let train = ["train", "run.toml", "--seeds", "2", "--set", clocks, "--out", "all"];
    let (code, _, said) =
        interrupted(place.path(), &train, |line| line.starts_with("2 seeds, 7 to 8"));
    assert_eq!(code, Some(75), "{said:?}");
    let not_ended = said.iter().filter(|line| line.starts_with("not ended  seed "));
    assert!(not_ended.count() <= 2 && !said.iter().any(|line| line.contains(" of 2 ")), "{said:?}");
    let expect = "interrupted before a run had ended: what each came to is in all; the same command with --resume auto --out \
                  all goes on";
    assert_eq!(said.last().unwrap(), expect);
}

/// The files of two commands, which are the same but for the real time that they took.
#[track_caller]
fn assert_same_results(one: &Path, other: &Path) {
    let children: Vec<_> = fs::read_dir(one).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(children.len(), fs::read_dir(other).unwrap().count(), "{one:?} and {other:?}");
    for child in children {
        let name = child.file_name().into_string().unwrap();
        let (one, other) = (child.path(), other.join(&name));
        match &*name {
            _ if one.is_dir() => assert_same_results(&one, &other),
            "summary.json" | "compare.json" => {
                let lines = |path: &Path| -> Vec<String> {
                    let text = fs::read_to_string(path).unwrap();
                    let timeless = text.lines().filter(|line| !line.contains("\"wall_s\""));
                    timeless.map(str::to_owned).collect()
                };
                assert_eq!(lines(&one), lines(&other), "{one:?}");
            }
            // These have the time of day, or the real time taken.
            "events.out.tfevents.gaia" | "report.html" => assert!(other.is_file()),
            _ => assert_same_file(&one, &other),
        }
    }
}

/// Calls the program and ends it with a signal once it says that a run has ended.
#[cfg(unix)]
fn end_after_a_run(signal: &str, folder: &Path, arguments: &[&str]) {
    fs::write(folder.join("run.toml"), RUN).unwrap();
    let mut command = Command::new(cargo_bin("gaia"));
    command.current_dir(folder).stderr(Stdio::piped()).stdout(Stdio::null()).args(arguments);
    let mut program = command.spawn().unwrap();
    let mut said = BufReader::new(program.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.trim_start().starts_with("1 of ")), "a run ends");
    let sent = Command::new("kill").args([signal, &program.id().to_string()]).status();
    assert!(sent.unwrap().success());
    said.for_each(drop);
    program.wait().unwrap();
}

#[cfg(unix)]
#[test]
fn runs_of_several_seeds_go_on_to_the_same_results_after_a_kill_or_an_interrupt() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let compare = ["compare", "run.toml", "--remote", "bsp,asp", "--seeds", "4"];
    let train = ["train", "run.toml", "--seeds", "9", "--set", "stop.clocks=150"];
    let commands: [(&str, &[&str]); 2] = [("compare", &compare), ("train", &train)];
    for (name, command) in commands {
        let whole = format!("{name}-whole");
        done(folder, &[command, &["--out", &whole]].concat());
        for signal in ["-KILL", "-INT"] {
            let part = format!("{name}{signal}");
            end_after_a_run(signal, folder, &[command, &["--out", &part]].concat());
            let on = [command, &["--out", &part, "--resume", "auto"]].concat();
            let (code, _, said) = gaia(folder, &on);
            assert_eq!(code, 0, "{said}");
            assert!(said.contains(" has ended before\n"), "{said}");
            for seed in 7..=15 {
                let checkpoints = folder.join(&part).join(format!("seed-{seed}/checkpoints"));
                let _ = fs::remove_dir_all(checkpoints);
            }
            assert_same_results(&folder.join(&whole), &folder.join(&part));
        }
    }
}

#[test]
fn a_comparison_takes_the_runs_that_have_ended() {
    let place = tempfile::tempdir().unwrap();
    let compare = ["compare", "run.toml", "--remote", "bsp,asp", "--out", "both"];
    let printed = done(place.path(), &compare);
    let both = place.path().join("both");
    let page = fs::read_to_string(both.join("compare.html")).unwrap();
    fs::remove_file(both.join("three-regions-asp/summary.json")).unwrap();
    fs::remove_file(both.join("three-regions-bsp/report.html")).unwrap();

    let on = [&compare[..], &["--resume", "auto"]].concat();
    let (code, again, said) = gaia(place.path(), &on);
    assert_eq!((code, &again), (0, &printed), "{said}");
    assert!(said.contains("both/lan-bsp has ended before\n"), "{said}");
    assert!(said.contains("both/three-regions-bsp has ended before\n"), "{said}");
    assert!(!said.contains("both/three-regions-asp has ended before\n"), "{said}");
    assert_eq!(fs::read_to_string(both.join("compare.html")).unwrap(), page);
    assert!(
        both.join("three-regions-bsp/report.html").is_file(),
        "a page that is missing is written"
    );

    let more = ["compare", "run.toml", "--remote", "bsp,tap,asp", "--out", "both"];
    done(place.path(), &[&more[..], &["--resume", "auto"]].concat());
    let text = fs::read_to_string(both.join("compare.json")).unwrap();
    let file: ComparisonFile = serde_json::from_str(&text).unwrap();
    assert_eq!(file.rows.len(), 4, "a model can be added");
}

/// A full disk can cut the evaluations of a run short.
#[test]
fn a_run_of_a_comparison_that_has_lost_its_evaluations_is_made_again() {
    let place = tempfile::tempdir().unwrap();
    let compare = ["compare", "run.toml", "--remote", "bsp,asp", "--out", "both"];
    let printed = done(place.path(), &compare);
    let log = place.path().join("both/three-regions-asp/progress.jsonl");
    let evaluations = fs::read(&log).unwrap();
    fs::write(&log, "").unwrap();

    let on = [&compare[..], &["--resume", "auto"]].concat();
    let (code, again, said) = gaia(place.path(), &on);
    assert_eq!((code, again), (0, printed), "{said}");
    assert!(said.contains("both/three-regions-bsp has ended before\n"), "{said}");
    assert!(!said.contains("both/three-regions-asp has ended before\n"), "{said}");
    assert_eq!(fs::read(&log).unwrap(), evaluations);
}

#[test]
fn bad_data_leaves_no_directory_of_a_comparison() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("bad.csv"), "user,item,rating\n1,1,many\n").unwrap();
    let compare = ["compare", "run.toml", "--remote", "bsp", "--out", "out"];
    let data = ["--set", "app.data.source=csv", "--set", "app.data.path=bad.csv"];
    for seeds in [&[][..], &["--seeds", "2"]] {
        let (code, _, said) = gaia(place.path(), &[&compare[..], &data, seeds].concat());
        assert!(code == 2 && said.contains("bad.csv, row 2"), "{said}");
        assert!(!place.path().join("out").exists());
    }
}

#[test]
fn a_wan_with_the_name_of_the_lan_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let wan = "name = \"lan\"\nwan = { bandwidth = \"9 Mbit/s\", rtt = \"9 ms\" }\n\
               data_center = [{ name = \"a\" }, { name = \"b\" }]\n";
    fs::write(place.path().join("wan.toml"), wan).unwrap();
    let named: [&[&str]; 4] = [
        &["--set", "topology.name=lan"],
        &["--set", "topology.name=lan", "--wan", "lan"],
        &["--wan", "wan.toml"],
        &["--wan", "lan,wan.toml"],
    ];
    for arguments in named {
        let (code, _, said) =
            gaia(place.path(), &[&["compare", "run.toml", "--out", "out"], arguments].concat());
        assert!(code == 2 && said.contains("name` is `lan`"), "{said}");
        assert!(said.contains("another name: `lan` is all machines in one"), "{said}");
    }

    // The LAN of an earlier comparison is the LAN.
    done(place.path(), &["compare", "run.toml", "--remote", "bsp", "--out", "first"]);
    let lan = "first/lan-bsp/run.toml";
    done(place.path(), &["compare", lan, "--remote", "bsp,asp", "--out", "second"]);
}

#[test]
fn a_directory_of_a_seed_that_holds_another_is_refused() {
    let place = tempfile::tempdir().unwrap();
    done(place.path(), &["train", "run.toml", "--seeds", "2", "--out", "two"]);
    done(place.path(), &["train", "run.toml", "--seed", "8", "--seeds", "2", "--out", "later"]);
    fs::rename(place.path().join("two/seed-7"), place.path().join("two/seed-9")).unwrap();
    let expect = "error: two/seed-9: a run of seed 7, expected one of seed 9, which the directory is named after\n";
    for others in [&[][..], &["later", "--out", "both"]] {
        let (code, _, said) = gaia(place.path(), &[&["report", "two"], others].concat());
        assert_eq!((code, said.as_str()), (2, expect));
    }
}

#[test]
fn a_comparison_with_a_run_that_diverges_is_reported_and_ends_with_code_1_and_its_name() {
    let place = tempfile::tempdir().unwrap();
    // Each step overshoots ten thousand times.
    let settings = [
        "--set=app.kind=softmax-regression",
        "--set=app.optimizer=sgd",
        "--set=app.learning_rate=100",
        "--set=app.weight_decay=100",
    ];
    let compare = [&["compare", "run.toml", "--remote", "bsp,asp"], &settings[..]].concat();

    let (code, printed, said) = gaia(place.path(), &[&compare[..], &["--out", "one"]].concat());
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("error: training has diverged: bsp over lan: worker "), "{said}");
    assert!(printed.contains("never") && place.path().join("one/compare.html").is_file());
    let runs = fs::read_dir(place.path().join("one")).unwrap();
    let runs = runs.filter(|entry| entry.as_ref().unwrap().path().join("run.toml").is_file());
    assert_eq!(runs.count(), 1, "there is no target, and no other run");

    let seeds = ["--seeds", "2", "--out", "two"];
    let (code, printed, said) = gaia(place.path(), &[&compare[..], &seeds].concat());
    assert_eq!(code, 1, "{said}");
    for seed in [7, 8] {
        assert!(said.contains(&format!("seed {seed}, bsp over lan: worker ")), "{said}");
    }
    assert!(printed.contains("never") && place.path().join("two/compare.html").is_file());
}

#[test]
fn the_one_run_of_a_comparison_that_has_diverged_is_named() {
    let place = tempfile::tempdir().unwrap();
    let compare = ["compare", "run.toml", "--remote", "bsp,asp", "--out", "both"];
    done(place.path(), &compare);

    let path = place.path().join("both/three-regions-asp/summary.json");
    let mut summary: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    summary["stopped_by"] = "diverged".into();
    summary["diverged"] = "worker 1 of tokyo changed a row".into();
    fs::write(&path, summary.to_string()).unwrap();

    let on = [&compare[..], &["--resume", "auto"]].concat();
    let (code, printed, said) = gaia(place.path(), &on);
    let expect =
        "error: training has diverged: asp over three-regions: worker 1 of tokyo changed a row\n";
    assert!(code == 1 && said.ends_with(expect), "{code}: {said}");
    assert_eq!(done(place.path(), &["report", "both"]), printed, "a report is no failure");
}

#[test]
fn wans_keep_their_order_when_a_comparison_is_renewed() {
    let place = tempfile::tempdir().unwrap();
    let wans = "three-regions,gaia-2016-vc";
    let compare = ["compare", "run.toml", "--remote", "bsp,asp", "--wan", wans, "--out", "two"];
    let printed = done(place.path(), &compare);
    assert!(printed.find("three-regions") < printed.find("gaia-2016-vc"), "{printed}");
    let page = fs::read_to_string(place.path().join("two/compare.html")).unwrap();
    assert_eq!(done(place.path(), &["report", "two"]), printed);
    assert_eq!(fs::read_to_string(place.path().join("two/compare.html")).unwrap(), page);
}

#[test]
fn runs_of_other_settings_data_or_versions_are_not_taken() {
    let place = tempfile::tempdir().unwrap();
    let train = ["train", "run.toml", "--seeds", "2", "--out", "all"];
    done(place.path(), &train);
    let on = [&train[..], &["--resume", "auto"]].concat();
    let refused = |arguments: &[&str], expect: &str| {
        let (code, _, said) = gaia(place.path(), arguments);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(expect), "{said}");
    };

    let other = [&on[..], &["--set", "app.rank=5"]].concat();
    refused(&other, "error: all/run.toml: other settings, expected those of these runs");

    let path = place.path().join("all/seed-8/summary.json");
    let summary = fs::read_to_string(&path).unwrap();
    let version = format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
    fs::write(&path, summary.replace(&version, "\"version\": \"0.0.7\"")).unwrap();
    refused(&on, "error: all/seed-8: a run of gaia 0.0.7, expected one of gaia ");
    fs::write(&path, summary.replace(" ratings and ", " ratings or ")).unwrap();
    refused(&on, "error: all/seed-8: trained on matrix factorisation of synthetic data");

    fs::remove_file(&path).unwrap();
    fs::write(place.path().join("all/seed-8/run.toml"), "seed = 3\n").unwrap();
    refused(&on, "error: all/seed-8/run.toml: other settings, expected those of these runs");

    let from = ["train", "run.toml", "--seeds", "2", "--resume", "all"];
    refused(&from, "error: --resume DIR continues one run, expected --resume auto --out DIR with");
}

#[test]
fn more_seeds_than_there_are_numbers_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let most = i64::MAX.to_string();
    let (code, _, said) =
        gaia(place.path(), &["train", "run.toml", "--seed", &most, "--seeds", "2"]);
    assert_eq!(code, 2);
    let expect = format!(
        "error: --seeds 2: --seed is {most}, expected at most {} for so many seeds\n",
        i64::MAX - 1
    );
    assert_eq!(said, expect);
}

#[test]
fn a_model_or_a_wan_that_is_named_again_is_refused_at_once() {
    let place = tempfile::tempdir().unwrap();
    let copy = "name = 'three-regions'\nwan = { bandwidth = '10 Mbit/s', rtt = '50 ms' }\n\
                data_center = [{ name = 'a' }, { name = 'b' }]\n";
    fs::write(place.path().join("copy.toml"), copy).unwrap();
    let refused = |arguments: &[&str], expect: &str| {
        let compare = ["compare", "run.toml", "--out", "twice"];
        let (code, printed, said) = gaia(place.path(), &[&compare[..], arguments].concat());
        assert_eq!((code, &*printed), (2, ""), "{said}");
        assert_eq!(said, format!("error: {expect}\n"));
        assert!(!place.path().join("twice").exists(), "nothing has begun");
    };
    let no_more: &[&str] = &[];
    for more in [no_more, &["--seeds", "2"], &["--slowdown", "4.5"]] {
        refused(
            &[&["--remote", "bsp,asp,bsp"], more].concat(),
            "--remote names `bsp` more than once, expected each value once",
        );
        refused(
            &[&["--wan", "lan,lan"], more].concat(),
            "--wan names `lan` more than once, expected each value once",
        );
        refused(
            &[&["--wan", "three-regions,copy.toml"], more].concat(),
            "--wan names `copy.toml`, whose topology has the name `three-regions` as that of `three-regions` has, expected \
             topologies of different names",
        );
    }
}

#[test]
fn a_slowdown_is_found_and_recorded() {
    let place = tempfile::tempdir().unwrap();
    // Clocks are long enough for round trips.
    let slow = ["--set", "compute.examples_per_second=100", "--slowdown", "4.5", "--out", "slow"];
    let printed =
        done(place.path(), &[&["compare", "run.toml", "--remote", "bsp"], &slow[..]].concat());
    assert!(printed.contains("(--slowdown 4.5)."), "{printed}");
    let text = fs::read_to_string(place.path().join("slow/compare.json")).unwrap();
    let file: ComparisonFile = serde_json::from_str(&text).unwrap();
    let slowdown = file.slowdown.unwrap();
    assert_eq!(slowdown.asked, 4.5);
    assert!((slowdown.found / 4.5 - 1.0).abs() < 0.02, "{slowdown:?}");
    let bsp = &file.rows[1].summary;
    assert_eq!(bsp.bandwidth_scale, slowdown.bandwidth_scale);
    let lan = &file.rows[0].summary;
    let ratio = (bsp.time_s / bsp.clocks as f64) / (lan.time_s / lan.clocks as f64);
    assert!((ratio / 4.5 - 1.0).abs() < 0.05, "{ratio}");

    let page = fs::read_to_string(place.path().join("slow/compare.html")).unwrap();
    assert!(page.contains("(--slowdown 4.5)"));
    assert_eq!(done(place.path(), &["report", "slow"]), printed);
}

#[test]
fn a_slowdown_that_cannot_be_had_is_refused_with_what_can() {
    let place = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str]| {
        let (code, _, said) = gaia(place.path(), &[&["compare", "run.toml"], arguments].concat());
        assert_eq!(code, 2, "{said}");
        said
    };
    let fast = ["--set", "compute.examples_per_second=1000000"];
    let said = refused(&[&["--slowdown", "1.5"][..], &fast].concat());
    assert!(said.contains("because of round-trip times; expected more than that"), "{said}");
    let said = refused(&["--slowdown", "3", "--wan", "lan"]);
    assert_eq!(said, "error: --slowdown 3: --wan names no WAN, expected one beside `lan`\n");
    let said = refused(&["--slowdown", "3", "--wan", "gaia-2016-vc,gaia-2016-ss"]);
    assert_eq!(said, "error: --slowdown 3: --wan names 2 WANs, expected one\n");
    let slow = ["--slowdown", "4.5", "--set", "compute.examples_per_second=100"];
    let wrong = ["--remote", "asp", "--set", "sync.remote.threshold=-1.0"];
    let said = refused(&[slow, wrong].concat());
    assert!(said.contains("threshold") && !said.contains("fitted"), "{said}");
    let said = refused(&["--slowdown", "1"]);
    assert!(said.contains("expected a number above 1, at most 10000"), "{said}");
}

#[test]
fn an_out_that_cannot_be_used_is_refused_before_a_choice_a_fit_or_data() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("thesis")).unwrap();
    fs::write(place.path().join("thesis/thesis.tex"), "years of work").unwrap();
    let check = |arguments: &str, expect: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let (code, printed, said) = gaia(place.path(), &arguments);
        assert_eq!((code, printed.as_str()), (2, ""), "{said}");
        assert!(said.starts_with("error: ") && said.contains(expect), "{arguments:?}: {said}");
    };
    let auto = "run.toml --set sync.remote={model='auto'}";
    let refused = "thesis: not empty, expected a new or an empty directory";
    for resume in ["", " --resume auto"] {
        check(&format!("train {auto} --out thesis{resume}"), refused);
        check(&format!("train {auto} --seeds 2 --out thesis{resume}"), refused);
        check(&format!("compare run.toml --slowdown 4 --out thesis{resume}"), refused);
    }

    // A command that fails for something else leaves no directory, and none that it has not made is removed.
    fs::create_dir(place.path().join("empty")).unwrap();
    for out in ["new", "empty"] {
        let absent = "app.data={source='movielens',path='none.csv'}";
        check(&format!("train run.toml --set {absent} --out {out}"), "none.csv");
    }
    assert!(!place.path().join("new").exists() && place.path().join("empty").is_dir());
}

#[cfg(unix)]
#[test]
fn an_out_that_cannot_be_made_is_a_wrong_flag() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), "").unwrap();
    done(place.path(), &["train", "run.toml", "--out", "one", "--quiet"]);
    let commands = [
        "train run.toml",
        "train run.toml --seeds 2",
        "train run.toml --resume auto",
        "compare run.toml",
        "paper --quick",
        "report one one",
    ];
    for command in commands {
        let arguments: Vec<&str> = command.split(' ').chain(["--out", "file/x"]).collect();
        let (code, printed, said) = gaia(place.path(), &arguments);
        assert_eq!((code, printed.as_str()), (2, ""), "{command}: {said}");
        let cannot = "error: --out: `file/x` cannot be created: Not a directory";
        assert!(said.starts_with(cannot), "{command}: {said}");
        let expected = "expected a directory that can be created and written\n";
        assert!(said.ends_with(expected), "{command}: {said}");
    }

    let (code, _, said) = gaia(place.path(), &["deploy", "local", "run.toml", "--out", "file/x"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("--out is `file/x`, which cannot be opened: Not a directory"), "{said}");
    assert!(said.contains("expected a new folder, an empty one"), "{said}");
}
