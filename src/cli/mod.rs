//! The command line: what the program does when it is called by name. A program with applications of its own calls [`run`]
//! with them, and has every verb.
//!
//! This room turns arguments into calls of the other rooms and their answers into lines of text and an exit code.
//! Each verb is one function in a file of its own. Nothing here knows how a run is carried out.

mod advice;
mod breakdown;
mod certs;
mod check;
mod check_data;
mod compare;
mod deciding;
mod deploy;
mod directory_lock;
mod ended;
mod evaluate;
mod failure;
mod init;
mod initial;
mod live;
mod log;
mod memory;
mod node;
mod node_data;
mod out;
mod paper;
mod plan;
mod predict;
mod reading;
mod report;
mod seeds;
mod setting_of_flag;
mod signals;
mod simulations;
mod slowdown;
mod terminal;
mod train;
mod trained;
mod training;
mod trivial;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

use self::setting_of_flag::with_tip;
use crate::applications::Applications;
use gaia_config::{DriverKind, Override, RunFile};
use gaia_paper::Section;

pub(crate) use failure::Failure;
pub(crate) use live::LiveFlags;
pub(crate) use log::LogFormat;
pub use log::{Log, LogRecord};
pub(crate) use node::{NodeFlags, PlaceFlags};
pub(crate) use terminal::Terminal;
pub use tracing::Level;

/// Train one model over data that stays in many data centers.
#[derive(Debug, Parser)]
#[command(name = "gaia", version, arg_required_else_help = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Train the model that a run file describes, and write a report
    #[command(after_help = train::TRAIN_HELP)]
    Train(TrainFlags),
    /// Run the same training with several remote models over several WANs, and compare the results
    #[command(after_help = compare::COMPARE_HELP)]
    Compare(CompareFlags),
    /// Predict which remote model suits a run, what it will cost and how it scales, by short simulations
    #[command(after_help = plan::PLAN_HELP, mut_arg("out", plan::out_help), mut_arg("driver", |driver| driver.hide(true)))]
    Plan(PlanFlags),
    /// Repeat the evaluation of the Gaia paper, and compare the results with the published ones
    #[command(after_help = paper::PAPER_HELP)]
    Paper(PaperFlags),
    /// Check a run file and all files that it names, and show what would run
    #[command(after_help = check::CHECK_HELP)]
    Check(CheckFlags),
    /// Write the model that a script declares, for nodes that do not run the script
    #[command(after_help = init::INIT_HELP, mut_arg("out", init::file_help), mut_arg("driver", |driver| driver.hide(true)))]
    Init(InitFlags),
    /// Run one node of a run over many processes: a server, a worker or the coordinator
    #[command(after_help = node::NODE_HELP)]
    Node(NodeFlags),
    /// Make, renew, revoke and list the certificates that the nodes of a run use
    #[command(subcommand, after_help = certs::CERTS_HELP)]
    Certs(certs::CertsVerb),
    /// Write the scripts or manifests with which a scheduler starts the nodes of a run
    #[command(subcommand, after_help = deploy::DEPLOY_HELP)]
    Deploy(deploy::DeployVerb),
    /// Evaluate a trained model on the data of its run, or on other data
    #[command(after_help = evaluate::EVALUATE_HELP)]
    Evaluate(EvaluateFlags),
    /// Write what a trained model predicts of the examples in a file
    #[command(after_help = predict::PREDICT_HELP)]
    Predict(PredictFlags),
    /// Simulate the runs that standard input has, for another process of this program
    #[command(hide = true)]
    Simulations(VerbosityFlags),
    /// Write the report of a finished run again, or one report of several runs
    #[command(after_help = report::REPORT_HELP, mut_arg("out", report::out_help))]
    Report(ReportFlags),
}

