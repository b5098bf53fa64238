//! Pictures and pages: well-formed, without a network, safe against hostile names.
//!
//! The pages of the made-up runs stay under `target/tmp/report-*` for a person to look at.

use std::fs;
use std::path::{Path, PathBuf};

use gaia::report::{Comparison, RunDirectory, write_comparison, write_run};
use gaia::telemetry::{BlockedSeconds, Progress, Summary};

use crate::sample::{self, LAN_BSP, RUN_TOML, THREE_ASP, WAN_ASP, WAN_BSP, WAN_SSP, WAN_TAP};

fn fresh(name: &str) -> RunDirectory {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    RunDirectory::create(Some(&path), "sample").unwrap()
}

/// Whether a strict parser accepts the file, and nothing in it asks for another.
fn check(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&text, options)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        let name = node.tag_name().name();
        assert!(
            !["script", "link", "img", "iframe", "object", "image", "use"].contains(&name),
            "<{name}>"
        );
        for attribute in node.attributes() {
            let reference = ["src", "href", "srcset", "data", "action"].contains(&attribute.name());
            assert!(!reference, "{}={}", attribute.name(), attribute.value());
            assert!(!attribute.name().starts_with("on"), "{}", attribute.name());
        }
        if name == "style" {
            let rules = node.text().unwrap();
            assert!(!rules.contains("url(") && !rules.contains("@import"));
        }
    }
    text
}

fn check_run(name: &str, summary: &Summary, progress: &[Progress]) -> String {
    let directory = fresh(name);
    write_run(&directory, RUN_TOML, progress, summary).unwrap();
    check(&directory.path().join("convergence.svg"));
    check(&directory.page())
}

fn check_comparison(name: &str, runs: Vec<(Summary, Vec<Progress>)>) -> String {
    let directory = fresh(name);
    write_comparison(&directory, RUN_TOML, &Comparison::new(runs)).unwrap();
    check(&directory.path().join("convergence.svg"));
    check(&directory.page())
}

#[test]
fn a_page_states_what_ran_and_how_it_went() {
    let (summary, progress) = sample::run(THREE_ASP);
    let page = check_run("report-three", &summary, &progress);
    for text in [
        "three-regions",
        "seed 42",
        "gaia 0.1.0",
        "simulated",
        "WAN bandwidths × 0.05",
        "target 0.71",
        "&lt; 1 % stays",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn eleven_data_centers_have_a_page() {
    let (summary, progress) = sample::run(WAN_ASP);
    let page = check_run("report-eleven", &summary, &progress);
    assert!(page.contains("100 more links"));
}

#[test]
fn a_run_without_a_wan_has_a_page() {
    let (summary, progress) = sample::run(LAN_BSP);
    let page = check_run("report-lan", &summary, &progress);
    assert!(page.contains("there is no WAN"));
}

#[test]
fn a_run_that_diverged_before_its_first_evaluation_has_a_page() {
    let (mut summary, _) = sample::run(THREE_ASP);
    summary.objective = f64::NAN;
    summary.metric.value = f64::INFINITY;
    summary.time_to_target_s = None;
    summary.converged = false;
    summary.blocked_s = BlockedSeconds::default();
    let page = check_run("report-diverged", &summary, &[]);
    assert!(page.contains("not finite") && page.contains("No read was held back"));
}

#[test]
fn a_comparison_has_a_page() {
    let runs = [WAN_TAP, WAN_ASP, LAN_BSP, WAN_SSP, WAN_BSP].map(sample::run).to_vec();
    let page = check_comparison("report-compare", runs);
    for text in ["On gaia-2016-ec2-all, asp reaches the target", "never", "fewer WAN bytes"] {
        assert!(page.contains(text), "{text}");
    }
    check_comparison("report-compare-none", Vec::new());
}

#[test]
fn hostile_names_are_shown_and_do_nothing() {
    let (mut summary, mut progress) = sample::run(THREE_ASP);
    let hostile = "<script>alert(\"x\")</script>&\u{1b}[31m\u{0}";
    summary.name = hostile.into();
    summary.wan = hostile.into();
    summary.remote_sync = hostile.into();
    summary.metric.name = hostile.into();
    summary.data_centers[0] = hostile.into();
    for link in &mut summary.links {
        for end in [&mut link.from, &mut link.to] {
            if end == "virginia" {
                *end = hostile.into();
            }
        }
    }
    for evaluation in &mut progress {
        evaluation.data_centers[0].name = hostile.into();
    }
    let page = check_run("report-hostile", &summary, &progress);
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script>"));
    let page = check_comparison("report-hostile-compare", vec![(summary, progress)]);
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script>"));
}
