//! A coordinator and servers that do not run the script of a run: they know its model from a file.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![allow(clippy::disallowed_methods, reason = "nodes of a run wait for each other")]

mod addresses;

use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread;

use addresses::free_address;
use gaia::{
    Application, ApplicationError, Applications, Clock, DataError, Deltas, EvaluationSums,
    InitialRows, Metric, Model, ModelLayout, Plan, RowSet, ScriptModel, ScriptSettings, Seed,
    TableDeltas, TableId, TableRows, Task, TensorSpec, WeightedSum, Work,
};
use safetensors::SafeTensors;
use serde_json::Value;
use tempfile::TempDir;

/// What a script would declare: a kernel and statistics, with the values that training begins with.
fn model(first: f32) -> ScriptModel {
    let spec = |name: &str, shape: &[usize], is_statistics| TensorSpec {
        name: name.into(),
        shape: shape.into(),
        is_statistics,
        sparse: None,
    };
    ScriptModel {
        tensors: vec![spec("kernel", &[3, 2, 2], false), spec("mean", &[5], true)],
        values: std::iter::once(first).chain([1.0; 16]).collect(),
        settings: ScriptSettings {
            metric: "distance".into(),
            higher_is_better: false,
            momentum: 0.5,
            average: true,
            sharded: false,
        },
    }
}

/// The worker's side, in place of a script: each moves all values towards zero.
#[derive(Clone)]
struct Shrinking {
    model: ScriptModel,
    layout: Arc<ModelLayout>,
    workers: usize,
}

impl Application for Shrinking {
    fn layout(&self) -> &Arc<ModelLayout> {
        &self.layout
    }

    fn workers(&self) -> usize {
        self.workers
    }

    fn deltas_are_shares(&self) -> bool {
        self.model.deltas_are_shares()
    }

    fn initial_model(&self, _: Seed) -> Model {
        self.model.initial_model(&self.layout)
    }

    fn task(&self, _: usize, _: Seed) -> Box<dyn Task> {
        Box::new(self.clone())
    }

    fn sums(&self, model: &Model, own: Range<usize>) -> Result<EvaluationSums, ApplicationError> {
        let squares: f64 = model.values.iter().map(|value| f64::from(value * value)).sum();
        let sum = WeightedSum { sum: squares * own.len() as f64, weight: own.len() as f64 };
        Ok(EvaluationSums { objective: sum, metric: sum })
    }

    fn metric(&self) -> Metric {
        self.model.settings.metric()
    }

    fn momentum(&self) -> f64 {
        self.model.settings.momentum
    }
}

impl Task for Shrinking {
    fn rows(&mut self, _: Clock) -> RowSet {
        RowSet::all(&self.layout)
    }

    fn iterate(&mut self, _: Clock, model: &Model) -> Result<(Deltas, Work), ApplicationError> {
        let share = -0.2 / self.workers as f32;
        let tables = self.layout.table_ids().map(|id| {
            TableDeltas::all(model.table(id).iter().map(|value| value * share).collect())
        });
        Ok((Deltas { tables: tables.collect() }, Work { examples: 1, flops: 1.0 }))
    }

    fn repeats(&self) -> bool {
        false
    }
}

/// A table of 3,000 rows, of which a worker holds what it reads.
fn sparse_model() -> ScriptModel {
    let table = TensorSpec {
        name: "table".into(),
        shape: vec![3_000, 4],
        is_statistics: false,
        sparse: InitialRows::new(3, 1.0, 0.5),
    };
    let mut model = model(1.0);
    model.tensors.push(table);
    model.settings.momentum = 0.0;
    model
}

/// The worker's side of that table: in each clock the two workers halve the same rows together.
#[derive(Clone)]
struct Halving(Shrinking);

const TABLE: TableId = TableId(2);

fn halved_at(clock: Clock) -> Vec<u32> {
    vec![7, 100 + clock.0 as u32, 2_000 + 3 * clock.0 as u32]
}

impl Application for Halving {
    fn layout(&self) -> &Arc<ModelLayout> {
        self.0.layout()
    }

