//! `gaia certs`: who may take part in a run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use console::{StyledObject, style};
use rustls::pki_types::UnixTime;
use serde::Serialize;

use super::{Failure, OutputFlags, Terminal};
use gaia_certificates::{Credentials, Directory, Identity, Listed, State, Validity, date};
use gaia_config::{Override, RunFile};
use gaia_core::topology::Topology;

#[derive(Debug, Subcommand)]
pub(super) enum CertsVerb {
    /// Make the authority of a run, and a certificate for each node of its topology
    #[command(mut_arg("out", directory_help))]
    Init(InitFlags),
    /// Make a certificate for one node, which may be new to the run
    #[command(mut_arg("out", directory_help), mut_arg("dc", |dc| dc.required(true)))]
    Issue(IssueFlags),
    /// Renew one certificate or all of them, or replace the authority as well
    #[command(mut_arg("out", directory_help))]
    Rotate(RotateFlags),
    /// Revoke all certificates of a node: other nodes then refuse it
    #[command(mut_arg("out", directory_help), mut_arg("dc", |dc| dc.required(true)))]
    Revoke(RevokeFlags),
    /// List the certificates, their nodes and how long they are valid
    #[command(mut_arg("out", directory_help))]
    Show(ShowFlags),
}

#[derive(Debug, Args)]
pub(super) struct InitFlags {
    /// The run file
    #[arg(value_name = "RUN.toml")]
    file: PathBuf,
    /// Override one setting of the run file
    #[arg(long = "set", value_name = "KEY.PATH=VALUE")]
    settings: Vec<String>,
    #[command(flatten)]
    lasting: LastingFlags,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Debug, Args)]
pub(super) struct IssueFlags {
    #[command(flatten)]
    node: NodeFlags,
    #[command(flatten)]
    lasting: LastingFlags,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Debug, Args)]
pub(super) struct RotateFlags {
    #[command(flatten)]
    node: NodeFlags,
    /// Make a new authority as well; the old one stays trusted until --end-overlap
    #[arg(long, conflicts_with = "dc")]
    authority: bool,
    /// Stop trusting the authority that was replaced; renews no certificate
    #[arg(long, conflicts_with_all = ["dc", "authority", "validity"])]
    end_overlap: bool,
    #[command(flatten)]
    lasting: LastingFlags,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Debug, Args)]
pub(super) struct RevokeFlags {
    #[command(flatten)]
    node: NodeFlags,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Debug, Args)]
pub(super) struct ShowFlags {
    #[command(flatten)]
    output: OutputFlags,
}

/// One node of a run.
#[derive(Debug, Args)]
pub(super) struct NodeFlags {
    /// The node's data center
    #[arg(long, value_name = "NAME", requires = "role")]
    dc: Option<String>,
    /// The parameter server of this shard
    #[arg(long, value_name = "N", group = "role", requires = "dc")]
    server: Option<u16>,
    /// The worker with this number in the data center
    #[arg(long, value_name = "N", group = "role", requires = "dc")]
    worker: Option<u16>,
    /// The coordinator
    #[arg(long, group = "role", requires = "dc")]
    coordinator: bool,
}

#[derive(Debug, Args)]
pub(super) struct LastingFlags {
    /// How long certificates of nodes are valid: hours or days, such as 36h or 90d
    #[arg(long, value_name = "TIME", default_value = "90d", value_parser = lasting)]
    validity: Duration,
}

/// The JSON output of the verbs.
#[derive(Debug, Serialize)]
struct Answer {
    run: String,
    directory: PathBuf,
    certificates: Vec<Row>,
}

/// One certificate.
#[derive(Debug, Serialize)]
struct Row {
    /// `None` for an authority.
    identity: Option<String>,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    days_left: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    state: &'static str,
    #[serde(skip)]
    severity: Severity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    Well,
    Renew,
    Useless,
}

impl CertsVerb {
    pub(super) fn output(&self) -> &OutputFlags {
        match self {
            Self::Init(flags) => &flags.output,
            Self::Issue(flags) => &flags.output,
            Self::Rotate(flags) => &flags.output,
            Self::Revoke(flags) => &flags.output,
            Self::Show(flags) => &flags.output,
        }
    }
}

/// Executes one of the verbs, and shows the affected certificates.
pub(super) fn certs(verb: &CertsVerb, terminal: &Terminal) -> Result<(), Failure> {
    let path = verb.output().out.clone().unwrap_or_else(|| DIRECTORY.into());
    let now = UnixTime::now();
    match verb {
        CertsVerb::Init(flags) => init(flags, &path, now, terminal),
        CertsVerb::Issue(flags) => issue(flags, &path, now, terminal),
        CertsVerb::Rotate(flags) => rotate(flags, &path, now, terminal),
        CertsVerb::Revoke(flags) => revoke(flags, &path, now, terminal),
        CertsVerb::Show(_) => show(&path, now, terminal),
    }
}

