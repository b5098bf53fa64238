//! The paper's evaluation on a suite small enough for a test: what is fitted, what is reckoned, what is written.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::collections::BTreeSet;
use std::sync::Mutex;

use assert_cmd::Command;
use gaia_config::RunFile;
use gaia_paper::{
    App, Change, Changes, Contender, Evaluation, RatesSuite, Request, Section, Step, Suite,
    SystemsSuite, WanSpec, Watch, evaluate, published,
};
use gaia_report::RunDirectory;
use gaia_report::paper::{CellRow, PaperFile, SystemVerdict, paper_block, write};
use gaia_telemetry::{Observer, Progress};

const TOY: &str = r#"
name = "toy"
seed = 7

[app]
kind = "matrix-factorization"
rank = 4
learning_rate = 0.1
learning_rate_decay = "inverse-sqrt-pass"
row_step_max = 1.0

[app.data.synthetic]
users = 120
items = 80
ratings = 4000
rank = 2

[topology]
file = "gaia-2016-ss"

[sync.remote]
model = "asp"

[compute]
examples_per_second = 100.0

[stop]
change = { by = "endpoints" }
clocks = 400
"#;

#[test]
fn a_small_suite_is_fitted_run_and_set_beside_the_paper() {
    let evaluation = evaluate_toy(&Request::default());
    let file = &evaluation.file;

    // BSP is as much slower than the LAN as in the paper, over whole runs too, and nothing else was fitted.
    assert_eq!(file.scales.len(), 3);
    for wan in ["ss", "vc"] {
        let published = published("mf", wan).unwrap();
        let scale = file.scales.iter().find(|row| row.wan == wan && !row.elsewhere).unwrap();
        near(scale.bsp_over_lan, published.lan, 0.05);
        near(cell(file, wan, "bsp").times_lan.unwrap(), published.lan, 0.05);
        assert_eq!(cell(file, wan, "bsp").paper_speedup, Some(1.0));
        assert_eq!(cell(file, wan, "lan").paper_speedup, Some(published.lan));
        assert_eq!(cell(file, wan, "asp").paper_cost_ratio, Some(published.cost_ratio));
    }

    // One row for each model, and each with ratios that agree with each other.
    for wan in ["ss", "vc"] {
        let models: Vec<&str> =
            file.cells.iter().filter(|row| row.wan == wan).map(|row| row.model.as_str()).collect();
        assert_eq!(models, ["lan", "bsp", "asp", "centralize"]);
        let bsp = cell(file, wan, "bsp").clone();
        for row in file.cells.iter().filter(|row| row.wan == wan) {
            assert!(row.converged, "{wan} {}", row.model);
            let product = row.times_lan.unwrap() * row.speedup_vs_bsp.unwrap();
            near(product, bsp.times_lan.unwrap(), 1e-9);
            near(row.usd, row.usd_machines + row.usd_wan, 1e-9);
            assert_eq!(row.usd_waiting.is_some(), row.model == "centralize");
            if let Some(usd) = row.usd_waiting {
                near(usd - row.usd_wan, row.usd_machines * row.times_lan.unwrap(), 1e-9);
            }
        }
        let asp = cell(file, wan, "asp");
        assert!(asp.speedup_vs_bsp > Some(1.0) && asp.wan_bytes < bsp.wan_bytes, "{wan}");
        assert!(asp.curve.last().unwrap().1 <= bsp.curve.last().unwrap().1 * 1.001);
    }

    // Shipping the data over S/S takes the paper's share, and over V/C less in proportion to the bandwidth.
    let shipping = |wan| cell(file, wan, "centralize").times_lan.unwrap() - 1.0;
    near(shipping("ss"), published("mf", "ss").unwrap().shipping(), 1e-6);
    let (ss, vc) =
        (cell(file, "ss", "lan").time_s.unwrap(), cell(file, "vc", "lan").time_s.unwrap());
    near(shipping("ss") * ss / (shipping("vc") * vc), 115.0 / 16.76, 0.02);

    // Elsewhere is another network at the worst WAN's scale, with nothing to stand beside.
    let scale = |elsewhere| {
        let wan = if elsewhere { "vc" } else { "ss" };
        let row = file.scales.iter().find(|row| row.wan == wan && row.elsewhere == elsewhere);
        row.unwrap().bandwidth_scale
    };
    assert_eq!(scale(true), scale(false));
    assert!(file.elsewhere.iter().all(|row| row.wan == "vc" && row.paper_speedup.is_none()));
    assert_eq!(file.elsewhere.len(), 4);

    let changes: Vec<&str> = file.ablation.iter().map(|row| row.change.as_str()).collect();
    assert_eq!(changes, ["ours", "goal=cost, threshold=0.3"]);
    assert!(file.ablation[1].wan_bytes < file.ablation[0].wan_bytes);

    let shares: Vec<f64> = file.insignificant[0].points.iter().map(|point| point.1).collect();
    assert!(shares.is_sorted_by(|more, less| more >= less) && shares[0] > 0.2, "{shares:?}");

    repeats(&evaluation, "mf-ss-asp");
    leaves_its_files(file);
}

