//! Run directories: made, written, read back, and refused.

use std::fs;

use gaia_report::{
    Comparison, ComparisonFile, Live, LiveMode, LivePlan, Recorder, ReportError, RunDirectory,
    read_comparison, to_json, write_comparison, write_run,
};
use gaia_telemetry::Observer;
use proptest::prelude::*;

use crate::sample::{self, LAN_BSP, RUN_TOML, THREE_ASP, WAN_ASP, WAN_BSP};

fn quiet() -> Live {
    let plan = LivePlan {
        title: String::new(),
        target_objective: None,
        metric: String::new(),
        data_centers: Vec::new(),
    };
    Live::new(LiveMode::Quiet, plan)
}

/// A whole run as the command line drives it.
fn record(directory: &RunDirectory, shape: sample::Shape) {
    let (summary, progress) = sample::run(shape);
    let mut recorder = Recorder::new(directory, quiet(), summary.initial.as_ref()).unwrap();
    for evaluation in &progress {
        recorder.on_progress(evaluation);
    }
    let (kept, unwritten) = recorder.finish();
    assert!(unwritten.is_none());
    assert_eq!(kept, progress);
    write_run(directory, RUN_TOML, &kept, &summary, &[]).unwrap();
}

#[test]
fn a_directory_of_several_runs_is_no_unfinished_run() {
    let place = tempfile::tempdir().unwrap();
    let directory = RunDirectory::create(Some(&place.path().join("all")), "any").unwrap();
    directory.write("run.toml", RUN_TOML).unwrap();
    assert!(RunDirectory::reopen(directory.path()).is_ok());

    record(&directory.create_child(&RunDirectory::name_of_seed(7)).unwrap(), THREE_ASP);
    let refused = RunDirectory::reopen(directory.path()).unwrap_err();
    assert!(matches!(refused, ReportError::NotEmpty { .. }), "{refused}");
}

/// `gaia report` puts the text of `run.toml` on a page, which people pass on.
#[cfg(unix)]
#[test]
fn a_link_for_a_file_of_a_run_is_refused_by_name_and_not_read() {
    let place = tempfile::tempdir().unwrap();
    let directory = RunDirectory::create(Some(&place.path().join("run")), "any").unwrap();
    record(&directory, THREE_ASP);
    directory.write("highlights.txt", "one\n").unwrap();
    for name in ["summary.json", "progress.jsonl", "run.toml", "highlights.txt"] {
        let (file, outside) = (directory.path().join(name), place.path().join("outside"));
        fs::rename(&file, &outside).unwrap();
        std::os::unix::fs::symlink(&outside, &file).unwrap();
        let refused = RunDirectory::open(directory.path()).unwrap().read().unwrap_err();
        let expected = format!("{name}: found a symbolic link, expected a file of the run itself");
        assert!(refused.to_string().ends_with(&expected) && refused.is_bad_input(), "{refused}");
        fs::remove_file(&file).unwrap();
        fs::rename(&outside, &file).unwrap();
    }
    directory.read().unwrap();
}

#[cfg(unix)]
#[test]
fn a_link_to_another_run_is_no_run_of_a_comparison() {
    let place = tempfile::tempdir().unwrap();
    let elsewhere = RunDirectory::create(Some(&place.path().join("other")), "any").unwrap();
    record(&elsewhere, THREE_ASP);
    for name in ["asp", "seed-7"] {
        let directory = RunDirectory::create(Some(&place.path().join(name)), "any").unwrap();
        directory.write("run.toml", RUN_TOML).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), directory.path().join(name)).unwrap();
        let opened = RunDirectory::open(directory.path()).unwrap();
        let refused = opened.children().unwrap_err().to_string();
        let expected = format!("{name}: found a symbolic link, expected a directory of the run");
        assert!(refused.contains(&expected), "{refused}");
        assert_eq!(opened.seeds().is_err(), name == "seed-7");
    }
}

/// A run that is resumed writes into a directory that was there before.
#[cfg(unix)]
#[test]
fn nothing_is_written_where_links_in_a_resumed_run_lead() {
    let place = tempfile::tempdir().unwrap();
    let run = place.path().join("run");
    fs::create_dir(&run).unwrap();
    fs::create_dir(run.join("checkpoints")).unwrap();
    let names = [
        "progress.jsonl",
        "events.out.tfevents.gaia",
        "run.toml",
        "summary.json",
        "report.html",
        ".run.toml.part",
        ".summary.json.part",
        ".report.html.part",
    ];
    let victim = place.path().join("victim");
    fs::write(&victim, "of somebody else").unwrap();
    for name in names {
        std::os::unix::fs::symlink(&victim, run.join(name)).unwrap();
    }

    fs::remove_file(run.join("summary.json")).unwrap();
    record(&RunDirectory::reopen(&run).unwrap(), THREE_ASP);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "of somebody else");
    let links = names.iter().filter(|name| run.join(name).is_symlink()).count();
    assert_eq!(links, 0, "links are replaced by files");
}

