//! `[sync.local]` and `[sync.remote]`: `model` chooses, the rest are that model's own settings.

use std::ops::RangeInclusive;

use serde::Deserialize;

use crate::document::{Fault, Node, Problem, Value, one_of};
use crate::range::{self, Checks};
use gaia_core::sync::{
    AspConfig, Brake, BspConfig, Combine, ExchangeKind, GuardConfig, LocalStepsConfig, LocalSync,
    Outer, OverlayKind, Policy, RemoteSync, ValueFormat,
};
use gaia_core::topology::Topology;
use gaia_core::types::Staleness;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LocalSspKeys {
    staleness: Staleness,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AutoKeys {}

/// Reads `[sync.local]`; BSP where there is none.
pub(crate) fn local(root: &Node) -> Result<LocalSync, Problem> {
    const PATH: &str = "sync.local";
    if root.at(PATH).is_none() {
        return Ok(LocalSync::BSP);
    }
    let (model, keys) = choice(root, PATH, "model", &["bsp", "ssp"])?;
    let checks = Checks { root };
    let read = match model.as_str() {
        "bsp" => keys.read().map(LocalSync::Bsp),
        _ => keys.read().map(|LocalSspKeys { staleness }| LocalSync::Ssp { staleness }),
    };
    let local = read.map_err(|problem| problem.in_table(root, PATH))?;
    match local {
        LocalSync::Bsp(bsp) => {
            checks.number("sync.local.quorum", bsp.quorum, range::SHARE)?;
            checks.time("sync.local.grace", bsp.grace, range::DEADLINE_MAX)?;
        }
        LocalSync::Ssp { staleness: allowed } => {
            staleness(&checks, "sync.local.staleness", allowed, 0)?;
        }
    }
    Ok(local)
}

/// Who has chosen the remote model of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Decision {
    /// The run file names it.
    #[default]
    Given,
    /// The run file leaves it to the run (`model = "auto"`), which has not chosen. No driver runs such a plan.
    Open,
    /// The run has chosen it, for this reason.
    Made(String),
}

/// Reads `[sync.remote]`. A model that is left to the run is ASP with its defaults until it has chosen.
pub(crate) fn remote(root: &Node) -> Result<(RemoteSync, Decision), Problem> {
    const PATH: &str = "sync.remote";

    let names: Vec<&str> = RemoteSync::NAMES.into_iter().chain([AUTO]).collect();
    let (model, keys) = choice(root, PATH, "model", &names)?;
    if model == AUTO {
        let read = keys.read().map(|AutoKeys {}| RemoteSync::Asp(AspConfig::default()));
        return Ok((read.map_err(|problem| problem.in_table(root, PATH))?, Decision::Open));
    }
    let read = match model.as_str() {
        "bsp" => keys.read().map(RemoteSync::Bsp),
        "ssp" => keys.read().map(RemoteSync::Ssp),
        "tap" => keys.read().map(RemoteSync::Tap),
        "asp" => keys.read().map(RemoteSync::Asp),
        _ => keys.read().map(RemoteSync::LocalSteps),
    };
    let remote = read.map_err(|problem| problem.in_table(root, PATH))?;

    let checks = Checks { root };
    match &remote {
        RemoteSync::Bsp(bsp) => exchanged(&checks, bsp.values)?,
        RemoteSync::Tap(tap) => exchanged(&checks, tap.values)?,
        RemoteSync::Ssp(ssp) => {
            staleness(&checks, "sync.remote.staleness", ssp.staleness, 0)?;
            exchanged(&checks, ssp.values)?;
        }
        RemoteSync::Asp(config) => asp(&checks, config)?,
        RemoteSync::LocalSteps(config) => local_steps(&checks, config)?,
    }

    Ok((remote, Decision::Given))
}

