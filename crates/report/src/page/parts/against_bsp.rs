//! Every run against BSP on the same WAN, as the Gaia paper's Figures 8 to 11 draw it.

use serde::Serialize;

use super::colour::colour;
use super::picture::Picture;
use crate::chart::{Bar, BarGroup, Bars, Base, Size};
use crate::comparison::{ComparedRun, Comparison, LAN};
use crate::text::numbers;
use crate::text::phrases::without_target;

/// A picture of time, and one of dollars where anything has a price.
#[derive(Serialize)]
pub(in crate::page) struct AgainstBsp {
    pictures: Vec<Picture>,
    /// Whether the pictures share a row.
    paired: bool,
}

/// `None` where times are not compared, or BSP reaches the target on no WAN, so that nothing compares with it.
pub(in crate::page) fn against_bsp(comparison: &Comparison) -> Option<AgainstBsp> {
    if comparison.why_not_compared().is_some() {
        return None;
    }
    compared(comparison).next()?;
    let times = times(comparison);
    let paired = times.fits(Size::HALF);
    let size = if paired { Size::HALF } else { Size::WIDE };
    let mut pictures = vec![Picture::of_bars("Time to target", &times, size)];
    if comparison.runs.iter().any(|run| run.row.cost_usd > 0.0) {
        pictures.push(Picture::of_bars("Dollars", &dollars(comparison), size));
    }
    Some(AgainstBsp { pictures, paired })
}

fn times(comparison: &Comparison) -> Bars {
    Bars {
        description: "Time to target of each model, as multiples of BSP's on the same WAN".into(),
        y_label: "time to target, BSP's on the same WAN = 1".into(),
        groups: groups(comparison, |run, bsp| {
            let time = |run: &ComparedRun| run.row.summary.time_to_target_s;
            Some(vec![time(run)? / time(bsp)?])
        }),
        base: Base::Zero,
        parts: None,
        printed: "",
    }
}

fn dollars(comparison: &Comparison) -> Bars {
    let machines = comparison.has_machine_costs();
    let what = if machines { "dollars" } else { "WAN dollars" };
    Bars {
        description: format!("{what} of each model, as multiples of BSP's on the same WAN"),
        y_label: format!("{what} to target, BSP's on the same WAN = 1"),
        groups: groups(comparison, |run, bsp| {
            run.row.summary.time_to_target_s?;
            let whole = Some(bsp.row.cost_usd).filter(|usd| *usd > 0.0)?;
            let wan = run.row.summary.wan_cost_usd / whole;
            let machine = run.row.summary.machine_cost_usd / whole;
            Some(if machines { vec![machine, wan] } else { vec![wan] })
        }),
        base: Base::Zero,
        parts: machines.then_some(["machines", "WAN traffic"]),
        printed: "",
    }
}

/// A group for each WAN: BSP on the LAN with the same machines, as the best that is possible, then the WAN's own runs.
fn groups(
    comparison: &Comparison,
    parts: impl Fn(&ComparedRun, &ComparedRun) -> Option<Vec<f64>>,
) -> Vec<BarGroup> {
    let bar = |run: &ComparedRun, label: &str, colour: usize, base: &ComparedRun| {
        let parts = parts(run, base);
        let text = match &parts {
            Some(parts) => numbers::multiple(parts.iter().sum()),
            None if run.row.summary.time_to_target_s.is_some() => numbers::NONE.into(),
            None => without_target(&run.row.summary).into(),
        };
        Bar { label: label.into(), colour, parts: parts.unwrap_or_default(), text, printed: None }
    };

    let group = |(wan, base): (&str, &ComparedRun)| {
        let lan = comparison.lan_baseline();
        let lan = lan.filter(|run| run.row.summary.workers == base.row.summary.workers);
        let lan = lan.map(|run| bar(run, LAN, colour(LAN, 0), base));

        let own = comparison.on(wan).enumerate().map(|(at, run)| {
            let remote = &run.row.summary.remote_sync;
            bar(run, remote, colour(remote, at), base)
        });

        BarGroup { label: wan.into(), bars: lan.into_iter().chain(own).collect() }
    };

    compared(comparison).map(group).collect()
}

/// The WANs on which BSP reaches the target, with its run.
fn compared(comparison: &Comparison) -> impl Iterator<Item = (&str, &ComparedRun)> {
    comparison.wans().into_iter().filter(|wan| *wan != LAN).filter_map(|wan| {
        let bsp = comparison.on(wan).find(|run| run.row.summary.remote_sync == "bsp")?;
        bsp.row.summary.time_to_target_s.filter(|time_s| *time_s > 0.0).map(|_| (wan, bsp))
    })
}
