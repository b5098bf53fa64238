//! A run file and its overrides, checked into a [`Plan`].

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::overrides::Override;
use super::plan::{
    CheckpointConfig, CostConfig, DrainConfig, DriverKind, EvaluateConfig, LogConfig, Plan,
};
use crate::document::{
    ConfigError, Entry, Fault, Home, Node, Place, Problem, SourceKind, Sources, Span, Value,
    nearest, one_of, shipped, tidy,
};
use crate::range::{self, Checks};
use crate::sections::{self, ComputeKeys, FailuresConfig, members};
use crate::topology;
use gaia_core::coordinator::StopRules;
use gaia_core::server::DrainMethod;
use gaia_core::sync::{OverlayKind, RemoteSync};
use gaia_core::topology::Topology;
use gaia_core::types::Seed;
use gaia_ml::apps::AppConfig;

/// A run file that has been read and overridden, but not yet checked.
///
/// It is kept apart from the [`Plan`] because comparing means checking it several times, each with another
/// remote model or WAN in place of its own.
#[derive(Clone, Debug)]
pub struct RunFile {
    sources: Sources,
    root: Node,
}

/// The keys of a run file, as written. The tables that others understand are only counted here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunKeys {
    name: String,
    #[serde(default = "default_seed")]
    seed: u64,
    #[serde(default = "default_driver")]
    driver: String,
    #[expect(dead_code, reason = "read by its kind")]
    app: IgnoredAny,
    #[expect(dead_code, reason = "read by the topology")]
    topology: IgnoredAny,
    #[expect(dead_code, reason = "read by its models")]
    sync: SyncKeys,
    #[serde(default)]
    compute: ComputeKeys,
    #[serde(default)]
    evaluate: EvaluateConfig,
    #[serde(default)]
    drain: DrainConfig,
    stop: StopRules,
    #[serde(default)]
    cost: CostConfig,
    #[serde(default)]
    checkpoint: CheckpointConfig,
    #[serde(default)]
    log: LogConfig,
    #[serde(default)]
    failures: FailuresConfig,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read by their models")]
pub(crate) struct SyncKeys {
    #[serde(default)]
    local: Option<IgnoredAny>,
    remote: IgnoredAny,
}

impl Plan {
    /// Reads and checks a run file.
    ///
    /// # Errors
    /// The first mistake found in the file, in a file it names or in an override.
    pub fn load(path: &Path, overrides: &[Override]) -> Result<Self, ConfigError> {
        RunFile::read(path, overrides)?.plan()
    }
}

impl RunFile {
    /// Reads a run file and lays the overrides over it, the last of each key winning.
    pub fn read(path: &Path, overrides: &[Override]) -> Result<Self, ConfigError> {
        let mut sources = Sources::default();
        let name = path.to_string_lossy();
        let source =
            sources.read(&Home::Directory(PathBuf::new()), &name, SourceKind::RunFile).map_err(
                |fault| ConfigError::new(Place::Flag(name.to_string()), String::new(), fault),
            )?;
        Self::from_source(sources, source, overrides)
    }

    /// Reads a run file from memory; `name` is what messages call it, and where its relative paths start.
    pub fn from_text(name: &str, text: &str, overrides: &[Override]) -> Result<Self, ConfigError> {
        let mut sources = Sources::default();
        let home = Path::new(name).parent().unwrap_or_else(|| Path::new("")).to_owned();
        let source = sources.add(
            name.to_owned(),
            text.to_owned(),
            Home::Directory(home),
            SourceKind::RunFile,
        );
        Self::from_source(sources, source, overrides)
    }

    fn from_source(
        mut sources: Sources,
        source: usize,
        overrides: &[Override],
    ) -> Result<Self, ConfigError> {
        let laid = lay_out(&mut sources, source, overrides);
        let root = laid.map_err(|problem| sources.error(problem))?;
        Ok(Self { sources, root })
    }

    /// Checks everything.
    pub fn plan(&self) -> Result<Plan, ConfigError> {
        let mut sources = self.sources.clone();
        check(&mut sources, &self.root).map_err(|problem| sources.error(problem))
    }

