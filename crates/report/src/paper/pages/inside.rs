//! The parts of ASP by themselves: the ablation, Figures 5 and 12, hubs, training over skewed data, and learning rates.

use super::curves::{self, pair_name};
use super::section::{Section, Unfold};
use crate::chart::Size;
use crate::page::{Cell, Picture, Table};
use crate::paper::grid::{BSP, app_name, colour, wan_name};
use crate::paper::rates::{self, RateRow};
use crate::paper::records::{AblationRow, CurveRow, HubRow, PaperFile, SkewRow};
use crate::text::numbers;

pub(super) fn sections(file: &PaperFile) -> Vec<Section> {
    vec![
        ablation(&file.ablation),
        brakes(&file.brakes),
        insignificant(file),
        hubs(&file.hubs),
        skew(&file.skew),
        at_best_rates(&file.rates),
    ]
}

/// The effect of each setting. Bars compare rows of one application and WAN.
fn ablation(rows: &[AblationRow]) -> Section {
    let heading = "What each setting of ASP buys";
    if rows.is_empty() {
        return Section::empty(heading, "No setting was changed: nothing was run.");
    }

    let heads = ["setting", "what it is for", "#times LAN", "#clocks", "#WAN bytes", "#dollars"];
    let mut table = Table::new(heading, &heads);
    for (app, wan) in once(rows.iter().map(|row| (&*row.app, &*row.wan))) {
        table.group(pair_name(app, wan));

        let here = || rows.iter().filter(|row| row.app == app && row.wan == wan);
        let slowest = here().filter_map(|row| row.times_lan).fold(0.0, f64::max);
        let most = here().map(|row| row.wan_bytes).max().unwrap_or(0) as f64;

        for row in here() {
            let time = match row.times_lan {
                Some(times) => Cell::new(numbers::times(times)).bar(times / slowest),
                None => Cell::new("never").miss_if(true).bar(0.0),
            };

            let cells = vec![
                Cell::from(&*row.change),
                Cell::from(&*row.what),
                time,
                numbers::shown(row.clocks, numbers::count).into(),
                Cell::new(numbers::bytes(row.wan_bytes)).bar(row.wan_bytes as f64 / most),
                numbers::dollars(row.usd).into(),
            ];
            if row.change == "ours" { table.own_row(cells) } else { table.row(cells) }
        }
    }

    Section::new(heading)
        .say("Each row differs from ours in one setting; the two ends are ours and ASP as published.")
        .lay_out(table)
}

fn brakes(rows: &[CurveRow]) -> Section {
    let heading = "Without the two brakes (the paper's Figure 12)";
    if rows.is_empty() {
        return Section::empty(heading, "No run without brakes was made.");
    }

    let mut section = Section::new(heading).say(
        "asp-paper is ASP as published, asp-async that without the selective barrier and without the mirror clock; \
         asp is ours, asp-no-brakes ours without either. In the paper, matrix factorization without them diverges \
         after a while, and topic modeling takes more than twice as long.",
    );
    let places = once(rows.iter().map(|row| (&*row.app, &*row.wan)));
    for (at, (app, wan)) in places.into_iter().enumerate() {
        let here: Vec<&CurveRow> =
            rows.iter().filter(|row| row.app == app && row.wan == wan).collect();
        section = section.draw(Picture::of_views(
            pair_name(app, wan),
            &format!("brakes-{at}"),
            curves::brakes(&here),
        ));
    }

    section
}

fn insignificant(file: &PaperFile) -> Section {
    let heading = "How many updates are insignificant (the paper's Figure 5)";
    let rows = &file.insignificant;
    if rows.is_empty() {
        return Section::empty(heading, "No updates were counted.");
    }

    let names: Vec<String> =
        rows.iter().map(|row| format!("{}, {}", row.app, wan_name(&row.wan))).collect();
    let mut heads = vec!["change below"];
    let mut over = vec![("", 1)];

    for name in &names {
        heads.extend(["#ours", "#paper"]);
        over.push((name, 2));
    }

    let mut table = Table::new(heading, &heads).over(&over);
    let mut changes: Vec<f64> =
        rows.iter().flat_map(|row| &row.points).map(|point| point.0).collect();
    changes.sort_by(f64::total_cmp);
    changes.dedup();

    for change in changes {
        let change_text = numbers::significant(100.0 * change, 2);
        let mut cells = vec![Cell::from(format!("{} %", numbers::trim(&change_text)))];
        for row in rows {
            let point = row.points.iter().find(|point| point.0 == change);
            let printed = point.and_then(|point| point.2);
            cells.push(numbers::shown(point.map(|point| point.1), numbers::percent_tenths).into());
            cells.push(numbers::shown(printed, numbers::percent_tenths).into());
        }

        table.row(cells);
    }

    Section::new(heading)
        .say("The share of updates that change their parameter by less than so much of its value.")
        .draw(Picture::of_plot("", &curves::insignificant(rows), Size::WIDE))
        .lay_out(table)
}