#[test]
fn what_is_asked_for_is_run_and_nothing_else() {
    let request = Request {
        sections: BTreeSet::from([Section::Cells]),
        wans: vec!["vc".into()],
        models: vec!["asp".into()],
        changes: Changes {
            settings: vec!["sync.remote.threshold=0.4".into()],
            ..Changes::default()
        },
        ..Request::default()
    };
    let evaluation = evaluate_toy(&request);
    let names: Vec<&str> = evaluation.run_files.keys().map(String::as_str).collect();
    assert_eq!(names, ["mf-vc-asp", "mf-vc-bsp", "mf-vc-lan"]);
    let models: Vec<&str> = evaluation.file.cells.iter().map(|row| row.model.as_str()).collect();
    assert_eq!(models, ["lan", "bsp", "asp"]);
    assert!(evaluation.file.ablation.is_empty() && evaluation.file.elsewhere.is_empty());
    assert!(evaluation.run_files["mf-vc-asp"].contains("threshold = 0.4"));

    let none = Request { wans: vec!["moon".into()], ..Request::default() };
    let refusal = evaluate(&toy(), &none, None, &Nobody).unwrap_err().to_string();
    assert!(refusal.contains("--wans: `moon` does not exist, expected one of ss, vc"), "{refusal}");
}

/// An evaluation of hours that was killed goes on: what has ended is taken as it was, up to the time on the clock of the wall.
#[test]
fn runs_that_have_ended_are_not_made_again() {
    let request = Request { wans: vec!["vc".into()], ..Request::default() };
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("paper");
    let evaluate_in = |directory: &RunDirectory| {
        let ended = directory.ended_runs().unwrap();
        let found = evaluate(&toy(), &request, Some(&ended), &Nobody);
        found.unwrap_or_else(|error| panic!("{error}")).file
    };
    let directory = RunDirectory::reopen_evaluation(&out).unwrap();
    let first = evaluate_in(&directory);

    let again = evaluate_in(&RunDirectory::reopen_evaluation(&out).unwrap());
    assert_eq!(again, first);

    // A process that is killed leaves a line without its end, and no results.
    let path = out.join("ended-runs.jsonl");
    let lines = std::fs::read_to_string(&path).unwrap();
    let half: usize = lines.split_inclusive('\n').take(5).map(str::len).sum();
    std::fs::write(&path, &lines[..half + 100]).unwrap();
    let rest = evaluate_in(&RunDirectory::reopen_evaluation(&out).unwrap());
    assert_eq!((&rest.cells, &rest.scales), (&first.cells, &first.scales));
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), lines.lines().count());

    // Other settings are other runs.
    let changes = Changes { seed: Some(8), ..Changes::default() };
    let other = Request { changes, ..request.clone() };
    let ended = directory.ended_runs().unwrap();
    let found = evaluate(&toy(), &other, Some(&ended), &Nobody).unwrap();
    assert_ne!(found.file.cells, first.cells);

    std::fs::write(&path, "{}\n").unwrap();
    let refusal = directory.ended_runs().unwrap_err().to_string();
    assert!(refusal.contains("ended-runs.jsonl:1") && refusal.contains("one run"), "{refusal}");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(out.join("notes.txt"), "mine").unwrap();
    let refusal = RunDirectory::reopen_evaluation(&out).unwrap_err().to_string();
    assert!(refusal.contains("not empty"), "{refusal}");
}

