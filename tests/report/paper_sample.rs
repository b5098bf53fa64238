//! A made-up evaluation: every kind of row, with cells that were not run, never arrived or missed their aim.

use gaia_report::paper::{
    AblationRow, CellRow, CurveRow, HubRow, InsignificantRow, PaperFile, RateRow, RateRun,
    ScaleRow, SkewRow, SpeedRow, SystemFigure, SystemRow, SystemUnit, SystemVerdict,
};
use gaia_telemetry::BlockedSeconds;

use crate::sample::ELEVEN;

/// The paper's speed-ups of Gaia and of its LAN, and its dollars: BSP's over Gaia's.
const PRINTED: [(&str, &str, f64, f64, f64); 9] = [
    ("mf", "ec2-all", 3.8, 3.7, 4.2),
    ("mf", "vc", 3.7, 3.5, 6.0),
    ("mf", "ss", 25.0, 24.0, 28.5),
    ("tm", "ec2-all", 3.7, 4.8, 2.6),
    ("tm", "vc", 3.7, 3.9, 5.7),
    ("tm", "ss", 14.0, 17.0, 18.7),
    ("ic", "ec2-all", 6.0, 8.5, 8.5),
    ("ic", "vc", 7.4, 7.4, 10.7),
    ("ic", "ss", 54.0, 54.0, 59.0),
];

pub(crate) fn full() -> PaperFile {
    let mut cells = Vec::new();
    for (app, wan, gaia, lan, cost) in PRINTED {
        cells.extend(place(app, wan, lan, Some((gaia, cost))));
    }
    // Topic modeling over S/S: ours is slow. Image classification over EC2-ALL: nothing but BSP arrived,
    // and over V/C nobody tried to ship the data.
    for row in &mut cells {
        match (&*row.app, &*row.wan, &*row.model) {
            ("tm", "ss", "asp") => {
                row.times_lan = Some(1.22);
                row.speedup_vs_bsp = Some(13.93);
                row.copies_equal = false;
            }
            ("ic", "ec2-all", "asp") => never(row),
            _ => {}
        }
    }
    cells.retain(|row| (&*row.app, &*row.wan, &*row.model) != ("ic", "vc", "centralize"));

    let mut elsewhere = place("mf", "skyplane-2022", 1.9, None);
    elsewhere.extend(place("mf", "ec2-all", 3.1, None));
    elsewhere.iter_mut().filter(|row| row.wan == "ec2-all" && row.model == "bsp").for_each(never);
    PaperFile {
        version: "0.1.0".into(),
        seed: 42,
        quick: false,
        scales: scales(),
        cells,
        elsewhere,
        ablation: ablation(),
        hubs: hubs(),
        insignificant: insignificant(),
        brakes: brakes(),
        skew: skew(),
        rates: rates(),
        systems: systems(),
        speed: vec![
            speed("mf ec2-all asp", 341.2, 5.1, 1_204_113),
            speed("mf ec2-all bsp", 1_271.0, 3.2, 310_002),
        ],
    }
}

pub(crate) fn empty() -> PaperFile {
    PaperFile {
        version: "0.1.0".into(),
        seed: 1,
        quick: true,
        scales: Vec::new(),
        cells: Vec::new(),
        elsewhere: Vec::new(),
        ablation: Vec::new(),
        hubs: Vec::new(),
        insignificant: Vec::new(),
        brakes: Vec::new(),
        skew: Vec::new(),
        rates: Vec::new(),
        systems: Vec::new(),
        speed: Vec::new(),
    }
}

/// A claim with figures that fails, and one that cannot be checked.
fn systems() -> Vec<SystemRow> {
    let figure = |what: &str, unit, printed, computed, measured| SystemFigure {
        what: what.into(),
        unit,
        printed,
        computed,
        measured,
    };
    let checked = SystemRow {
        system: "A system".into(),
        claim: "It is twice as fast.".into(),
        check: "The same runs here.".into(),
        figures: vec![
            figure("speed", SystemUnit::Times, Some(2.0), Some(1.9), 1.5),
            figure("share", SystemUnit::Share, None, None, 0.25),
            figure("to the target", SystemUnit::Times, None, None, f64::NAN),
            figure("servers", SystemUnit::Machines, None, Some(4.0), 3.0),
        ],
        verdict: SystemVerdict::Fails,
        reason: "it is not.".into(),
    };
    let other = SystemRow {
        system: "Another system".into(),
        claim: "It needs other machines.".into(),
        check: String::new(),
        figures: Vec::new(),
        verdict: SystemVerdict::CannotBeChecked,
        reason: "they are not here.".into(),
    };
    vec![checked, other]
}