fn init(flags: &InitFlags, path: &Path, now: UnixTime, terminal: &Terminal) -> Result<(), Failure> {
    let overrides: Result<Vec<Override>, _> =
        flags.settings.iter().map(|setting| Override::parse(setting)).collect();
    let plan = RunFile::read(&flags.file, &overrides?)?.plan()?;
    let nodes = nodes(&plan.name, &plan.topology);
    let mut directory = Directory::create(path, &plan.name, now)?;
    directory.issue(&nodes, now, flags.lasting.validity)?;
    answer(&directory, path, now, None, terminal)?;
    terminal.note(&format!(
        "copy each folder under {0}/nodes to the host of its node; do not copy {0}/authority",
        path.display()
    ));
    Ok(())
}

fn issue(
    flags: &IssueFlags,
    path: &Path,
    now: UnixTime,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let mut directory = Directory::open(path)?;
    let node = flags.node.identity(directory.run());
    if !directory.members().iter().any(|member| member.dc == node.dc) {
        terminal.note(&format!(
            "`{}` is a new data center: no node in this directory belongs to it",
            node.dc
        ));
    }
    directory.issue(std::slice::from_ref(&node), now, flags.lasting.validity)?;
    answer(&directory, path, now, Some(&node), terminal)
}

fn rotate(
    flags: &RotateFlags,
    path: &Path,
    now: UnixTime,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let mut directory = Directory::open(path)?;
    let lasting = flags.lasting.validity;
    let node = flags.node.named(directory.run());
    match &node {
        Some(node) => directory.renew(node, now, lasting)?,
        None if flags.end_overlap => directory.end_overlap()?,
        None if flags.authority => directory.replace_authority(now, lasting)?,
        None => directory.issue(&directory.members(), now, lasting)?,
    }
    answer(&directory, path, now, node.as_ref(), terminal)?;
    if flags.authority {
        terminal.note(
            "both authorities are trusted: once every host has its new folder, \
             gaia certs rotate --end-overlap removes the older one",
        );
    }
    Ok(())
}

fn revoke(
    flags: &RevokeFlags,
    path: &Path,
    now: UnixTime,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let mut directory = Directory::open(path)?;
    let node = flags.node.identity(directory.run());
    directory.remove(&node, now)?;
    answer(&directory, path, now, Some(&node), terminal)?;
    terminal.note(
        "the other nodes refuse it once their hosts have the new trust.pem from their folders",
    );
    Ok(())
}

/// Lists a directory, or the folder of one node as it lies on its host.
fn show(path: &Path, now: UnixTime, terminal: &Terminal) -> Result<(), Failure> {
    if Credentials::is_folder(path) {
        let credentials = Credentials::load(path)?;
        let row = Row::new(&credentials.listed(now)?, now);
        let run = credentials.identity().run.clone();
        print_answer(Answer { run, directory: path.into(), certificates: vec![row] }, terminal);
        return Ok(());
    }
    answer(&Directory::open(path)?, path, now, None, terminal)
}

/// Says what is in a directory: all of it, or what is about one node.
fn answer(
    directory: &Directory,
    path: &Path,
    now: UnixTime,
    about: Option<&Identity>,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let mut listed = directory.list(now)?;
    listed.retain(|entry| about.is_none() || entry.identity.as_ref() == about);
    let certificates = listed.iter().map(|entry| Row::new(entry, now)).collect();
    print_answer(
        Answer { run: directory.run().into(), directory: path.into(), certificates },
        terminal,
    );
    Ok(())
}

fn print_answer(answer: Answer, terminal: &Terminal) {
    for line in answer.lines() {
        terminal.line(&line);
    }
    let rows = answer.certificates.iter();
    let poor = rows.filter(|row| row.severity == Severity::Renew).count();
    if poor > 0 {
        let (verb, thing) =
            if poor == 1 { ("has", "certificate") } else { ("have", "certificates") };
        terminal.note(&format!(
            "warning: {poor} {thing} {verb} expired or will soon expire: renew with gaia certs rotate"
        ));
    }
    terminal.result(&answer);
}

