//! `gaia report`: pictures and pages from run directories.

use super::seeds::show_seeds;
use super::training::{show_comparison, show_result};
use super::{Failure, ReportFlags, Terminal};
use gaia_report::{
    Comparison, Paint, RunDirectory, RunRecord, SeededComparison, figures, paper, read_comparison,
    read_runs, read_seeds, write_comparison, write_run_pages, write_seeds,
};

/// Writes the report of finished runs again, or of several runs side by side.
pub(super) fn report(flags: &ReportFlags, terminal: &Terminal) -> Result<(), Failure> {
    let mut directories = Vec::new();
    for path in &flags.directories {
        directories.push(RunDirectory::open(path)?);
    }
    match directories.as_slice() {
        [only] if only.is_paper() => renew_paper(only, terminal),
        [only] if !only.seeds()?.is_empty() && flags.output.out.is_none() => {
            renew_seeds(only, terminal)
        }
        [only] if only.is_comparison() && only.seeds()?.is_empty() => {
            renew_comparison(only, terminal)
        }
        [only] if flags.output.out.is_none() => renew_run(only, terminal),
        several => set_side_by_side(several, flags, terminal),
    }
}

fn renew_run(directory: &RunDirectory, terminal: &Terminal) -> Result<(), Failure> {
    let RunRecord { run_toml, progress, summary, highlights } = directory.read()?;
    write_run_pages(directory, &run_toml, &progress, &summary, &highlights)?;
    show_result(&summary, &highlights, directory, terminal);
    Ok(())
}

fn renew_comparison(directory: &RunDirectory, terminal: &Terminal) -> Result<(), Failure> {
    let comparison = read_comparison(directory)?;
    finish(directory, &directory.read_run_toml()?, &comparison, terminal)
}

fn renew_paper(directory: &RunDirectory, terminal: &Terminal) -> Result<(), Failure> {
    let file = directory.read_paper()?;
    paper::write_pages(directory, &file)?;
    let block = paper::paper_block(&file, Some(&directory.page()), Paint::for_stdout());
    terminal.line(block.trim_end());
    terminal.result(&file);
    Ok(())
}

fn renew_seeds(directory: &RunDirectory, terminal: &Terminal) -> Result<(), Failure> {
    let seeds = read_seeds(directory)?;
    if seeds.runs() == 0 {
        let path = directory.path().display();
        return Err(Failure::usage(format!(
            "{path}: all runs were interrupted, expected one that has ended: `gaia report {path}/seed-N` reports that of one seed, \
             and the same command with --resume auto --out {path} goes on"
        )));
    }
    finish_seeds(directory, &directory.read_run_toml()?, &seeds, terminal)
}

/// Sets side by side what directories of the same seeds hold, seed by seed.
fn set_seeds_side_by_side(
    directories: &[(&RunDirectory, Vec<(u64, RunDirectory)>)],
    flags: &ReportFlags,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let seeds_of = |seeds: &[(u64, RunDirectory)]| -> Vec<u64> {
        seeds.iter().map(|(seed, _)| *seed).collect()
    };
    let (first, seeds) = &directories[0];
    let seeds = seeds_of(seeds);
    let mut comparisons: Vec<(u64, Vec<_>)> =
        seeds.iter().map(|seed| (*seed, Vec::new())).collect();
    for (directory, own) in directories {
        if seeds_of(own) != seeds {
            let own = match own.is_empty() {
                true => "a run or a comparison of one seed".into(),
                false => figures::seeds(&seeds_of(own)),
            };
            return Err(Failure::usage(format!(
                "{}: {own}, expected the same seeds as in {}, {}",
                directory.path().display(),
                first.path().display(),
                figures::seeds(&seeds)
            )));
        }
        for ((_, directory), (_, runs)) in own.iter().zip(&mut comparisons) {
            runs.extend(read_runs(&directory.members()?)?);
        }
    }

    let comparisons = comparisons.into_iter().map(|(seed, runs)| (seed, Comparison::new(runs)));
    let found = SeededComparison::new(comparisons.collect());
    let run_toml = first.read_run_toml()?;
    let directory = RunDirectory::create(flags.output.out.as_deref(), "report")?;
    finish_seeds(&directory, &run_toml, &found, terminal)
}

fn finish_seeds(
    directory: &RunDirectory,
    run_toml: &str,
    seeds: &SeededComparison,
    terminal: &Terminal,
) -> Result<(), Failure> {
    write_seeds(directory, run_toml, seeds)?;
    show_seeds(seeds, directory, terminal);
    Ok(())
}

fn set_side_by_side(
    directories: &[RunDirectory],
    flags: &ReportFlags,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let with_seeds: Vec<_> = directories
        .iter()
        .map(|directory| Ok((directory, directory.seeds()?)))
        .collect::<Result<_, Failure>>()?;
    if with_seeds.iter().any(|(_, seeds)| !seeds.is_empty()) {
        return set_seeds_side_by_side(&with_seeds, flags, terminal);
    }

    let mut runs = Vec::new();
    for directory in directories {
        let members = if directory.is_comparison() { directory.children()? } else { Vec::new() };
        let members = if members.is_empty() { std::slice::from_ref(directory) } else { &members };
        runs.extend(read_runs(members)?);
    }
    let run_toml = directories[0].read_run_toml()?;
    let directory = RunDirectory::create(flags.output.out.as_deref(), "report")?;
    finish(&directory, &run_toml, &Comparison::new(runs), terminal)
}

fn finish(
    directory: &RunDirectory,
    run_toml: &str,
    comparison: &Comparison,
    terminal: &Terminal,
) -> Result<(), Failure> {
    write_comparison(directory, run_toml, comparison)?;
    show_comparison(comparison, directory, terminal);
    Ok(())
}

pub(super) const REPORT_HELP: &str = "\
Examples:
  gaia report runs/quickstart-20250101-120000
  gaia report runs/bsp runs/asp --out runs/both";