/// Checks that a ring that the run file lists has each data center once.
pub(crate) fn ring(
    checks: &Checks<'_>,
    remote: &RemoteSync,
    topology: &Topology,
) -> Result<(), Problem> {
    const PATH: &str = "sync.remote.ring";
    let RemoteSync::Bsp(BspConfig { exchange, ring: Some(ring), .. }) = remote else {
        return Ok(());
    };
    if *exchange != ExchangeKind::Ring {
        let expected = format!("no ring, as `exchange` is `{}`", exchange.name());
        return Err(checks.found(PATH, ring.join(", "), expected));
    }

    let names: Vec<&str> = topology.data_centers.iter().map(|dc| dc.name.as_str()).collect();
    for (place, name) in ring.iter().enumerate() {
        if !names.contains(&name.as_str()) {
            return Err(checks.found(PATH, name.clone(), one_of(&names)));
        }
        if ring[..place].contains(name) {
            let expected = format!("each data center once, not {name} again");
            return Err(checks.found(PATH, ring.join(", "), expected));
        }
    }
    match names.iter().find(|name| !ring.iter().any(|listed| listed == *name)) {
        Some(absent) => {
            let expected = format!("all data centers of the topology, with {absent}");
            Err(checks.found(PATH, ring.join(", "), expected))
        }
        None => Ok(()),
    }
}

/// The name of the model that is left to the run.
const AUTO: &str = "auto";

fn asp(checks: &Checks<'_>, asp: &AspConfig) -> Result<(), Problem> {
    checks.number("sync.remote.threshold", asp.threshold, range::THRESHOLD)?;

    if !(0.0..=asp.threshold).contains(&asp.soft_threshold) {
        let expected = format!("0 to `threshold`, which is {}", asp.threshold);
        let path = "sync.remote.soft_threshold";
        return Err(checks.wrong(path, asp.soft_threshold, expected));
    }

    if asp.policy == Policy::Paper && asp.overlay != OverlayKind::Mesh {
        let expected = "`mesh`: with policy = \"paper\" nothing is forwarded".to_owned();
        let found = if asp.overlay == OverlayKind::Tree { "tree" } else { "groups" };
        return Err(checks.found("sync.remote.overlay", found.into(), expected));
    }

    checks.number("sync.remote.link_share", asp.link_share, range::SHARE)?;

    if let Some(config) = &asp.guard {
        guard(checks, config)?;
        if asp.mirror_clock == Brake::Off {
            let expected = "`on` or `auto`: a guard tightens it".to_owned();
            return Err(checks.wrong("sync.remote.mirror_clock", "off", expected));
        }
    }

    if let Some(allowed) = asp.data_center_staleness {
        staleness(checks, "sync.remote.data_center_staleness", allowed, 1)?;
    }

    let deadlines = [
        ("sync.remote.barrier_deadline", asp.barrier_deadline),
        ("sync.remote.mirror_clock_deadline", asp.mirror_clock_deadline),
    ];
    for (path, deadline) in deadlines {
        checks.time(path, deadline, range::DEADLINE_MAX)?;
        if deadline.0.is_zero() {
            return Err(checks.wrong(path, deadline, "a time above 0"));
        }
    }

    Ok(())
}

fn local_steps(checks: &Checks<'_>, config: &LocalStepsConfig) -> Result<(), Problem> {
    let steps = config.steps;
    let number = |path, value: u64, allowed: RangeInclusive<u64>, of: &str| {
        if allowed.contains(&value) {
            return Ok(());
        }
        let expected = format!("a whole number{of} from {} to {}", allowed.start(), allowed.end());
        Err(checks.wrong(path, value, expected))
    };

    number("sync.remote.steps", steps, 1..=range::STEPS_MAX, " of clocks")?;

    let below_steps = format!(", with {steps} clocks between rounds,");
    number("sync.remote.fragments", config.fragments, 1..=steps, &below_steps)?;
    number("sync.remote.overlap", config.most_overlap(), 0..=steps - 1, &below_steps)?;
    checks.number("sync.remote.density", config.density, range::SHARE)?;
    checks.number("sync.remote.total_density", config.total_density, range::SHARE)?;
    checks.number("sync.remote.quorum", config.quorum, range::SHARE)?;
    checks.time("sync.remote.grace", config.grace, range::DEADLINE_MAX)?;

    let rate = config.outer_learning_rate;
    checks.number("sync.remote.outer_learning_rate", rate, range::OUTER_RATE)?;
    checks.number("sync.remote.outer_momentum", config.outer_momentum, range::MOMENTUM)?;
    let drift = config.drift_correction;
    checks.number("sync.remote.drift_correction", drift, range::DRIFT_CORRECTION)?;
    if drift > 0.0 && config.combine == Combine::Sum {
        let expected = "0 with `combine = \"sum\"`, since it is for means";
        return Err(checks.wrong("sync.remote.drift_correction", drift, expected));
    }

    let Some(watched) = &config.guard else { return Ok(()) };

    if config.has_quorum() {
        let expected = "1 under a guard, whose requests all data centers must know";
        return Err(checks.wrong("sync.remote.quorum", config.quorum, expected));
    }
    if config.fragments != 1 {
        let expected = "1 under a guard, which changes the time between rounds";
        return Err(checks.wrong("sync.remote.fragments", config.fragments, expected));
    }

    guard(checks, watched)
}

