//! Bytes and dollars from each data center to each other one, as tables whose cells are shaded by how much they hold.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::text::numbers;
use gaia_core::types::limits::DATA_CENTERS_LISTED_MAX;
use gaia_telemetry::{LinkRecord, Summary};

/// The maps of several runs, in bytes and, where links have prices, in dollars.
#[derive(Serialize)]
pub(in crate::page) struct Heats {
    /// Unique on a page: the buttons that choose between bytes and dollars are named after it.
    id: String,
    /// Whether any link has a cost.
    priced: bool,
    runs: Vec<RunHeat>,
}

/// Both maps of one run.
#[derive(Serialize)]
struct RunHeat {
    title: String,
    bytes: Heat,
    dollars: Heat,
}

/// From (rows) × to (columns).
#[derive(Serialize)]
struct Heat {
    unit: String,
    names: Vec<String>,
    rows: Vec<HeatRow>,
    total: String,
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

/// What a map counts.
#[derive(Clone, Copy)]
enum Measure {
    Bytes,
    Dollars,
}

/// How an amount becomes a shade, and which unit it is written in.
#[derive(Clone, Copy)]
struct Shading {
    lowest: f64,
    highest: f64,
    spacing: Spacing,
}

#[derive(Clone, Copy)]
enum Spacing {
    Linear,
    Logarithmic,
}

/// The maps of one run, shaded from zero to the busiest link. `None` where it has no links, or too many for a map.
pub(in crate::page) fn heat(id: &str, summary: &Summary) -> Option<Heats> {
    heats(id, &[summary], |measure, links| {
        let amounts = links.iter().map(|link| measure.of(link));
        Shading { lowest: 0.0, highest: amounts.fold(0.0, f64::max), spacing: Spacing::Linear }
    })
}

/// The maps of several runs on one scale, logarithmic since amounts differ a hundredfold. `None` where none has links
/// that fit on a map.
pub(in crate::page) fn shared_heats(id: &str, summaries: &[&Summary]) -> Option<Heats> {
    heats(id, summaries, |measure, links| {
        let used = links.iter().map(|link| measure.of(link)).filter(|amount| *amount > 0.0);
        let lowest = used.clone().reduce(f64::min).unwrap_or(1.0);
        let highest = used.reduce(f64::max).unwrap_or(1.0);
        Shading { lowest, highest, spacing: Spacing::Logarithmic }
    })
}

fn heats(
    id: &str,
    summaries: &[&Summary],
    shading: impl Fn(Measure, &[&LinkRecord]) -> Shading,
) -> Option<Heats> {
    let links: Vec<&LinkRecord> = summaries.iter().flat_map(|summary| &summary.links).collect();
    let [bytes, dollars] = [Measure::Bytes, Measure::Dollars].map(|measure| {
        let shading = shading(measure, &links);
        move |summary: &Summary| map(summary, measure, shading)
    });

    // A cell of a larger map would be narrower than what is written in it.
    let is_mapped = |summary: &&&Summary| {
        !summary.links.is_empty() && summary.data_centers.len() <= DATA_CENTERS_LISTED_MAX
    };
    let runs = summaries.iter().filter(is_mapped).map(|summary| RunHeat {
        title: summary.remote_sync.clone(),
        bytes: bytes(summary),
        dollars: dollars(summary),
    });
    let runs: Vec<RunHeat> = runs.collect();
    let priced = links.iter().any(|link| link.cost_usd > 0.0);

    (!runs.is_empty()).then(|| Heats { id: id.into(), priced, runs })
}

fn map(summary: &Summary, measure: Measure, shading: Shading) -> Heat {
    let links: BTreeMap<(&str, &str), &LinkRecord> =
        summary.links.iter().map(|link| ((link.from.as_str(), link.to.as_str()), link)).collect();
    let (factor, unit) = measure.unit(shading.highest);

    let row = |from: &String| {
        let find = |to: &String| links.get(&(from.as_str(), to.as_str())).copied();
        let found: Vec<Option<&LinkRecord>> = summary.data_centers.iter().map(find).collect();

        let cell = |link: &LinkRecord| HeatCell {
            text: amount(measure.of(link) / factor),
            shade: shading.shade(measure.of(link)),
            detail: detail(link),
        };

        HeatRow {
            name: from.clone(),
            cells: found.iter().map(|link| link.map(cell)).collect(),
            total: amount(
                found.iter().flatten().map(|link| measure.of(link)).sum::<f64>() / factor,
            ),
        }
    };

    Heat {
        unit,
        names: summary.data_centers.clone(),
        rows: summary.data_centers.iter().map(row).collect(),
        total: measure.shown(summary.links.iter().map(|link| measure.of(link)).sum()),
    }
}

fn detail(link: &LinkRecord) -> String {
    format!(
        "{} to {}: {} for {} at {}, busy {}",
        link.from,
        link.to,
        numbers::bytes(link.bytes),
        numbers::dollars(link.cost_usd),
        numbers::bandwidth(link.bandwidth_bits_per_second),
        numbers::percent(link.utilisation),
    )
}

impl Measure {
    fn of(self, link: &LinkRecord) -> f64 {
        match self {
            Self::Bytes => link.bytes as f64,
            Self::Dollars => link.cost_usd,
        }
    }

    fn shown(self, amount: f64) -> String {
        match self {
            Self::Bytes => numbers::bytes(amount as u64),
            Self::Dollars => numbers::dollars(amount),
        }
    }

    /// The factor that amounts are divided by, and the unit they are then written in.
    fn unit(self, highest: f64) -> (f64, String) {
        match self {
            Self::Bytes => {
                let (factor, unit) = numbers::byte_unit(highest);
                (factor, unit.into())
            }
            Self::Dollars if highest >= 1.0 => (1.0, "US dollars".into()),
            Self::Dollars if highest >= 0.01 => (0.01, "US cents".into()),
            Self::Dollars => (1e-6, "millionths of a US dollar".into()),
        }
    }
}

impl Shading {
    fn shade(self, value: f64) -> u32 {
        let share = match self.spacing {
            _ if value <= 0.0 || self.highest <= 0.0 => return 0,
            Spacing::Linear => value / self.highest,
            Spacing::Logarithmic if self.highest <= self.lowest => 0.5,
            Spacing::Logarithmic => {
                (value / self.lowest).ln() / (self.highest / self.lowest).ln() * 0.92 + 0.08
            }
        };
        (share * 100.0).round().clamp(0.0, 100.0) as u32
    }
}

/// An amount in the map's unit, three digits at most.
fn amount(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        ..0.01 => "<0.01".into(),
        ..0.995 => format!("{value:.2}"),
        ..999.5 => numbers::significant(value, 3),
        _ => numbers::count(value.round() as u64),
    }
}
