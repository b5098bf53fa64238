//! Pictures and pages: well-formed, without a network, safe against hostile names.
//!
//! The pages of the made-up runs stay under `target/tmp/report-*` for a person to look at.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gaia_report::{Comparison, RunDirectory, write_comparison, write_run};
use gaia_telemetry::{
    BlockedSeconds, BreakdownRecord, LinkRecord, Progress, RatingRecord, Summary,
};

use crate::sample::{
    self, LAN_BSP, RUN_TOML, Shape, THREE_ASP, WAN_ASP, WAN_BSP, WAN_SSP, WAN_TAP,
};

pub(crate) fn fresh(name: &str) -> RunDirectory {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    RunDirectory::create(Some(&path), "sample").unwrap()
}

/// Whether a strict parser accepts the file, and nothing in it asks for another.
pub(crate) fn check(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&text, options)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(text.matches("<script").count() <= 1);
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        let name = node.tag_name().name();
        if name == "script" {
            assert!(is_ours(node.text().unwrap()) && text.contains(&allowed(node.text().unwrap())));
        }
        assert!(!["link", "img", "iframe", "object", "image", "use"].contains(&name), "<{name}>");
        for attribute in node.attributes() {
            let beside =
                name == "a" && ["paper.html", "paper-elsewhere.html"].contains(&attribute.value());
            let inside = attribute.name() == "href"
                && node.has_attribute("download")
                && ["data:image/svg+xml;", "data:text/csv;"]
                    .iter()
                    .any(|media| attribute.value().starts_with(media));
            let reference = !beside
                && !inside
                && ["src", "href", "srcset", "data", "action"].contains(&attribute.name());
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

/// The one script of a page, which makes PNGs of its own pictures.
fn is_ours(script: &str) -> bool {
    script.trim() == include_str!("../../crates/report/src/page/templates/png.js").trim()
}

/// What a page's policy says so that this script runs, and no other.
fn allowed(script: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let hash = ring::digest::digest(&ring::digest::SHA256, script.as_bytes());
    let mut bytes = hash.as_ref().to_vec();
    bytes.push(0);
    let letters = bytes.chunks(3).flat_map(|three| {
        let bits = three.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte));
        [18, 12, 6, 0].map(|shift| char::from(LETTERS[bits >> shift & 63]))
    });
    // 32 bytes are 43 letters and a filler.
    let encoded: String = letters.take(43).collect();
    format!("script-src 'sha256-{encoded}='; img-src data:\"")
}

fn check_run(name: &str, summary: &Summary, progress: &[Progress]) -> String {
    check_run_that_learnt(name, summary, progress, &[])
}