    /// The same run with another topology: a shipped one's name or a file, relative to the working directory.
    /// Of the run file's own topology only an inline `bandwidth_scale` stays.
    ///
    /// # Errors
    /// Where `wan` names no topology.
    pub fn with_wan(&self, wan: &str) -> Result<Self, ConfigError> {
        let mut changed = self.clone();
        let flag = Override::flag("--wan", "topology.file", wan);
        let source = changed.add_flag(&flag);
        let span = Span { source, start: 0, end: 0 };
        let mut topology = Node::table(span);
        let own = changed.root.as_table_mut().and_then(|root| root.get_mut("topology"));
        let own = own.and_then(|entry| entry.node.as_table_mut());
        let scale = own.and_then(|table| table.remove("bandwidth_scale"));
        // A scale that came with the file that is left behind stays there.
        let scale = scale
            .filter(|scale| changed.sources.kind(scale.key.source) != SourceKind::TopologyFile);
        if let (Some(table), Some(scale)) = (topology.as_table_mut(), scale) {
            table.insert("bandwidth_scale".into(), scale);
        }
        if let Some(root) = changed.root.as_table_mut() {
            root.insert("topology".into(), Entry { key: span, node: topology });
        }
        let applied = flag
            .apply(source, &mut changed.root)
            .and_then(|()| mount_topology(&mut changed.sources, &mut changed.root));
        applied.map_err(|problem| changed.sources.error(problem))?;
        Ok(changed)
    }

    /// The same run with another remote model. The run file's settings for a model hold where it is the same
    /// one; another model has its own defaults, and SSP a staleness of 1.
    ///
    /// # Errors
    /// Where there is no such model.
    pub fn with_remote(&self, model: &str) -> Result<Self, ConfigError> {
        let mut changed = self.clone();
        let own = changed.root.at("sync.remote.model").and_then(Node::as_str);
        if own == Some(model) {
            return Ok(changed);
        }
        let mut flags = vec![Override::flag("--remote", "sync.remote.model", model)];
        if model == "ssp" {
            let mut staleness = Override::flag("--remote", "sync.remote.staleness", "1");
            staleness.flag = "--remote ssp".into();
            flags.push(staleness);
        }
        for flag in flags {
            let source = changed.add_flag(&flag);
            let applied = flag.apply(source, &mut changed.root);
            applied.map_err(|problem| changed.sources.error(problem))?;
        }
        Ok(changed)
    }

    /// Whether a key holds this path, resolved.
    pub fn names(&self, key: &str, path: &Path) -> bool {
        self.root.at(key).and_then(Node::as_str).is_some_and(|named| Path::new(named) == path)
    }

    /// The error that a file which the run file names cannot be read, shown at the key that names it.
    pub fn unreadable(&self, key: &str, path: &Path, reason: &std::io::Error) -> ConfigError {
        let path = path.display().to_string();
        let fault = Fault::Unreadable { path, reason: reason.to_string() };
        self.sources.error(self.root.problem(key, fault))
    }

    fn add_flag(&mut self, flag: &Override) -> usize {
        add_flag(&mut self.sources, flag)
    }
}

/// Reads and checks a topology: a shipped one's name, or a file.
pub fn load_topology(name: &str) -> Result<Topology, ConfigError> {
    let mut sources = Sources::default();
    let flag = Override::flag("topology", "topology.file", name);
    let source = add_flag(&mut sources, &flag);
    let mut root = Node::table(Span { source, start: 0, end: 0 });
    let read = flag
        .apply(source, &mut root)
        .and_then(|()| mount_topology(&mut sources, &mut root))
        .and_then(|()| topology::read(&mut sources, &root));
    read.map_err(|problem| sources.error(problem))
}

/// Reads and checks the text of a topology file; `name` is what messages call it, and where its relative
/// paths start.
pub fn topology_from_text(name: &str, text: &str) -> Result<Topology, ConfigError> {
    let mut sources = Sources::default();
    let home = Path::new(name).parent().unwrap_or_else(|| Path::new("")).to_owned();
    let kind = SourceKind::TopologyFile;
    let source = sources.add(name.to_owned(), text.to_owned(), Home::Directory(home), kind);
    let read = sources.parse(source).and_then(|node| {
        let key = Span { source, start: 0, end: 0 };
        let mut root = Node::table(key);
        if let Some(table) = root.as_table_mut() {
            table.insert("topology".into(), Entry { key, node });
        }
        topology::read(&mut sources, &root)
    });
    read.map_err(|problem| sources.error(problem))
}

