//! Runs over several seeds: medians, ranges, and what is called noise.

use std::fs;

use gaia_report::{
    Comparison, Paint, RunDirectory, SeededComparison, SeedsFile, read_seeds, seeds_block,
    write_run, write_seeds,
};
use gaia_telemetry::{Progress, Summary};

use crate::sample::{
    self, LAN_BSP, RUN_TOML, Shape, THREE_ASP, WAN_ASP, WAN_BSP, WAN_SSP, WAN_TAP,
};

type Run = (Summary, Vec<Progress>);

/// The run of one seed, which takes so many times the time of the sample.
fn run(shape: Shape, seed: u64, pace: f64) -> Run {
    let (mut summary, progress) = sample::run(Shape { clock_s: pace * shape.clock_s, ..shape });
    summary.seed = seed;
    (summary, progress)
}

/// Each row has the pace of each seed, which begin with 1.
fn seeded(rows: &[(Shape, &[f64])]) -> SeededComparison {
    let seeds = rows[0].1.len();
    let comparison = |at: usize| {
        let seed = at as u64 + 1;
        let runs = rows.iter().map(|(shape, paces)| run(*shape, seed, paces[at]));
        (seed, Comparison::new(runs.collect()))
    };
    SeededComparison::new((0..seeds).map(comparison).collect())
}

fn block(seeds: &SeededComparison) -> String {
    let block = seeds_block(seeds, None, Paint::Plain);
    for line in block.lines() {
        assert!(console::measure_text_width(line) <= 80, "{line}");
        assert_eq!(line.trim_end(), line);
    }
    block
}

/// Finds a text in the sentences below the table.
#[track_caller]
fn check_verdicts(rows: &[(Shape, &[f64])], expect: &str) {
    let block = block(&seeded(rows));
    let (_, verdicts) = block.rsplit_once("\n\n").unwrap();
    let verdicts = verdicts.replace('\n', " ");
    assert!(verdicts.contains(expect), "{verdicts}");
}

