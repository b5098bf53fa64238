//! Models that are written during a run, and the best of them.

use gaia::{ModelSnapshot, Observer, Progress, RunFile, build, run};
use gaia_model::TrainedModel;

use super::{APPS, Bench, RUN};

/// Keeps what it is shown, in order.
#[derive(Default)]
struct Seen {
    progress: Vec<Progress>,
    snapshots: Vec<ModelSnapshot>,
}

impl Observer for Seen {
    fn on_progress(&mut self, progress: &Progress) {
        self.progress.push(progress.clone());
    }

    fn on_model(&mut self, snapshot: &ModelSnapshot) {
        self.snapshots.push(snapshot.clone());
    }
}

fn run_file(driver: &str, keys: &str) -> String {
    let (kind, app) = APPS[0];
    let run = RUN.replace("driver = \"simulated\"\nstop.clocks = 6", "");
    format!(
        "name = \"s\"\ndriver = \"{driver}\"\nstop.clocks = 22\nevaluate.every = 2\n{keys}\n{run}\n\
         [app]\nkind = \"{kind}\"\n{app}\n"
    )
}

fn read(bench: &Bench, file: &[u8]) -> TrainedModel {
    bench.write("snapshot", file);
    TrainedModel::read(&bench.path("snapshot")).unwrap()
}

#[test]
fn a_snapshot_is_the_model_of_its_evaluation() {
    let bench = Bench::new();
    for driver in ["simulated", "emulated"] {
        let text = run_file(driver, "model.every = 5");
        let plan = RunFile::from_text("r.toml", &text, &[]).unwrap().plan().unwrap();
        let application = build(&plan).unwrap();
        let mut seen = Seen::default();
        let outcome = run(&plan, &application, &mut seen).unwrap();

        let clocks: Vec<u64> = seen.snapshots.iter().map(|snapshot| snapshot.clock).collect();
        if driver == "simulated" {
            assert_eq!(clocks, [6, 10, 16, 20]);
        }
        assert!(!clocks.is_empty() && clocks.is_sorted());
        let mut best = f64::INFINITY;
        for snapshot in &seen.snapshots {
            let file = read(&bench, &snapshot.files[0].bytes);
            let model = file.model(application.layout(), &application.attachments()).unwrap();
            let progress = seen.progress.iter().find(|one| one.clock == snapshot.clock).unwrap();
            let description = file.description.unwrap();
            assert_eq!(description.clock, snapshot.clock);
            assert_eq!(description.metric.value, progress.metric);
            if driver == "simulated" {
                // Under BSP all copies are the one that was evaluated.
                assert_eq!(application.evaluate(&model).unwrap().metric, progress.metric);
            }
            assert_eq!(snapshot.is_best, progress.metric < best, "{driver}");
            best = best.min(progress.metric);
        }
        assert_eq!(outcome.is_best, outcome.summary.metric.value < best);
    }
}

#[test]
fn models_that_stay_at_home_are_the_model_in_shards() {
    let bench = Bench::new();
    for driver in ["simulated", "emulated"] {
        let run = run_file(driver, "model = { every = 5, keep = \"home\" }");
        bench.write("home.toml", run.replace("servers = 1", "servers = 3"));
        bench.gaia(&["train", "home.toml", "--quiet", "--out", driver]).assert().success();
        assert!(!bench.path(driver).join("model.safetensors").exists());

        let summary = std::fs::read_to_string(bench.path(driver).join("summary.json")).unwrap();
        let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
        let models = ["a", "b"].map(|dc| format!("{driver}/home/{dc}"));
        let [one, other] = models.each_ref().map(|dc| TrainedModel::read(&bench.path(dc)).unwrap());
        assert_eq!((&one.tables, &one.attachments), (&other.tables, &other.attachments));
        for model in &models {
            let found = bench.json(&["evaluate", model]);
            assert_eq!(found["metric"]["value"], summary["metric"]["value"]);
            assert!(bench.path(model).join("best/model-00003-of-00003.safetensors").is_file());
        }
    }
}

#[test]
fn a_run_without_the_key_shows_no_model_before_its_end() {
    let plan =
        RunFile::from_text("r.toml", &run_file("simulated", ""), &[]).unwrap().plan().unwrap();
    let mut seen = Seen::default();
    let outcome = run(&plan, &build(&plan).unwrap(), &mut seen).unwrap();
    assert!(seen.snapshots.is_empty() && !outcome.is_best);
}

#[test]
fn the_best_model_is_kept_beside_the_last() {
    let bench = Bench::new();
    // Without regularisation the model soon fits the noise of its few ratings.
    bench.write("run.toml", run_file("simulated", "model.every = 2"));
    let mut train = bench.gaia(&["train", "run.toml", "--quiet", "--out", "out"]);
    for setting in
        ["app.rank=12", "app.regularization=0.0", "app.row_step_max=0.6", "stop.clocks=150"]
    {
        train.args(["--set", setting]);
    }
    train.assert().success();

    let lines = std::fs::read_to_string(bench.path("out/progress.jsonl")).unwrap();
    let metrics = lines.lines().map(|line| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        (record["clock"].as_u64().unwrap(), record["metric"].as_f64().unwrap())
    });
    let (clock, best) = metrics.min_by(|one, other| one.1.total_cmp(&other.1)).unwrap();
    let metric_of = |file: &str| {
        let description = TrainedModel::read(&bench.path(file)).unwrap().description.unwrap();
        (description.clock, description.metric.value)
    };
    let last = metric_of("out/model.safetensors");
    assert_eq!(metric_of("out/model-best.safetensors"), (clock, best));
    assert!(best < last.1 && clock < last.0, "{best} at {clock}, {last:?}");
}
