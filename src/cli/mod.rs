//! The verbs: what the program does when it is called by name.
//!
//! This room turns arguments into calls of the other rooms and their answers into lines of text and an exit code.
//! Each verb is one function in a file of its own. Nothing here knows how a run is carried out.

mod certs;
mod check;
mod compare;
mod failure;
mod log;
mod node;
mod paper;
mod report;
mod signals;
mod terminal;
mod train;
mod training;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

use gaia_config::{ConfigError, DriverKind, Override, RunFile};
use gaia_paper::Section;

pub(crate) use failure::Failure;
pub(crate) use log::LogFormat;
pub(crate) use node::{NodeFlags, PlaceFlags};
pub(crate) use terminal::Terminal;

/// Train one model over data that stays in many data centers.
#[derive(Debug, Parser)]
#[command(name = "gaia", version, arg_required_else_help = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Train the model that a run file describes, and write a report of how it went
    #[command(after_help = TRAIN_HELP)]
    Train(TrainFlags),
    /// Run the same training with several remote models over several WANs, and set them side by side
    #[command(after_help = COMPARE_HELP)]
    Compare(CompareFlags),
    /// Run the evaluation of the Gaia paper again, and set what comes out beside what it printed
    #[command(after_help = PAPER_HELP)]
    Paper(PaperFlags),
    /// Check a run file and everything it names, and say what would run
    #[command(after_help = CHECK_HELP)]
    Check(CheckFlags),
    /// Run one node of a run over many processes: a server, a worker or the coordinator
    #[command(after_help = NODE_HELP)]
    Node(NodeFlags),
    /// Make, renew, revoke and list the certificates by which the nodes of a run know each other
    #[command(subcommand, after_help = certs::CERTS_HELP)]
    Certs(certs::CertsVerb),
    /// Write the report of finished runs again, or one report of several
    #[command(after_help = REPORT_HELP)]
    Report(ReportFlags),
}

/// What every verb that reads a run file takes.
#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    /// The run file
    #[arg(value_name = "RUN.toml")]
    pub(crate) file: PathBuf,
    /// Override one setting; the value is read as TOML, and as a string where it is not TOML
    #[arg(long = "set", value_name = "KEY.PATH=VALUE")]
    pub(crate) settings: Vec<String>,
    /// The root of all chance; the same seed repeats a simulated run to the byte
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(crate) seed: Option<u64>,
    /// What runs the protocol
    #[arg(long, value_parser = PossibleValuesParser::new(DriverKind::NAMES))]
    pub(crate) driver: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
pub(crate) struct TrainFlags {
    #[command(flatten)]
    pub(crate) run: RunFlags,
    /// Go on from a checkpoint: the newest whole one in --out, or the one in this directory
    #[arg(
        long,
        value_name = "auto|never|DIR",
        default_value = "never",
        requires_if("auto", "out"),
        value_parser = OsStringValueParser::new().map(Resume::from)
    )]
    pub(crate) resume: Resume,
}

/// Whether a run continues from a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    /// From the newest whole one in the run's directory; from the start where there is none.
    Auto,
    Never,
    From(PathBuf),
}

#[derive(Debug, Args)]
pub(crate) struct CheckFlags {
    #[command(flatten)]
    pub(crate) run: RunFlags,
    /// Also try every link that this node will need, and say what is wrong with each: its name, its route, its
    /// port, a certificate or the version. The nodes at the other ends have to be up
    #[arg(long)]
    pub(crate) connect: bool,
    #[command(flatten)]
    pub(crate) place: PlaceFlags,
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
        value_parser = PossibleValuesParser::new(gaia_core::sync::RemoteSync::NAMES)
    )]
    pub(crate) remote: Vec<String>,
    /// The WANs to compare over: names of shipped topologies, topology files, or `lan` for the same machines in
    /// one data center; left out, the run file's own
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) wan: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PaperFlags {
    /// The short version: less data, fewer rows, a few minutes
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these parts of it
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
    /// Only these models, beside BSP and the LAN
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) models: Vec<String>,
    /// Train on files instead of made-up data: those of movielens_latest_small/ratings.csv.gz,
    /// uci_kos/docword.kos.txt.gz and mnist/ (IDX) in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Override one setting of every run; one of sync.remote, of the model `asp` alone
    #[arg(long = "set", value_name = "KEY.PATH=VALUE")]
    pub(crate) settings: Vec<String>,
    /// The root of all chance
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
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
    /// Say nothing but errors
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Write the result to standard output as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// How the log is written to standard error; as json, an object a line
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text", env = LOG_FORMAT, hide_env = true)]
    pub(crate) log: LogFormat,
}