/// What every verb that reads a run file takes.
#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    /// The run file
    #[arg(value_name = "RUN.toml")]
    pub(crate) file: PathBuf,
    /// Override one setting; a value that is not valid TOML is a string
    #[arg(long = "set", value_name = "KEY.PATH=VALUE")]
    pub(crate) settings: Vec<String>,
    /// The seed of all random numbers; the same seed repeats a simulated run to the byte
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(crate) seed: Option<u64>,
    /// The driver that runs the protocol
    #[arg(long, value_parser = PossibleValuesParser::new(DriverKind::NAMES))]
    pub(crate) driver: Option<String>,
    /// Start from this safetensors file: the tables or tensors of an earlier run's model.safetensors, or a state dict
    #[arg(long, value_name = "FILE")]
    pub(crate) init: Option<String>,
    /// Train this Python script; the gaia of the Python package runs it in each worker
    #[arg(long, value_name = "SCRIPT.py")]
    pub(crate) script: Option<String>,
    /// The arguments of the script of --script or the run file, behind all flags
    #[arg(last = true, value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<String>,
    /// Start even where the run may need more memory than is free
    #[arg(long)]
    pub(crate) ignore_memory: bool,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
pub(crate) struct TrainFlags {
    #[command(flatten)]
    pub(crate) run: RunFlags,
    /// Continue the run or the runs in --out (auto), or a simulated run from the checkpoint in this directory
    #[arg(
        long,
        value_name = "auto|never|DIR",
        default_value = "never",
        requires_if("auto", "out"),
        value_parser = OsStringValueParser::new().map(Resume::from)
    )]
    pub(crate) resume: Resume,
    /// Train with so many seeds, from the run's own on, and report medians and ranges
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000), conflicts_with = "live")]
    pub(crate) seeds: u64,
    #[command(flatten)]
    pub(crate) live: LiveFlags,
}

/// What commands of several runs do with runs that have ended.
#[derive(Debug, Args)]
pub(crate) struct EndedFlags {
    /// Take the runs that have ended in --out instead of running them again (auto)
    #[arg(
        long,
        value_name = "auto|never",
        default_value = "never",
        requires_if("auto", "out"),
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["auto", "never"])
            .map(|text| Resume::from(OsString::from(text)))
    )]
    pub(crate) resume: Resume,
}

/// Whether a run continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    /// From the states or the newest whole checkpoint in the run's directory; from the start where there is none.
    Auto,
    Never,
    /// From this checkpoint.
    From(PathBuf),
}

#[derive(Debug, Args)]
pub(crate) struct CheckFlags {
    #[command(flatten)]
    pub(crate) run: RunFlags,
    /// Also try every link that this node needs, and report the fault of each: the host name, the route, the port,
    /// a certificate or the version. The nodes at the other ends must be running
    #[arg(long)]
    pub(crate) connect: bool,
    /// Also say what each data center would read: files, their size, examples and a digest; with --dc only that one,
    /// which then needs no files of others
    #[arg(long)]
    pub(crate) data: bool,
    #[command(flatten)]
    pub(crate) place: PlaceFlags,
}

#[derive(Debug, Args)]
pub(crate) struct InitFlags {
    #[command(flatten)]
    pub(crate) run: RunFlags,
}

#[derive(Debug, Args)]
pub(crate) struct CompareFlags {
    #[command(flatten)]
    pub(crate) run: RunFlags,
    /// The remote models to compare
    #[arg(
        long,
        value_name = "MODEL,…",
        value_delimiter = ',',
        default_value = "bsp,ssp,asp",
        value_parser = PossibleValuesParser::new(gaia_core::sync::RemoteSync::VARIANTS)
    )]
    pub(crate) remote: Vec<String>,
    /// The WANs to compare over: names of shipped topologies, topology files, or `lan` for the same machines in
    /// one data center [default: the WAN of the run file]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) wan: Vec<String>,
    /// Fit the bandwidth scale so that a clock of BSP over the WAN takes so many times what it takes on the LAN
    #[arg(long, value_name = "TIMES", value_parser = slowdown::times)]
    pub(crate) slowdown: Option<f64>,
    /// Repeat the comparison with so many seeds, from the run's own on, and report medians and ranges
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000), conflicts_with = "live")]
    pub(crate) seeds: u64,
    #[command(flatten)]
    pub(crate) ended: EndedFlags,
    #[command(flatten)]
    pub(crate) live: LiveFlags,
}