/// The run file with its topology file below it and its overrides above it.
fn lay_out(sources: &mut Sources, source: usize, overrides: &[Override]) -> Result<Node, Problem> {
    let mut root = sources.parse(source)?;
    let (choices, others): (Vec<_>, Vec<_>) =
        overrides.iter().partition(|setting| setting.is_choice());
    for setting in choices {
        let source = add_flag(sources, setting);
        setting.apply(source, &mut root)?;
    }
    mount_topology(sources, &mut root)?;
    for setting in others {
        let source = add_flag(sources, setting);
        setting.apply(source, &mut root)?;
    }
    resolve_data_paths(sources, &mut root);
    Ok(root)
}

fn add_flag(sources: &mut Sources, flag: &Override) -> usize {
    let home = Home::Directory(PathBuf::new());
    sources.add(flag.flag.clone(), String::new(), home, SourceKind::Flag)
}

/// Replaces `topology.file` by what the file says, under what stands inline.
fn mount_topology(sources: &mut Sources, root: &mut Node) -> Result<(), Problem> {
    let Some(file) = root.at("topology.file") else { return Ok(()) };
    let file = file.clone();
    let Some(path) = file.as_str() else {
        let found = file.value.kind().to_owned();
        let expected = "a path, or the name of a shipped topology".to_owned();
        return Err(root.problem("topology.file", Fault::Wrong { found, expected, help: None }));
    };
    let (home, path) = match shipped::topology(path) {
        Some(shipped) => (Home::Shipped(String::new()), shipped),
        None => (sources.home(file.span.source).clone(), path),
    };
    let source = sources.read(&home, path, SourceKind::TopologyFile).map_err(|fault| {
        let names: Vec<&str> = shipped::topologies().collect();
        let looks_like_name = !path.contains(['/', '.']);
        let fault = if looks_like_name {
            let help = nearest(path, &names);
            let help = help.map(|name| format!("did you mean `{name}`?"));
            let shipped = one_of(&names);
            let expected = format!("a topology file, or a shipped topology: {shipped}");
            Fault::Wrong { found: path.to_owned(), expected, help }
        } else {
            fault
        };
        root.problem("topology.file", fault)
    })?;
    let mut mounted = sources.parse(source).map_err(|problem| problem.in_key("topology"))?;
    if let Some(entry) = mounted.as_table().and_then(|table| table.get("file")) {
        let expected = vec!["name".into(), "data_center".into(), "wan".into(), "link".into()];
        let problem = Problem::at(entry.key, Fault::UnknownKey { expected });
        return Err(problem.in_key("file"));
    }
    let Some(topology) = root.as_table_mut().and_then(|root| root.get_mut("topology")) else {
        return Ok(());
    };
    let span = topology.node.span;
    let mut inline = std::mem::replace(&mut topology.node, Node::table(span));
    if let Some(table) = inline.as_table_mut() {
        table.remove("file");
    }
    mounted.lay(inline);
    topology.node = mounted;
    Ok(())
}

/// Makes paths of data files absolute: those in the run file start at its folder, those on the command line at
/// the working directory.
fn resolve_data_paths(sources: &Sources, root: &mut Node) {
    let Some(data) = root
        .as_table_mut()
        .and_then(|root| root.get_mut("app"))
        .and_then(|app| app.node.as_table_mut())
        .and_then(|app| app.get_mut("data"))
        .and_then(|data| data.node.as_table_mut())
    else {
        return;
    };
    for (key, entry) in data.iter_mut() {
        if key != "path" && !key.ends_with("_path") {
            continue;
        }
        let Home::Directory(home) = sources.home(entry.node.span.source) else { continue };
        if let Value::String(path) = &mut entry.node.value
            && let Ok(absolute) = std::path::absolute(home.join(path.as_str()))
        {
            *path = tidy(&absolute).to_string_lossy().into_owned();
        }
    }
}