const LOG_FORMAT: &str = "GAIA_LOG_FORMAT";

/// Runs the program: parses `arguments`, executes the verb and returns the exit code.
///
/// 0: done. 1: the run failed. 2: bad usage, or a file that is wrong. 75: interrupted, and a checkpoint was written.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(refusal) => {
            // Help and the version arrive here too; clap knows where each goes and whether it is a mistake.
            let code = u8::try_from(refusal.exit_code()).unwrap_or(2);
            let _closed_pipe = refusal.print();
            return ExitCode::from(code);
        }
    };

    let terminal = Terminal::new(cli.verb.output());
    if let Err(complaint) = log::open_log(cli.verb.output(), terminal.colour()) {
        terminal.fail(&Failure::usage(complaint));
        return ExitCode::from(2);
    }

    let done = match &cli.verb {
        Verb::Train(flags) => train::train(flags, &terminal),
        Verb::Certs(verb) => certs::certs(verb, &terminal).map(|()| Done::Whole),
        Verb::Compare(flags) => compare::compare(flags, &terminal).map(|()| Done::Whole),
        Verb::Paper(flags) => paper::paper(flags, &terminal).map(|()| Done::Whole),
        Verb::Check(flags) => check::check(flags, &terminal).map(|()| Done::Whole),
        Verb::Node(flags) => node::node(flags, &terminal),
        Verb::Report(flags) => report::report(flags, &terminal).map(|()| Done::Whole),
    };

    match done {
        Ok(Done::Whole) => ExitCode::SUCCESS,
        Ok(Done::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(failure) => {
            terminal.fail(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

/// How far a verb got that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Whole,
    /// A run was interrupted, and can be resumed.
    Interrupted,
}

/// `EX_TEMPFAIL` of sysexits.h: nothing is wrong, try again. Shells keep what is above 128 for kills.
const INTERRUPTED: u8 = 75;

impl Verb {
    fn output(&self) -> &OutputFlags {
        match self {
            Self::Train(flags) => &flags.run.output,
            Self::Check(flags) => &flags.run.output,
            Self::Node(flags) => &flags.run.output,
            Self::Compare(flags) => &flags.run.output,
            Self::Paper(flags) => &flags.output,
            Self::Certs(verb) => verb.output(),
            Self::Report(flags) => &flags.output,
        }
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
    pub(crate) fn read(&self) -> Result<RunFile, ConfigError> {
        let mut overrides = Vec::new();
        for setting in &self.settings {
            overrides.push(Override::parse(setting)?);
        }
        if let Some(seed) = self.seed {
            overrides.push(Override::flag("--seed", "seed", &seed.to_string()));
        }
        if let Some(driver) = &self.driver {
            overrides.push(Override::flag("--driver", "driver", driver));
        }
        let file = RunFile::read(&self.file, &overrides)?;
        file.require_app()?;

        Ok(file)
    }
}

const AFTER_HELP: &str = "\
Examples:
  gaia train config/run/quickstart.toml
  gaia check config/run/movielens.toml --set app.data.path=ratings.csv
  gaia compare config/run/movielens.toml --remote bsp,asp --wan lan,gaia-2016-ec2-all

Exit codes:
  0  done
  1  the run failed
  2  bad usage, or a file that is wrong: the message names its line, the key and what was expected
  75 gaia train was interrupted, has written a checkpoint, and can be resumed

Environment:
  GAIA_LOG         what is logged to standard error, such as gaia=debug [default: warn]
  GAIA_LOG_FORMAT  how: text or json, as --log
  NO_COLOR         no colours";

const TRAIN_HELP: &str = "\
Examples:
  gaia train config/run/quickstart.toml
  gaia train config/run/quickstart.toml --driver simulated --seed 7 --out runs/seven
  gaia train config/run/movielens.toml --set app.data.path=ratings.csv --set sync.remote.model=bsp
  gaia train config/run/quickstart.toml --driver simulated --set checkpoint.every=10 --out runs/long --resume auto
  gaia train config/run/quickstart.toml --driver real        (a process for each node, on this machine)

A path in a file starts at that file; a path in --set starts at the working directory. \
A --set that chooses another `model` or `kind` drops the settings of the one in the file.

The run directory holds run.toml (which repeats the run), progress.jsonl, summary.json, \
convergence.svg and report.html; with --driver real also what each node logged, in logs/.

Checkpoints: [checkpoint] every = CLOCKS writes one into checkpoints/clock-NNNN of the run directory that often; on \
SIGTERM or Ctrl-C the run finishes its clock, writes one and exits with 75, and a second signal ends it at once. \
--resume auto --out DIR goes on from the newest whole one in DIR, and starts afresh where there is none; what comes out \
is the same to the bit as of a run that was not stopped. The default is never: a directory with files of another run is \
refused, and what comes out depends on nothing that lies there. model.safetensors in a checkpoint holds the model's \
tables. The other drivers keep no checkpoints, and a signal ends them. With --driver real the certificates of the nodes \
lie in a folder for temporary files that is gone with the run; only a kill leaves it, for its owner alone to enter.";

const COMPARE_HELP: &str = "\
Examples:
  gaia compare config/run/movielens.toml --set app.data.path=ratings.csv --wan lan,gaia-2016-ec2-all
  gaia compare config/run/a9a.toml --remote bsp,tap,asp --wan gaia-2016-vc,my-wan.toml

The run file's [sync.remote] holds for the model that it names; the others run with their \
defaults (SSP with a staleness of 1). An inline bandwidth_scale of the run file holds for every WAN.";

const PAPER_HELP: &str = "\
Examples:
  gaia paper --quick
  gaia paper --only cells --apps mf --wans ss --models asp --set sync.remote.threshold=0.05
  gaia paper --only cells,ablation --out runs/paper --seed 7

The directory holds paper.json, its pages paper.html, paper-elsewhere.html and paper.md, and a run file for each run: gaia train on it repeats that run. \
What each section is, and what is fitted before it, stands in the pages.";

const CHECK_HELP: &str = "\
Examples:
  gaia check config/run/quickstart.toml
  gaia check config/run/quickstart.toml --json --set topology.file=gaia-2016-ss
  gaia check run.toml --connect --dc tokyo --server 0 --certs certs

With --connect the exit code is 1 where a link does not work.";

const NODE_HELP: &str = "\
Examples:
  gaia node run.toml --coordinator --certs certs --out runs/first
  gaia node run.toml --dc tokyo --server 0 --certs certs
  gaia node run.toml --dc tokyo --server 0 --worker 0 --certs certs
  gaia train run.toml --driver real      (all nodes on this machine)

The topology says where nodes listen: `coordinator_address`, and `server_addresses` in each data center; workers \
call and are not called. Nodes start in any order and wait for each other. Every node needs the same run file and \
settings, and a certificate of the run. A node that fails ends the run, and every other node says which it was.

Environment, where no flag says which node this is:
  GAIA_ROLE            coordinator, server or worker, with GAIA_DC and GAIA_INDEX [default: 0]
  RANK, SLURM_PROCID, JOB_COMPLETION_INDEX
                       of torchrun, Slurm and JobSet, the first that is set: 0 is the coordinator, then data center by
                       data center its servers and workers; with GAIA_DC, those of that data center alone, from 0
  GAIA_COORDINATOR     where the coordinator listens, HOST:PORT; then torchrun's MASTER_ADDR and MASTER_PORT
  GAIA_CERTS           the certificates
  GAIA_METRICS         where to answer who watches, as --metrics

Whoever watches asks over HTTP, which is off unless --metrics says where. /metrics is what the node counts, for \
Prometheus. /healthz is 200 while the node's loop turns, and 503 with a reason once it has not for 10 s. /readyz is 200 \
while the run has begun and every peer of the node is connected, and 503 with what it waits for. It proves nothing and \
asks nobody who they are: keep it on 127.0.0.1 or a network of your own.";

const REPORT_HELP: &str = "\
Examples:
  gaia report runs/quickstart-20250101-120000
  gaia report runs/bsp runs/asp --out runs/both";