fn check_run_that_learnt(
    name: &str,
    summary: &Summary,
    progress: &[Progress],
    highlights: &[String],
) -> String {
    let directory = fresh(name);
    write_run(&directory, RUN_TOML, progress, summary, highlights).unwrap();
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
fn a_page_says_what_was_learnt() {
    let (summary, progress) = sample::run(THREE_ASP);
    let page = |lines: &[String]| {
        check_run_that_learnt(&format!("report-learnt-{}", lines.len()), &summary, &progress, lines)
    };
    assert!(!page(&[]).contains("What was learnt"));

    let mut lines: Vec<String> = (1..=12).map(|at| format!("topic {at:<5} sea  <fish>")).collect();
    let few = page(&lines);
    let section = between(&few, "<h2>What was learnt", "</section>");
    assert!(section.contains("topic 1     sea  &lt;fish&gt;\ntopic 2 "), "{section}");
    assert!(section.contains("topic 12 ") && !section.contains("<details"), "{section}");

    lines.push("</pre><script>alert(1)</script>\u{1b}[31m".into());
    let many = page(&lines);
    let section = between(&many, "<h2>What was learnt", "</section>");
    let shown = between(section, "<pre>", "</pre>");
    assert!(shown.contains("topic 10 ") && !shown.contains("topic 11 "), "{section}");
    assert!(section.contains(">3 more lines<") && section.contains("&lt;script&gt;"), "{section}");
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
    let said = between(&page, "class=\"lead\"", "</p>");
    assert!(said.contains("bsp among its workers.") && !said.contains("between"), "{said}");
    // There is no other copy that anything could be said of.
    let facts = between(&page, "class=\"facts\"", "</dl>");
    for fact in ["Largest clock lag", "Changes shared", "Copies after drain"] {
        assert!(!facts.contains(fact), "{facts}");
    }
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
    assert!(page.contains("<p>There was no evaluation.</p>"));
    assert!(!page.contains("aria-label=\"Data centers\""), "a table without a row");
}

#[test]
fn a_comparison_has_a_page() {
    let runs = [WAN_TAP, WAN_ASP, LAN_BSP, WAN_SSP, WAN_BSP].map(sample::run).to_vec();
    let page = check_comparison("report-compare", runs);
    for text in ["On gaia-2016-ec2-all, asp reaches the target", "never", "fewer WAN bytes"] {
        assert!(page.contains(text), "{text}");
    }
    let table = between(&page, "aria-label=\"Remote models on each WAN\"", "</table>");
    for name in ["parallelism", "optimisation", "scheduling", "communication"] {
        assert!(table.contains(&format!("<th scope=\"col\" class=\"axis\">{name}</th>")), "{name}");
    }
    for axis in ["data", "decentralised", "bounded", "mesh"] {
        assert_eq!(table.matches(&format!("<td class=\"axis\">{axis}</td>")).count(), 5, "{axis}");
    }
    assert!(
        page.contains("<input type=\"checkbox\" id=\"axes\" class=\"show-axes\"/>"),
        "closed at first"
    );
    check_comparison("report-compare-none", Vec::new());
}

/// The part of a page from one text to the next occurrence of another.
pub(crate) fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let start = page.find(from).unwrap_or_else(|| panic!("{from}"));
    let rest = &page[start..];
    let end = rest[from.len()..].find(to).map_or(rest.len(), |end| end + from.len());
    &rest[..end]
}

/// The runs of a comparison over two WANs, on one of which TAP never arrives, with machines at a price.
fn priced_runs() -> Vec<(Summary, Vec<Progress>)> {
    let mut runs = [WAN_TAP, WAN_ASP, LAN_BSP, WAN_SSP, WAN_BSP].map(sample::run).to_vec();
    let mut elsewhere = [WAN_ASP, WAN_BSP].map(sample::run).to_vec();
    elsewhere.iter_mut().for_each(|(summary, _)| summary.wan = "aws-2022".into());
    runs.append(&mut elsewhere);
    for (summary, _) in &mut runs {
        summary.machine_cost_usd = summary.time_s * 2e-4;
    }
    runs
}

#[test]
fn an_objective_is_drawn_on_linear_and_on_logarithmic_axes() {
    let (summary, progress) = sample::run(THREE_ASP);
    let page = check_run("report-views", &summary, &progress);
    let views = between(&page, "<h2>Objective over time", "class=\"pair\"");
    assert_eq!(views.matches("<figure").count(), 4);
    for view in ["x-linear-y-linear", "x-linear-y-log", "x-log-y-linear", "x-log-y-log"] {
        assert!(views.contains(&format!("class=\"view {view}-view\"")), "{view}");
        let (x, y) = view.split_once("-y-").unwrap();
        let rule = format!(".{x}:checked ~ .y-{y}:checked ~ .{view}-view");
        assert!(page.contains(&rule), "{rule}");
    }
    assert_eq!(views.matches("checked=\"checked\"").count(), 2, "one of each pair is chosen");
    assert!(between(views, "x-log-y-linear-view", "</figure>").contains(">10 s<"));

    let negative: Vec<Progress> = progress
        .iter()
        .map(|at| Progress { objective: at.objective - 9.0, ..at.clone() })
        .collect();
    let page = check_run("report-views-negative", &summary, &negative);
    let views = between(&page, "<h2>Objective over time", "class=\"pair\"");
    assert_eq!(views.matches("<figure").count(), 2, "a negative objective has no logarithm");
}