#[test]
fn what_was_learnt_is_a_file_where_there_is_something_to_say() {
    let place = tempfile::tempdir().unwrap();
    let directory = RunDirectory::create(Some(&place.path().join("run")), "any").unwrap();
    record(&directory, THREE_ASP);
    let file = directory.path().join("highlights.txt");
    assert!(!file.exists());
    let (summary, progress) = sample::run(THREE_ASP);
    let lines = ["one".to_owned(), "two  words".to_owned()];
    write_run(&directory, RUN_TOML, &progress, &summary, &lines).unwrap();
    assert_eq!(fs::read_to_string(file).unwrap(), "one\ntwo  words\n");
    assert_eq!(directory.read().unwrap().highlights, lines);
}

#[test]
fn a_run_reads_back_as_written() {
    let place = tempfile::tempdir().unwrap();
    let directory = RunDirectory::create(Some(&place.path().join("new/run")), "any").unwrap();
    record(&directory, THREE_ASP);

    let read = RunDirectory::open(directory.path()).unwrap().read().unwrap();
    let (summary, progress) = sample::run(THREE_ASP);
    assert_eq!((read.summary, read.progress), (summary, progress));
    assert_eq!(read.run_toml, RUN_TOML);
    assert!(read.highlights.is_empty());
    let mut files: Vec<String> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(
        files,
        [
            "convergence.svg",
            "events.out.tfevents.gaia",
            "progress.jsonl",
            "report.html",
            "run.toml",
            "summary.json"
        ]
    );
}

#[test]
fn a_comparison_reads_back_from_its_runs() {
    let place = tempfile::tempdir().unwrap();
    let directory = RunDirectory::create(Some(place.path()), "any").unwrap();
    let shapes = [WAN_ASP, WAN_BSP, LAN_BSP];
    for shape in shapes {
        let child = directory.create_child(&format!("{}-{}", shape.wan, shape.remote)).unwrap();
        record(&child, shape);
    }
    let comparison = Comparison::new(shapes.map(sample::run).to_vec());
    write_comparison(&directory, RUN_TOML, &comparison).unwrap();

    let opened = RunDirectory::open(place.path()).unwrap();
    assert!(opened.is_comparison() && !opened.is_run());
    assert_eq!(read_comparison(&opened).unwrap(), comparison);
    let text = fs::read_to_string(place.path().join("compare.json")).unwrap();
    assert_eq!(serde_json::from_str::<ComparisonFile>(&text).unwrap(), comparison.file());
}

/// A report of fewer runs would replace the records of all.
#[test]
fn a_comparison_whose_runs_or_records_are_damaged_is_refused_and_stays() {
    let place = tempfile::tempdir().unwrap();
    let directory = RunDirectory::create(Some(place.path()), "any").unwrap();
    record(&directory.create_child("wan-bsp").unwrap(), WAN_BSP);
    let comparison = Comparison::new([WAN_ASP, WAN_BSP].map(sample::run).to_vec());
    write_comparison(&directory, RUN_TOML, &comparison).unwrap();
    let records = place.path().join("compare.json");
    let whole = fs::read_to_string(&records).unwrap();

    let error = read_comparison(&directory).unwrap_err();
    assert!(error.is_bad_input());
    let expected =
        "compare.json: 2 runs, found 1 of them beside it, expected the directories of all";
    assert!(error.to_string().ends_with(expected), "{error}");

    fs::write(&records, &whole[..whole.len() - 30]).unwrap();
    let error = read_comparison(&directory).unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("compare.json"), "{error}");
}

/// What a program of another kind has left is not written over.
#[test]
fn checkpoints_beside_files_of_no_run_are_not_resumed() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("checkpoints")).unwrap();
    RunDirectory::reopen(place.path()).unwrap();
    fs::write(place.path().join("model.safetensors"), "of somebody").unwrap();
    let error = RunDirectory::reopen(place.path()).unwrap_err();
    assert!(error.to_string().contains("not empty"), "{error}");
    fs::write(place.path().join("run.toml"), RUN_TOML).unwrap();
    RunDirectory::reopen(place.path()).unwrap();
}

#[test]
fn ratios_are_against_bsp_on_the_same_wan_and_bsp_on_the_lan() {
    let comparison = Comparison::new([WAN_ASP, WAN_BSP, LAN_BSP].map(sample::run).to_vec());
    let rows = comparison.file().rows;
    let time = |at: usize| rows[at].summary.time_to_target_s.unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row.summary.remote_sync.as_str()).collect();
    assert_eq!(names, ["bsp", "bsp", "asp"]);
    assert_eq!(rows[0].summary.wan, "lan");
    assert_eq!((rows[0].speedup_vs_bsp, rows[0].times_lan), (Some(1.0), Some(1.0)));
    assert_eq!(rows[2].speedup_vs_bsp, Some(time(1) / time(2)));
    assert_eq!(rows[2].times_lan, Some(time(2) / time(0)));

    let (mut lan, progress) = sample::run(LAN_BSP);
    lan.time_to_target_s = None;
    let comparison = Comparison::new(vec![(lan, progress), sample::run(WAN_ASP)]);
    let row = &comparison.runs[1].row;
    assert_eq!((row.speedup_vs_bsp, row.times_lan), (None, None));
}