#[derive(Debug, Args)]
pub(crate) struct PlanFlags {
    #[command(flatten)]
    pub(crate) run: RunFlags,
    /// The objective at which candidates are compared [default: stop.objective, or what the best candidate holds]
    #[arg(long, value_name = "OBJECTIVE", allow_negative_numbers = true)]
    pub(crate) target: Option<f64>,
    /// The clocks for which each candidate is simulated at most
    #[arg(long, value_name = "CLOCKS", default_value_t = 200, value_parser = clap::value_parser!(u64).range(10..=1_000_000))]
    pub(crate) budget: u64,
    /// Show how a data center scales with workers and servers, and simulate nothing
    #[arg(long, conflicts_with_all = ["target", "budget"])]
    pub(crate) scaling: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PaperFlags {
    /// Run the short version, with less data and fewer runs; it takes a few minutes
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these sections of the evaluation
    #[arg(
        long,
        value_name = "SECTION,…",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(Section::NAMES)
    )]
    pub(crate) only: Vec<String>,
    /// Only these applications
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) apps: Vec<String>,
    /// Only these WANs
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) wans: Vec<String>,
    /// Only these models, in addition to BSP and the LAN
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) models: Vec<String>,
    /// Train on files instead of synthetic data: movielens_latest_small/ratings.csv.gz,
    /// uci_kos/docword.kos.txt.gz and mnist/ (IDX) in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Override one setting of every run; a setting of sync.remote applies only to the model `asp`
    #[arg(long = "set", value_name = "KEY.PATH=VALUE")]
    pub(crate) settings: Vec<String>,
    /// The seed of all random numbers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) ended: EndedFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// A trained model, and the settings of its data.
#[derive(Debug, Args)]
pub(crate) struct TrainedFlags {
    /// The model: model.safetensors in the directory of a run, or the folder of all its shards
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Override one setting of the run that has trained the model, such as app.data.source
    #[arg(long = "set", value_name = "KEY.PATH=VALUE")]
    pub(crate) settings: Vec<String>,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityFlags,
}

