//! The blocks that end a run on the terminal.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gaia_core::coordinator::target_of;
use gaia_driver::Outcome;
use gaia_report::{
    Comparison, Paint, comparison_block, held_at_the_end, highlights_block, run_block,
};
use gaia_telemetry::{
    BreakdownRecord, BrokenLink, ConservationRecord, GuardRecord, HomeEvaluation, InitialRecord,
    Progress, Summary,
};

use crate::sample::{self, LAN_BSP, Shape, THREE_ASP, WAN_ASP, WAN_BSP, WAN_SSP, WAN_TAP};

/// The block, once it is known to fit a terminal.
fn check(block: String) -> String {
    for line in block.lines() {
        assert!(console::measure_text_width(line) <= 80, "{line}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
        assert_eq!(line.trim_end(), line);
    }
    block
}

fn run(summary: &Summary) -> String {
    let directory = PathBuf::from("runs/movielens-20261030T142530Z");
    let files =
        [("report", directory.join("report.html")), ("model", directory.join("model.safetensors"))];
    check(run_block(summary, &files, Paint::Plain))
}

#[test]
fn a_run_over_three_regions_ends_in_a_block() {
    insta::assert_snapshot!(run(&sample::run(THREE_ASP).0), @r#"
    movielens: asp over three-regions, simulated, seed 42
    matrix factorisation of ratings.csv: 610 users × 9724 items, 90753 ratings and
    10083 held out, 103340 parameters

      converged       yes, the target objective was met
      time to target  12.9 s, clock 115
      objective       0.7096, target 0.71
      metric          rmse 0.8696, held out
      to beat         mean rating: rmse 1.042, objective 1.086; 17 % less error
      WAN traffic     13.9 MB
      WAN cost        $0.00031
      LAN traffic     1.43 GB
      blocked         3.79 s (worker-seconds): mirror clock 2.27 s, local 1.10 s,
                      barrier 420 ms
      shared          4.1 % of parameter changes
      copies          equal after the drain, never more than 6 clocks apart
      bandwidth scale WAN bandwidths × 0.05
      took            4.10 s of this machine's time, gaia 0.1.0
      report          runs/movielens-20261030T142530Z/report.html
      model           runs/movielens-20261030T142530Z/model.safetensors

      link                   sent  updates  held back  busy  blocked       cost
      ireland → tokyo     2.95 MB  422,088       91 %  40 %   179 ms  $0.000059
      tokyo → ireland     2.95 MB  422,088       91 %  40 %   179 ms  $0.000059
      virginia → ireland  2.67 MB  381,005       92 %  41 %   179 ms  $0.000053
      ireland → virginia  2.67 MB  381,005       92 %  41 %   179 ms  $0.000053
      virginia → tokyo    2.13 MB  303,700       94 %  47 %   179 ms  $0.000043
      tokyo → virginia    2.13 MB  303,700       94 %  47 %   179 ms  $0.000043
    "#);
}

#[test]
fn a_run_says_what_crossed_between_mirrors_and_fails_where_that_is_not_what_was_cut() {
    let (mut summary, progress) = sample::run(THREE_ASP);
    let check = |summary: &Summary, expect: &str| {
        assert!(run(summary).contains(expect), "{}", run(summary));
        let (summary, progress) = (summary.clone(), progress.clone());
        let attachments = BTreeMap::new();
        let (model, is_best, highlights) = (None, false, Vec::new());
        Outcome { summary, progress, model, attachments, is_best, highlights }.check()
    };
    assert!(!run(&summary).contains("conservation"));
    let mut record = ConservationRecord { links: 6, frames: 1234, broken: Vec::new() };
    summary.conservation = Some(record.clone());
    let whole = "conservation    1,234 frames over 6 links, each applied once and in order\n";
    check(&summary, whole).unwrap();
    record.broken.push(BrokenLink {
        from: "tokyo".into(),
        to: "ireland".into(),
        shard: 2,
        cut_frames: 200,
        applied_frames: 199,
    });
    summary.conservation = Some(record);
    let error = check(&summary, "conservation    1 of 6 links broken, 1,234 frames applied\n");
    let error = error.unwrap_err().to_string();
    assert!(
        error.ends_with(": tokyo → ireland, shard 2: 200 frames were sent and 199 applied"),
        "{error}"
    );
}

#[test]
fn a_run_over_eleven_regions_shows_its_busiest_links() {
    insta::assert_snapshot!(run(&sample::run(WAN_ASP).0), @r#"
    movielens: asp over gaia-2016-ec2-all, simulated, seed 42
    matrix factorisation of ratings.csv: 610 users × 9724 items, 90753 ratings and
    10083 held out, 103340 parameters

      converged       yes, the target objective was met
      time to target  12.9 s, clock 115
      objective       0.7096, target 0.71
      metric          rmse 0.8696, held out
      to beat         mean rating: rmse 1.042, objective 1.086; 17 % less error
      WAN traffic     13.9 MB
      WAN cost        $0.00036
      LAN traffic     1.43 GB
      blocked         41.0 s (worker-seconds): mirror clock 22.7 s, local 14.1 s,
                      barrier 4.20 s
      shared          4.1 % of parameter changes
      copies          equal after the drain, never more than 6 clocks apart
      bandwidth scale WAN bandwidths × 0.05
      took            4.10 s of this machine's time, gaia 0.1.0
      report          runs/movielens-20261030T142530Z/report.html
      model           runs/movielens-20261030T142530Z/model.safetensors

      link                   sent  updates  held back   busy  blocked       cost
      california → oregon  161 kB   23,023       91 %  2.2 %    98 ms  <$0.00001
      oregon → california  161 kB   23,023       91 %  2.2 %    98 ms  <$0.00001
      oregon → ireland     161 kB   23,023       91 %  2.2 %    98 ms  <$0.00001
      ireland → oregon     161 kB   23,023       91 %  2.2 %    98 ms  <$0.00001
      tokyo → seoul        161 kB   23,023       91 %  2.2 %    98 ms  <$0.00001
      seoul → tokyo        161 kB   23,023       91 %  2.2 %    98 ms  <$0.00001
      seoul → singapore    161 kB   23,023       91 %  2.2 %    98 ms  <$0.00001
      singapore → seoul    161 kB   23,023       91 %  2.2 %    98 ms  <$0.00001
      mumbai → saopaulo    161 kB   23,023       91 %  2.2 %    98 ms  <$0.00001
      saopaulo → mumbai    161 kB   23,023       91 %  2.2 %    98 ms  $0.000022
      100 more links in the report
    "#);
}

#[test]
fn a_run_on_the_lan_that_stopped_early_has_no_links() {
    let (mut summary, _) = sample::run(LAN_BSP);
    summary.converged = false;
    summary.stopped_by = "clocks".into();
    summary.time_to_target_s = None;
    summary.clocks_to_target = None;
    insta::assert_snapshot!(run(&summary), @r#"
    movielens: bsp over lan, simulated, seed 42
    matrix factorisation of ratings.csv: 610 users × 9724 items, 90753 ratings and
    10083 held out, 103340 parameters

      converged       no, stopped after 110 clocks, not settled
      time to target  never
      objective       0.7089, target 0.71
      metric          rmse 0.8689, held out
      to beat         mean rating: rmse 1.042, objective 1.086; 17 % less error
      WAN traffic     0 B
      WAN cost        $0
      LAN traffic     1.43 GB
      blocked         local 3.10 s (worker-seconds)
      took            4.10 s of this machine's time, gaia 0.1.0
      report          runs/movielens-20261030T142530Z/report.html
      model           runs/movielens-20261030T142530Z/model.safetensors
    "#);
}

#[test]
fn a_model_that_lost_what_copies_had_is_called_so() {
    let (mut summary, _) = sample::run(LAN_BSP);
    let shown = |summary: &Summary| {
        let shown = run(summary);
        shown.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(!shown(&summary).contains("untrained"));
    summary.initial = Some(InitialRecord { objective: 0.7012, metric: 0.8 });
    (summary.converged, summary.stopped_by) = (false, "objective".into());
    let found = shown(&summary);
    for expect in [
        "converged no, only copies met the target: the model is at 0.7089 ",
        "untrained better, objective 0.7012 ",
    ] {
        assert!(found.contains(expect), "{found}");
    }
}

/// BSP on the LAN may have set the target before these runs were set side by side.
#[test]
fn without_the_lan_nobody_is_said_to_have_set_the_target() {
    let runs = [WAN_ASP, WAN_BSP].map(sample::run).to_vec();
    let block = comparison_block(&Comparison::new(runs), None, Paint::Plain);
    let expect = "Target objective 0.71: the objective at which each run stops\n";
    assert!(block.contains(expect), "{block}");
}

#[test]
fn a_comparison_ends_in_a_table() {
    let runs = [WAN_TAP, WAN_ASP, LAN_BSP, WAN_SSP, WAN_BSP].map(sample::run).to_vec();
    let block = comparison_block(&Comparison::new(runs), None, Paint::Plain);
    insta::assert_snapshot!(check(block), @r#"
    Target objective 0.71: the objective that the run file sets

           to target  vs BSP  vs LAN  WAN sent      cost  barrier  mirror  bandw.
    lan
      bsp     11.5 s   1.00×   1.00×       0 B        $0      0 s     0 s     0 s
    gaia-2016-ec2-all, bandwidths × 0.05
      bsp     53.9 s   1.00×   4.67×    254 MB   $0.0078      0 s     0 s   981 s
      ssp     53.8 s   1.00×   4.65×    289 MB   $0.0089      0 s     0 s   844 s
      tap      never       –       –    924 MB    $0.028      0 s     0 s     0 s
      asp     12.9 s   4.18×   1.12×   13.9 MB  $0.00036    4.2 s  22.7 s     0 s

    barrier, mirror clock, bandwidth: worker-seconds that reads were held back
    On gaia-2016-ec2-all, asp reaches the target 4.18× sooner than bsp, with 18.3×
    fewer WAN bytes; that is 1.12× the time that BSP takes on the LAN.
    "#);
}

#[track_caller]
fn check_verdict(runs: Vec<(Summary, Vec<Progress>)>, expect: &str) {
    let block = check(comparison_block(&Comparison::new(runs), None, Paint::Plain));
    assert!(block.replace('\n', " ").contains(expect), "{block}");
}

#[test]
fn the_fastest_model_is_named_where_bsp_never_reaches_the_target() {
    let never = |shape| {
        let (mut summary, progress) = sample::run(shape);
        summary.time_to_target_s = None;
        (summary, progress)
    };
    let faster = sample::run(Shape { remote: "local-steps", clock_s: 0.1, ..WAN_ASP });
    check_verdict(
        vec![never(WAN_BSP), sample::run(WAN_ASP), faster.clone()],
        "On gaia-2016-ec2-all, local-steps reaches the target after 11.5 s, and bsp never does, with",
    );
    check_verdict(
        vec![sample::run(WAN_ASP), faster],
        "On gaia-2016-ec2-all, local-steps reaches the target first, after 11.5 s.",
    );
    check_verdict(
        vec![never(WAN_BSP), never(WAN_ASP)],
        "On gaia-2016-ec2-all, no model reaches the target.",
    );
    check_verdict(
        vec![sample::run(WAN_BSP), never(WAN_ASP)],
        "On gaia-2016-ec2-all, no model but bsp reaches the target.",
    );
}

#[test]
fn a_run_without_the_target_of_the_others_is_not_compared_with_them() {
    let mut settled = sample::run(WAN_BSP);
    settled.0.target_objective = None;
    settled.0.stopped_by = "converged".into();
    let mut elsewhere = sample::run(WAN_BSP);
    elsewhere.0.target_objective = Some(0.9);
    let mut lan = sample::run(LAN_BSP);
    lan.0.target_objective = None;
    for runs in [
        vec![settled.clone(), sample::run(WAN_ASP)],
        vec![elsewhere, sample::run(WAN_ASP)],
        vec![lan, sample::run(WAN_BSP), sample::run(WAN_ASP)],
    ] {
        let comparison = Comparison::new(runs.clone());
        assert_eq!(comparison.target_objective, None);
        for run in &comparison.runs {
            assert_eq!((run.row.speedup_vs_bsp, run.row.times_lan), (None, None));
        }
        let block = comparison_block(&comparison, None, Paint::Plain);
        assert!(block.contains("Target each run's own stop rule\n"), "{block}");
        assert!(!block.contains(" than bsp"), "{block}");
        check_verdict(
            runs,
            "The runs have no common target objective: their times are not compared.",
        );
    }
    let alone = comparison_block(&Comparison::new(vec![settled]), None, Paint::Plain);
    assert!(!alone.contains("not compared"), "there is nothing to compare:\n{alone}");
}

#[test]
fn bsp_on_the_lan_that_set_the_target_is_compared_without_one_of_its_own() {
    let (mut lan, progress) = sample::run(LAN_BSP);
    let target = target_of(held_at_the_end(&progress).unwrap());
    lan.target_objective = None;
    let others = [WAN_BSP, WAN_ASP].map(|shape| {
        let (mut summary, progress) = sample::run(shape);
        summary.target_objective = Some(target);
        (summary, progress)
    });
    let comparison = Comparison::new([(lan, progress)].into_iter().chain(others).collect());
    assert_eq!(comparison.target_objective, Some(target));
    assert!(comparison.runs.iter().all(|run| run.row.times_lan.is_some()));
}

#[test]
fn the_longest_words_about_a_target_are_broken_between_lines() {
    let (mut lan, progress) = sample::run(LAN_BSP);
    let target = target_of(held_at_the_end(&progress).unwrap());
    (lan.target_objective, lan.stopped_by) = (None, "objective".into());
    let (mut asp, of_asp) = sample::run(WAN_ASP);
    asp.target_objective = Some(target);
    let comparison = Comparison::new(vec![(lan, progress), (asp, of_asp)]);
    let block = check(comparison_block(&comparison, None, Paint::Plain));
    let said = "Target objective 0.7123: what BSP on the LAN held at the objective of the run file";
    assert!(block.replace('\n', " ").starts_with(said), "{block}");
}

/// BSP, and ASP on the same WAN with something changed.
fn bsp_and_another(change: fn(&mut Summary)) -> Vec<(Summary, Vec<Progress>)> {
    let (mut summary, progress) = sample::run(WAN_ASP);
    change(&mut summary);
    vec![sample::run(WAN_BSP), (summary, progress)]
}

#[test]
fn runs_that_do_not_train_the_same_are_not_compared() {
    let expect =
        "The runs do not train the same model on the same data: their times are not compared.";
    for runs in [
        bsp_and_another(|summary| summary.app = "logistic-regression".into()),
        bsp_and_another(|summary| summary.trained_on = "matrix factorisation of other.csv".into()),
    ] {
        let comparison = Comparison::new(runs.clone());
        assert!(comparison.runs.iter().all(|run| run.row.speedup_vs_bsp.is_none()));
        let block = comparison_block(&comparison, None, Paint::Plain);
        assert!(!block.contains("reaches the target"), "{block}");
        check_verdict(runs, expect);
    }
    check_verdict(
        bsp_and_another(|summary| summary.trained_on = String::new()),
        "asp reaches the target 4.18× sooner than bsp",
    );
}

#[test]
fn runs_with_other_drivers_or_other_bandwidths_of_a_wan_are_not_compared() {
    let expect = "The runs have different drivers or bandwidths of the same WAN: their times are not compared.";
    for runs in [
        bsp_and_another(|summary| summary.driver = "emulated".into()),
        bsp_and_another(|summary| summary.bandwidth_scale *= 2.0),
    ] {
        let comparison = Comparison::new(runs.clone());
        assert!(comparison.runs.iter().all(|run| run.row.speedup_vs_bsp.is_none()));
        check_verdict(runs, expect);
    }
}

#[test]
fn a_run_that_was_interrupted_is_not_said_never_to_reach_the_target() {
    let (mut asp, progress) = sample::run(WAN_ASP);
    asp.stopped_by = "interrupted".into();
    (asp.time_to_target_s, asp.clocks_to_target) = (None, None);
    let runs = vec![sample::run(WAN_BSP), (asp, progress)];
    let block = comparison_block(&Comparison::new(runs), None, Paint::Plain);
    let said = "On gaia-2016-ec2-all, asp was interrupted before the target.";
    assert!(block.replace('\n', " ").contains(said), "{block}");
    assert!(!block.contains("never") && !block.contains("no model"), "{block}");
}

#[test]
fn a_model_that_takes_as_long_as_bsp_is_not_called_sooner() {
    let ssp = |pace: f64| {
        let clock_s = pace * WAN_BSP.clock_s;
        vec![sample::run(WAN_BSP), sample::run(Shape { remote: "ssp", clock_s, ..WAN_BSP })]
    };
    let even =
        "On gaia-2016-ec2-all, ssp reaches the target as soon as bsp, with as many WAN bytes.";
    for pace in [0.999, 1.0, 1.001] {
        check_verdict(ssp(pace), even);
    }
    check_verdict(ssp(1.0), "On gaia-2016-ec2-all, bsp and ssp are one and the same run");
    check_verdict(ssp(0.98), "ssp reaches the target 1.02× sooner than bsp, with as many");
    check_verdict(ssp(1.02), "ssp reaches the target 1.02× later than bsp, with as many");
}

#[test]
fn other_machines_on_the_lan_are_said() {
    let mut lan = sample::run(LAN_BSP);
    lan.0.workers = 8;
    check_verdict(
        vec![lan, sample::run(WAN_BSP), sample::run(WAN_ASP)],
        "gaia-2016-ec2-all has 22 workers and the LAN has 8: times over different machines are not compared.",
    );
}

#[test]
fn copies_that_were_evaluated_at_home_show_the_worst_and_the_mean() {
    let (mut summary, _) = sample::run(THREE_ASP);
    let of =
        |name: &str, objective, metric| HomeEvaluation { name: name.into(), objective, metric };
    summary.at_home =
        vec![of("virginia", 0.7, 0.86), of("ireland", 0.73, 0.88), of("tokyo", 0.7, 0.84)];
    let block = run(&summary);
    assert!(
        block.contains("metric          rmse 0.8696, held out, 0.8400 to 0.8800 at home"),
        "{block}"
    );
    assert!(block.contains("at home         worst 0.7300 in ireland, mean 0.7100"), "{block}");
}

#[test]
fn a_model_that_has_hardly_learnt_is_not_just_called_settled() {
    let settled = |error_removed: f64| {
        let (mut summary, _) = sample::run(THREE_ASP);
        summary.stopped_by = "converged".into();
        summary.trivial.as_mut().unwrap().error_removed = error_removed;
        run(&summary)
    };
    let hardly = "converged       yes, the objective settled, but the model is hardly better\n";
    let block = settled(0.019);
    assert!(block.contains(hardly), "{block}");
    assert!(block.contains("                  than the mean rating\n"), "{block}");
    let block = settled(0.021);
    assert!(block.contains("converged       yes, the objective settled\n"), "{block}");
    let block = settled(-0.48).replace("\n                  ", " ");
    assert!(block.contains("settled, but the model is worse than the mean rating\n"), "{block}");
    assert!(block.contains("objective 1.086; 48 % more error\n"), "{block}");
}

#[test]
fn classes_have_log_loss_and_auc_beside_accuracy() {
    let mut summary = sample::run(THREE_ASP).0;
    let mut check = |counts: Vec<Vec<u64>>, auc: Option<f64>, expect: &str| {
        let names = vec!["0".into(), "1".into()];
        summary.breakdown = Some(BreakdownRecord::Classes { names, counts, log_loss: 0.155, auc });
        let block = run(&summary);
        assert!(block.contains(expect), "{block}");
    };
    check(
        vec![vec![193, 0], vec![7, 0]],
        Some(0.467),
        "held out\n  log loss        0.1550, AUC 0.4670\n  to beat",
    );
    check(
        vec![vec![0, 0], vec![0, 20]],
        None,
        "  log loss        0.1550\n                  All held-out examples are of class 1\n",
    );
}

#[test]
fn a_name_cannot_drive_the_terminal() {
    let (mut summary, _) = sample::run(THREE_ASP);
    summary.name = "\u{1b}[2J".into();
    summary.links[0].from = "\u{1b}]0;title\u{7}".repeat(9);
    run(&summary);
}

#[test]
fn what_was_learnt_is_shown_as_far_as_it_fits() {
    assert_eq!(highlights_block(&[], Paint::Plain), "");
    let lines = |count: usize| -> Vec<String> {
        (1..=count).map(|at| format!("topic {at} {}\u{1b}[2J", "words ".repeat(20))).collect()
    };
    let ten = check(highlights_block(&lines(10), Paint::Plain));
    assert_eq!(ten.lines().count(), 11, "a blank line before them:\n{ten}");
    assert!(ten.lines().skip(1).all(|line| line.starts_with("  topic ")), "{ten}");
    let more = check(highlights_block(&lines(12), Paint::Plain));
    assert_eq!(more.strip_prefix(&ten), Some("  2 more lines in highlights.txt\n"));
}

#[test]
fn a_guard_says_what_it_found() {
    let mut summary = sample::run(THREE_ASP).0;
    assert!(!run(&summary).contains("guard"));
    let guard = GuardRecord { probes: 22, alarms: 1, loss_max: 1.8, tightness: 6, bytes: 92_800 };
    summary.guard = Some(guard);
    let found = "guard           22 probes (92.8 kB), 1 alarm, tightness 6 in the end";
    assert!(run(&summary).contains(found), "{}", run(&summary));
}