    fn workers(&self) -> usize {
        self.0.workers
    }

    fn initial_model(&self, seed: Seed) -> Model {
        self.0.initial_model(seed)
    }

    fn task(&self, _: usize, _: Seed) -> Box<dyn Task> {
        Box::new(self.clone())
    }

    fn evaluated_rows(&self, worker: usize) -> RowSet {
        let mut rows = RowSet::without_sparse_rows(self.layout());
        rows.tables[TABLE.index()] = TableRows::listed(vec![7, 2_998 + worker as u32]);
        rows
    }

    fn sums(&self, model: &Model, own: Range<usize>) -> Result<EvaluationSums, ApplicationError> {
        assert_eq!(model.values.len(), 17 + 8, "it has the rows of an evaluation");
        let rows = [7, 2_998 + own.start].map(|row| f64::from(model.row(TABLE, row)[0]));
        let sum = WeightedSum { sum: rows[0], weight: 1.0 };
        Ok(EvaluationSums { objective: sum, metric: WeightedSum { sum: rows[1], weight: 1.0 } })
    }

    fn metric(&self) -> Metric {
        self.0.metric()
    }
}

impl Task for Halving {
    fn rows(&mut self, clock: Clock) -> RowSet {
        let table = TableRows::listed(halved_at(clock));
        RowSet { tables: vec![TableRows::All, TableRows::none(), table] }
    }

    fn iterate(&mut self, clock: Clock, model: &Model) -> Result<(Deltas, Work), ApplicationError> {
        assert_eq!(model.values.len(), 17 + 12, "it holds what it reads");
        let rows = halved_at(clock);
        let values = rows.iter().flat_map(|row| model.row(TABLE, *row as usize));
        let changes = values.map(|value| -value / 4.0).collect();
        let table = TableDeltas::listed(rows, changes);
        let tables = vec![TableDeltas::none(), TableDeltas::none(), table];
        Ok((Deltas { tables }, Work { examples: 1, flops: 1.0 }))
    }

    fn repeats(&self) -> bool {
        false
    }
}

/// A program that trains [`Shrinking`] in its workers, or [`Halving`] a model with a sparse table.
struct Program(ScriptModel);

impl Applications for Program {
    fn build(&self, plan: &Plan, _: Range<usize>) -> Result<Arc<dyn Application>, DataError> {
        let (model, workers) = (self.0.clone(), plan.topology.workers());
        let shrinking = Shrinking { layout: model.layout(), model, workers };
        if shrinking.layout.has_sparse_tables() {
            return Ok(Arc::new(Halving(shrinking)));
        }
        Ok(Arc::new(shrinking))
    }
}