fn check(sources: &mut Sources, root: &Node) -> Result<Plan, Problem> {
    let keys: RunKeys = root.read()?;
    let checks = Checks { root };
    checks.name("name", &keys.name)?;
    if i64::try_from(keys.seed).is_err() {
        return Err(checks.wrong("seed", keys.seed, "a whole number of at most 63 bits"));
    }
    let driver = driver(&checks, &keys.driver)?;
    let app = app(root)?;
    let topology = topology::read(sources, root)?;
    let deployment = topology::deployment(root, &topology)?;
    let local = sections::local(root)?;
    let mut remote = sections::remote(root)?;
    if app.deltas_are_counts() {
        sections::add_up(root, app.kind(), &mut remote)?;
    }
    let compute = keys.compute.check(&checks, driver, &topology)?;
    checks.clocks("evaluate.every", keys.evaluate.every, 1)?;
    stop(&checks, &keys.stop)?;
    if let RemoteSync::Asp(asp) = &remote
        && asp.overlay != OverlayKind::Mesh
        && keys.drain.method == DrainMethod::Residuals
    {
        let expected =
            "`mean`: with an overlay of hubs no data center knows what each other one lacks";
        return Err(checks.found("drain.method", "residuals".into(), expected.into()));
    }
    checks.number("cost.usd_per_machine_hour", keys.cost.usd_per_machine_hour, range::PRICE)?;
    checkpoint(&checks, driver, keys.checkpoint)?;
    let failures = keys.failures.resolve(&checks, &app)?;
    let plan = Plan {
        name: keys.name,
        seed: Seed(keys.seed),
        driver,
        app,
        topology,
        local,
        remote,
        compute,
        evaluate: keys.evaluate,
        drain: keys.drain,
        stop: keys.stop,
        cost: keys.cost,
        checkpoint: keys.checkpoint,
        log: keys.log,
        failures,
        deployment,
    };
    members(&plan, &checks)?;
    Ok(plan)
}

fn driver(checks: &Checks<'_>, name: &str) -> Result<DriverKind, Problem> {
    match name {
        "simulated" => Ok(DriverKind::Simulated),
        "emulated" => Ok(DriverKind::Emulated),
        "real" => Ok(DriverKind::Real),
        _ => {
            let mut problem = Problem::unknown_name(name, &DriverKind::NAMES);
            problem.span = checks.root.at("driver").map(|node| node.span);
            Err(problem.in_key("driver"))
        }
    }
}

/// The one place where applications and run files meet: `kind` chooses, the application reads the rest.
fn app(root: &Node) -> Result<AppConfig, Problem> {
    let (kind, keys) = sections::choice(root, "app", "kind", AppConfig::KINDS)?;
    let app = AppConfig::deserialize(&kind, &keys)
        .map_err(|problem: Problem| problem.in_table(root, "app"))?;
    app.validate().map_err(|wrong| {
        let help = None;
        let fault = Fault::Wrong { found: wrong.value, expected: wrong.expected, help };
        root.problem(&format!("app.{}", wrong.key), fault)
    })?;
    Ok(app)
}

fn stop(checks: &Checks<'_>, stop: &StopRules) -> Result<(), Problem> {
    if let Some(objective) = stop.objective {
        checks.number("stop.objective", objective, range::OBJECTIVE)?;
    }
    if let Some(clocks) = stop.clocks {
        checks.clocks("stop.clocks", clocks, 1)?;
    }
    if let Some(seconds) = stop.seconds {
        checks.number("stop.seconds", seconds, range::SECONDS)?;
    }
    if let Some(change) = stop.change {
        checks.number("stop.change.percent", change.percent, range::PERCENT)?;
        checks.clocks("stop.change.clocks", change.clocks, 1)?;
    }
    if *stop == StopRules::default() {
        let expected = "at least one of `objective`, `clocks`, `seconds` or `change`".to_owned();
        return Err(checks.found("stop", "empty".into(), expected));
    }
    Ok(())
}

fn checkpoint(
    checks: &Checks<'_>,
    driver: DriverKind,
    checkpoint: CheckpointConfig,
) -> Result<(), Problem> {
    if let Some(every) = checkpoint.every {
        checks.clocks("checkpoint.every", every, 1)?;
        if driver == DriverKind::Emulated {
            let expected = format!(
                "no such key: the {} driver keeps no checkpoints, `simulated` and `real` do",
                driver.name()
            );
            return Err(checks.wrong("checkpoint.every", every, expected));
        }
    }
    checks.count("checkpoint.keep", checkpoint.keep, range::CHECKPOINTS_MAX)
}

fn default_seed() -> u64 {
    42
}

fn default_driver() -> String {
    DriverKind::Simulated.name().to_owned()
}
