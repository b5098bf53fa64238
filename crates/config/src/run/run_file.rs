//! A run file and its overrides, checked into a [`Plan`].

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::layers::{add_flag, lay_out, mount_topology};
use super::members::members;
use super::overrides::Override;
use super::plan::Plan;
use crate::document::{
    ConfigError, Entry, ErrorLocation, Fault, Home, Node, Problem, SourceKind, Sources, Span,
};
use crate::range::{self, Checks};
use crate::sections::{
    self, CheckpointConfig, ComputeKeys, CostConfig, DrainConfig, DriverKind, EvaluateConfig,
    FailuresConfig, LogConfig, ModelConfig,
};
use crate::topology;
use gaia_core::coordinator::StopRules;
use gaia_core::server::DrainMethod;
use gaia_core::sync::{ExchangeKind, OutlierConfig, OverlayKind, RemoteSync};
use gaia_core::types::Seed;
use gaia_ml::apps::AppConfig;

/// A run file that has been read and overridden, but not yet checked.
///
/// A comparison checks it several times, each time with another remote model or WAN, and gets one [`Plan`] of each.
#[derive(Clone, Debug)]
pub struct RunFile {
    sources: Sources,
    root: Node,
}

/// The keys of a run file, as written. Tables that other rooms read are only known by name here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunKeys {
    name: String,
    #[serde(default = "default_seed")]
    seed: u64,
    #[serde(default = "default_driver")]
    driver: String,
    #[expect(dead_code, reason = "read by its kind")]
    #[serde(default)]
    app: Option<IgnoredAny>,
    #[expect(dead_code, reason = "read by the topology")]
    topology: IgnoredAny,
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
    model: ModelConfig,
    #[serde(default)]
    checkpoint: CheckpointConfig,
    #[serde(default)]
    log: LogConfig,
    #[serde(default)]
    failures: FailuresConfig,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SyncKeys {
    #[expect(dead_code, reason = "read by its model")]
    #[serde(default)]
    local: Option<IgnoredAny>,
    #[expect(dead_code, reason = "read by its model")]
    remote: IgnoredAny,
    #[serde(default)]
    outliers: Option<OutlierConfig>,
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
    /// Reads a run file and applies the overrides, of which the last for each key holds.
    ///
    /// # Errors
    /// Where a file cannot be read or is not TOML, or an override does not fit.
    pub fn read(path: &Path, overrides: &[Override]) -> Result<Self, ConfigError> {
        let mut sources = Sources::default();
        let name = path.to_string_lossy();
        let source = sources
            .read(&Home::Directory(PathBuf::new()), &name, SourceKind::RunFile)
            .map_err(|fault| {
                ConfigError::new(ErrorLocation::Flag(name.to_string()), String::new(), fault)
            })?;
        Self::from_source(sources, source, overrides)
    }

    /// Reads a run file from memory. Messages call it `name`, and its relative paths start at that path's folder.
    ///
    /// # Errors
    /// As [`RunFile::read`].
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

    /// Checks every setting and resolves the defaults.
    ///
    /// # Errors
    /// The first mistake found.
    pub fn plan(&self) -> Result<Plan, ConfigError> {
        let mut sources = self.sources.clone();
        check(&mut sources, &self.root).map_err(|problem| sources.error(problem))
    }

    /// Checks that the file names the application to run, for callers that have none to hand in.
    ///
    /// # Errors
    /// Where there is no `[app]`: the first other mistake in the file, or else that the key is missing.
    pub fn require_app(&self) -> Result<(), ConfigError> {
        if self.root.at(APP).is_some() {
            return Ok(());
        }

        // A misspelt `[app]` is shown as what it is.
        self.plan()?;

        let expected = format!("`{APP}` here, since it has no default");
        Err(self.sources.error(self.root.problem(APP, Fault::MissingKey { expected })))
    }

    /// The same run with another topology, by the name of a shipped one or a path from the working directory.
    ///
    /// Of the run file's own topology only an inline `bandwidth_scale` is kept.
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

        // A scale that the old topology file sets is not kept.
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

    /// The same run with one setting changed.
    ///
    /// # Errors
    /// Where the setting has no place in the file. Its value is checked by [`RunFile::plan`].
    pub fn with_setting(&self, setting: &Override) -> Result<Self, ConfigError> {
        let mut changed = self.clone();
        let source = changed.add_flag(setting);
        let applied = setting.apply(source, &mut changed.root);
        applied.map_err(|problem| changed.sources.error(problem))?;
        Ok(changed)
    }

    /// The same run with another remote model, one of [`RemoteSync::VARIANTS`].
    ///
    /// The run file's settings for its own model are kept. Any other model gets its defaults, and SSP a staleness of 1.
    /// BSP is one model, whatever the way of its exchange.
    ///
    /// # Errors
    /// Where there is no such model.
    pub fn with_remote(&self, model: &str) -> Result<Self, ConfigError> {
        let mut changed = self.clone();
        let (model, exchange) = match model {
            "bsp-ring" => ("bsp", ExchangeKind::Ring),
            "bsp-tree" => ("bsp", ExchangeKind::Tree),
            model => (model, ExchangeKind::Homes),
        };
        let text_at = |key| self.root.at(key).and_then(Node::as_str);
        let own_exchange = text_at("sync.remote.exchange").unwrap_or("homes");
        if text_at("sync.remote.model") == Some(model) && own_exchange == exchange.name() {
            return Ok(changed);
        }

        let mut flags = vec![Override::flag("--remote", "sync.remote.model", model)];
        if model == "ssp" {
            let mut staleness = Override::flag("--remote", "sync.remote.staleness", "1");
            staleness.flag = "--remote ssp".into();
            flags.push(staleness);
        }
        if model == "bsp" && own_exchange != exchange.name() {
            let remote = changed.root.at_mut(&["sync", "remote"]).and_then(Node::as_table_mut);
            remote.map(|table| table.remove("ring"));
            flags.push(Override::flag("--remote", "sync.remote.exchange", exchange.name()));
        }
        for flag in flags {
            let source = changed.add_flag(&flag);
            let applied = flag.apply(source, &mut changed.root);
            applied.map_err(|problem| changed.sources.error(problem))?;
        }
        Ok(changed)
    }

    /// The same run with this `[sync.remote]` in place of its own: keys and values as TOML, `model` among them.
    ///
    /// # Errors
    /// Where a setting is no TOML value that can stand there. Values are checked by [`RunFile::plan`].
    pub fn with_remote_settings(&self, settings: &[(&str, &str)]) -> Result<Self, ConfigError> {
        let mut changed = self.clone();
        let sync = changed.root.at_mut(&["sync"]).and_then(Node::as_table_mut);
        if let Some(sync) = sync {
            sync.remove("remote");
        }
        for (key, value) in settings {
            let flag = Override::flag("a candidate's", &format!("sync.remote.{key}"), value);
            let source = changed.add_flag(&flag);
            let applied = flag.apply(source, &mut changed.root);
            applied.map_err(|problem| changed.sources.error(problem))?;
        }
        Ok(changed)
    }

    /// The same run with the `[sync.remote]` of this text, which is TOML, in place of its own.
    ///
    /// # Errors
    /// Where the text is no TOML, or has no such table. Values are checked by [`RunFile::plan`].
    pub(crate) fn with_remote_table(&self, text: &str) -> Result<Self, ConfigError> {
        const PATH: &str = "sync.remote";
        let mut changed = self.clone();
        let home = Home::Directory(PathBuf::new());
        let source = changed.sources.add(PATH.into(), text.to_owned(), home, SourceKind::RunFile);
        let read = changed.sources.parse(source).and_then(|read| {
            let remote = read.at(PATH).cloned();
            remote
                .ok_or_else(|| read.problem(PATH, Fault::MissingKey { expected: "a table".into() }))
        });
        let remote = read.map_err(|problem| changed.sources.error(problem))?;
        if let Some(own) = changed.root.at_mut(&["sync", "remote"]) {
            *own = remote;
        }
        Ok(changed)
    }

    /// The text that is the value of a key, if it has one.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.root.at(key).and_then(Node::as_str)
    }

    /// Whether the value of a key is this path, made absolute.
    pub fn names(&self, key: &str, path: &Path) -> bool {
        self.text(key).is_some_and(|named| Path::new(named) == path)
    }

    /// The keys of a table, if it is there.
    pub fn tables(&self, key: &str) -> Vec<&str> {
        let table = self.root.at(key).and_then(Node::as_table);
        table.into_iter().flat_map(|table| table.keys().map(String::as_str)).collect()
    }

    /// The error that a file named by the run file cannot be read. It shows the key that names the file.
    pub fn unreadable(&self, key: &str, path: &Path, reason: &std::io::Error) -> ConfigError {
        let path = path.display().to_string();
        let fault = Fault::Unreadable { path, reason: reason.to_string() };
        self.sources.error(self.root.problem(key, fault))
    }

    /// The error that the value of a key is not what the caller takes. It shows where the value was written.
    pub fn wrong(&self, key: &str, found: &str, expected: &str) -> ConfigError {
        let (found, expected) = (found.to_owned(), expected.to_owned());
        let fault = Fault::Wrong { found, expected, help: None };
        self.sources.error(self.root.problem(key, fault))
    }

    fn add_flag(&mut self, flag: &Override) -> usize {
        add_flag(&mut self.sources, flag)
    }
}