/// Ours without brakes runs for the figure alone: the tables have no row of it.
#[test]
fn brakes_are_taken_off_the_published_asp_and_off_ours() {
    let contender = |name, settings| Contender { name, settings, tuned: &[] };
    let suite = Suite {
        wans: vec![WanSpec {
            name: "ec2-all",
            topology: "three-regions",
            lan_mbit: Some(40_000.0),
        }],
        contenders: vec![
            contender("bsp", "model = 'bsp'"),
            contender("asp-paper", "model = 'asp'\npolicy = 'paper'"),
            contender("asp-async", "model = 'asp'\npolicy = 'paper'\nmirror_clock = 'off'"),
            contender("asp", "model = 'asp'\nselective_barrier = 'on'\nmirror_clock = 'on'"),
        ],
        ..toy()
    };
    let request = Request {
        sections: BTreeSet::from([Section::Cells, Section::Brakes]),
        ..Request::default()
    };
    let watch = Counting::default();
    let found = evaluate(&suite, &request, None, &watch).unwrap_or_else(|error| panic!("{error}"));
    let drawn: Vec<&str> = found.file.brakes.iter().map(|row| row.model.as_str()).collect();
    assert_eq!(drawn, ["asp-paper", "asp-async", "asp", "asp-no-brakes"]);
    assert!(found.file.brakes.iter().all(|row| row.app == "mf" && !row.points.is_empty()));
    let models: Vec<&str> = found.file.cells.iter().map(|row| row.model.as_str()).collect();
    assert_eq!(models, ["lan", "bsp", "asp-paper", "asp-async", "asp"]);
    let text = |model: &str| &found.run_files[&format!("mf-ec2-all-{model}")];
    for brake in ["selective_barrier", "mirror_clock"] {
        assert!(text("asp").contains(&format!("{brake} = \"on\"")));
        assert!(text("asp-no-brakes").contains(&format!("{brake} = \"off\"")));
    }
    let (done, expected) = *watch.0.lock().unwrap();
    assert_eq!((done, expected), (6, 6));
}

/// A grid of rates has a run for each seed, and a rate with which training diverges is a row as well.
#[test]
fn each_model_runs_with_every_learning_rate_and_seed() {
    const SMALL: App = App {
        name: "perceptron",
        file: "rates.toml",
        text: RATES,
        settings: &[],
        quick: &[],
        data: None,
    };
    const MODELS: [Contender; 2] = [
        Contender { name: "bsp", settings: "model = 'bsp'", tuned: &[] },
        Contender {
            name: "sparse",
            settings: "model = 'local-steps'\nsteps = 2\ndensity = 0.1",
            tuned: &[],
        },
    ];
    let rates = RatesSuite {
        apps: &[SMALL],
        contenders: &MODELS,
        learning_rates: &[0.1, 0.5, 100.0],
        seeds: 2,
    };
    let suite = Suite { rates: Some(rates), ..toy() };
    let request = Request { sections: BTreeSet::from([Section::Rates]), ..Request::default() };
    let watch = Counting::default();
    let found = evaluate(&suite, &request, None, &watch).unwrap_or_else(|error| panic!("{error}"));
    // Those that diverge in a frame of a mirror leave no results.
    let (done, expected) = *watch.0.lock().unwrap();
    assert_eq!((done, expected), (found.run_files.len(), 12));

    let rows = &found.file.rates;
    assert_eq!(rows.len(), 6);
    for row in rows {
        let seeds: Vec<u64> = row.runs.iter().map(|run| run.seed).collect();
        assert_eq!((seeds, row.target), (vec![7, 8], Some(0.8)));
        let diverges = row.learning_rate > 1.0;
        assert!(row.runs.iter().all(|run| run.accuracy.is_none() == diverges), "{row:?}");
        assert!(row.runs.iter().all(|run| run.clocks.is_none() == run.sent_bytes.is_none()));
    }
    let bsp = rows.iter().find(|row| row.model == "bsp" && row.learning_rate == 0.5).unwrap();
    let clocks = bsp.clocks().unwrap().median.unwrap();

    // The run file of a row repeats its run.
    let file =
        RunFile::from_text("again.toml", &found.run_files["rates-perceptron-bsp-0-5-7"], &[]);
    assert_eq!(file.unwrap().plan().unwrap().seed.0, 7);
    let block = paper_block(&found.file, None, gaia_report::Paint::Plain);
    assert!(block.contains(&format!("{}", clocks.round())), "{block}");
}