#[test]
fn choices_on_one_page_do_not_disturb_each_other() {
    let page = check_comparison("report-choices", priced_runs());
    let ids: Vec<&str> = page
        .match_indices("<input type=\"radio\"")
        .map(|(at, _)| between(&page[at..], "id=\"", "\" class"))
        .collect();
    let distinct: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), distinct.len());
    assert_eq!(ids.len(), 3 * 4 + 2 * 2, "axes of three WANs, maps of two");
}

#[test]
fn a_comparison_draws_every_run_against_bsp_on_the_same_wan() {
    let page = check_comparison("report-against-bsp", priced_runs());
    let bars = between(&page, "Against BSP on the same WAN", "class=\"wan\"");
    let time = between(bars, "aria-label=\"Time to target", "</svg>");
    for text in ["gaia-2016-ec2-all", "aws-2022", ">1.0<", ">0.24<", ">0.21<", ">never<"] {
        assert!(time.contains(text), "{text}");
    }
    let dollars = between(bars, "aria-label=\"dollars", "</svg>");
    assert!(dollars.contains("machines") && dollars.contains("WAN traffic"));

    let page = check_comparison("report-no-bsp", vec![sample::run(WAN_ASP)]);
    assert!(!page.contains("Against BSP"));
    let mut bsp = sample::run(WAN_BSP);
    bsp.0.time_to_target_s = None;
    let page = check_comparison("report-bsp-never", vec![bsp, sample::run(WAN_ASP)]);
    assert!(!page.contains("Against BSP"), "nothing compares with what BSP never reached");
    assert!(page.contains("asp reaches the target after 12.9 s, and bsp never does"));

    let mut settled = sample::run(WAN_BSP);
    settled.0.target_objective = None;
    let page = check_comparison("report-no-common-target", vec![settled, sample::run(WAN_ASP)]);
    assert!(!page.contains("Against BSP"), "times to different events are not compared");
    assert!(page.contains("The runs have no common target objective"));
}

#[test]
fn the_lan_is_beside_runs_on_as_many_machines_alone() {
    let bars = |workers: usize| {
        let mut lan = sample::run(LAN_BSP);
        lan.0.workers = workers;
        let name = format!("report-lan-of-{workers}");
        let page = check_comparison(&name, vec![lan, sample::run(WAN_BSP), sample::run(WAN_ASP)]);
        between(&page, "aria-label=\"Time to target", "</svg>").matches(">lan<").count()
    };
    assert_eq!((bars(22), bars(8)), (1, 0));
}

#[test]
fn a_legend_is_never_cut_on_a_phone() {
    for remote in ["asp", "local-steps"] {
        let (summary, progress) = sample::run(Shape { remote, ..THREE_ASP });
        let page = check_run(&format!("report-legend-{remote}"), &summary, &progress);
        let phone = between(&page, "<div class=\"small\">", "</svg>");
        for entry in [&*format!(">{remote}, worst copy<"), ">all copies<"] {
            assert!(phone.contains(entry), "{entry}: {phone}");
        }
    }
}

#[test]
fn machines_at_a_price_are_part_of_a_comparisons_dollars() {
    let comparison = Comparison::new(priced_runs());
    for row in comparison.file().rows {
        let summary = row.summary;
        assert_eq!(row.cost_usd, summary.machine_cost_usd + summary.wan_cost_usd);
    }
    let page = check_comparison("report-machines", priced_runs());
    let asp = between(between(&page, ">aws-2022<", "</tbody>"), ">asp<", "</tr>");
    assert!(asp.contains(">$0.0026<") && asp.contains(">$0.0029<"), "{asp}");
    let page = check_comparison("report-no-machines", vec![sample::run(WAN_ASP)]);
    assert!(!page.contains(">machines<"));
}

