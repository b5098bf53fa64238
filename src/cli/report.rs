//! `gaia report`: pictures and pages from run directories.

use super::training::show_result;
use super::{Failure, ReportFlags, Terminal};
use gaia_report::{
    Comparison, Paint, RunDirectory, RunRecord, comparison_block, paper, read_comparison,
    write_comparison, write_run_pages,
};

/// Writes the report of finished runs again, or of several runs side by side.
pub(super) fn report(flags: &ReportFlags, terminal: &Terminal) -> Result<(), Failure> {
    let mut directories = Vec::new();
    for path in &flags.directories {
        directories.push(RunDirectory::open(path)?);
    }
    match directories.as_slice() {
        [only] if only.is_paper() => renew_paper(only, terminal),
        [only] if only.is_comparison() => renew_comparison(only, terminal),
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

fn set_side_by_side(
    directories: &[RunDirectory],
    flags: &ReportFlags,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let mut runs = Vec::new();
    for directory in directories {
        let members = if directory.is_comparison() { directory.children()? } else { Vec::new() };
        let members = if members.is_empty() { std::slice::from_ref(directory) } else { &members };
        for member in members {
            let run = member.read()?;
            runs.push((run.summary, run.progress));
        }
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
    let block = comparison_block(comparison, Some(&directory.page()), Paint::for_stdout());
    terminal.line(block.trim_end());
    terminal.result(&comparison.file());
    Ok(())
}