const RATES: &str = r#"
name = "rates"
seed = 7

[app]
kind = "perceptron"
optimizer = "sgd"
hidden = [8]
batch = 16
momentum = 0.9

[app.data]
split = "by-label"
synthetic = { examples = 400, features = 10, classes = 3 }

[topology]
file = "three-regions"

[sync.remote]
model = "asp"

[compute]
examples_per_second = 100.0

[stop]
objective = 0.8
clocks = 60
"#;

/// Claims are measured: those that a closed form decides agree with it, and every figure belongs to a claim with a check.
#[test]
fn claims_of_other_systems_are_checked_by_runs() {
    let suite = Suite { systems: Some(SystemsSuite { parameters: 40_000, divisor: 5e3 }), ..toy() };
    let request = Request {
        sections: BTreeSet::from([Section::Systems]),
        changes: Changes { quick: true, ..Changes::default() },
        ..Request::default()
    };
    let watch = Counting::default();
    let found = evaluate(&suite, &request, None, &watch).unwrap_or_else(|error| panic!("{error}"));
    assert!(found.file.cells.is_empty() && found.file.scales.is_empty());
    let (done, expected) = *watch.0.lock().unwrap();
    assert_eq!(done, expected);

    for row in &found.file.systems {
        let is_checked = row.verdict != SystemVerdict::CannotBeChecked;
        assert_eq!((row.figures.is_empty(), row.check.is_empty()), (!is_checked, !is_checked));
        assert!(!row.claim.is_empty() && !row.reason.is_empty(), "{row:?}");
    }
    let row = |system: &str| {
        let rows = &found.file.systems;
        rows.iter().find(|row| row.system == system).unwrap_or_else(|| panic!("no {system}"))
    };

    let ring = row("Baidu ring all-reduce");
    assert_eq!((ring.verdict, ring.figures.len()), (SystemVerdict::Holds, 5), "{ring:?}");
    let wan = row("Baidu ring all-reduce over a WAN");
    assert_eq!(wan.verdict, SystemVerdict::Fails, "{wan:?}");
    // So small a model has few chunks, which homes and a tree pass on whole.
    for (figure, tolerance) in wan.figures.iter().zip([0.1, 0.03, 0.03, 0.1]) {
        near(figure.measured, figure.computed.unwrap(), tolerance);
    }
    assert_eq!(row("Zou et al. (HTC 2017)").verdict, SystemVerdict::Holds);

    // Waiting falls with the delay, and the longer delays are not free.
    let delays = row("Parameter Server");
    let waits: Vec<f64> = delays.figures[1..].iter().step_by(2).map(|it| it.measured).collect();
    assert!(waits.is_sorted_by(|more, less| more >= less) && waits[0] > 0.1, "{waits:?}");
    assert_eq!(delays.figures[0].measured, 1.0, "BSP is a delay of 0");

    let cluster = row("Synchronous multinode SGD (Intel)");
    near(cluster.figures[0].measured, 53.0, 0.01);
    assert_eq!(cluster.figures[1].printed, Some(90.0));

    for (name, text) in &found.run_files {
        let plan = RunFile::from_text("again.toml", text, &[]).unwrap().plan().unwrap();
        assert_eq!(&plan.name, name);
    }
    assert!(found.run_files.contains_key("systems-delay-4"));
}