/// A run file with `app.model`, its certificates and that model.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        Self::of(&model(1.0), 1)
    }

    /// That of a model, with so many servers in each of two data centers.
    fn of(model: &ScriptModel, servers: usize) -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        let data_center = |name: &str| {
            let addresses: Vec<String> = (0..servers).map(|_| free_address()).collect();
            format!(
                "[[topology.data_center]]\nname = \"{name}\"\nservers = {servers}\n\
                 server_addresses = {addresses:?}\n"
            )
        };
        let run = format!(
            "name = \"script\"\ndriver = \"real\"\napp = {{ kind = \"external\", model = \"model.safetensors\" }}\n\
             sync.remote = {{ model = \"bsp\" }}\nstop.clocks = 12\n\
             [topology]\nname = \"two\"\ncoordinator_address = \"{}\"\n\
             wan = {{ bandwidth = \"100 Mbit/s\", rtt = \"10 ms\" }}\n{}{}",
            free_address(),
            data_center("east"),
            data_center("west"),
        );
        fs::write(bench.path("run.toml"), run).unwrap();
        fs::write(bench.path("model.safetensors"), model.to_bytes("test").unwrap()).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The plain program, which has no Python.
    fn gaia(&self, verb: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("gaia"));
        command.arg(verb).arg(self.path("run.toml")).args(arguments).env("NO_COLOR", "1");
        for name in
            ["GAIA_LOG", "GAIA_LOG_FORMAT", "GAIA_METRICS", "GAIA_COORDINATOR", "GAIA_ROLE", "RANK"]
        {
            command.env_remove(name);
        }
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a node of the plain program.
    fn node(&self, place: &[&str]) -> Node {
        Node(Some(self.gaia("node", place).spawn().unwrap()))
    }

    /// Runs a worker in this process, and returns its exit code or its error.
    fn worker(&self, dc: &str, model: ScriptModel) -> thread::JoinHandle<Result<u8, String>> {
        let text = |text: &str| OsString::from(text);
        let paths = [self.path("run.toml"), self.path("certs")].map(PathBuf::into_os_string);
        let [run, certs] = paths;
        let mut arguments = vec![text("gaia"), text("node"), run, text("--certs"), certs];
        arguments.extend(["--dc", dc, "--worker", "0", "--quiet"].map(text));
        thread::spawn(move || {
            gaia::cli::try_run(arguments, &Program(model)).map_err(|error| error.text)
        })
    }

    fn certify(&self) {
        let mut certs = Command::new(assert_cmd::cargo::cargo_bin!("gaia"));
        certs
            .args(["certs", "init"])
            .arg(self.path("run.toml"))
            .arg("--out")
            .arg(self.path("certs"));
        let issued = certs.output().unwrap();
        assert!(issued.status.success(), "{}", said(&issued));
    }

    fn tensors<T>(&self, file: &str, show: impl FnOnce(&SafeTensors<'_>) -> T) -> T {
        let bytes = fs::read(self.path(file)).unwrap();
        show(&SafeTensors::deserialize(&bytes).unwrap())
    }
}

/// A process that does not outlive its test.
struct Node(Option<Child>);

impl Node {
    fn end(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // One that has ended cannot be killed.
            let _ended = child.kill();
            let _ended = child.wait();
        }
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_run_trains_whose_workers_alone_know_the_script() {
    let bench = Bench::new();
    bench.certify();
    let nodes = [
        bench.node(&["--coordinator", "--out", "out"]),
        bench.node(&["--dc", "east", "--server", "0"]),
        bench.node(&["--dc", "west", "--server", "0"]),
    ];
    let workers = ["east", "west"].map(|dc| bench.worker(dc, model(1.0)));
    for worker in workers {
        assert_eq!(worker.join().unwrap(), Ok(0));
    }
    for node in nodes {
        let output = node.end();
        assert!(output.status.success(), "{}", said(&output));
    }

    let summary: Value =
        serde_json::from_slice(&fs::read(bench.path("out/summary.json")).unwrap()).unwrap();
    assert_eq!(
        (&summary["copies_equal"], &summary["metric"]["name"]),
        (&true.into(), &"distance".into())
    );
    assert!(summary["objective"].as_f64().unwrap() < 1.0, "{summary}");
    let shapes = |tensors: &SafeTensors<'_>| {
        ["kernel", "mean"].map(|name| tensors.tensor(name).unwrap().shape().to_vec())
    };
    assert_eq!(bench.tensors("out/model.safetensors", shapes), [vec![3, 2, 2], vec![5]]);
}

