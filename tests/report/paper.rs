//! The pages of the paper's evaluation: what the records hold is shown, and what is missing is said.

use std::fs;

use gaia_report::paper::{FILE, PaperFile, paper_block, write, write_pages};
use gaia_report::{Paint, RunDirectory};

use crate::pages::{between, check, fresh};
use crate::paper_sample;

/// Both pages, as a strict parser accepted them.
fn pages(name: &str, file: &PaperFile) -> (String, String) {
    let directory = fresh(name);
    write_pages(&directory, file).unwrap();
    let page = |name: &str| check(&directory.path().join(name)).replace("&#x2f;", "/");
    (page("paper.html"), page("paper-elsewhere.html"))
}

fn shows(page: &str, texts: &[&str]) {
    for text in texts {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn the_pages_open_with_a_verdict_counted_from_the_cells() {
    let (first, elsewhere) = pages("report-paper", &paper_sample::full());
    shows(
        &first,
        &[
            "seed 42",
            "asp reaches the target in 8 of 9 cells.",
            "asp is within 1.10× of the LAN in 7 of 9 cells.",
            "tm on S/S WAN: 1.22×",
            "ic on EC2-ALL: never reached the target",
            "asp is faster than shipping the data first in 7 of 9 cells.",
            "ic on V/C WAN: centralize was not run",
            "asp costs no more than shipping the data first in 5 of 9 cells.",
            "mf on EC2-ALL: 1.05× the dollars",
            "asp costs no more than shipping the data first with machines waiting for it in 7 of 9",
            "the paper: 7 of 9",
            "the paper: 1 of 9",
            "asp sends no more WAN bytes than ASP as published in 8 of 9 cells.",
            "tm on S/S WAN: not equal",
        ],
    );
    let verdicts = between(&first, "class=\"verdicts\"", "</ul>");
    assert!(verdicts.contains("class=\"fail\""));
    shows(&elsewhere, &["asp reaches the target in 2 of 2 cells.", "skyplane-2022", "BSP never"]);
    let verdicts = between(&elsewhere, "class=\"verdicts\"", "</ul>");
    assert!(!verdicts.contains("the paper:") && !verdicts.contains("class=\"fail\""), "{verdicts}");
}

#[test]
fn a_cell_shows_every_figure_beside_the_papers() {
    let (first, _) = pages("report-paper-cells", &paper_sample::full());
    let row = |table: &str| -> Vec<String> {
        let table = between(&first, table, "</table>");
        let asp = between(between(table, "EC2-ALL", "</tbody>"), "</span>asp</td>", "</tr>");
        let cells = asp.split("</td>").map(|cell| cell.rsplit('>').next().unwrap().to_owned());
        cells.skip(1).filter(|cell| !cell.is_empty() && cell != "asp").collect()
    };
    assert_eq!(
        row("Times of mf"),
        ["3 min 38 s", "416", "3.56×", "3.80×", "1.04×", "0.97×", "0.7093", "+0.04 %", "equal"]
    );
    assert_eq!(
        row("Bytes and dollars of mf"),
        [
            "yes", "2.31 GB", "27.7×", "3.98×", "$1.98", "$0.14", "$2.12", "6.6 %", "–", "5.26×",
            "4.20×"
        ]
    );
    let times = between(&first, "Times of mf", "</table>");
    assert!(
        times.contains(">3.56×<") && !times.contains("miss\">3.56×"),
        "the LAN is slower than the paper's 3.80×"
    );
    let claim = between(&first, "speed-up over BSP is at least what the paper printed", "</li>");
    let (misses, ceilings) = claim.split_once("the LAN itself is slower").unwrap();
    assert!(
        !misses.contains("3.56×") && ceilings.contains(": 3.56×, the LAN 3.70×, the paper 3.80×"),
        "{claim}"
    );
}

#[test]
fn cells_that_never_arrived_or_were_not_run_keep_their_rows_and_bars() {
    let (first, _) = pages("report-paper-gaps", &paper_sample::full());
    let ic = between(&first, "Times of ic", "</table>");
    let ec2 = between(ic, "EC2-ALL", "</tbody>");
    assert!(between(ec2, "</span>asp</td>", "</tr>").contains("never"));
    let vc = between(ic, "V/C WAN", "</tbody>");
    assert!(between(vc, "</span>centralize</td>", "</tr>").contains("not run"));
    let waits = between(&first, "Time that reads were held back", "class=\"causes\"");
    assert!(
        waits.contains(">asp<") && !waits.contains("centralize"),
        "what is reckoned never waits"
    );
    let bars = between(&first, "ic: speed-up over BSP", "</svg>");
    shows(bars, &["never", "not run", "54.0×", "printed in the paper"]);
}

#[test]
fn shipping_the_data_is_compared_with_table_1() {
    let (first, elsewhere) = pages("report-paper-shipping", &paper_sample::full());
    let table = between(&first, "aria-label=\"Against shipping the data first\"", "</table>");
    for printed in [
        "1.11×", "3.54×", "1.22×", "1.00×", "2.13×", "1.17×", "0.80×", "6.14×", "1.02×", "1.26×",
        "1.25×", "1.92×", "0.76×", "3.33×", "1.12×", "1.07×", "1.86×", "1.08×",
    ] {
        assert!(table.contains(printed), "{printed}");
    }
    // Faster, dearer than training alone, and cheaper than machines that wait for the data.
    let mf = between(table, "EC2-ALL", "</tr>");
    shows(mf, &["1.83×", "$2.02", "1.05×", "$3.73", "0.57×"]);
    let table = between(&elsewhere, "aria-label=\"Against shipping the data first\"", "</table>");
    assert!(!table.contains("1.11×"), "the paper's figures are of other cells");
}

#[test]
fn every_other_part_is_shown() {
    let (first, _) = pages("report-paper-parts", &paper_sample::full());
    shows(
        between(&first, "What each setting of ASP buys", "</table>"),
        &["policy = &quot;paper&quot;", "38.0 GB", "never", "width:100.0%", "as published"],
    );
    shows(
        between(&first, "(the paper&#x27;s Figure 12)", "<h2>"),
        &[
            "asp-async",
            "asp-no-brakes",
            "the same as asp<",
            "target 0.71",
            "Topic modeling (tm) on EC2-ALL",
        ],
    );
    shows(
        between(&first, "(the paper&#x27;s Figure 5)", "</table>"),
        &["mf, EC2-ALL", "0.01 %", "95.2 %", "99.9 %", "mf in the paper"],
    );
    shows(
        between(&first, "With and without hubs", "</table>"),
        &["● 240 MB", "170 MB", "saopaulo", "2.31 GB"],
    );
    shows(
        between(&first, "Label-skewed data", "</table>"),
        &["100 %", "-24.8 points", "-0.5 points", "71.4 %", ">cnn-group-norm<", "-0.3 points"],
    );
    shows(
        between(&first, "Each remote model at its best learning rate", "</table>"),
        &["3 seeds", "100 (90 to 110)", "1.00 MB (900 kB to 1.10 MB)"],
    );
    shows(
        between(&first, "or accuracy, at each learning rate</summary>", "</table>"),
        &[">0.2<", "130", "120", "never"],
    );
    shows(
        between(&first, "What was fitted", "</table>"),
        &[
            "the one thing fitted of the network, before ASP is run",
            "0.0213",
            "4.82×",
            "+21.0 %",
            "1.30 GB",
        ],
    );
    shows(
        between(&first, "How fast the simulator was", "</table>"),
        &["2 runs simulated 26 min 52 s in 8.30 s", "194×", "182,423"],
    );
}

#[test]
fn a_claim_of_another_system_stands_beside_what_was_measured() {
    let file = paper_sample::full();
    let (first, _) = pages("report-paper-systems", &file);
    let chapter = between(&first, "Claims of other systems", "How this was made");
    let figures = ["2.00×", "1.90×", "miss\">1.50×", "25.0 %", "never", "miss\">3<", ">4<"];
    shows(chapter, &["0 of 2 claims hold, 1 fail, 1 cannot be checked here.", "A system: fails"]);
    shows(chapter, &figures);
    shows(chapter, &["Another system: cannot be checked here", "they are not here."]);

    let block = paper_block(&file, None, Paint::Plain);
    let claims = between(&block, "Claims of other systems", "heaviest run");
    shows(claims, &["A system: It is twice as fast.", "2.00×", "never", "  fails: it is not."]);
    assert!(claims.lines().all(|line| line.chars().count() <= 80), "{claims}");
    let json: serde_json::Value = serde_json::from_str(&gaia_report::to_json(&file)).unwrap();
    assert_eq!(json["systems"][0]["verdict"], "fails");
    assert_eq!(json["systems"][0]["figures"][0]["measured"], 1.5);
    assert_eq!(json["systems"][0]["figures"][2]["measured"], serde_json::Value::Null);
    assert_eq!(json["systems"][1]["verdict"], "cannot-be-checked");
}

#[test]
fn an_evaluation_without_rows_says_so() {
    let (first, elsewhere) = pages("report-paper-empty", &paper_sample::empty());
    shows(
        &first,
        &[
            "quick: fewer clocks",
            "No cell was run.",
            "Nothing was run.",
            "No setting was changed",
            "No run without brakes was made.",
            "No updates were counted.",
            "No overlay was compared.",
            "Nothing was trained over skewed data.",
            "No learning rates were compared.",
            "No claim of another system was checked.",
            "Nothing was fitted.",
            "No run was timed.",
        ],
    );
    shows(&elsewhere, &["No cell was run."]);
}

#[test]
fn hostile_names_in_the_records_do_nothing() {
    let mut file = paper_sample::full();
    let hostile = "<script>alert(\"x\")</script>&\u{1b}[31m\u{0}";
    file.cells[3].app = hostile.into();
    file.cells[4].wan = hostile.into();
    file.cells[5].model = hostile.into();
    file.ablation[1].what = hostile.into();
    file.hubs[3].overlay = hostile.into();
    file.insignificant[0].wan = hostile.into();
    file.brakes[0].model = hostile.into();
    file.skew[0].app = hostile.into();
    file.rates[0].model = hostile.into();
    file.systems[0].claim = hostile.into();
    file.systems[0].figures[0].what = hostile.into();
    file.systems[1].reason = hostile.into();
    file.speed[0].run = hostile.into();
    file.version = hostile.into();
    let (first, _) = pages("report-paper-hostile", &file);
    assert!(first.contains("&lt;script&gt;") && !first.contains("<script>alert"));
}

#[test]
fn a_directory_with_the_records_alone_opens_and_gets_its_pages() {
    let directory = fresh("report-paper-renewed");
    let file = PaperFile { skew: Vec::new(), ..paper_sample::empty() };
    directory.write(FILE, gaia_report::to_json(&file)).unwrap();
    let opened = RunDirectory::open(directory.path()).unwrap();
    assert!(opened.is_paper() && !opened.is_run() && !opened.is_comparison());
    assert_eq!(opened.read_paper().unwrap(), file);
    write_pages(&opened, &opened.read_paper().unwrap()).unwrap();
    assert!(opened.page().ends_with("paper.html") && opened.page().is_file());

    let full = paper_sample::full();
    write(&directory, &full).unwrap();
    let read = opened.read_paper().unwrap();
    let diverged = read.cells.iter().find(|row| row.model == "asp-async").unwrap();
    assert!(diverged.objective.is_nan() && diverged.curve.last().unwrap().1.is_nan());
    let kept = |file: &PaperFile| {
        file.cells.iter().filter(|row| row.converged).cloned().collect::<Vec<_>>()
    };
    assert_eq!(kept(&read), kept(&full));

    fs::write(directory.path().join(FILE), "{\"version\": 3}").unwrap();
    let error = opened.read_paper().unwrap_err().to_string();
    assert!(error.contains("paper.json:1:13") && error.contains("expected the records"), "{error}");
}