fn never(row: &mut CellRow) {
    row.time_s = None;
    row.clocks = None;
    row.times_lan = None;
    row.speedup_vs_bsp = None;
    row.converged = false;
    row.objective = f64::NAN;
    row.objective_off = Some(f64::INFINITY);
    row.curve.extend([(900.0, f64::INFINITY), (1_000.0, f64::NAN)]);
}

/// All models at one place; BSP takes `lan` times the LAN's time.
fn place(app: &str, wan: &str, lan: f64, printed: Option<(f64, f64)>) -> Vec<CellRow> {
    // model, times LAN, bytes, dollars of WAN
    let models = [
        ("lan", 1.0, 0, 0.0),
        ("bsp", lan, 64_000_000_000, 4.1),
        ("ssp", lan * 0.83, 66_000_000_000, 4.2),
        ("asp-paper", 1.31, 9_200_000_000, 0.61),
        ("asp", 1.04, 2_310_000_000, 0.14),
        ("asp-async", 1.02, 2_200_000_000, 0.13),
        ("local-steps", 1.6, 410_000_000, 0.03),
        ("centralize", 1.9, 1_500_000_000, 0.12),
    ];
    let row = |(model, times, wan_bytes, usd_wan): (&str, f64, u64, f64)| {
        let time = 210.0 * times;
        // Between the eleven regions shipping takes 0.9 times as long as training.
        let is_shipped = model == "centralize" && wan == "ec2-all" && printed.is_some();
        let usd_machines = 1.9 * if is_shipped { 1.0 } else { times };
        let mut row = CellRow {
            app: app.into(),
            wan: wan.into(),
            model: model.into(),
            time_s: Some(time),
            clocks: Some((400.0 * times.min(1.6)) as u64),
            times_lan: Some(times),
            speedup_vs_bsp: Some(lan / times),
            wan_bytes,
            usd: usd_machines + usd_wan,
            usd_machines,
            usd_wan,
            usd_waiting: (model == "centralize").then_some(1.9 * times + usd_wan),
            converged: true,
            paper_speedup: match model {
                "asp" | "asp-paper" => printed.map(|(gaia, _)| gaia),
                "bsp" => printed.map(|_| 1.0),
                "lan" => printed.map(|_| lan),
                _ => None,
            },
            paper_wan_share: printed.filter(|_| model == "bsp" && wan == "ec2-all").map(|_| 0.75),
            paper_cost_ratio: printed.filter(|_| model == "asp").map(|(_, cost)| cost),
            objective: 0.7093,
            objective_off: (model != "centralize").then_some(0.0004),
            copies_equal: true,
            blocked_s: BlockedSeconds {
                barrier: if model == "asp" { 14.0 } else { 0.0 },
                mirror_clock: if model.starts_with("asp") { 33.0 } else { 0.0 },
                bandwidth: if model == "bsp" { 2_900.0 } else { 0.0 },
                local: 41.0,
                partial_partition: 0.0,
            },
            curve: if model == "centralize" { Vec::new() } else { curve(time) },
        };
        if model == "asp-async" {
            never(&mut row);
        }
        row
    };
    models.map(row).to_vec()
}

fn curve(time: f64) -> Vec<(f64, f64)> {
    let point = |at: u32| {
        let share = f64::from(at) / 60.0;
        (time * share, 0.7 + 0.9 * (-4.6 * share).exp())
    };
    (0..=60).map(point).collect()
}

fn scales() -> Vec<ScaleRow> {
    let row = |(app, wan, _, lan, _): (&str, &str, f64, f64, f64)| ScaleRow {
        app: app.into(),
        wan: wan.into(),
        elsewhere: false,
        bandwidth_scale: 0.0213,
        bsp_over_lan: if (app, wan) == ("tm", "vc") { lan * 1.21 } else { lan * 1.004 },
        published: (wan != "ss" || app != "ic").then_some(lan),
        data_bytes: 1.3e9,
    };
    let mut rows = PRINTED.map(row).to_vec();
    rows.push(ScaleRow {
        app: "mf".into(),
        wan: "skyplane-2022".into(),
        elsewhere: true,
        bandwidth_scale: 0.0077,
        bsp_over_lan: 1.9,
        published: None,
        data_bytes: 1.3e9,
    });
    rows
}

fn ablation() -> Vec<AblationRow> {
    let row = |change: &str, what: &str, times_lan, wan_bytes| AblationRow {
        app: "mf".into(),
        wan: "ec2-all".into(),
        change: change.into(),
        what: what.into(),
        times_lan,
        clocks: times_lan.map(|times: f64| (400.0 * times) as u64),
        wan_bytes,
        usd: wan_bytes as f64 * 1e-10 + 1.9,
        objective: 0.7093,
    };
    vec![
        row("ours", "", Some(1.04), 2_310_000_000),
        row("policy = \"paper\"", "one residual for all links", Some(1.09), 4_100_000_000),
        row("floor = 0", "what counts as small", None, 38_000_000_000),
        row("as published", "", Some(1.31), 9_200_000_000),
    ]
}