#[derive(Debug, Args)]
pub(crate) struct EvaluateFlags {
    #[command(flatten)]
    pub(crate) trained: TrainedFlags,
    /// The data: a file, a folder or a pattern, in the format of app.data.source [default: the data of the run]
    #[arg(long, value_name = "PATH")]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PredictFlags {
    #[command(flatten)]
    pub(crate) trained: TrainedFlags,
    /// The data: a file, a folder or a pattern, in the format of app.data.source
    #[arg(long, value_name = "PATH")]
    pub(crate) data: PathBuf,
    /// Where to write the predictions; a file that is there is replaced
    #[arg(long, value_name = "FILE.csv|FILE.parquet")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ReportFlags {
    /// Run directories, each with a summary.json
    #[arg(value_name = "DIR", required = true)]
    pub(crate) directories: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// Where results go, and how much is said.
#[derive(Debug, Args)]
pub(crate) struct OutputFlags {
    /// Where to write results [default: runs/NAME-TIME]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityFlags,
}

/// How much is said, and in which form.
#[derive(Debug, Args)]
pub(crate) struct VerbosityFlags {
    /// Write nothing but errors
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Write the result to standard output as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The format of the log on standard error; json is one object per line
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text", env = LOG_FORMAT, hide_env = true)]
    pub(crate) log: LogFormat,
}

const LOG_FORMAT: &str = "GAIA_LOG_FORMAT";

/// Runs the program: parses `arguments`, the first of which is its name, executes the verb and returns the exit code.
///
/// 0: done. 1: the run failed or diverged. 2: bad usage, or a file that is wrong. 75: interrupted.
///
/// With `--driver real` the program starts itself again for each node, so each needs the same applications.
pub fn run(arguments: impl IntoIterator<Item = OsString>, applications: &dyn Applications) -> u8 {
    let cli = match Cli::try_parse_from(arguments).map_err(with_tip) {
        Ok(cli) => cli,
        Err(refusal) => {
            // Help and the version arrive here too; clap knows where each goes and whether it is a mistake.
            let code = u8::try_from(refusal.exit_code()).unwrap_or(2);
            let _closed_pipe = refusal.print();
            return code;
        }
    };

    let terminal = Terminal::new(cli.verb.verbosity());
    if let Err(complaint) = log::open_log(cli.verb.verbosity(), terminal.colour()) {
        terminal.fail(&Failure::usage(complaint));
        return 2;
    }
    match execute(&cli.verb, applications, &terminal) {
        Ok(done) => done.exit_code(),
        Err(failure) => {
            terminal.fail(&failure);
            failure.exit_code()
        }
    }
}

/// As [`run`], for a program that is more than this command line: what went wrong is returned instead of shown, and logs
/// are left to the caller, who may open a [`Log`].
///
/// # Errors
/// If a verb fails, with the exit code and the text that [`run`] shows.
pub fn try_run(
    arguments: impl IntoIterator<Item = OsString>,
    applications: &dyn Applications,
) -> Result<u8, CommandError> {
    let cli = Cli::try_parse_from(arguments).map_err(with_tip).map_err(|refusal| CommandError {
        exit_code: u8::try_from(refusal.exit_code()).unwrap_or(2),
        text: refusal.to_string(),
    })?;
    let terminal = Terminal::new(cli.verb.verbosity());
    let done = execute(&cli.verb, applications, &terminal);
    done.map(Done::exit_code).map_err(|failure| CommandError {
        exit_code: failure.exit_code(),
        text: failure.text(false),
    })
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CommandError {
    /// The exit code of the program for it.
    pub exit_code: u8,
    /// What the program shows: the place, the value and what was expected.
    pub text: String,
}

/// Carries out a verb.
fn execute(
    verb: &Verb,
    applications: &dyn Applications,
    terminal: &Terminal,
) -> Result<Done, Failure> {
    match verb {
        Verb::Train(flags) => train::train(flags, applications, terminal),
        Verb::Certs(verb) => certs::certs(verb, terminal).map(|()| Done::Whole),
        Verb::Deploy(verb) => deploy::deploy(verb, applications, terminal).map(|()| Done::Whole),
        Verb::Compare(flags) => compare::compare(flags, applications, terminal),
        Verb::Plan(flags) => plan::plan(flags, applications, terminal),
        Verb::Paper(flags) => paper::paper(flags, terminal).map(|()| Done::Whole),
        Verb::Check(flags) => check::check(flags, applications, terminal).map(|()| Done::Whole),
        Verb::Init(flags) => init::init(flags, applications, terminal).map(|()| Done::Whole),
        Verb::Node(flags) => node::node(flags, applications, terminal),
        Verb::Simulations(_) => {
            simulations::simulations(applications, terminal);
            Ok(Done::Whole)
        }
        Verb::Report(flags) => report::report(flags, terminal).map(|()| Done::Whole),
        Verb::Evaluate(flags) => {
            evaluate::evaluate(flags, applications, terminal).map(|()| Done::Whole)
        }
        Verb::Predict(flags) => predict::predict(flags, terminal).map(|()| Done::Whole),
    }
}

/// How far a verb got that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Whole,
    /// A run was interrupted and has ended in order, or a node has written its state.
    Interrupted,
}

impl Done {
    fn exit_code(self) -> u8 {
        match self {
            Self::Whole => 0,
            Self::Interrupted => INTERRUPTED,
        }
    }
}

/// `EX_TEMPFAIL` of sysexits.h: nothing is wrong, try again. Shells keep what is above 128 for kills.
const INTERRUPTED: u8 = 75;

impl Verb {
    fn verbosity(&self) -> &VerbosityFlags {
        let output = match self {
            Self::Train(flags) => &flags.run.output,
            Self::Check(flags) => &flags.run.output,
            Self::Init(flags) => &flags.run.output,
            Self::Node(flags) => &flags.run.output,
            Self::Compare(flags) => &flags.run.output,
            Self::Plan(flags) => &flags.run.output,
            Self::Paper(flags) => &flags.output,
            Self::Certs(verb) => verb.output(),
            Self::Deploy(verb) => verb.output(),
            Self::Report(flags) => &flags.output,
            Self::Evaluate(flags) => return &flags.trained.verbosity,
            Self::Predict(flags) => return &flags.trained.verbosity,
            Self::Simulations(verbosity) => return verbosity,
        };
        &output.verbosity
    }
}

impl From<OsString> for Resume {
    fn from(text: OsString) -> Self {
        match text.to_str() {
            Some("auto") => Self::Auto,
            Some("never") => Self::Never,
            _ => Self::From(text.into()),
        }
    }
}

impl RunFlags {
    /// The run file, which names an application, with the overrides of the flags.
    pub(crate) fn read(&self, applications: &dyn Applications) -> Result<RunFile, Failure> {
        self.read_for(self.driver.as_deref(), applications)
    }

