//! The nodes of three data centers as processes in their namespaces.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use gaia_certificates::{Directory, Identity};
use rustls::pki_types::UnixTime;
use serde_json::Value;
use tempfile::TempDir;

use crate::host_clock::HostClocks;
use crate::network::{DATA_CENTERS, Network, address};
use crate::resources::Resources;

/// What is run.
pub(crate) struct Setting {
    /// The keys of `[stop]`.
    pub(crate) stop: String,
    /// What a clock takes.
    pub(crate) clock: &'static str,
    pub(crate) data: Data,
    /// Clocks between evaluations.
    pub(crate) evaluate_every: u64,
    /// Whether datagrams go around dead links.
    pub(crate) detours: bool,
}

/// What is trained on.
pub(crate) enum Data {
    /// Generated ratings, forty times as many as there are users and items.
    Ratings { users: usize, items: usize },
    /// The folders of images in this one, of each data center its own, under its name.
    Images(PathBuf),
}

pub(crate) struct Cluster {
    network: Network,
    folder: TempDir,
    /// Folders that a data center must not see, by data center.
    hidden: Vec<Vec<PathBuf>>,
    /// Of the host of each data center.
    host_clocks: HostClocks,
    nodes: BTreeMap<String, Child>,
    began: Option<Instant>,
}

/// What became of a run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Of each data center.
    pub(crate) clocks: Vec<u64>,
    pub(crate) objective: f64,
    pub(crate) first_objective: f64,
    pub(crate) copies_equal: bool,
    /// What the ledgers of mirrors say.
    pub(crate) conservation: Value,
    /// The bytes of a copy of the model.
    pub(crate) copy_bytes: u64,
    /// The held-out metric.
    pub(crate) metric: f64,
    /// Evaluations while training went on.
    pub(crate) evaluations: usize,
    /// Bytes that each data center has sent to others, by the counters of its network card.
    pub(crate) sent_bytes: Vec<u64>,
}

/// What was seen of a direction between two data centers after one of them had been cut off.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resumption {
    /// From the moment that packets pass again to the first data frame over there.
    pub(crate) first: Option<Duration>,
    /// The same to the last of what had waited, and how many bytes that was.
    pub(crate) last: Option<(Duration, u64)>,
}