/// Checks one table after the other, then what holds between them.
fn check(sources: &mut Sources, root: &Node) -> Result<Plan, Problem> {
    let keys: RunKeys = root.read()?;
    let checks = Checks { root };
    checks.name("name", &keys.name)?;

    if i64::try_from(keys.seed).is_err() {
        return Err(checks.wrong("seed", keys.seed, "a whole number of at most 63 bits"));
    }

    let driver = sections::driver(&checks, &keys.driver)?;
    sections::stop(&checks, &keys.stop)?;
    let app = app(root, keys.stop)?;
    let topology = topology::read(sources, root)?;
    let deployment = topology::deployment(root, &topology)?;
    let local = sections::local(root)?;
    let (mut remote, decision) = sections::remote(root)?;

    if let Some(app) = app.as_ref().filter(|app| app.deltas_are_counts()) {
        sections::add_up(root, app.kind(), &mut remote)?;
    }

    if let Some(outliers) = keys.sync.outliers {
        sections::outliers(&checks, outliers, app.as_ref())?;
    }

    let compute = keys.compute.check(&checks, driver, &topology)?;
    keys.evaluate.check(&checks, driver)?;

    sections::ring(&checks, &remote, &topology)?;
    drain(&checks, keys.drain, &remote)?;
    checks.number("cost.usd_per_machine_hour", keys.cost.usd_per_machine_hour, range::PRICE)?;
    keys.model.check(&checks, app.as_ref())?;
    keys.checkpoint.check(&checks, driver)?;
    keys.log.check(&checks)?;

    let failures = keys.failures.resolve(&checks, app.as_ref())?;
    let plan = Plan {
        name: keys.name,
        seed: Seed(keys.seed),
        driver,
        app,
        topology,
        local,
        remote,
        decision,
        outliers: keys.sync.outliers,
        compute,
        evaluate: keys.evaluate,
        drain: keys.drain,
        stop: keys.stop,
        cost: keys.cost,
        model: keys.model,
        checkpoint: keys.checkpoint,
        log: keys.log,
        failures,
        deployment,
    };

    members(&plan, &checks)?;
    Ok(plan)
}

