//! What a trained model is good for: its file, its evaluation and its predictions, of every application.
#![allow(clippy::unwrap_used)]

mod evaluation;
mod files;
mod predictions;
mod python;
#[path = "../real_data/mod.rs"]
mod real_data;
mod refused;
mod snapshots;

use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

/// What a run file has beside its application.
const RUN: &str = "\
seed = 7
driver = \"simulated\"
stop.clocks = 6

[sync.local]
model = \"bsp\"

[sync.remote]
model = \"bsp\"

[compute]
flops_per_second = 1e9

[topology]
name = \"two\"
data_center = [{ name = \"a\" }, { name = \"b\" }]

[topology.defaults]
servers = 1
workers = 2
lan_bandwidth = \"1 Gbit/s\"

[topology.wan]
bandwidth = \"100 Mbit/s\"
rtt = \"10 ms\"
";

/// The applications with little generated data.
const APPS: [(&str, &str); 6] = [
    (
        "matrix-factorization",
        "rank = 2\ndata.synthetic = { users = 30, items = 20, ratings = 400 }",
    ),
    ("softmax-regression", "data.synthetic = { classes = 3, features = 4, examples = 300 }"),
    ("perceptron", "hidden = [5]\ndata.synthetic = { classes = 3, features = 4, examples = 300 }"),
    (
        "convolutional-network",
        "filters = [4]\nhidden = []\ndata.synthetic = { classes = 2, side = 8, examples = 200 }",
    ),
    ("logistic-regression", "data.synthetic = { features = 20, active = 4, examples = 300 }"),
    (
        "topic-model",
        "topics = 3\ndata.synthetic = { vocabulary = 30, topics = 3, documents = 60, length = 20 }",
    ),
];

/// A folder with files of a test.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), bytes).unwrap();
    }

    fn gaia(&self, arguments: &[&str]) -> Command {
        let mut gaia = Command::cargo_bin("gaia").unwrap();
        gaia.current_dir(self.folder.path()).args(arguments);
        gaia
    }

    /// Trains an application. Its model is in `NAME/model.safetensors`.
    fn train(&self, name: &str, kind: &str, keys: &str) -> String {
        let file = format!("{name}.toml");
        self.write(&file, format!("name = \"{name}\"\n{RUN}\n[app]\nkind = \"{kind}\"\n{keys}\n"));
        self.gaia(&["train", &file, "--quiet", "--out", name]).assert().success();
        format!("{name}/model.safetensors")
    }

    /// The standard output of a command that succeeds, as JSON.
    fn json(&self, arguments: &[&str]) -> Value {
        let output =
            self.gaia(arguments).arg("--json").assert().success().get_output().stdout.clone();
        serde_json::from_slice(&output).unwrap()
    }

    /// The standard error of a command that is refused for what the user wrote.
    fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.gaia(arguments).assert().code(2).get_output().stderr.clone();
        String::from_utf8(output).unwrap()
    }

    /// A csv file, row by row and field by field.
    fn csv(&self, name: &str) -> Vec<Vec<String>> {
        let text = fs::read_to_string(self.path(name)).unwrap();
        text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
    }
}

/// Columns of numbers of a csv file, without its first row.
fn column(rows: &[Vec<String>], name: &str) -> Vec<f64> {
    let at = rows[0].iter().position(|other| other == name).unwrap();
    rows[1..].iter().map(|row| row[at].parse().unwrap()).collect()
}