impl Cluster {
    /// Starts a server and a worker in each data center, and the coordinator in the first.
    pub(crate) fn start(network: Network, setting: &Setting) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("run.toml"), run_file(setting)).unwrap();
        certify(&folder.path().join("certs"));
        let hidden = (0..DATA_CENTERS.len()).map(|dc| hidden_from(dc, &setting.data)).collect();
        let host_clocks = HostClocks::new(&folder.path().join("clocks"), DATA_CENTERS.len());
        let nodes = BTreeMap::new();
        let mut cluster = Self { network, folder, hidden, host_clocks, nodes, began: None };
        for dc in 0..DATA_CENTERS.len() {
            cluster.start_node(&format!("server-{dc}"));
            cluster.start_node(&format!("worker-{dc}"));
        }
        cluster.start_node("coordinator-0");
        cluster
    }

    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    pub(crate) fn host_clocks(&self) -> &HostClocks {
        &self.host_clocks
    }

    /// Kills a node, which cannot so much as say goodbye, and starts it again.
    pub(crate) fn restart(&mut self, name: &str) {
        self.stop(name);
        self.start_node(name);
    }

    /// Kills a node, and starts it again without its state.
    pub(crate) fn restart_without_state(&mut self, name: &str) {
        self.stop(name);
        fs::remove_dir_all(self.path(&format!("state/{name}"))).unwrap();
        self.start_node(name);
    }

    /// Kills a node, and starts it again where it can write small files only. It ends at a write, or is killed after
    /// `patience`, and starts again where it can write.
    pub(crate) fn restart_over_full_disk(&mut self, name: &str, patience: Duration) {
        self.stop(name);
        self.start_within(name, Some(FULL_DISK_BLOCKS));
        let mut node = self.nodes.remove(name).unwrap();
        let until = Instant::now() + patience;
        while node.try_wait().unwrap().is_none() && Instant::now() < until {
            self.watch_for(Duration::from_millis(50));
        }
        // One that has ended cannot be killed.
        let _ended = node.kill();
        node.wait().unwrap();
        self.start_node(name);
    }

    /// The clock of the last evaluation.
    pub(crate) fn clock(&self) -> u64 {
        self.progress().last().map_or(0, |last| last["clock"].as_u64().unwrap())
    }

    /// Waits until every data center has finished a clock.
    pub(crate) fn wait_for_clock(&mut self, clock: u64) {
        while self.clock() < clock {
            self.watch_for(Duration::from_millis(50));
        }
        self.began.get_or_insert_with(Instant::now);
    }

    /// Waits until a node has logged this.
    pub(crate) fn wait_for_log(&mut self, name: &str, text: &str) {
        while !self.log_of(name).contains(text) {
            self.watch_for(Duration::from_millis(50));
        }
    }

    /// How long training has gone on since the first clock.
    pub(crate) fn trained(&self) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    /// Lets time pass, in which no node may end.
    pub(crate) fn watch_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            for (name, node) in &mut self.nodes {
                if let Some(status) = node.try_wait().unwrap() {
                    let log = fs::read_to_string(self.folder.path().join(format!("{name}.log")));
                    panic!("{name} has ended, {status}: {}", log.unwrap_or_default());
                }
            }
            if Instant::now() >= until {
                return;
            }
            sleep(Duration::from_millis(20).min(time));
        }
    }

    /// What nodes take of their hosts, by role.
    pub(crate) fn resources(&self) -> BTreeMap<&'static str, Resources> {
        let mut most: BTreeMap<_, Resources> = BTreeMap::new();
        for (name, node) in &self.nodes {
            let role = ROLES.into_iter().find(|role| name.starts_with(role)).unwrap();
            let (state, log) =
                (self.path(&format!("state/{name}")), self.path(&format!("{name}.log")));
            let taken = Resources::of(node.id(), &state, &log);
            most.entry(role).and_modify(|most| *most = most.max(taken)).or_insert(taken);
        }
        most
    }

    /// Waits for all nodes to end.
    pub(crate) fn end(mut self) -> Outcome {
        let mut coordinator = self.nodes.remove("coordinator-0").unwrap();
        let status = coordinator.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.log_of("coordinator-0"));
        for (name, mut node) in std::mem::take(&mut self.nodes) {
            let status = node.wait().unwrap();
            assert!(status.success(), "{name}, {status}: {}", self.log_of(&name));
        }
        let text = fs::read_to_string(self.path("out").join("summary.json")).unwrap();
        let summary: Value = serde_json::from_str(&text).unwrap();
        let progress = self.progress();
        let objective = |line: &Value| line["objective"].as_f64().unwrap();
        let clocks = summary["data_center_clocks"].as_array().unwrap();
        Outcome {
            clocks: clocks.iter().map(|clock| clock.as_u64().unwrap()).collect(),
            objective: summary["objective"].as_f64().unwrap(),
            first_objective: objective(&progress[0]),
            copies_equal: summary["copies_equal"].as_bool().unwrap(),
            conservation: summary["conservation"].clone(),
            copy_bytes: 4 * summary["parameters"].as_u64().unwrap(),
            evaluations: progress.len(),
            metric: summary["metric"]["value"].as_f64().unwrap(),
            sent_bytes: (0..DATA_CENTERS.len()).map(|dc| self.network.sent_bytes(dc)).collect(),
        }
    }

    /// Lets packets of a data center pass again, and waits until it and all others know of each other what waited while it was
    /// cut off, or for as long as `patience`. By who tells, and who is told.
    pub(crate) fn reunite(
        &mut self,
        dc: usize,
        patience: Duration,
    ) -> BTreeMap<(usize, usize), Resumption> {
        let others = (0..DATA_CENTERS.len()).filter(|other| *other != dc);
        let ways: Vec<(usize, usize)> =
            others.flat_map(|other| [(dc, other), (other, dc)]).collect();
        let mut seen: BTreeMap<_, Resumption> =
            ways.iter().map(|way| (*way, Resumption::default())).collect();
        let length = |at| fs::metadata(self.path(&format!("server-{at}.log"))).unwrap().len();
        // What was logged before. They may find each other before the command that lets packets pass has ended.
        let read: Vec<u64> = (0..DATA_CENTERS.len()).map(length).collect();
        self.network().heal(dc);
        let healed = Instant::now();
        let server = |at: usize| format!("server 0 of {}", DATA_CENTERS[at]);
        while healed.elapsed() < patience && seen.values().any(|one| one.last.is_none()) {
            self.watch_for(Duration::from_millis(10));
            let logs: Vec<String> = (read.iter().enumerate())
                .map(|(at, read)| self.log_from(&format!("server-{at}"), *read))
                .collect();
            for ((from, to), one) in &mut seen {
                let told = |at: usize, end: String| {
                    let lines = logs[at].lines();
                    let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
                    let mut fields = lines.map(|line| line["fields"].clone());
                    fields.find(|fields| fields["message"].as_str().is_some_and(|m| m == end))
                };
                let first = format!("{} receives updates of {} again", server(*to), server(*from));
                if one.first.is_none() && told(*to, first).is_some() {
                    one.first = Some(healed.elapsed());
                }
                let all = format!(
                    "{} has received all updates that {} held for it",
                    server(*to),
                    server(*from)
                );
                if let (None, Some(fields)) = (one.last, told(*from, all)) {
                    one.last = Some((healed.elapsed(), fields["bytes"].as_u64().unwrap()));
                }
            }
        }
        seen
    }

    pub(crate) fn log_of(&self, name: &str) -> String {
        fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default()
    }

    /// What a node has logged since its log had so many bytes.
    fn log_from(&self, name: &str, start: u64) -> String {
        let mut file = fs::File::open(self.path(&format!("{name}.log"))).unwrap();
        file.seek(SeekFrom::Start(start)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        text
    }

    fn stop(&mut self, name: &str) {
        let mut node = self.nodes.remove(name).unwrap();
        node.kill().unwrap();
        node.wait().unwrap();
    }

    fn start_node(&mut self, name: &str) {
        self.start_within(name, None);
    }

    /// Starts a node, which can write files of this many blocks of 512 bytes.
    fn start_within(&mut self, name: &str, blocks: Option<u64>) {
        let (role, dc) = name.split_once('-').unwrap();
        let dc: usize = dc.parse().unwrap();
        let program = assert_cmd::cargo::cargo_bin!("gaia");
        let hidden = match role {
            // The coordinator has no data, so it sees no folder.
            "coordinator" => [&self.hidden[0][..], &self.hidden[1][..]].concat(),
            _ => self.hidden[dc].clone(),
        };
        let program = program.to_str().unwrap();
        let mut command = match blocks {
            Some(blocks) => self.network.command_limited(dc, blocks, program),
            None => self.network.command_without(dc, &hidden, program),
        };
        command.arg("node").arg(self.path("run.toml")).arg("--certs").arg(self.path("certs"));
        match role {
            "coordinator" => command.arg("--coordinator").arg("--out").arg(self.path("out")),
            role => command.args(["--dc", DATA_CENTERS[dc], &format!("--{role}"), "0"]),
        };
        command.arg("--state").arg(self.path(&format!("state/{name}"))).arg("--quiet");
        let log = self.path(&format!("{name}.log"));
        let log = fs::File::options().append(true).create(true).open(log).unwrap();
        command.args(["--log", "json"]).env("GAIA_LOG", "warn,gaia=info");
        command.env("NO_COLOR", "1").envs(self.host_clocks.environment(dc));
        command.current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.nodes.insert(name.to_owned(), command.spawn().unwrap());
    }

    /// The evaluations so far.
    fn progress(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path("out").join("progress.jsonl"));
        let text = text.unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in self.nodes.values_mut() {
            // One that has ended cannot be killed.
            let _ended = node.kill();
            let _ended = node.wait();
        }
    }
}

