//! Bytes from each data center to each other one, as a table whose cells are shaded by how much they hold.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::report::numbers;
use crate::telemetry::{LinkRecord, Summary};

/// From (rows) × to (columns).
#[derive(Serialize)]
pub(super) struct Heat {
    title: String,
    unit: &'static str,
    names: Vec<String>,
    rows: Vec<HeatRow>,
}

#[derive(Serialize)]
struct HeatRow {
    name: String,
    /// `None` where there is no link.
    cells: Vec<Option<HeatCell>>,
    total: String,
}

#[derive(Serialize)]
struct HeatCell {
    text: String,
    /// 0 to 100.
    shade: u32,
    detail: String,
}

/// How a number of bytes becomes a shade.
#[derive(Clone, Copy)]
pub(super) struct Shading {
    lowest: f64,
    highest: f64,
    spacing: Spacing,
}

#[derive(Clone, Copy)]
enum Spacing {
    Linear,
    Logarithmic,
}

impl Shading {
    /// From none to the busiest link.
    pub(super) fn linear(links: &[LinkRecord]) -> Self {
        let highest = links.iter().map(|link| link.bytes).max().unwrap_or(0);
        Self { lowest: 0.0, highest: highest as f64, spacing: Spacing::Linear }
    }

    /// One scale for several runs, whose bytes may differ a hundredfold.
    pub(super) fn shared<'a>(links: impl Iterator<Item = &'a LinkRecord> + Clone) -> Self {
        let used = links.map(|link| link.bytes).filter(|bytes| *bytes > 0);
        let lowest = used.clone().min().unwrap_or(1) as f64;
        let highest = used.max().unwrap_or(1) as f64;
        Self { lowest, highest, spacing: Spacing::Logarithmic }
    }

    fn shade(self, bytes: u64) -> u32 {
        let value = bytes as f64;
        let share = match self.spacing {
            _ if bytes == 0 || self.highest <= 0.0 => return 0,
            Spacing::Linear => value / self.highest,
            Spacing::Logarithmic if self.highest <= self.lowest => 0.5,
            Spacing::Logarithmic => {
                (value / self.lowest).ln() / (self.highest / self.lowest).ln() * 0.92 + 0.08
            }
        };
        (share * 100.0).round().clamp(0.0, 100.0) as u32
    }

    fn unit(self) -> (f64, &'static str) {
        numbers::byte_unit(self.highest)
    }
}

/// The map of one run. `None` where no link was used.
pub(super) fn heat(title: &str, summary: &Summary, shading: Shading) -> Option<Heat> {
    if summary.links.is_empty() {
        return None;
    }
    let links: BTreeMap<(&str, &str), &LinkRecord> =
        summary.links.iter().map(|link| ((link.from.as_str(), link.to.as_str()), link)).collect();
    let (factor, unit) = shading.unit();
    let row = |from: &String| {
        let find = |to: &String| links.get(&(from.as_str(), to.as_str())).copied();
        let found: Vec<Option<&LinkRecord>> = summary.data_centers.iter().map(find).collect();
        let total: u64 = found.iter().flatten().fold(0, |sum, link| sum.saturating_add(link.bytes));
        HeatRow {
            name: from.clone(),
            cells: found.iter().map(|link| link.map(|link| cell(link, factor, shading))).collect(),
            total: amount(total, factor),
        }
    };
    Some(Heat {
        title: title.into(),
        unit,
        names: summary.data_centers.clone(),
        rows: summary.data_centers.iter().map(row).collect(),
    })
}

fn cell(link: &LinkRecord, factor: f64, shading: Shading) -> HeatCell {
    HeatCell {
        text: amount(link.bytes, factor),
        shade: shading.shade(link.bytes),
        detail: format!(
            "{} to {}: {} at {}, busy {}",
            link.from,
            link.to,
            numbers::bytes(link.bytes),
            numbers::bandwidth(link.bandwidth_bits_per_second),
            numbers::percent(link.utilisation),
        ),
    }
}

/// Bytes in the map's unit, three digits at most.
fn amount(bytes: u64, factor: f64) -> String {
    let value = bytes as f64 / factor;
    match value {
        0.0 => "0".into(),
        ..0.01 => "<0.01".into(),
        ..0.995 => format!("{value:.2}"),
        ..999.5 => numbers::significant(value, 3),
        _ => numbers::count(value.round() as u64),
    }
}