#[test]
fn a_directory_that_holds_anything_is_refused() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("thesis.tex"), "years of work").unwrap();
    let error = RunDirectory::create(Some(place.path()), "any").unwrap_err();
    assert!(error.is_bad_input());
    assert!(
        error.to_string().contains("not empty, expected a new or an empty directory"),
        "{error}"
    );

    let error = RunDirectory::create(Some(&place.path().join("thesis.tex")), "any").unwrap_err();
    assert!(matches!(error, ReportError::NotADirectory { .. }), "{error}");
}

#[test]
fn a_directory_without_a_finished_run_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let error = RunDirectory::open(place.path()).unwrap_err();
    assert!(matches!(error, ReportError::NotFinished { .. }), "{error}");
    let error = RunDirectory::open(&place.path().join("none")).unwrap_err();
    assert!(matches!(error, ReportError::NoSuchDirectory { .. }), "{error}");
}

/// The message for a run directory one of whose files was replaced, from the file's name on.
fn broken(file: &str, text: &[u8]) -> String {
    let place = tempfile::tempdir().unwrap();
    let directory = RunDirectory::create(Some(place.path()), "any").unwrap();
    record(&directory, THREE_ASP);
    fs::write(place.path().join(file), text).unwrap();
    let error = RunDirectory::open(place.path()).unwrap().read().unwrap_err();
    assert!(error.is_bad_input());
    let text = error.to_string();
    text[text.find(file).unwrap()..].to_owned()
}

#[test]
fn a_broken_file_is_named_with_its_line() {
    let (_, progress) = sample::run(THREE_ASP);
    let good = serde_json::to_string(&progress[0]).unwrap();
    let check =
        |text: String, expect: &str| assert_eq!(broken("progress.jsonl", text.as_bytes()), expect);
    check(
        format!("{good}\n{good}\n{{\"time_s\": 1.0}}\n"),
        "progress.jsonl:3:15: missing field `clock`, expected one progress record (JSON) on each line",
    );
    check(
        format!("{good}\n\n{}", &good[..40]),
        "progress.jsonl:3:40: EOF while parsing an object, expected one progress record (JSON) on each line",
    );
    assert_eq!(
        broken("summary.json", b"{\n  \"name\": 3\n}"),
        "summary.json:2:11: invalid type: integer `3`, expected a string, expected a run's summary",
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_in_a_file_can_do_more_than_be_refused(
        file in prop::sample::select(vec!["progress.jsonl", "summary.json", "run.toml", "highlights.txt"]),
        text in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            "[{}\\[\\]\",:a-z0-9\n .e-]{0,200}".prop_map(String::into_bytes),
        ],
    ) {
        let place = tempfile::tempdir().unwrap();
        let directory = RunDirectory::create(Some(place.path()), "any").unwrap();
        fs::write(place.path().join("summary.json"), to_json(&sample::run(LAN_BSP).0)).unwrap();
        fs::write(place.path().join("progress.jsonl"), "").unwrap();
        fs::write(place.path().join(file), text).unwrap();
        let _ = directory.read();
    }

    #[test]
    fn a_record_with_any_figures_reads_back_and_draws(
        figures in prop::collection::vec((any::<f64>(), any::<u64>()), 0..12),
        target in any::<Option<f64>>(),
    ) {
        let (mut summary, mut progress) = sample::run(THREE_ASP);
        for (evaluation, (figure, count)) in progress.iter_mut().zip(&figures) {
            evaluation.time_s = if figure.is_finite() { *figure } else { 0.0 };
            evaluation.objective = *figure;
            evaluation.metric = *figure;
            evaluation.clock = *count;
            evaluation.wan_bytes = *count;
            evaluation.data_centers[0].objective = *figure;
            evaluation.data_centers[0].blocked_s = evaluation.time_s;
        }
        for (link, (figure, count)) in summary.links.iter_mut().zip(&figures) {
            link.bytes = *count;
            link.utilisation = if figure.is_finite() { *figure } else { 0.0 };
            link.cost_usd = link.utilisation;
            link.rtt_ms = link.utilisation;
            link.bandwidth_bits_per_second = link.utilisation;
            link.blocked_s.barrier = link.utilisation;
        }
        summary.target_objective = target.filter(|target| target.is_finite());
        let place = tempfile::tempdir().unwrap();
        let directory = RunDirectory::create(Some(place.path()), "any").unwrap();
        let mut log = directory.progress_log().unwrap();
        for evaluation in &progress {
            log.append(evaluation).unwrap();
        }
        write_run(&directory, RUN_TOML, &progress, &summary, &[]).unwrap();
        let read = directory.read().unwrap();
        prop_assert_eq!(read.summary, summary.clone());
        for (read, evaluation) in read.progress.iter().zip(&progress) {
            prop_assert_eq!(read.time_s.to_bits(), evaluation.time_s.to_bits());
        }
        write_comparison(&directory, RUN_TOML, &Comparison::new(vec![(summary, progress)])).unwrap();
    }
}
