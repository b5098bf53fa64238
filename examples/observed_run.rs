//! A run that code sets up, follows and reports: its settings are changed one by one, its progress goes to a line on the
//! terminal, and its files into the directory that is named, or a new one below `runs/`.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::{Path, PathBuf};

use gaia::{Observer, Override, Progress, RunDirectory, RunFile, write_run};

const RUN: &str = r#"
    name = "observed"
    topology.file = "three-regions"
    compute.examples_per_second = 2000.0
    stop.clocks = 60

    [app]
    kind = "logistic-regression"
    data.synthetic = { examples = 2000, features = 100, active = 10 }

    [sync.remote]
    model = "asp"
"#;

/// Prints each evaluation, and keeps the best objective.
struct Watch {
    best: f64,
}

impl Observer for Watch {
    fn on_progress(&mut self, progress: &Progress) {
        self.best = self.best.min(progress.objective);
        let slowest = progress.data_centers.iter().min_by_key(|dc| dc.clock);
        println!(
            "{:6.2} s  clock {:3}  objective {:.4}  {} is last",
            progress.time_s,
            progress.clock,
            progress.objective,
            slowest.map_or("nobody", |dc| &dc.name)
        );
    }
}

pub fn main() -> Result<(), Box<dyn Error>> {
    let out = std::env::args_os().nth(1).map(PathBuf::from);
    train(out.as_deref())?;
    Ok(())
}

/// Trains, and returns the directory that holds the report.
pub fn train(out: Option<&Path>) -> Result<RunDirectory, Box<dyn Error>> {
    // What `--set` does on the command line.
    let slow_tokyo = Override::parse("compute.slowdown.tokyo=3.0")?;
    let mut plan = RunFile::from_text("observed.toml", RUN, &[slow_tokyo])?.plan()?;
    plan.evaluate.every = 10;

    let application = gaia::build(&plan)?;
    let mut watch = Watch { best: f64::INFINITY };
    let outcome = gaia::run(&plan, &application, &mut watch)?;

    let directory = RunDirectory::create(out, &plan.name)?;
    write_run(&directory, &plan, &outcome)?;
    println!("best objective {:.4}, report in {}", watch.best, directory.page().display());
    Ok(directory)
}
