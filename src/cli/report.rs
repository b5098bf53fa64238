//! `gaia report`: pictures and pages from run directories.

use super::seeds::show_seeds;
use super::training::{show_comparison, show_result};
use super::{Failure, ReportFlags, Terminal};
use gaia_report::{
    Comparison, Paint, RunDirectory, RunRecord, SeededComparison, figures, paper, read_comparison,
    read_runs, read_runs_of_seed, read_seeds, write_comparison, write_run_pages, write_seeds,
};

/// Writes the report of finished runs again, or of several runs side by side.
pub(super) fn report(flags: &ReportFlags, terminal: &Terminal) -> Result<(), Failure> {
    let mut directories = Vec::new();
    for path in &flags.directories {
        directories.push(RunDirectory::open(path)?);
    }
    match (directories.as_slice(), &flags.output.out) {
        ([only], None) if only.is_paper() => renew_paper(only, terminal),
        ([only], Some(_)) if only.is_paper() => Err(Failure::usage(format!(
            "--out: {} holds an evaluation of gaia paper, whose report is written there, expected no --out",
            only.path().display()
        ))),
        ([only], None) if !only.seeds()?.is_empty() => renew_seeds(only, terminal),
        ([only], None) if only.is_comparison() => renew_comparison(only, terminal),
        ([only], None) => renew_run(only, terminal),
        (several, _) => set_side_by_side(several, flags, terminal),
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
        for ((seed, directory), (_, runs)) in own.iter().zip(&mut comparisons) {
            runs.extend(read_runs_of_seed(directory, *seed)?);
        }
    }

    let comparisons = comparisons.into_iter().map(|(seed, runs)| (seed, Comparison::new(runs)));
    let found = SeededComparison::new(comparisons.collect());
    let run_toml = first.read_run_toml()?;
    let directory = RunDirectory::create(flags.output.out.as_deref(), "report");
    let directory = directory.map_err(Failure::out)?;
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
    let directory = RunDirectory::create(flags.output.out.as_deref(), "report");
    let directory = directory.map_err(Failure::out)?;
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

pub(super) fn out_help(out: clap::Arg) -> clap::Arg {
    out.help("Where to write one report of several directories [default: runs/report-TIME]")
}

pub(super) const REPORT_HELP: &str = "\
Examples:
  gaia report runs/quickstart-20250101-120000
  gaia report runs/bsp runs/asp --out runs/both

The report of one directory is written again in that directory: report.html of a run, compare.html of a comparison or of \
several seeds, paper.html of gaia paper. With several directories, or with --out, the runs in them are set side by side in \
--out, which has to be new or empty, and the directories stay as they are.";

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use crate::applications::BuiltIn;
    use crate::cli::try_run;

    const RUN: &str = "\
name = \"r\"
driver = \"simulated\"
compute.flops_per_second = 1e9
stop.clocks = 4
sync.remote.model = \"bsp\"
[app]
kind = \"matrix-factorization\"
rank = 2
data.synthetic = { users = 20, items = 10, ratings = 200, rank = 2, noise = 0.3 }
[topology]
name = \"t\"
wan = { bandwidth = \"10 Mbit/s\", rtt = \"10 ms\" }
data_center = [{ name = \"a\" }, { name = \"b\" }]
";

    fn gaia(folder: &Path, arguments: &[&str]) -> Result<u8, String> {
        let arguments = arguments
            .iter()
            .map(|argument| argument.replace("./", &format!("{}/", folder.display())));
        let quiet = ["gaia".to_owned()].into_iter().chain(arguments).chain(["--quiet".to_owned()]);
        try_run(quiet.map(Into::into), &BuiltIn).map_err(|error| error.text)
    }

    #[test]
    fn the_report_of_one_directory_goes_where_out_says() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("run.toml"), RUN).unwrap();
        let compare = ["compare", "./run.toml", "--remote", "bsp,asp", "--out", "./both"];
        assert_eq!(gaia(folder.path(), &compare), Ok(0));
        fs::remove_file(at("both/compare.html")).unwrap();

        assert_eq!(gaia(folder.path(), &["report", "./both", "--out", "./other"]), Ok(0));
        assert!(at("other/compare.html").is_file() && !at("both/compare.html").exists());
        assert_eq!(gaia(folder.path(), &["report", "./both"]), Ok(0));
        assert!(at("both/compare.html").is_file());

        // That of the paper's evaluation needs the files beside it.
        fs::create_dir(at("paper")).unwrap();
        fs::write(at("paper/paper.json"), "{}").unwrap();
        let refused = gaia(folder.path(), &["report", "./paper", "--out", "./third"]).unwrap_err();
        assert!(refused.contains("expected no --out") && !at("third").exists(), "{refused}");
    }
}
