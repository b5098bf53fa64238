//! `paper.html` and `paper-elsewhere.html`.

mod bars;
mod cells;
mod curves;
mod inside;
mod made;
mod section;
mod shipping;
mod systems;
mod verdicts;

use serde::Serialize;

use super::grid::{AppWanPair, Grid, app_name, wan_name};
use super::records::PaperFile;
use crate::chart::Size;
use crate::directory::{PAPER_ELSEWHERE_PAGE, PAPER_PAGE};
use crate::page::{Picture, render};
use crate::text::numbers;
use section::{Chapter, Section, Unfold};
use verdicts::{Verdict, verdicts};

#[derive(Serialize)]
struct PageView {
    title: &'static str,
    sentence: String,
    tags: Vec<String>,
    other: PageLink,
    verdicts: Vec<Verdict>,
    chapters: Vec<Chapter>,
}

/// A page of the same directory.
#[derive(Serialize)]
struct PageLink {
    page: &'static str,
    text: &'static str,
}

/// The paper's applications over the paper's WANs, and what makes ASP what it is.
pub(super) fn first(file: &PaperFile) -> String {
    let grid = Grid::new(&file.cells);
    let mut chapters = chapters(&grid);
    chapters.push(chapter("Data that stays or travels", vec![shipping::section(&grid, true)]));
    chapters.push(chapter("Inside ASP", inside::sections(file)));
    chapters.push(chapter("Other systems", systems::sections(&file.systems)));
    chapters.push(chapter(
        "How this was made",
        vec![made::fitted(&file.scales, false), made::speed(&file.speed)],
    ));

    page(&PageView {
        title: "Gaia's evaluation, run again",
        sentence: format!(
            "The evaluation of the Gaia paper (Hsieh et al., NSDI 2017), run again in simulation: {}. \
             The paper's own figures stand beside ours.",
            extent(&grid)
        ),
        tags: tags(file),
        other: PageLink {
            page: PAPER_ELSEWHERE_PAGE,
            text: "Other WANs, and one scale per application",
        },
        verdicts: verdicts(&grid, true),
        chapters,
    })
}

/// The same applications over other WANs.
pub(super) fn elsewhere(file: &PaperFile) -> String {
    let grid = Grid::new(&file.elsewhere);
    let mut chapters = chapters(&grid);
    chapters.push(chapter("Data that stays or travels", vec![shipping::section(&grid, false)]));
    chapters.push(chapter("How this was made", vec![made::fitted(&file.scales, true)]));
    page(&PageView {
        title: "Gaia's evaluation, elsewhere",
        sentence: format!(
            "The same applications over WANs that the paper did not have, and over its own at one bandwidth scale \
             per application: {}.",
            extent(&grid)
        ),
        tags: tags(file),
        other: PageLink { page: PAPER_PAGE, text: "The paper's own WANs" },
        verdicts: verdicts(&grid, false),
        chapters,
    })
}

fn page(view: &PageView) -> String {
    render("paper.html", view)
}

fn chapter(title: &str, sections: Vec<Section>) -> Chapter {
    Chapter { title: title.into(), sections }
}

/// A chapter for each application.
fn chapters(grid: &Grid<'_>) -> Vec<Chapter> {
    let of_app = |app: &str| {
        let times = Section::new("Speed-up over BSP")
            .draw(Picture::of_bars("", &bars::speedups(grid, app), Size::WIDE))
            .lay_out(cells::times(grid, app))
            .unfold(unfold(grid, app));
        let costs = Section::new("Dollars to the target")
            .say(
                "For a run that did not reach the target, the table shows the bytes and dollars of the whole run. \
                 centralize rents machines once the data has arrived.",
            )
            .draw(Picture::of_bars("", &bars::costs(grid, app), Size::WIDE))
            .lay_out(cells::costs(grid, app));
        chapter(&app_name(app), vec![times, costs])
    };
    grid.apps().into_iter().map(of_app).collect()
}

fn unfold(grid: &Grid<'_>, app: &str) -> Unfold {
    let pairs = grid.pairs().into_iter().enumerate().filter(|(_, pair)| pair.app == app);
    let picture = |(at, pair): (usize, AppWanPair<'_>)| {
        let heading = wan_name(pair.wan);
        Picture::of_views(heading, &format!("cell-{at}"), curves::cells(grid, pair))
    };
    Unfold {
        summary: "Objective over time, and what reads waited for".into(),
        pictures: pairs.map(picture).collect(),
        blocked: cells::blocked(grid, app),
        causes: cells::causes(grid, app),
        table: None,
    }
}

fn tags(file: &PaperFile) -> Vec<String> {
    let mut tags = vec![format!("seed {}", file.seed), format!("gaia {}", file.version)];
    if file.quick {
        tags.insert(0, "quick: fewer clocks and fewer rows".into());
    }
    tags
}

/// How many applications, pairs and runs there are, in words.
fn extent(grid: &Grid<'_>) -> String {
    format!(
        "{}, {}, {}",
        numbers::counted(grid.apps().len(), "application"),
        numbers::counted(grid.pairs().len(), "pair") + " of application and WAN",
        numbers::counted(grid.rows().len(), "run"),
    )
}