#[test]
fn a_comparison_over_seeds_shows_medians_between_their_bounds() {
    let seeds = seeded(&[
        (LAN_BSP, &[1.0, 1.1, 0.9]),
        (WAN_BSP, &[1.0, 1.0, 1.2]),
        (WAN_TAP, &[1.0, 1.0, 1.0]),
        (WAN_ASP, &[0.9, 1.2, 1.0]),
    ]);
    insta::assert_snapshot!(block(&seeds), @r#"
    movielens: simulated, seeds 1 to 3
    Target objective 0.71: the objective that the run file sets

                 to target  vs BSP  vs LAN  WAN sent      cost  blocked
    lan
      bsp           11.5 s   1.00×   1.00×       0 B        $0    3.1 s
        lowest      10.4 s   1.00×   1.00×       0 B        $0    3.1 s
        highest     12.7 s   1.00×   1.00×       0 B        $0    3.1 s
    gaia-2016-ec2-all, bandwidths × 0.05
      bsp           53.9 s   1.00×   4.67×    254 MB   $0.0078    993 s
        lowest      53.9 s   1.00×   4.24×    254 MB   $0.0078    993 s
        highest     64.7 s   1.00×   6.22×    254 MB   $0.0078    993 s
      tap            never       –       –    924 MB    $0.028     15 s
        lowest       never       –       –    924 MB    $0.028     15 s
        highest      never       –       –    924 MB    $0.028     15 s
      asp           12.9 s   4.65×   1.22×   13.9 MB  $0.00036     41 s
        lowest      11.6 s   3.49×   1.00×   13.9 MB  $0.00036     41 s
        highest     15.5 s   5.02×   1.24×   13.9 MB  $0.00036     41 s

    blocked: worker-seconds that reads were held back

    On gaia-2016-ec2-all, asp reaches the target 4.65× sooner than bsp (3.49× to
    5.02× over 3 seeds), with 18.3× fewer WAN bytes; that is 1.22× the time that BSP
    takes on the LAN.
    "#);
}

#[test]
fn one_model_over_seeds_shows_a_line_for_each_figure() {
    insta::assert_snapshot!(block(&seeded(&[(THREE_ASP, &[1.0, 0.8, 1.3, 1.1])])), @r#"
    movielens: asp over three-regions, simulated, seeds 1 to 4
    matrix factorisation of ratings.csv: 610 users × 9724 items, 90753 ratings and
    10083 held out, 103340 parameters

                                 median    lowest   highest
      time to target             13.5 s    10.3 s    16.7 s
      clocks to target              115       115       115
      objective                  0.7096    0.7096    0.7096
      rmse, held out             0.8696    0.8696    0.8696
      WAN traffic               13.9 MB   13.9 MB   13.9 MB
      cost                     $0.00031  $0.00031  $0.00031
      blocked, worker-seconds    3.79 s    3.79 s    3.79 s

    On three-regions, asp reaches the target with 4 of 4 seeds, after 13.5 s in the
    median (10.3 s to 16.7 s).
    "#);
}

#[test]
fn a_difference_that_does_not_have_one_sign_is_noise() {
    let bsp: (Shape, &[f64]) = (WAN_BSP, &[1.0, 1.0, 1.0, 1.0]);
    check_verdicts(
        &[bsp, (WAN_SSP, &[0.9, 1.1, 0.95, 1.0])],
        "ssp and bsp reach the target equally fast within the noise: ssp is sooner with 3 of 4 seeds (1.03× its speed",
    );
    check_verdicts(
        &[bsp, (WAN_SSP, &[0.9, 0.8, 0.95, 0.9])],
        "ssp reaches the target 1.11× sooner than bsp (1.06× to 1.25× over 4 seeds)",
    );
    check_verdicts(
        &[bsp, (WAN_SSP, &[1.9, 2.0, 2.1, 1.8])],
        "later than bsp (1.79× to 2.09× over 4 seeds)",
    );
}

#[test]
fn a_model_whose_ratio_is_that_of_equal_runs_is_not_called_sooner() {
    check_verdicts(
        &[
            (WAN_BSP, &[1.0, 1.0, 1.0]),
            (Shape { remote: "ssp", ..WAN_BSP }, &[0.999, 0.998, 0.999]),
        ],
        "ssp reaches the target as soon as bsp (1.00× over 3 seeds), with as many WAN bytes.",
    );
}

#[test]
fn runs_without_a_common_target_are_not_compared_over_seeds() {
    let comparison = |seed: u64| {
        let mut asp = run(WAN_ASP, seed, 1.0);
        asp.0.target_objective = None;
        (seed, Comparison::new(vec![run(WAN_BSP, seed, 1.0), asp]))
    };
    let said = block(&SeededComparison::new((1..=3).map(comparison).collect()));
    let (_, verdicts) = said.rsplit_once("\n\n").unwrap();
    let expect = "The runs have no common target objective: their times are not compared.";
    assert_eq!(verdicts.trim_end(), expect);
}

#[test]
fn models_that_are_as_fast_as_the_fastest_are_named() {
    let local_steps = Shape { remote: "local-steps", ..WAN_ASP };
    let bsp: (Shape, &[f64]) = (WAN_BSP, &[1.0, 1.0, 1.0]);
    let asp: (Shape, &[f64]) = (WAN_ASP, &[1.0, 1.1, 0.9]);
    let sentence = "On gaia-2016-ec2-all, local-steps is as fast as asp within the noise.";
    check_verdicts(&[bsp, asp, (local_steps, &[1.1, 1.0, 1.0])], sentence);

    let slower = seeded(&[bsp, asp, (local_steps, &[1.1, 1.2, 1.0])]);
    assert!(!block(&slower).contains("as fast as asp"));
}

#[test]
fn the_fastest_model_is_named_where_bsp_never_reaches_the_target() {
    let bsp: (Shape, &[f64]) = (Shape { reaches: false, ..WAN_BSP }, &[1.0, 1.0]);
    let local_steps = Shape { remote: "local-steps", clock_s: 0.1, ..WAN_ASP };
    check_verdicts(
        &[bsp, (WAN_ASP, &[1.0, 1.1]), (local_steps, &[1.0, 1.1])],
        "local-steps reaches the target with 2 of 2 seeds after 12.1 s in the median, and bsp with none",
    );
}

#[test]
fn a_seed_that_misses_the_target_is_counted() {
    let mut comparisons = Vec::new();
    for seed in 1..=3 {
        let mut asp = run(WAN_ASP, seed, 1.0);
        if seed == 2 {
            asp.0.time_to_target_s = None;
        }
        comparisons.push((seed, Comparison::new(vec![run(WAN_BSP, seed, 1.0), asp])));
    }
    let seeds = SeededComparison::new(comparisons);
    let row = &seeds.file().spreads[1];
    assert_eq!((row.runs, row.reached), (3, 2));
    assert_eq!(row.time_to_target_s.high, None);
    assert!(row.time_to_target_s.median.is_some());
    let said = block(&seeds).replace('\n', " ");
    assert!(said.contains("asp does not reach it with 1 of 3 seeds"), "{said}");
    assert!(said.contains("within the noise"), "{said}");
}

#[test]
fn runs_that_were_interrupted_are_left_out() {
    let mut cut = run(THREE_ASP, 2, 1.0);
    cut.0.stopped_by = "interrupted".into();
    let runs = [run(THREE_ASP, 1, 1.0), cut].map(|run| (run.0.seed, Comparison::new(vec![run])));
    let seeds = SeededComparison::new(runs.into());
    assert_eq!((seeds.seeds(), seeds.runs()), (vec![1], 1));
    let said = block(&seeds);
    assert!(said.contains("One seed does not show how large the noise is."), "{said}");
}

#[test]
fn a_report_over_seeds_is_renewed_from_its_runs() {
    let place = tempfile::tempdir().unwrap();
    let directory = RunDirectory::create(Some(place.path()), "seeds").unwrap();
    let mut comparisons = Vec::new();
    for (seed, pace) in [(9, 1.0), (10, 1.2)] {
        let of_seed = directory.create_child(&RunDirectory::name_of_seed(seed)).unwrap();
        let (summary, mut progress) = run(THREE_ASP, seed, pace);
        // The first evaluation of a driver is that of a later clock.
        progress.remove(0);
        let mut log = of_seed.progress_log().unwrap();
        progress.iter().for_each(|record| log.append(record).unwrap());
        write_run(&of_seed, RUN_TOML, &progress, &summary, &[]).unwrap();
        comparisons.push((seed, Comparison::new(vec![(summary, progress)])));
    }
    let seeds = SeededComparison::new(comparisons);
    write_seeds(&directory, RUN_TOML, &seeds).unwrap();

    let again = read_seeds(&RunDirectory::open(place.path()).unwrap()).unwrap();
    assert_eq!(again, seeds);
    let text = fs::read_to_string(place.path().join("compare.json")).unwrap();
    let file: SeedsFile = serde_json::from_str(&text).unwrap();
    assert_eq!(file, seeds.file());
    assert_eq!((file.seeds.as_slice(), file.rows.len()), ([9, 10].as_slice(), 2));

    let page = fs::read_to_string(place.path().join("compare.html")).unwrap();
    let range = "<small>12.9\u{a0}s to\u{a0}15.5\u{a0}s</small>";
    assert!(page.contains(range), "a range is below its median, so that the table fits a page");
    assert!(page.contains("asp: 1.620 at 0 s"), "curves begin with the initial models");
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let page = roxmltree::Document::parse_with_options(&page, options).unwrap();
    let bands = page.descendants().filter(|node| {
        node.attribute("class").is_some_and(|class| class.split(' ').any(|one| one == "gc-band"))
    });
    assert!(bands.count() > 0, "ranges are drawn as bands");
}