/// A row for each data center, columns for each overlay.
fn hubs(rows: &[HubRow]) -> Section {
    let heading = "With and without hubs";
    if rows.is_empty() {
        return Section::empty(heading, "No overlay was compared.");
    }

    let overlays = once(rows.iter().map(|row| &*row.overlay));
    let mut heads = vec!["data center"];
    let mut over = vec![("", 1)];

    for overlay in &overlays {
        heads.extend(["#sent", "#of it relayed", "#dollars"]);
        over.push((overlay, 3));
    }

    let mut table = Table::new(heading, &heads).over(&over);
    for app in once(rows.iter().map(|row| &*row.app)) {
        table.group(app_name(app));

        let of_app: Vec<&HubRow> = rows.iter().filter(|row| row.app == app).collect();
        for data_center in once(of_app.iter().map(|row| &*row.data_center)) {
            let mut cells = vec![Cell::from(data_center)];
            for overlay in &overlays {
                let row = of_app
                    .iter()
                    .find(|row| row.data_center == data_center && row.overlay == *overlay);
                cells.extend(hub_cells(row.copied()));
            }

            table.row(cells);
        }

        let mut sums = vec![Cell::from("all")];
        for overlay in &overlays {
            let here = || of_app.iter().filter(|row| row.overlay == *overlay);
            let sum = |amount: fn(&HubRow) -> u64| {
                here().fold(0_u64, |sum, row| sum.saturating_add(amount(row)))
            };
            sums.push(numbers::bytes(sum(|row| row.sent_bytes)).into());
            sums.push(numbers::bytes(sum(|row| row.relayed_bytes)).into());
            sums.push(numbers::dollars(here().map(|row| row.usd).sum()).into());
        }

        table.sum_row(sums);
    }

    Section::new(heading)
        .say("Bytes that each data center put on the WAN, and what it paid for them. ● marks hubs.")
        .lay_out(table)
}

fn hub_cells(row: Option<&HubRow>) -> [Cell; 3] {
    let Some(row) = row else { return [(); 3].map(|()| numbers::NONE.into()) };
    let hub = if row.is_hub { "● " } else { "" };
    [
        format!("{hub}{}", numbers::bytes(row.sent_bytes)).into(),
        numbers::bytes(row.relayed_bytes).into(),
        numbers::dollars(row.usd).into(),
    ]
}

fn skew(rows: &[SkewRow]) -> Section {
    let heading = "Label-skewed data";
    if rows.is_empty() {
        return Section::empty(heading, "Nothing was trained over skewed data.");
    }

    let heads = [
        "skew",
        "model",
        "guard",
        "#worst copy",
        "#drained",
        "#against BSP",
        "#clocks",
        "#time",
        "#WAN bytes",
    ];
    let mut table = Table::new(heading, &heads).over(&[("", 3), ("held-out accuracy", 3), ("", 3)]);
    for app in once(rows.iter().map(|row| &*row.app)) {
        table.group(app);

        for row in rows.iter().filter(|row| row.app == app) {
            let bsp = rows
                .iter()
                .find(|other| other.app == app && other.skew == row.skew && other.model == BSP);
            let points = bsp.map(|bsp| 100.0 * (row.accuracy - bsp.accuracy));
            let points = points.filter(|points| points.is_finite() && row.model != BSP);
            let behind = points.is_some_and(|points| points < -POINTS);

            table.row(vec![
                numbers::percent(row.skew).into(),
                Cell::new(&*row.model).dot(colour(&row.model)),
                if row.guard { "on" } else { "off" }.into(),
                numbers::percent_tenths(row.accuracy_worst).into(),
                numbers::percent_tenths(row.accuracy).into(),
                Cell::new(numbers::shown(points, |points| format!("{points:+.1} points")))
                    .miss_if(behind),
                numbers::count(row.clocks).into(),
                numbers::seconds(row.time_s).into(),
                numbers::bytes(row.wan_bytes).into(),
            ]);
        }
    }

    Section::new(heading)
        .say(
            "Skew is the share of examples whose data center their label decides. Accuracy is on held-out data of \
             all data centers: of the worst copy while training ended, and of the one that the drain left. ASP's \
             copies are evaluated just after their own workers' step and before the others', BSP's and local steps' by \
             what all agree on. With the guard on, copies travel and are measured on other data centers' examples, \
             and what they lose there tightens all (Hsieh et al., ICML 2020); its bytes and its time are included. \
             cnn-group-norm is the network cnn with group normalisation, whose statistics are those of one example \
             at a time; cnn has no normalisation.",
        )
        .lay_out(table)
}

