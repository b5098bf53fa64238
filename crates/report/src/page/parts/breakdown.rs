//! Where the final model is right and where it is wrong: a confusion matrix, or the error by rating.

use serde::Serialize;

use super::table::{Cell, Table};
use crate::text::numbers;
use crate::text::phrases::{log_loss_and_auc, only_class};
use gaia_telemetry::{BreakdownRecord, RatingRecord};

/// The held-out examples by their answers.
#[derive(Serialize)]
pub(in crate::page) struct BreakdownView {
    heading: &'static str,
    text: String,
    matrix: Option<Matrix>,
    table: Option<Table>,
}

/// Classes that examples have (rows) × those that the model gives them (columns).
#[derive(Serialize)]
struct Matrix {
    names: Vec<String>,
    rows: Vec<MatrixRow>,
}

#[derive(Serialize)]
struct MatrixRow {
    name: String,
    cells: Vec<MatrixCell>,
    /// The share of the class that the model finds.
    found: String,
}

#[derive(Serialize)]
struct MatrixCell {
    text: String,
    /// Percent of the row, 0 to 100.
    shade: u32,
    detail: String,
}

impl BreakdownView {
    pub(in crate::page) fn new(record: &BreakdownRecord) -> Self {
        match record {
            BreakdownRecord::Classes { names, counts, log_loss, auc } => Self {
                heading: "Held-out examples by class",
                text: classes_text(names, counts, (*log_loss, *auc)),
                matrix: (!counts.is_empty()).then(|| matrix(names, counts)),
                table: None,
            },
            BreakdownRecord::Ratings { groups } => Self {
                heading: "Held-out ratings by value",
                text: "Bias is the mean of prediction minus rating.".into(),
                matrix: None,
                table: Some(ratings(groups)),
            },
        }
    }
}

fn classes_text(
    names: &[String],
    counts: &[Vec<u64>],
    (log_loss, auc): (f64, Option<f64>),
) -> String {
    let of = if auc.is_none() || names.len() == 2 { "" } else { ", the mean over classes" };
    let one = only_class(names, counts).map_or_else(String::new, |one| format!(" {one}."));
    format!("Log loss {}{of}.{one}", log_loss_and_auc(log_loss, auc))
}

fn matrix(names: &[String], counts: &[Vec<u64>]) -> Matrix {
    let row = |(at, (name, counts)): (usize, (&String, &Vec<u64>))| {
        let all = counts.iter().fold(0.0, |sum, count| sum + *count as f64);
        let share = |count: u64| if all == 0.0 { 0.0 } else { count as f64 / all };
        let cell = |(given, count): (&String, &u64)| MatrixCell {
            text: numbers::count(*count),
            shade: (100.0 * share(*count)).round() as u32,
            detail: format!("{name} taken for {given}: {}", numbers::percent(share(*count))),
        };
        MatrixRow {
            name: name.clone(),
            cells: names.iter().zip(counts).map(cell).collect(),
            found: numbers::percent(share(counts.get(at).copied().unwrap_or(0))),
        }
    };
    let rows = names.iter().zip(counts).enumerate().map(row).collect();
    Matrix { names: names.to_vec(), rows }
}

fn ratings(groups: &[RatingRecord]) -> Table {
    let heads = ["#rating", "#ratings", "#rmse", "#bias"];
    let mut table = Table::new("Held-out ratings by value", &heads);
    let most = groups.iter().map(|group| group.rmse).fold(0.0, f64::max);
    for RatingRecord { rating, count, rmse, bias } in groups {
        table.row(vec![
            numbers::target(*rating).into(),
            numbers::count(*count).into(),
            Cell::new(numbers::objective(*rmse)).bar(rmse / most),
            numbers::objective(*bias).into(),
        ]);
    }
    table
}