#[test]
fn a_worker_holds_rows_of_a_table_that_two_servers_have_from_its_rule() {
    let bench = Bench::of(&sparse_model(), 2);
    bench.certify();
    let mut nodes = vec![bench.node(&["--coordinator", "--out", "out"])];
    for dc in ["east", "west"] {
        nodes.extend(["0", "1"].map(|server| bench.node(&["--dc", dc, "--server", server])));
    }
    let workers = ["east", "west"].map(|dc| bench.worker(dc, sparse_model()));
    for worker in workers {
        assert_eq!(worker.join().unwrap(), Ok(0));
    }
    for node in nodes {
        let output = node.end();
        assert!(output.status.success(), "{}", said(&output));
    }

    let values = |tensors: &SafeTensors<'_>| {
        let bytes = tensors.tensor("table").unwrap().data().to_vec();
        let numbers = bytes.as_chunks().0.iter();
        numbers.map(|bytes| f32::from_le_bytes(*bytes)).collect::<Vec<f32>>()
    };
    let found = bench.tensors("out/model.safetensors", values);

    let rule = sparse_model().tensors[2].sparse.unwrap();
    let mut expected = vec![0.0; 3_000 * 4];
    expected.chunks_exact_mut(4).enumerate().for_each(|(row, values)| rule.write(row, values));
    // Row 7 was halved in each clock, up to the one at which the workers have stopped.
    let clocks = (expected[28] / found[28]).log2().round() as u64;
    assert!((12..30).contains(&clocks), "{clocks} clocks");
    for row in (0..clocks).flat_map(|clock| halved_at(Clock(clock))) {
        let start = 4 * row as usize;
        expected[start..start + 4].iter_mut().for_each(|value| *value *= 0.5);
    }
    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert!((found - expected).abs() < 1e-6, "value {at}: {found}, expected {expected}");
    }

    let summary: Value =
        serde_json::from_slice(&fs::read(bench.path("out/summary.json")).unwrap()).unwrap();
    assert_eq!(summary["copies_equal"], true);
    let near = |name: &Value, expected: f32| {
        let found = name.as_f64().unwrap();
        assert!((found - f64::from(expected)).abs() < 1e-6, "{found}, expected {expected}");
    };
    near(&summary["objective"], expected[7 * 4]);
    near(&summary["metric"]["value"], (expected[2_998 * 4] + expected[2_999 * 4]) / 2.0);
}

#[test]
fn another_seed_of_a_sparse_table_is_refused() {
    let bench = Bench::of(&sparse_model(), 1);
    bench.certify();
    let _coordinator = bench.node(&["--coordinator", "--out", "out"]);
    let mut other = sparse_model();
    other.tensors[2].sparse = InitialRows::new(4, 1.0, 0.5);
    let refused = bench.worker("west", other).join().unwrap().unwrap_err();
    assert!(refused.contains("table `table` differs in its initial values"), "{refused}");
}

#[test]
fn a_worker_of_another_model_is_refused() {
    let bench = Bench::new();
    bench.certify();
    let _coordinator = bench.node(&["--coordinator", "--out", "out"]);
    let refused = |model: ScriptModel| bench.worker("west", model).join().unwrap().unwrap_err();
    let values = refused(model(2.0));
    assert!(values.contains("table `kernel` differs in its initial values"), "{values}");

    let mut other = model(1.0);
    other.settings.momentum = 0.0;
    let momentum = refused(other);
    assert!(momentum.contains("refused: the hello has plan"), "{momentum}");
    assert!(!momentum.contains("table `"), "{momentum}");
}

#[test]
fn what_is_missing_is_said_before_the_run() {
    let bench = Bench::new();
    let refused = |verb: &str, arguments: &[&str], expect: &[&str]| {
        let output = bench.gaia(verb, arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        for part in expect {
            assert!(said(&output).contains(part), "{part:?} is missing:\n{}", said(&output));
        }
    };

    let checked = bench.gaia("check", &["--json"]).output().unwrap();
    assert!(checked.status.success(), "{}", said(&checked));
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(checked["parameters"], 17);

    let coordinator = ["--coordinator"];
    refused(
        "node",
        &["--dc", "east", "--worker", "0"],
        &["app.kind is external", "the gaia of the Python package for scripts"],
    );
    refused(
        "node",
        &[&coordinator[..], &["--set", "app.model=none"]].concat(),
        &["none", "app.model"],
    );
    refused(
        "node",
        &[&coordinator[..], &["--set", "app.model=run.toml"]].concat(),
        &["run.toml: found", "expected a safetensors file"],
    );
    refused("init", &["--script", "train.py"], &["this gaia has no Python"]);
    refused("init", &[], &["this gaia has no Python"]);

    let run = fs::read_to_string(bench.path("run.toml")).unwrap();
    fs::write(bench.path("run.toml"), run.replace(", model = \"model.safetensors\"", "")).unwrap();
    refused("node", &coordinator, &["app.model is missing", "gaia init"]);
}