impl Answer {
    fn lines(&self) -> Vec<String> {
        let widest = self.certificates.iter().map(|row| row.name.len()).max().unwrap_or(0).max(4);
        let mut lines = vec![
            format!("certificates of run {}, in {}", self.run, self.directory.display()),
            String::new(),
            format!(
                "  {:<widest$}  {:<20}  {:>9}  {:<14}  fingerprint",
                "node", "until", "days left", "state"
            ),
        ];

        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".into());
        for row in &self.certificates {
            let days = text(&row.days_left.map(|days| days.to_string()));
            let fingerprint: String =
                text(&row.fingerprint).chars().take(FINGERPRINT_SHOWN).collect();
            let (name, until) = (&row.name, text(&row.not_after));
            let state = row.severity.paint(format!("{:<14}", row.state));
            lines
                .push(format!("  {name:<widest$}  {until:<20}  {days:>9}  {state}  {fingerprint}"));
        }

        lines
    }
}

impl Row {
    fn new(listed: &Listed, now: UnixTime) -> Self {
        let details = listed.certificate.as_ref();
        let validity: Option<Validity> = details.map(|details| details.validity);
        let left = |validity: Validity| {
            validity.not_after.as_secs().saturating_sub(now.as_secs()) / 86_400
        };
        let name = listed.identity.as_ref().map_or_else(|| "authority".into(), Identity::folder);

        Self {
            identity: listed.identity.as_ref().map(Identity::to_string),
            name,
            not_before: validity.map(|validity| date(validity.not_before)),
            not_after: validity.map(|validity| date(validity.not_after)),
            days_left: validity.map(left),
            fingerprint: details.map(|details| details.fingerprint.clone()),
            state: listed.state.name(),
            severity: match listed.state {
                State::Valid => Severity::Well,
                State::ExpiresSoon | State::Expired => Severity::Renew,
                State::NotYetValid | State::Removed | State::Absent => Severity::Useless,
            },
        }
    }
}

impl Severity {
    /// Plain where standard output takes no colours.
    fn paint(self, text: String) -> StyledObject<String> {
        match self {
            Self::Well => style(text),
            Self::Renew => style(text).yellow(),
            Self::Useless => style(text).dim(),
        }
    }
}

impl NodeFlags {
    /// The node that the flags name, if they name one.
    fn named(&self, run: &str) -> Option<Identity> {
        let dc = self.dc.as_ref()?;
        Some(match (self.server, self.worker) {
            (Some(index), _) => Identity::server(run, dc, index),
            (_, Some(index)) => Identity::worker(run, dc, index),
            _ => Identity::coordinator(run, dc),
        })
    }

    fn identity(&self, run: &str) -> Identity {
        self.named(run).expect("this verb does not parse without --dc")
    }
}

/// Every node of a topology. The coordinator is in its first data center.
pub(super) fn nodes(run: &str, topology: &Topology) -> Vec<Identity> {
    let mut nodes = Vec::new();
    for dc in &topology.data_centers {
        if nodes.is_empty() {
            nodes.push(Identity::coordinator(run, &dc.name));
        }
        let numbers = |count: usize| 0..u16::try_from(count).unwrap_or(u16::MAX);
        nodes.extend(numbers(dc.servers).map(|index| Identity::server(run, &dc.name, index)));
        nodes.extend(numbers(dc.workers).map(|index| Identity::worker(run, &dc.name, index)));
    }
    nodes
}

pub(super) fn lasting(text: &str) -> Result<Duration, String> {
    let hours = match text.split_at_checked(text.len().saturating_sub(1)) {
        Some((number, "h")) => number.parse::<u64>().ok(),
        Some((number, "d")) => number.parse::<u64>().ok().and_then(|days| days.checked_mul(24)),
        _ => None,
    };
    let hours = hours.filter(|hours| (1..=HOURS_MAX).contains(hours));
    hours
        .map(|hours| Duration::from_secs(hours * 3_600))
        .ok_or_else(|| "expected a time from 1h to 3650d, in hours (h) or days (d)".into())
}

fn directory_help(out: clap::Arg) -> clap::Arg {
    out.help(format!("The directory of the run's certificates [default: {DIRECTORY}]"))
}

const DIRECTORY: &str = "certs";
const HOURS_MAX: u64 = 3_650 * 24;
const FINGERPRINT_SHOWN: usize = 16;

pub(super) const CERTS_HELP: &str = "\
Examples:
  gaia certs init config/run/quickstart.toml --out certs
  gaia certs show --out certs
  gaia certs issue --dc ireland --server 0 --validity 30d
  gaia certs rotate --dc ireland --worker 0
  gaia certs rotate --authority
  gaia certs revoke --dc ireland --server 0

A certificate names one node of one run, and its owner is trusted only as that node. \
The directory has a folder for each node: copy it to the node's host. Keep the folder of the authority to yourself. \
A node refuses a revoked node, and disconnects it, once it has the new trust.pem: copy that file to every host. \
If the key of the authority was stolen, start again with gaia certs init and new folders. A new authority made with \
--authority is signed by the old one and does not help.";
