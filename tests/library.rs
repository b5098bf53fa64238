//! What a user of the library does: hands in an application or a significance function, compares, and writes reports.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use gaia::{
    ComparisonPlan, DriverKind, Held, Outcome, Plan, RunDirectory, RunError, RunFile, RunOptions,
    Significance, Unobserved, build, run, run_with, write_run,
};
use gaia_config::KeepModel;
use gaia_driver::check_model;
use gaia_report::{Paint, comparison_block};
use safetensors::SafeTensors;

#[path = "../examples/observed_run.rs"]
#[expect(dead_code, unreachable_pub, reason = "an example is a program")]
mod observed_run;
#[path = "../examples/own_application.rs"]
#[expect(unreachable_pub, reason = "an example is a program")]
mod own_application;
#[path = "../examples/own_significance.rs"]
#[expect(unreachable_pub, reason = "an example is a program")]
mod own_significance;

const APP: &str = "\
[app]
kind = \"matrix-factorization\"
rank = 4
data.synthetic = { users = 60, items = 40, ratings = 1500, rank = 2, noise = 0.3 }
";

const RUN: &str = "\
name = \"library\"
topology = { file = \"three-regions\", bandwidth_scale = 0.01 }
compute.examples_per_second = 500.0
stop.clocks = 20
sync.remote = { model = \"asp\", function = \"absolute\", threshold = 0.02, goal = \"cost\" }
";

/// |residual|, as the run file's function is.
struct Absolute;

impl Significance for Absolute {
    fn measure(&self, residuals: &[f32], _: &[f32], _: usize, _: f32, out: &mut [f32]) {
        for (out, residual) in out.iter_mut().zip(residuals) {
            *out = residual.abs();
        }
    }
}

/// Finds everything insignificant.
struct Nothing;

impl Significance for Nothing {
    fn measure(&self, _: &[f32], _: &[f32], _: usize, _: f32, out: &mut [f32]) {
        out.fill(0.0);
    }
}

#[test]
fn an_own_application_is_compared_across_models() {
    own_application::main().unwrap();
}

#[test]
fn an_own_significance_function_decides_what_crosses_the_wan() {
    own_significance::main().unwrap();
    let of = |own| own_significance::train(own).unwrap().summary;
    let (built_in, own) = (of(None), of(Some(own_significance::of_the_row())));
    assert!(own.wan_bytes < built_in.wan_bytes, "{} {}", own.wan_bytes, built_in.wan_bytes);
    assert!(own.objective < 2.0 * built_in.objective);
}

#[test]
fn an_observed_run_leaves_a_report_that_can_be_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("observed");
    observed_run::train(Some(&out)).unwrap();

    let record = RunDirectory::open(&out).unwrap().read().unwrap();
    let clocks: Vec<u64> = record.progress.iter().map(|progress| progress.clock).collect();
    assert_eq!(clocks, [10, 20, 30, 40, 50, 60]);
    assert_eq!(record.summary.clocks, 60);
    assert!(record.run_toml.contains("tokyo = 3.0"), "{}", record.run_toml);
    assert!(out.join("report.html").is_file());
}

#[test]
fn a_model_that_no_file_has_room_for_is_refused_before_it_is_trained() {
    let plan = plan(&with_app());
    let application = build(&plan).unwrap();
    for keep in [KeepModel::Coordinator, KeepModel::Home] {
        let mut plan = plan.clone();
        plan.model.keep = keep;
        // The file has it on its own and among the settings.
        plan.name = "n".repeat(50_000_000);
        assert!(matches!(check_model(&plan, application.as_ref()), Err(RunError::Unwritable(_))));
        let refused = run(&plan, &application, &mut Unobserved).unwrap_err().to_string();
        let expected = " MB for settings, expected at most 100 MB for both";
        assert!(refused.contains(expected), "{refused}");
        plan.name = "n".repeat(10_000);
        check_model(&plan, application.as_ref()).unwrap();
    }
}

#[test]
fn a_run_leaves_its_final_model_with_what_it_was_trained_by() {
    let plan = plan(&with_app());
    let application = build(&plan).unwrap();
    let train = || run(&plan, &application, &mut Unobserved).unwrap();
    let outcome = train();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let directory = RunDirectory::create(Some(&path), "library").unwrap();
    write_run(&directory, &plan, &outcome).unwrap();

    let file = std::fs::read(path.join("model.safetensors")).unwrap();
    let model = outcome.model.unwrap();
    let again = train().model_files(&plan);
    assert_eq!(again[0].bytes, file, "the same seed gives the same bytes");
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let layout = application.layout();
    assert_eq!(tensors.len(), layout.tables().len() + application.attachments().len());
    for id in layout.table_ids() {
        let table = layout.table(id);
        let tensor = tensors.tensor(&table.name).unwrap();
        assert_eq!(tensor.shape(), [table.rows, table.width]);
        let numbers = tensor.data().as_chunks().0.iter();
        let values: Vec<f32> = numbers.map(|bytes| f32::from_le_bytes(*bytes)).collect();
        assert_eq!(values, model.table(id));
    }
    let trained = application.evaluate(&model).unwrap();
    assert!((trained.objective - outcome.summary.objective).abs() < 1e-9);

    let (_, header) = SafeTensors::read_metadata(&file).unwrap();
    let description = &header.metadata().as_ref().unwrap()["gaia"];
    let description: serde_json::Value = serde_json::from_str(description).unwrap();
    assert_eq!(description["run"], "library");
    assert_eq!(description["clock"], 20);
    assert_eq!(description["application"]["kind"], "matrix-factorization");
    assert_eq!(description["application"]["rank"], 4);
    assert_eq!(description["metric"]["name"], outcome.summary.metric.name);
}

#[test]
fn an_application_that_is_handed_in_trains_as_one_that_the_run_file_names() {
    let (named, handed_in) = (plan(&with_app()), plan(RUN));
    let application = build(&named).unwrap();
    let of = |plan| run(plan, &application, &mut Unobserved).unwrap();
    let (of_named, of_handed_in) = (of(&named), of(&handed_in));
    assert_eq!(of_named.progress, of_handed_in.progress);
    assert_eq!(of_named.summary.app, "matrix-factorization");
    assert_eq!(of_handed_in.summary.app, "custom");
}

#[test]
fn a_plan_without_an_application_is_written_and_read_back() {
    let plan = plan(RUN);
    let text = plan.to_toml();
    assert!(text.starts_with("# Everything that determined this run but its application"));
    assert_eq!(RunFile::from_text("again.toml", &text, &[]).unwrap().plan().unwrap(), plan);

    let Err(error) = build(&plan) else { panic!("there is nothing to build") };
    assert!(error.to_string().starts_with("app.kind is missing, expected one of"), "{error}");
}

#[test]
fn nodes_in_processes_of_their_own_cannot_have_what_is_handed_in() {
    let refused = |text: &str, options: &RunOptions, expect: &str| {
        let real = Plan { driver: DriverKind::Real, ..plan(text) };
        let application = build(&plan(&with_app())).unwrap();
        let error = run_with(&real, &application, options, &mut Unobserved).unwrap_err();
        assert!(matches!(error, RunError::NotInRunFile { handed_in } if handed_in == expect));
    };
    refused(RUN, &RunOptions::default(), "an application");
    refused(&with_app(), &own(Absolute), "a significance function");
}

#[test]
fn a_function_that_is_handed_in_takes_the_place_of_the_run_files() {
    let plan = plan(&with_app());
    let application = build(&plan).unwrap();
    let of = |options: &RunOptions| -> Outcome {
        run_with(&plan, &application, options, &mut Unobserved).unwrap()
    };
    let built_in = of(&RunOptions::default());
    assert_eq!(of(&own(Absolute)).progress, built_in.progress, "the same function");

    let nothing = of(&own(Nothing)).summary;
    assert!(built_in.summary.significant_fraction > 0.1);
    assert_eq!(nothing.significant_fraction, 0.0, "nothing leaves before the drain");
}

#[test]
fn every_variant_runs_towards_what_the_reference_has_reached() {
    let file = RunFile::from_text("library.toml", RUN, &[]).unwrap();
    let no_wans: [&str; 0] = [];
    let comparison = ComparisonPlan::new(&file, &["bsp", "asp"], &no_wans).unwrap();
    let application = build(&plan(&with_app())).unwrap();

    let mut stops = Vec::new();
    let compared = comparison.run(|variant| {
        stops.push((variant.plan.remote.name(), variant.plan.stop));
        run(&variant.plan, &application, &mut Unobserved)
    });

    let runs = compared.unwrap().runs;
    let cells: Vec<(&str, &str)> =
        runs.iter().map(|run| (&*run.row.summary.wan, &*run.row.summary.remote_sync)).collect();
    assert_eq!(cells, [("lan", "bsp"), ("three-regions", "bsp"), ("three-regions", "asp")]);
    let last = runs[0].progress.iter().rev().take(3).map(|progress| progress.objective);
    let reached = last.sum::<f64>() / 3.0;
    assert_eq!((stops[0].1.clocks, stops[0].1.objective), (Some(20), None));
    for (remote, stop) in &stops[1..] {
        assert_eq!(stop.clocks, Some(100), "{remote}");
        assert!(stop.objective.is_some_and(|target| target >= reached && target < 1.001 * reached));
        assert_eq!(stop.held, Held(3), "{remote}");
    }
}

#[test]
fn equal_runs_take_equal_times_by_one_rule_and_are_said_to_be_the_same() {
    let file = RunFile::from_text("library.toml", &with_app(), &[]).unwrap();
    let plan = ComparisonPlan::new(&file, &["bsp", "ssp", "asp"], &["lan"]).unwrap();
    let application = build(&plan.reference.plan).unwrap();
    let compared = plan.run(|variant| run(&variant.plan, &application, &mut Unobserved)).unwrap();

    let lan = compared.runs[0].row.summary.time_to_target_s;
    assert!(lan.is_some(), "the reference meets its own target");
    for run in &compared.runs {
        assert_eq!(run.row.summary.time_to_target_s, lan, "{}", run.row.summary.remote_sync);
        assert_eq!((run.row.times_lan, run.row.speedup_vs_bsp), (Some(1.0), Some(1.0)));
    }
    let block = comparison_block(&compared, None, Paint::Plain);
    assert!(block.contains("what BSP on the LAN held at its end, not settled"), "{block}");
    assert!(block.contains("On lan, bsp and ssp are one and the same run"), "{block}");
}

#[test]
fn the_lan_has_the_machines_of_the_wans_that_are_compared() {
    let file = RunFile::from_text("library.toml", &with_app(), &[]).unwrap();
    let workers = |wans: &[&str]| {
        let plan = ComparisonPlan::new(&file, &["bsp"], wans).unwrap();
        let of_wans = plan.variants.iter().map(|variant| variant.plan.topology.workers()).collect();
        (plan.reference.plan.topology.workers(), of_wans)
    };
    let own = file.plan().unwrap().topology.workers();
    assert_eq!(workers(&[]), (own, vec![own]));
    assert_eq!(workers(&["gaia-2016-ec2-all"]), (22, vec![22]));
    let (lan, of_wans): (usize, Vec<usize>) = workers(&["three-regions", "gaia-2016-ec2-all"]);
    assert_eq!((lan, of_wans), (own, vec![6, 22]), "machines differ, and those of the file count");
}

#[test]
fn an_interrupted_comparison_has_the_runs_that_there_are() {
    let file = RunFile::from_text("library.toml", &with_app(), &[]).unwrap();
    let no_wans: [&str; 0] = [];
    let plan = ComparisonPlan::new(&file, &["bsp", "ssp", "asp"], &no_wans).unwrap();
    let application = build(&plan.reference.plan).unwrap();
    let compared = plan.run(|variant| {
        let mut outcome = run(&variant.plan, &application, &mut Unobserved)?;
        if variant.remote == "ssp" {
            outcome.summary.stopped_by = "interrupted".into();
        }
        Ok::<Outcome, RunError>(outcome)
    });
    let runs = compared.unwrap().runs;
    let remotes: Vec<&str> = runs.iter().map(|run| &*run.row.summary.remote_sync).collect();
    assert_eq!(remotes, ["bsp", "bsp", "ssp"]);
}

fn with_app() -> String {
    format!("{RUN}{APP}")
}

fn plan(text: &str) -> Plan {
    RunFile::from_text("library.toml", text, &[]).unwrap().plan().unwrap()
}

fn own(function: impl Significance + 'static) -> RunOptions {
    RunOptions { significance: Some(Arc::new(function)), ..RunOptions::default() }
}
