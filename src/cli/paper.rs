//! `gaia paper`: the paper's evaluation, run again.

use super::directory_lock::DirectoryLock;
use super::{Failure, PaperFlags, Resume, Terminal};
use gaia_paper::{Changes, Request, Section, Step, Suite, Watch, evaluate};
use gaia_report::paper::{paper_block, write};
use gaia_report::{Paint, RunDirectory};

/// Runs what the flags ask for and writes what came out.
pub(super) fn paper(flags: &PaperFlags, terminal: &Terminal) -> Result<(), Failure> {
    let suite = Suite::of_the_paper(flags.quick).map_err(Failure::evaluation)?;
    let request = Request {
        sections: flags.only.iter().filter_map(|name| Section::named(name)).collect(),
        apps: flags.apps.clone(),
        wans: flags.wans.clone(),
        models: flags.models.clone(),
        changes: Changes {
            quick: flags.quick,
            seed: flags.seed,
            data: flags.data.clone(),
            settings: flags.settings.clone(),
        },
    };

    request.check(&suite).map_err(Failure::evaluation)?;
    request.check_files(&suite).map_err(Failure::evaluation)?;
    let directory = match (&flags.ended.resume, flags.output.out.as_deref()) {
        (Resume::Auto, Some(out)) => RunDirectory::reopen_evaluation(out),
        (_, out) => RunDirectory::create(out, "paper"),
    };
    let directory = directory.map_err(Failure::out)?;
    let _lock = DirectoryLock::acquire(&directory)?;
    directory.remove_results()?;
    let ended = directory.ended_runs()?;
    let run_files = directory.run_files()?;
    let found =
        evaluate(&suite, &request, Some(&ended), &Teller(terminal)).map_err(Failure::evaluation)?;

    for (name, text) in &found.run_files {
        run_files.write(&format!("{name}.toml"), text)?;
    }
    write(&directory, &found.file)?;
    let block = paper_block(&found.file, Some(&directory.page()), Paint::for_stdout());
    terminal.line(block.trim_end());
    terminal.result(&found.file);

    Ok(())
}

/// Says on the terminal what has been done.
struct Teller<'t>(&'t Terminal);

impl Watch for Teller<'_> {
    fn on_run(&self, step: &Step<'_>) {
        let Step { run, summary, done, expected, elapsed } = *step;
        let left = step.left().as_secs();
        self.0.note(&format!(
            "{done:>4} of {expected}  {run:<32} {:>9} after {:>5} clocks, {:>9.1} s  ({:.1} s; {} s so far, {left} s to go)",
            summary.stopped_by,
            summary.clocks,
            summary.time_s,
            summary.wall_s,
            elapsed.as_secs(),
        ));
    }
}

pub(super) const PAPER_HELP: &str = "\
Examples:
  gaia paper --quick
  gaia paper --only cells --apps mf --wans ss --models asp --set sync.remote.threshold=0.05
  gaia paper --only cells,ablation --out runs/paper --seed 7
  gaia paper --only cells,ablation --out runs/paper --seed 7 --resume auto

The directory contains paper.json, its pages paper.html, paper-elsewhere.html and paper.md, and a run file for each \
run. gaia train on a run file repeats that run. The pages describe each section and what is fitted before it.

--resume auto --out DIR goes on with an evaluation that was interrupted or killed: runs that have ended in DIR with the same \
settings, data and version of the program are taken, the others are run. It also adds sections, applications, WANs and models \
to an evaluation in DIR; the pages show those that the command names.";