fn at_best_rates(rows: &[RateRow]) -> Section {
    let heading = "Each remote model at its best learning rate";
    if rows.is_empty() {
        return Section::empty(heading, "No learning rates were compared.");
    }

    let heads = ["model", "#best rate", "#clocks", "#time", "#a data center sent", "#accuracy"];
    let mut table = Table::new(heading, &heads);
    let best = rates::best(rows);
    for app in once(best.iter().map(|row| &*row.app)) {
        table.group(app);

        for row in best.iter().filter(|row| row.app == app) {
            let clocks = rates::shown(row.clocks(), rates::count);
            let missed = row.clocks().is_some_and(|clocks| clocks.median.is_none());
            let clocks = match row.target {
                Some(_) => Cell::new(clocks).miss_if(missed),
                None => numbers::NONE.into(),
            };
            table.row(vec![
                Cell::new(&*row.model).dot(colour(&row.model)),
                numbers::significant(row.learning_rate, 3).into(),
                clocks,
                rates::shown(row.time_s(), numbers::seconds).into(),
                rates::shown(row.sent_bytes(), rates::bytes).into(),
                numbers::shown(row.accuracy(), numbers::percent_tenths).into(),
            ]);
        }
    }

    let seeds = rows.iter().map(|row| row.runs.len()).max().unwrap_or(0);
    Section::new(heading)
        .say(format!(
            "Labels decide which data center has which examples, and no guard is on. Each model trains with each \
             learning rate of one grid and {}: the median, with the lowest and the highest. The best rate has the fewest \
             clocks to the target, or the highest accuracy where runs have no target. Bytes are those that a data center sends until the target, or in the whole run. \
             rounds-2 are local steps with a round every two clocks, sparse rounds send the largest 3 % of what a \
             data center owes, -plain the largest 5 % without an outer momentum, and -momentum has one of 0.9.",
            numbers::counted(seeds, "seed"),
        ))
        .lay_out(table)
        .unfold(Unfold {
            summary: AT_EACH_RATE.into(),
            table: Some(at_each_rate(rows)),
            ..Unfold::default()
        })
}

/// A column for each rate.
fn at_each_rate(rows: &[RateRow]) -> Table {
    let rates = once(rows.iter().map(|row| row.learning_rate));
    let heads: Vec<String> = rates.iter().map(|rate| format!("#{rate}")).collect();
    let heads: Vec<&str> = ["model"].into_iter().chain(heads.iter().map(String::as_str)).collect();
    let mut table = Table::new(AT_EACH_RATE, &heads);
    let best = rates::best(rows);
    for app in once(best.iter().map(|row| &*row.app)) {
        table.group(app);
        for row in best.iter().filter(|row| row.app == app) {
            let found = rates::at_each_rate(rows, row);
            let of_rate = |rate: &f64| {
                let figure = found.iter().find(|(of, _)| of == rate);
                Cell::from(figure.map_or(numbers::NONE, |(_, figure)| figure))
            };
            let model = Cell::new(&*row.model).dot(colour(&row.model));
            table.row([model].into_iter().chain(rates.iter().map(of_rate)).collect());
        }
    }
    table
}

const AT_EACH_RATE: &str = "Clocks to the target, or accuracy, at each learning rate";

/// Each value once, in the order of first appearance.
fn once<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// Accuracy this many points below BSP's is a miss.
const POINTS: f64 = 2.0;