    /// As [`Self::read`], for a process of the real driver, whatever driver the file and the flags name. Settings are resolved
    /// and checked for that driver.
    pub(crate) fn read_for_nodes(
        &self,
        applications: &dyn Applications,
    ) -> Result<RunFile, Failure> {
        self.read_for(Some(DriverKind::Real.name()), applications)
    }

    fn read_for(
        &self,
        driver: Option<&str>,
        applications: &dyn Applications,
    ) -> Result<RunFile, Failure> {
        let mut overrides = Vec::new();
        for setting in &self.settings {
            overrides.push(Override::parse(setting)?);
        }
        if let Some(seed) = self.seed {
            overrides.push(Override::flag("--seed", "seed", &seed.to_string()));
        }
        if let Some(driver) = driver {
            overrides.push(Override::flag("--driver", "driver", driver));
        }
        if let Some(init) = &self.init {
            overrides.push(Override::flag("--init", "model.init", init));
        }
        if let Some(script) = &self.script {
            if !applications.trains_scripts() {
                return Err(Failure::usage(NO_SCRIPTS));
            }
            overrides.push(Override::flag("--script", "app.kind", "external"));
            overrides.push(Override::flag("--script", "app.script", script));
        }
        if !self.arguments.is_empty() {
            overrides.push(Override::flag_of_strings("--", "app.arguments", &self.arguments));
        }
        let file = RunFile::read(&self.file, &overrides)?;
        file.require_app()?;

        Ok(file)
    }
}

pub(super) const NO_SCRIPTS: &str = "--script: this gaia has no Python, expected the gaia of the Python package, from pip install \
                          gaia-train or pip install ./python";

const AFTER_HELP: &str = "\
Examples:
  gaia train config/run/quickstart.toml
  gaia check config/run/movielens.toml --set app.data.path=ratings.csv
  gaia plan config/run/quickstart.toml
  gaia compare config/run/movielens.toml --remote bsp,asp --wan lan,gaia-2016-ec2-all

Exit codes:
  0  done
  1  the run failed, or its training diverged
  2  wrong usage or a wrong file; the message names the line, the key and what
     was expected
  75 interrupted: the run has ended in order, or the node has written its state

Environment:
  GAIA_LOG         which messages are logged to standard error, such as
                   gaia=debug [default:
                   warn,quinn_proto=error]
  GAIA_LOG_FORMAT  text or json, as --log
  NO_COLOR         if set, the output has no colours";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_that_is_laid_out_by_hand_fits_80_columns() {
        let pages = [
            AFTER_HELP,
            train::TRAIN_HELP,
            compare::COMPARE_HELP,
            plan::PLAN_HELP,
            paper::PAPER_HELP,
            check::CHECK_HELP,
            init::INIT_HELP,
            node::NODE_HELP,
            certs::CERTS_HELP,
            deploy::DEPLOY_HELP,
            evaluate::EVALUATE_HELP,
            predict::PREDICT_HELP,
            report::REPORT_HELP,
        ];
        // Paragraphs are wrapped to the terminal, and commands are to be copied as they are.
        let is_laid_out = |line: &&str| line.starts_with("  ") && !line.starts_with("  gaia ");
        for line in pages.into_iter().flat_map(str::lines).filter(is_laid_out) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
