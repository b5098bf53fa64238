//! Small runs with checkpoints.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gaia_checkpoint::{Checkpoints, Disk, Keeper, Resumed};
use gaia_config::{Override, Plan, RunFile};
use gaia_core::application::Application;
use gaia_driver::{Ending, Outcome, RunError};
use gaia_telemetry::{Observer, Progress};

const TOPOLOGY: &str = r#"
[topology]
name = "four"
bandwidth_scale = 0.02

[topology.defaults]
servers = 2
workers = 2
lan_bandwidth = "1 Gbit/s"
lan_rtt = "0.2 ms"

[[topology.data_center]]
name = "north"
[[topology.data_center]]
name = "east"
[[topology.data_center]]
name = "south"
[[topology.data_center]]
name = "west"
workers = 1

[topology.wan]
bandwidth = "20 Mbit/s"
rtt = "80 ms"
loss = 0.01

[[topology.group]]
hub = "north"
members = ["north", "east"]
[[topology.group]]
hub = "south"
members = ["south", "west"]
"#;

/// One small run: a plan and its data.
pub struct Training {
    pub plan: Plan,
    application: Arc<dyn Application>,
}

impl Training {
    /// What these lines of a run file, without a topology, make with some settings.
    pub fn new(app: &str, settings: &[&str]) -> Self {
        let text = format!(
            "name = \"test\"\nseed = 7\n{app}\n[sync.remote]\nmodel = \"asp\"\n[compute]\nexamples_per_second = 400.0\n\
             jitter = 0.2\n[evaluate]\nevery = 3\n[stop]\nclocks = 9\n{TOPOLOGY}"
        );
        let overrides: Vec<Override> =
            settings.iter().map(|setting| Override::parse(setting).unwrap()).collect();
        let plan = RunFile::from_text("test.toml", &text, &overrides)
            .and_then(|run_file| run_file.plan())
            .unwrap_or_else(|error| panic!("{}", error.render(false)));
        let homes = plan.topology.data_homes();
        let application = gaia_data::build(plan.app.as_ref(), &homes, plan.seed).unwrap();
        Self { plan, application }
    }

    /// The run's checkpoints under a directory.
    pub fn checkpoints(&self, path: &Path) -> Checkpoints {
        let disk = Box::new(Unsynced);
        Checkpoints::on(disk, path, self.plan.fingerprint(), self.plan.seed, 1000)
    }

    /// Runs without checkpoints.
    pub fn run(&self) -> Recorded {
        let mut recorded = Recorded::default();
        let outcome = gaia_driver::run(&self.plan, &self.application, &mut recorded).unwrap();
        recorded.ended(outcome)
    }

    /// Runs to the end with a checkpoint at every clock.
    pub fn run_with_checkpoints(&self, path: &Path) -> Recorded {
        let keeper = Keeper::new(self.checkpoints(path), Some(1), Arc::default());
        self.go_on(keeper).unwrap()
    }

    /// Goes on from a checkpoint to the end.
    pub fn resume(&self, path: &Path, from: Resumed) -> Result<Recorded, RunError> {
        let keeper = Keeper::new(self.checkpoints(path), None, Arc::default());
        self.go_on(keeper.resuming(Some(from)))
    }

    /// Runs, on from a checkpoint if there is one, until the next clock is over.
    pub fn one_clock(&self, path: &Path, from: Option<Resumed>) -> Ending {
        let told = Arc::new(AtomicBool::new(true));
        let mut keeper = Keeper::new(self.checkpoints(path), None, told).resuming(from);
        gaia_driver::run_kept(&self.plan, &self.application, &mut Recorded::default(), &mut keeper)
            .unwrap()
    }

    fn go_on(&self, mut keeper: Keeper) -> Result<Recorded, RunError> {
        let mut recorded = Recorded::default();
        match gaia_driver::run_kept(&self.plan, &self.application, &mut recorded, &mut keeper)? {
            Ending::Finished(outcome) => Ok(recorded.ended(*outcome)),
            Ending::Interrupted { .. } => panic!("nobody interrupts"),
        }
    }
}

/// The disk of this machine, as fast as a test wants it: nothing waits for it.
struct Unsynced;

impl Disk for Unsynced {
    fn create_directory(&mut self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn write(&mut self, path: &Path, parts: &[Cow<'_, [u8]>]) -> io::Result<()> {
        fs::write(path, parts.concat())
    }

    fn sync_directory(&mut self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_directory(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }
}

/// All that a run has told, but for the time that it took on this machine.
#[derive(Default, PartialEq)]
pub struct Recorded {
    pub lines: Vec<String>,
    pub end: BTreeMap<&'static str, String>,
}

impl Recorded {
    fn ended(mut self, mut outcome: Outcome) -> Self {
        outcome.summary.wall_s = 0.0;
        let progress: Vec<String> =
            outcome.progress.iter().map(|line| serde_json::to_string(line).unwrap()).collect();
        assert_eq!(self.lines, progress, "the observer hears of every evaluation once");
        self.end.insert("summary", serde_json::to_string_pretty(&outcome.summary).unwrap());
        self.end.insert("highlights", outcome.highlights.join("\n"));
        self
    }
}

impl Observer for Recorded {
    fn on_progress(&mut self, progress: &Progress) {
        self.lines.push(serde_json::to_string(progress).unwrap());
    }
}