fn guard(checks: &Checks<'_>, config: &GuardConfig) -> Result<(), Problem> {
    checks.clocks("sync.remote.guard.every", config.every, 1)?;
    checks.number("sync.remote.guard.bound", config.bound, range::GUARD_BOUND)?;
    checks.count("sync.remote.guard.examples", config.examples, range::GUARD_EXAMPLES_MAX)
}

/// Makes local steps add up the changes of `app`, whose deltas are counts.
///
/// Keys that the file leaves out get the values that add up. A key with another value is an error.
pub(crate) fn add_up(root: &Node, app: &str, remote: &mut RemoteSync) -> Result<(), Problem> {
    let RemoteSync::LocalSteps(config) = remote else { return Ok(()) };
    let (rate, drift) = (config.outer_learning_rate, config.drift_correction);
    let keys = [
        ("sync.remote.combine", "mean".to_owned(), config.combine == Combine::Sum, "`sum`"),
        ("sync.remote.outer", "nesterov".to_owned(), config.outer == Outer::Plain, "`plain`"),
        ("sync.remote.outer_learning_rate", rate.to_string(), rate == 1.0, "1"),
        ("sync.remote.drift_correction", drift.to_string(), drift == 0.0, "0"),
    ];
    for (path, found, agrees, value) in keys {
        if !agrees && root.at(path).is_some() {
            let expected = format!("{value}: the deltas of {app} are counts, which must add up");
            return Err(Checks { root }.found(path, found, expected));
        }
    }
    config.combine = Combine::Sum;
    config.outer = Outer::Plain;
    config.outer_learning_rate = 1.0;
    Ok(())
}

/// The name that chooses what the other keys of a table are, and the table without it.
pub(crate) fn choice(
    root: &Node,
    path: &str,
    key: &str,
    names: &[&str],
) -> Result<(String, Node), Problem> {
    let node = root.at(path).unwrap_or(root);
    let full = format!("{path}.{key}");

    let Some(table) = node.as_table() else {
        let found = node.value.kind().to_owned();
        let expected = format!("a table with `{key}` and its settings");
        return Err(root.problem(path, Fault::Wrong { found, expected, help: None }));
    };

    let expected = || one_of(names);
    let Some(entry) = table.get(key) else {
        return Err(root.problem(&full, Fault::MissingKey { expected: expected() }));
    };

    let Some(word) = entry.node.as_str() else {
        let found = entry.node.value.kind().to_owned();
        return Err(root.problem(&full, Fault::Wrong { found, expected: expected(), help: None }));
    };

    if !names.contains(&word) {
        let fault = *Problem::unknown_name(word, names).fault;
        return Err(root.problem(&full, fault));
    }

    let mut rest = table.clone();
    rest.remove(key);

    Ok((word.to_owned(), Node { span: node.span, value: Value::Table(rest) }))
}

/// Checks that each value is rounded by itself: the models that exchange totals have no blocks with shared scales.
fn exchanged(checks: &Checks<'_>, values: ValueFormat) -> Result<(), Problem> {
    match values {
        ValueFormat::F32 | ValueFormat::Bf16 => Ok(()),
        ValueFormat::Int8 | ValueFormat::Int4 | ValueFormat::Int2 => {
            let expected = one_of(&[ValueFormat::F32.name(), ValueFormat::Bf16.name()]);
            Err(checks.wrong("sync.remote.values", values.name(), expected))
        }
    }
}

fn staleness(
    checks: &Checks<'_>,
    path: &str,
    staleness: Staleness,
    min: u64,
) -> Result<(), Problem> {
    if (min..=range::STALENESS_MAX).contains(&staleness.0) {
        return Ok(());
    }
    let expected = format!("a whole number of clocks from {min} to {}", range::STALENESS_MAX);
    Err(checks.wrong(path, staleness.0, expected))
}