fn hubs() -> Vec<HubRow> {
    let mut rows = Vec::new();
    for overlay in ["mesh", "groups"] {
        for (at, name) in ELEVEN.iter().enumerate() {
            let is_hub = overlay == "groups" && at % 4 == 0;
            let relayed_bytes = if is_hub { 170_000_000 } else { 0 };
            let sent_bytes = 210_000_000 / if overlay == "groups" { 3 } else { 1 } + relayed_bytes;
            if (overlay, at) != ("groups", 10) {
                rows.push(HubRow {
                    app: "mf".into(),
                    overlay: overlay.into(),
                    data_center: (*name).into(),
                    is_hub,
                    sent_bytes,
                    relayed_bytes,
                    usd: sent_bytes as f64 * if at == 10 { 1.6e-10 } else { 2e-11 },
                });
            }
        }
    }
    rows
}

fn insignificant() -> Vec<InsignificantRow> {
    let row = |app: &str, at_one_percent: f64| InsignificantRow {
        app: app.into(),
        wan: "ec2-all".into(),
        points: vec![
            (0.0001, at_one_percent - 0.5, None),
            (0.001, at_one_percent - 0.2, None),
            (0.01, at_one_percent, Some(0.952)),
            (0.1, 0.999, Some(0.998)),
        ],
    };
    vec![row("mf", 0.95), row("tm", 0.961), row("ic", 0.948)]
}

fn brakes() -> Vec<CurveRow> {
    let row = |app: &str, model: &str, points: Vec<(f64, f64)>| CurveRow {
        app: app.into(),
        wan: "ec2-all".into(),
        model: model.into(),
        points,
        target: 0.71,
    };
    let diverges = curve(400.0)
        .into_iter()
        .map(|(at, objective)| (at, objective + (at / 260.0).powi(4) * 0.3));
    vec![
        row("mf", "asp-paper", curve(390.0)),
        row("mf", "asp-async", diverges.collect()),
        row("mf", "asp", curve(340.0)),
        row("mf", "asp-no-brakes", curve(340.0)),
        row("tm", "asp-paper", curve(620.0)),
        row("tm", "asp-async", curve(1_050.0)),
        row("tm", "asp", curve(500.0)),
        row("tm", "asp-no-brakes", curve(560.0)),
    ]
}

fn rates() -> Vec<RateRow> {
    let row = |model: &str, learning_rate, clocks: [Option<u64>; 3]| {
        let run = |(seed, clocks): (u64, Option<u64>)| RateRun {
            seed,
            clocks,
            time_s: clocks.map(|clocks| clocks as f64),
            sent_bytes: clocks.map(|clocks| 1e4 * clocks as f64),
            accuracy: Some(0.9),
        };
        let (app, model, target) = ("perceptron".into(), model.into(), Some(0.3));
        let runs = (42..).zip(clocks).map(run).collect();
        RateRow { app, model, learning_rate, target, runs }
    };
    vec![
        row("bsp", 0.1, [130, 120, 140].map(Some)),
        row("bsp", 0.2, [Some(90), Some(110), Some(100)]),
        row("sparse-rounds-1", 0.1, [120; 3].map(Some)),
        row("sparse-rounds-1", 0.2, [None, None, Some(80)]),
    ]
}

fn skew() -> Vec<SkewRow> {
    let row = |app: &str, skew, model: &str, guard, accuracy| SkewRow {
        app: app.into(),
        skew,
        model: model.into(),
        guard,
        accuracy_worst: accuracy - 0.01,
        accuracy,
        clocks: 1_200,
        time_s: 611.0,
        wan_bytes: 3_100_000_000,
    };
    vec![
        row("cnn", 0.0, "bsp", false, 0.981),
        row("cnn", 0.0, "asp", false, 0.98),
        row("cnn", 1.0, "bsp", false, 0.962),
        row("cnn", 1.0, "asp", false, 0.714),
        row("cnn", 1.0, "asp", true, 0.957),
        row("cnn-group-norm", 1.0, "bsp", false, 0.951),
        row("cnn-group-norm", 1.0, "asp", false, 0.948),
    ]
}

fn speed(run: &str, virtual_seconds: f64, wall_seconds: f64, frames: u64) -> SpeedRow {
    SpeedRow { run: run.into(), virtual_seconds, wall_seconds, frames }
}