#[test]
fn links_have_maps_in_bytes_and_in_dollars() {
    let page = check_comparison("report-maps", priced_runs());
    let maps = between(&page, "What each link carried", "</section>");
    assert_eq!(maps.matches("<details").count(), 4, "one for each run on the WAN");
    assert_eq!(maps.matches("class=\"view in-bytes-view\"").count(), 4);
    let asp = between(maps, "<summary>asp", "</details>");
    let bytes = between(asp, "in-bytes-view", "in-dollars-view");
    assert!(bytes.contains("MB, from row to column; 12.1 MB in all"), "{bytes}");
    let dollars = between(asp, "in-dollars-view", "</table>");
    let saopaulo = between(dollars, "<th scope=\"row\" title=\"saopaulo\"", "</tr>");
    assert!(dollars.contains("$0.00036 in all") && saopaulo.contains(">139<"), "{saopaulo}");
    assert!(dollars.contains("millionths of a US dollar"));

    let (mut summary, progress) = sample::run(THREE_ASP);
    summary.links.iter_mut().for_each(|link| link.cost_usd = 0.0);
    let page = check_run("report-unpriced", &summary, &progress);
    assert!(page.contains("What each link carried") && !page.contains("class=\"view in-dollars"));
}

#[test]
fn very_many_links_are_a_table_of_the_busiest() {
    let (mut summary, progress) = sample::run(THREE_ASP);
    summary.data_centers = (0..70).map(|dc| format!("dc{dc}")).collect();
    let some = summary.links[0].clone();
    let pairs = (0..70).flat_map(|from| (0..70).map(move |to| (from, to)));
    let link = |(from, to): (u64, u64)| LinkRecord {
        from: format!("dc{from}"),
        to: format!("dc{to}"),
        bytes: 1000 * from + to,
        ..some.clone()
    };
    summary.links = pairs.filter(|(from, to)| from != to).map(link).collect();

    let page = check_run("report-many-links", &summary, &progress);
    assert!(!page.contains("What each link carried"));
    assert!(page.contains("<summary>4022 more links</summary>"));
    assert!(page.contains("798 links that carried less are in"));
    assert!(page.contains("dc69") && page.len() < 8 << 20, "{} bytes", page.len());
}

#[test]
fn curves_begin_with_the_initial_model() {
    let (mut summary, mut progress) = sample::run(THREE_ASP);
    // The first evaluation of a driver is that of a later clock.
    progress.remove(0);
    let page = check_run("report-initial", &summary, &progress);
    let picture = between(&page, "<h2>Objective over time", "class=\"pair\"");
    assert!(picture.contains("asp, worst copy: 1.620 at 0 s"), "{picture}");
    let metric = between(&page, "<h3>Held-out rmse over time", "</section>");
    assert!(metric.contains(": 1.780 at 0 s"), "{metric}");

    summary.initial = None;
    assert!(!check_run("report-no-initial", &summary, &progress).contains(" at 0 s"));
}

#[test]
fn only_causes_that_held_back_a_read_are_explained() {
    let (mut summary, progress) = sample::run(THREE_ASP);
    let page = check_run("report-causes", &summary, &progress);
    let causes = between(&page, "class=\"causes\"", "</ul>");
    assert!(causes.contains("<b>barrier</b>") && causes.contains("<b>local</b>"), "{causes}");
    assert!(!causes.contains("bandwidth") && !causes.contains("partition"), "{causes}");
    summary.blocked_s.bandwidth = 1.0;
    let page = check_run("report-bandwidth", &summary, &progress);
    let causes = between(&page, "class=\"causes\"", "</ul>");
    assert!(causes.contains("updates of other data centers"), "rounds wait, too: {causes}");
    summary.blocked_s = BlockedSeconds::default();
    assert!(!check_run("report-no-causes", &summary, &progress).contains("class=\"causes\""));
}

#[test]
fn a_dead_link_has_what_waited_for_it_in_the_table_of_links() {
    const HEAD: &str = ">partial partition</th>";
    let (mut summary, progress) = sample::run(WAN_ASP);
    assert!(!check_run("report-no-partition", &summary, &progress).contains(HEAD));
    summary.links[50].blocked_s.partial_partition = 77.0;
    let page = check_run("report-partition", &summary, &progress);
    // The busiest links are a table, and the others one that unfolds.
    assert_eq!(page.matches(HEAD).count(), 2);
    assert_eq!(page.matches("<td class=\"n\">77.0 s</td>").count(), 1);
}