const ROLES: [&str; 3] = ["coordinator", "server", "worker"];

/// More than what nodes log for people, and less than what they log for recovery.
const FULL_DISK_BLOCKS: u64 = 2048;

fn run_file(setting: &Setting) -> String {
    let Setting { stop, clock, data, evaluate_every, detours } = setting;
    let app = match data {
        Data::Ratings { users, items } => {
            let ratings = 40 * (users + items);
            format!(
                "kind = \"matrix-factorization\"\nrank = 8\n\
                 data.synthetic = {{ users = {users}, items = {items}, ratings = {ratings}, rank = 4, noise = 0.3 }}"
            )
        }
        Data::Images(folder) => images(&folder.join("{dc}")),
    };
    let mut text = format!(
        "name = \"apart\"\nseed = 7\n[app]\n{app}\n\
         [sync.remote]\nmodel = \"asp\"\nthreshold = 0.05\n\
         [compute]\nmodel = \"cost\"\nclock_overhead = \"{clock}\"\n\
         [evaluate]\nevery = {evaluate_every}\n[stop]\n{stop}\n\
         [topology]\nname = \"apart\"\ncoordinator_address = \"{}:4400\"\ndetours = {detours}\n\
         [topology.wan]\nbandwidth = \"50 Mbit/s\"\nrtt = \"1 ms\"\nprice = \"0.02 USD/GB\"\n",
        address(0),
    );
    for (dc, name) in DATA_CENTERS.iter().enumerate() {
        text += &format!("[[topology.data_center]]\nname = \"{name}\"\n");
        text += &format!("server_addresses = [\"{}:4433\"]\n", address(dc));
    }
    text
}

/// The application that learns from images in a folder.
pub(crate) fn images(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "kind = \"softmax-regression\"\nbatch = 64\ndata = {{ source = \"idx\", path = \"{folder}\" }}"
    )
}

/// The folders of the other data centers.
fn hidden_from(dc: usize, data: &Data) -> Vec<PathBuf> {
    let Data::Images(folder) = data else { return Vec::new() };
    let others = DATA_CENTERS.iter().enumerate().filter(|(other, _)| *other != dc);
    others.map(|(_, name)| folder.join(name)).collect()
}

fn certify(folder: &Path) {
    let mut nodes = vec![Identity::coordinator("apart", DATA_CENTERS[0])];
    for dc in DATA_CENTERS {
        nodes.push(Identity::server("apart", dc, 0));
        nodes.push(Identity::worker("apart", dc, 0));
    }
    let now = UnixTime::now();
    let mut directory = Directory::create(folder, "apart", now).unwrap();
    directory.issue(&nodes, now, Duration::from_secs(86_400)).unwrap();
}