#[test]
fn bad_flags_are_refused_before_anything_runs() {
    let check = |arguments: &[&str], complaint: &str| {
        let out = tempfile::tempdir().unwrap();
        let mut command = Command::cargo_bin("gaia").unwrap();
        let output = command.arg("paper").args(arguments).arg("--out").arg(out.path().join("out"));
        let output = output.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(complaint), "{arguments:?}: {said}");
        assert!(!out.path().join("out").exists(), "{arguments:?} left files");
    };
    check(&["--only", "cell"], "cells");
    check(&["--apps", "mf,mg"], "--apps: `mg` does not exist, expected one of mf");
    check(&["--models", "best"], "--models: `best` does not exist, expected one of lan, bsp");
    check(&["--seed", "x"], "--seed");
    let cheap = ["--only", "cells", "--apps", "mf", "--wans", "vc", "--models", "asp", "--quick"];
    let with = |extra: [&'static str; 2]| cheap.into_iter().chain(extra).collect::<Vec<_>>();
    check(&with(["--set", "app.ranks=3"]), "did you mean `rank`");
    check(&with(["--set", "sync.remote.treshold=3"]), "did you mean `threshold`");
    check(&with(["--set", "BAD"]), "expected a key and its value, such as");
    check(&with(["--set", "stop.clocks=0"]), "`stop.clocks` is `0`");
    check(
        &with(["--set", "topology.bandwidth_scale=0.5"]),
        "--set topology.bandwidth_scale=0.5: these sections run over WANs of their own at a scale that is fitted",
    );
    check(&["--only", "skew", "--quick", "--set", "topology.defaults.workers=0"], "`topology.def");
    check(&["--only", "systems", "--quick", "--set", "app.rnak=3"], "unknown key `app.rnak`");
    let missing =
        "--data: `nowhere/movielens_latest_small/ratings.csv.gz` does not exist, expected a folder";
    check(&with(["--data", "nowhere"]), missing);

    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("movielens_latest_small");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("ratings.csv.gz"), "userId,movieId,rating\n1,2,many\n").unwrap();
    let data = data.path().to_str().unwrap();
    check(&[&cheap[..], &["--data", data]].concat(), "row 2: found \"many\", expected");
}

#[test]
fn only_data_files_that_are_asked_for_must_be_there() {
    let suite = Suite::of_the_paper(true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("mnist")).unwrap();
    let check = |section, app: &str| {
        let changes = Changes { data: Some(folder.path().into()), ..Changes::default() };
        let sections = BTreeSet::from([section]);
        let apps = vec![app.to_owned()];
        Request { sections, apps, changes, ..Request::default() }.check(&suite)
    };
    check(Section::Cells, "ic").unwrap();
    check(Section::Skew, "tm").unwrap();
    let refusal = check(Section::Cells, "tm").unwrap_err().to_string();
    assert!(
        refusal.contains("docword.kos.txt.gz` does not exist, expected a folder that holds"),
        "{refusal}"
    );
}

/// A run file that the evaluation leaves behind does what the evaluation did.
fn repeats(evaluation: &Evaluation, name: &str) {
    let text = &evaluation.run_files[name];
    let plan = RunFile::from_text("again.toml", text, &[]).unwrap().plan().unwrap();
    let homes = plan.topology.data_homes();
    let application = gaia_data::build(plan.app.as_ref(), &homes, plan.seed).unwrap();
    let again = gaia_driver::run(&plan, &application, &mut Nobody).unwrap();
    let curve: Vec<(f64, f64)> =
        again.progress.iter().map(|progress| (progress.time_s, progress.objective)).collect();
    assert_eq!(curve, cell(&evaluation.file, "ss", "asp").curve);
}