#[test]
fn a_timeline_says_who_waited_for_whom_and_why() {
    let (summary, mut progress) = sample::run(THREE_ASP);
    let page = check_run("report-timeline", &summary, &progress);
    let timeline = between(&page, "Who waited, and for whom", "</section>");
    for name in sample::THREE {
        assert!(timeline.contains(&format!(">{name}</text>")), "{name}");
    }
    assert!(timeline.contains("for ireland (mirror clock)"), "{timeline}");
    assert!(timeline.contains("for its own workers (local)"), "{timeline}");

    progress[5].data_centers[0].waited[0].cause = "<b>".into();
    let page = check_run("report-timeline-strange", &summary, &progress);
    assert!(page.contains("another cause"));
    progress.iter_mut().flat_map(|at| &mut at.data_centers).for_each(|dc| dc.waited.clear());
    assert!(!check_run("report-no-timeline", &summary, &progress).contains("Who waited"));
}

#[test]
fn pictures_can_be_saved_with_their_figures() {
    let (summary, progress) = sample::run(THREE_ASP);
    let page = check_run("report-downloads", &summary, &progress);
    let link = |name: &str| between(&page, &format!("<a download=\"{name}\""), "</a>");
    let picture = link("objective-over-time.svg");
    assert!(picture.contains("charset=utf-8,%3Csvg%20xmlns="), "{picture}");
    let figures = link("held-out-rmse-over-time.csv");
    let head =
        "charset=utf-8,curve,simulated%20time%20(s),rmse%0A%22asp,%20worst%20copy%22,0,1.78%0A";
    assert!(figures.contains(head), "{figures}");
    let figures = link("objective-over-wan-bytes.csv");
    assert!(figures.contains("curve,sent%20over%20the%20WAN%20(bytes),objective%0A"), "{figures}");
    let waited = link("who-waited-and-for-whom.csv");
    assert!(waited.contains("virginia,barrier,") && waited.contains("workers%20held%20back"));
    assert!(link("who-waited-and-for-whom.svg").contains("%3Csvg%20xmlns="));
}

#[test]
fn a_page_shows_where_the_model_is_wrong() {
    let (mut summary, progress) = sample::run(THREE_ASP);
    summary.breakdown = Some(BreakdownRecord::Classes {
        names: vec!["cat".into(), "<dog>".into()],
        counts: vec![vec![90, 10], vec![25, 75]],
        log_loss: 0.4321,
        auc: Some(0.9125),
    });
    let page = check_run("report-classes", &summary, &progress);
    let section = between(&page, "Held-out examples by class", "</section>");
    let taken = "&lt;dog&gt; taken for cat: 25 %";
    for text in ["Log loss 0.4321, AUC 0.9125.", taken, ">90 %<", ">75 %<"] {
        assert!(section.contains(text), "{text}: {section}");
    }

    summary.breakdown = Some(BreakdownRecord::Classes {
        names: ["0", "1", "2"].map(String::from).into(),
        counts: vec![vec![0, 0, 0], vec![0, 20, 1], vec![0, 0, 0]],
        log_loss: 0.01,
        auc: None,
    });
    let page = check_run("report-one-class", &summary, &progress);
    let said = "Log loss 0.01000. All held-out examples are of class 1.";
    assert!(page.contains(said), "a single class is said");

    let group = |rating: f64| RatingRecord { rating, count: 1200, rmse: rating / 4.0, bias: -0.5 };
    let groups = vec![group(2.0), group(4.0)];
    summary.breakdown = Some(BreakdownRecord::Ratings { groups });
    let page = check_run("report-ratings", &summary, &progress);
    let section = between(&page, "Held-out ratings by value", "</section>");
    for text in [">1,200<", "width:50.0%", "width:100.0%", ">-0.5000<"] {
        assert!(section.contains(text), "{text}: {section}");
    }
}

#[test]
fn wide_tables_say_that_they_scroll() {
    let page = check_comparison("report-scrolls", priced_runs());
    for table in page.match_indices("<table").map(|(at, _)| at) {
        let columns = between(&page[table..], "<thead", "</thead>").matches("<th scope").count();
        let before = page[..table].rfind("class=\"sideways\"").unwrap_or(0);
        let said = !page[before..table].contains("</table>") && before > 0;
        assert!(said || columns < 5, "{columns} columns");
    }
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
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script>alert"));
    let page = check_comparison("report-hostile-compare", vec![(summary, progress)]);
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script>alert"));
}