/// Checks that copies can become equal in this way.
fn drain(checks: &Checks<'_>, drain: DrainConfig, remote: &RemoteSync) -> Result<(), Problem> {
    if let RemoteSync::Asp(asp) = remote
        && asp.overlay != OverlayKind::Mesh
        && drain.method == DrainMethod::Residuals
    {
        let expected =
            "`mean`: with an overlay of hubs no data center knows what each other one lacks";
        return Err(checks.found("drain.method", "residuals".into(), expected.into()));
    }
    Ok(())
}

/// Reads `[app]`: `kind` chooses the application, which reads the other keys. What is left out of its settings of steps follows
/// from the stop rules. `None` where the file leaves it to code.
fn app(root: &Node, stop: StopRules) -> Result<Option<AppConfig>, Problem> {
    if root.at(APP).is_none() {
        return Ok(None);
    }

    let (kind, mut keys) = sections::choice(root, APP, "kind", AppConfig::KINDS)?;
    sections::add_source(&kind, &mut keys);
    let mut app = AppConfig::deserialize(&kind, &keys)
        .map_err(|problem: Problem| problem.in_table(root, APP))?;
    app.resolve_steps(stop.clocks, stop.change.is_some());
    app.validate().map_err(|wrong| {
        let help = None;
        let fault = Fault::Wrong { found: wrong.value, expected: wrong.expected, help };
        root.problem(&format!("{APP}.{}", wrong.key), fault)
    })?;

    Ok(Some(app))
}

fn default_seed() -> u64 {
    42
}

fn default_driver() -> String {
    DriverKind::Simulated.name().to_owned()
}

const APP: &str = "app";