fn leaves_its_files(file: &PaperFile) {
    let parent = tempfile::tempdir().unwrap();
    let directory = RunDirectory::create(Some(&parent.path().join("paper")), "paper").unwrap();
    write(&directory, file).unwrap();

    let json = std::fs::read_to_string(directory.path().join("paper.json")).unwrap();
    assert_eq!(&serde_json::from_str::<PaperFile>(&json).unwrap(), file);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for row in json["cells"].as_array().unwrap() {
        for field in CONTRACT {
            assert!(row.get(field).is_some(), "a cell has no {field}: {row}");
        }
    }

    let page = std::fs::read_to_string(directory.path().join("paper.md")).unwrap();
    for row in &file.cells {
        let start = format!("| {} | {} | {} |", row.app, row.wan, row.model);
        assert!(page.contains(&start), "paper.md has no {start}");
    }
    let columns = |line: &str| line.matches(" | ").count();
    for table in page.split("\n\n").filter(|part| part.starts_with("| ")) {
        let mut lines = table.lines();
        let head = columns(lines.next().unwrap());
        assert!(lines.skip(1).all(|line| columns(line) == head), "{table}");
    }

    let block = paper_block(file, None, gaia_report::Paint::Plain);
    assert!(block.contains("mf ss centralize") && block.contains("heaviest run"), "{block}");
    assert!(block.lines().all(|line| line.chars().count() <= 90), "{block}");
}

fn evaluate_toy(request: &Request) -> Evaluation {
    evaluate(&toy(), request, None, &Nobody).unwrap_or_else(|error| panic!("{error}"))
}

fn toy() -> Suite {
    let wan = |name, topology| WanSpec { name, topology, lan_mbit: Some(40_000.0) };
    let contender = |name, settings| Contender { name, settings, tuned: &[] };
    Suite {
        apps: vec![App {
            name: "mf",
            file: "toy.toml",
            text: TOY,
            settings: &[],
            quick: &[],
            data: None,
        }],
        wans: vec![wan("ss", "gaia-2016-ss"), wan("vc", "gaia-2016-vc")],
        elsewhere: vec![wan("vc", "gaia-2016-vc")],
        elsewhere_models: vec!["asp"],
        contenders: vec![contender("bsp", "model = 'bsp'"), contender("asp", "model = 'asp'")],
        ablation: vec![Change {
            set: vec!["goal=cost".into(), "threshold=0.3".into()],
            what: "fewer bytes".into(),
        }],
        ablation_cells: vec![("mf", "vc")],
        skew: None,
        rates: None,
        systems: None,
    }
}

fn cell<'f>(file: &'f PaperFile, wan: &str, model: &str) -> &'f CellRow {
    let found = file.cells.iter().find(|row| row.wan == wan && row.model == model);
    found.unwrap_or_else(|| panic!("no cell {wan} {model}"))
}

#[track_caller]
fn near(found: f64, expect: f64, share: f64) {
    assert!((found / expect - 1.0).abs() <= share, "{found}, expected {expect}");
}

/// How many runs were announced, and how many have ended.
#[derive(Default)]
struct Counting(Mutex<(usize, usize)>);

impl Watch for Counting {
    fn on_run(&self, step: &Step<'_>) {
        let mut last = self.0.lock().unwrap();
        *last = (step.done, step.expected).max(*last);
    }
}

struct Nobody;

impl Watch for Nobody {
    fn on_run(&self, _: &Step<'_>) {}
}

impl Observer for Nobody {
    fn on_progress(&mut self, _: &Progress) {}
}

/// What scripts read.
const CONTRACT: [&str; 9] = [
    "app",
    "wan",
    "model",
    "times_lan",
    "speedup_vs_bsp",
    "wan_bytes",
    "usd",
    "converged",
    "paper_speedup",
];
