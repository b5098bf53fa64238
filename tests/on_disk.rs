//! Examples on disk: the same examples as in memory, in a seeded order, in little memory.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![allow(
    clippy::disallowed_methods,
    reason = "the memory of another process is looked at from time to time"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;

use assert_cmd::Command;
use gaia_core::application::Application;
use gaia_core::topology::DataHome;
use gaia_core::types::{Clock, Seed};
use gaia_data::{DataError, build_validated};
use gaia_ml::apps::AppConfig;
use serde_json::Value;
use tempfile::TempDir;

/// A kind of application and a format of its data.
struct Format {
    kind: &'static str,
    keys: &'static str,
    /// Writes a data set of so many examples, and returns its path.
    write: fn(&Path, usize) -> PathBuf,
}

const FORMATS: [Format; 7] = [
    Format {
        kind: "matrix-factorization",
        keys: "clocks_per_pass = 30\ndata.source = 'movielens'",
        write: |folder, count| {
            let rows = (0..count).map(|at| format!("{},{},{}\n", at / 7, at % 97, at % 5 + 1));
            written(folder, "ratings.csv", &format!("userId,movieId,rating\n{}", text(rows)))
        },
    },
    Format {
        kind: "matrix-factorization",
        keys: "clocks_per_pass = 30\ndata.source = 'csv'\ndata.split = 'by-user'\ndata.skew = 0.5",
        write: |folder, count| {
            let rows = (0..count).map(|at| format!("u{},{},{}\n", at % 11, at % 97, at % 5));
            written(folder, "named.csv", &format!("user,item,rating\n{}", text(rows)))
        },
    },
    Format {
        kind: "softmax-regression",
        keys: "batch = 7\ndata.source = 'csv'\ndata.split = 'by-label'",
        write: |folder, count| {
            let row = |at: usize| format!("{},{},{}\n", at % 13, at % 7, ["b", "a", "c"][at % 3]);
            let rows = (0..count).map(row);
            written(folder, "dense.csv", &format!("x,y,label\n{}", text(rows)))
        },
    },
    Format {
        kind: "logistic-regression",
        keys: "batch = 9\ndata.source = 'csv'",
        write: |folder, count| {
            let rows = (0..count).map(|at| format!("{},0,{},{}\n", at % 13, at % 7, at % 2));
            written(folder, "sparse.csv", &format!("x,y,z,label\n{}", text(rows)))
        },
    },
    Format {
        kind: "logistic-regression",
        keys: "batch = 9\ndata.source = 'libsvm'",
        write: |folder, count| {
            let rows = (0..count).map(|at| format!("{} {}:1 40:{}\n", at % 2, at % 30 + 1, at % 9));
            written(folder, "rows", &text(rows))
        },
    },
    Format {
        kind: "topic-model",
        keys: "topics = 3\nclocks_per_pass = 30\nevaluate_documents = 4000000\ndata.source = 'docword'",
        write: |folder, count| {
            let mut rows = format!("{count}\n50\n{}\n", 2 * count);
            for at in 0..count {
                let (first, second) = (at % 25 + 1, 26 + at % 11);
                writeln!(rows, "{} {first} {}\n{} {second} 2", at + 1, at % 3 + 1, at + 1).unwrap();
            }
            written(folder, "docword.txt", &rows)
        },
    },
    Format {
        kind: "perceptron",
        keys: "batch = 16\nhidden = [3]\ndata.source = 'idx'",
        write: |folder, count| images(&folder.join("images"), count, 4),
    },
];

#[test]
fn every_format_has_the_same_examples_on_disk_as_in_memory() {
    for Format { kind, keys, write } in FORMATS {
        let folder = TempDir::new().unwrap();
        let path = write(folder.path(), 3000);
        // A validation set stands in for held-out examples: all of `path` train.
        let build = |keys: &str| built(kind, keys, &path, Some(&path)).expect("good data");
        let in_memory = build(keys);
        let on_disk = build(&format!("{keys}\n{}", disk(folder.path(), "1 MiB")));
        assert_eq!(on_disk.describe(), in_memory.describe());
        assert_eq!(on_disk.attachments(), in_memory.attachments());
        assert_eq!(on_disk.clocks_per_pass(), in_memory.clocks_per_pass());

        let model = on_disk.initial_model(Seed(3));
        assert_eq!(model.values, in_memory.initial_model(Seed(3)).values);
        let [disk, memory] = [&on_disk, &in_memory].map(|app| app.evaluate(&model).unwrap());
        assert!((disk.objective - memory.objective).abs() < 1e-6, "{kind}: {disk:?}, {memory:?}");
        let is_close = (disk.metric / memory.metric - 1.0).abs() < 1e-2;
        assert!(is_close || kind == "topic-model", "{kind}: {disk:?}, {memory:?}");

        let examples = |app: &Arc<dyn Application>| -> f64 {
            (0..WORKERS)
                .map(|worker| app.sums(&model, worker..worker + 1).unwrap().objective.weight)
                .sum()
        };
        assert_eq!(examples(&on_disk), examples(&in_memory), "{kind}: each example counts once");
    }
}

#[test]
fn a_pass_has_the_work_of_a_pass_and_a_task_that_is_made_again_goes_on() {
    for Format { kind, keys, write } in FORMATS {
        let folder = TempDir::new().unwrap();
        let path = write(folder.path(), 3000);
        let keys = format!("{keys}\n{}", disk(folder.path(), "1 MiB"));
        let app = built(kind, &keys, &path, None).expect("good data");
        let again = built(kind, &keys, &path, None).expect("good data");
        let model = app.initial_model(Seed(3));
        let mut visited = 0;
        for worker in 0..WORKERS {
            let mut task = app.task(worker, Seed(5));
            let own = app.sums(&model, worker..worker + 1).unwrap().objective.weight;
            let mut seen = 0;
            for clock in (0..).map(Clock) {
                task.rows(clock);
                let (deltas, work) = task.iterate(clock, &model).unwrap();
                // Topics of tokens are state that a new task does not have.
                if clock.0 % 5 == 0 && kind != "topic-model" {
                    let mut anew = again.task(worker, Seed(5));
                    anew.rows(clock);
                    assert_eq!(anew.iterate(clock, &model).unwrap().0, deltas, "{kind}");
                }
                seen += work.examples;
                if seen as f64 >= own {
                    break;
                }
            }
            assert_eq!(seen as f64, own, "{kind}: batches end with the pass");
            visited += seen;
        }
        assert!(visited > 2000, "{kind}");
    }
}

#[test]
fn a_run_repeats_to_the_byte_and_leaves_nothing_in_the_scratch_folder() {
    let bench = Bench::new();
    for Format { kind, keys, write } in FORMATS {
        let path = write(bench.folder.path(), 2000);
        bench.write_run(kind, keys, &path, "4 MiB");
        let runs = ["first", "second"].map(|out| {
            bench.gaia(&["train", "run.toml", "--quiet", "--out", out]).assert().success();
            let progress = fs::read(bench.folder.path().join(out).join("progress.jsonl")).unwrap();
            fs::remove_dir_all(bench.folder.path().join(out)).unwrap();
            progress
        });
        assert_eq!(runs[0], runs[1], "{kind}");
        assert_eq!(fs::read_dir(bench.scratch()).unwrap().count(), 0);
    }
}

#[test]
fn what_does_not_fit_is_one_error_that_names_the_key() {
    let folder = TempDir::new().unwrap();
    let refused = |format: &Format, keys: &str, error: &str| {
        let path = (format.write)(folder.path(), 200_000);
        let keys = format!("{}\n{keys}", format.keys);
        let Err(found) = built(format.kind, &keys, &path, None) else { panic!("{keys}") };
        assert!(found.to_string().contains(error), "{found}");
    };
    let ratings = Format { keys: "clocks_per_pass = 1\ndata.source = 'movielens'", ..FORMATS[0] };
    let disk_keys = disk(folder.path(), "1 MiB");
    refused(
        &ratings,
        &disk_keys,
        "app.clocks_per_pass is 1, expected at least 9, so that a clock's examples of a worker fit in app.data.memory",
    );
    let dense = Format { keys: "batch = 100000\ndata.source = 'csv'", ..FORMATS[2] };
    refused(&dense, &disk_keys, "app.batch is 100000, expected at most ");
    let missing = disk(&folder.path().join("missing"), "1 MiB");
    refused(&ratings, &missing, "missing, which cannot be written: ");

    // A data center may have a folder of its own.
    for name in ["a.csv", "b.csv"] {
        written(folder.path(), name, "userId,movieId,rating\n1,1,3\n1,2,4\n2,1,5\n");
    }
    let keys = format!(
        "data.source = 'movielens'\n{disk_keys}\ndata.at.b.scratch = '{}'",
        folder.path().join("of-b").display()
    );
    let path = folder.path().join("{dc}.csv");
    let Err(found) = built("matrix-factorization", &keys, &path, None) else { panic!("no folder") };
    assert!(found.to_string().contains("of-b, which cannot be written: "), "{found}");

    let rows = "3\n4\n3\n2 1 1\n1 2 1\n3 1 1\n";
    let path = written(folder.path(), "unordered.txt", rows);
    let keys = format!("data.source = 'docword'\n{disk_keys}");
    let Err(found) = built("topic-model", &keys, &path, None) else { panic!("unordered") };
    let error = "unordered.txt, row 5: found document 1 after document 2, expected rows in the order of their documents";
    assert!(found.to_string().contains(error), "{found}");

    let config = AppConfig::deserialize(
        "perceptron",
        toml::Deserializer::parse("data.examples = 'disk'").unwrap(),
    );
    let error = config.unwrap().validate().unwrap_err().to_string();
    assert_eq!(
        error,
        "app.data.examples is \"disk\", expected \"memory\", where data is generated"
    );
}

/// Four times the memory that the system allows, images and all. Needs a control group of memory that this user may make.
#[test]
fn a_data_set_of_four_times_the_memory_trains_in_a_flat_resident_set() {
    const LIMIT: u64 = 96 << 20;
    let Some(group) = Group::new(LIMIT) else {
        println!("skipped: no control group of memory can be made here");
        return;
    };
    let bench = Bench::new();
    let pixels = 1024;
    let path = images(&bench.folder.path().join("images"), 4 * LIMIT as usize / pixels, 32);
    let keys = "batch = 256\nevaluate_examples = 2000\ndata.source = 'idx'";
    bench.write_run("softmax-regression", keys, &path, "16 MiB");

    let train = ["train", "run.toml", "--quiet", "--out", "run", "--set", "stop.clocks=1200"];
    let in_memory = [&train[..], &["--set", "app.data.examples=memory"]].concat();
    let refused = group.run(&bench, &in_memory);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status, Some(2), "{error}");
    assert!(error.contains("expected \"disk\", for files of "), "{error}");

    let ended = group.run(&bench, &train);
    assert_eq!(ended.status, Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let summary = fs::read(bench.folder.path().join("run/summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    let clocks = summary["data_center_clocks"][0].as_u64().unwrap();
    assert!(clocks * 512 >= 4 * LIMIT / pixels as u64, "a pass over all examples: {clocks}");

    // While the model trains: from the fourth fifth to the end.
    let (_, trained) = ended.resident.split_at(3 * ended.resident.len() / 5);
    let (first, second) = trained.split_at(trained.len() / 2);
    let most = |part: &[u64]| part.iter().copied().max().unwrap_or(0);
    println!("resident: {} kB, then {} kB", most(first) >> 10, most(second) >> 10);
    assert!(most(second) <= most(first) + (16 << 20), "{:?}", ended.resident);
    assert!(most(second) < LIMIT);
}

const WORKERS: usize = 3;

/// The keys of examples on disk.
fn disk(scratch: &Path, memory: &str) -> String {
    let scratch = scratch.display();
    format!("data.examples = 'disk'\ndata.scratch = '{scratch}'\ndata.memory = '{memory}'")
}

/// The application over data at a path, for workers of two data centers.
fn built(
    kind: &str,
    keys: &str,
    path: &Path,
    validation: Option<&Path>,
) -> Result<Arc<dyn Application>, DataError> {
    let keys = format!("{keys}\ndata.path = '{}'", path.display());
    let keys = toml::Deserializer::parse(&keys).expect("TOML");
    let config = AppConfig::deserialize(kind, keys).expect("good keys");
    let homes = [("a", 1), ("b", 2)].map(|(name, workers)| DataHome { name: name.into(), workers });
    build_validated(Some(&config), &homes, Seed(1), validation)
}

fn text(rows: impl Iterator<Item = String>) -> String {
    rows.collect()
}

fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// A folder of IDX files: so many square images that train, and a tenth of them, at most 1000, that test.
fn images(folder: &Path, count: usize, side: usize) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    for (set, count) in [("train", count), ("t10k", (count / 10).clamp(1, 1000))] {
        let header = |dimensions: &[usize]| {
            let magic = [0, 0, 8, dimensions.len() as u8];
            let sizes = dimensions.iter().flat_map(|size| (*size as u32).to_be_bytes());
            magic.into_iter().chain(sizes).collect::<Vec<u8>>()
        };
        let label = |at: usize| (at % 10) as u8;
        let pixels = side * side;
        let mut bytes = header(&[count, side, side]);
        let pixel = |at: usize| label(at / pixels).wrapping_mul(25) ^ (at % 7) as u8;
        bytes.extend((0..count * pixels).map(pixel));
        fs::write(folder.join(format!("{set}-images-idx3-ubyte")), bytes).unwrap();
        let mut bytes = header(&[count]);
        bytes.extend((0..count).map(label));
        fs::write(folder.join(format!("{set}-labels-idx1-ubyte")), bytes).unwrap();
    }
    folder.into()
}

/// A folder with a run file, its data and a folder for examples on disk.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("scratch")).unwrap();
        Self { folder }
    }

    fn scratch(&self) -> PathBuf {
        self.folder.path().join("scratch")
    }

    fn gaia(&self, arguments: &[&str]) -> Command {
        let mut gaia = Command::cargo_bin("gaia").unwrap();
        gaia.current_dir(self.folder.path()).args(arguments);
        gaia
    }

    /// Writes a run over two data centers with a worker each.
    fn write_run(&self, kind: &str, keys: &str, path: &Path, memory: &str) {
        let run = format!(
            "name = \"disk\"\nseed = 7\ndriver = \"simulated\"\nstop.clocks = 60\nevaluate.every = 400\n\
             [app]\nkind = \"{kind}\"\n{keys}\ndata.path = '{}'\ndata.examples = 'disk'\n\
             data.scratch = 'scratch'\ndata.memory = '{memory}'\n\
             [sync.remote]\nmodel = \"bsp\"\n[compute]\nflops_per_second = 1e9\n\
             [topology]\nname = \"two\"\ndata_center = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
             [topology.defaults]\nservers = 1\nworkers = 1\n\
             [topology.wan]\nbandwidth = \"50 Mbit/s\"\nrtt = \"10 ms\"\n",
            path.display()
        );
        fs::write(self.folder.path().join("run.toml"), run).unwrap();
    }
}

/// A control group that allows its processes so much memory.
struct Group(PathBuf);

/// How a process has ended, what it said, and its resident set from time to time, in bytes: without the pages of its
/// program's own file, which whoever read them first accounts for.
struct Ended {
    status: Option<i32>,
    stderr: Vec<u8>,
    resident: Vec<u64>,
}

impl Group {
    fn new(limit: u64) -> Option<Self> {
        let group = format!("gaia-test-{}", std::process::id());
        let limits = BTreeMap::from([
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ]);
        limits.into_iter().find_map(|(root, file)| {
            let own = Self(Path::new(root).join(&group));
            fs::create_dir(&own.0).ok()?;
            // Whichever of the two is not a hierarchy of memory has no such file.
            let has_limit = own.0.join(file).exists();
            (has_limit && fs::write(own.0.join(file), limit.to_string()).is_ok()).then_some(own)
        })
    }

    /// Runs the program within the group.
    fn run(&self, bench: &Bench, arguments: &[&str]) -> Ended {
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", self.0.display());
        let program = assert_cmd::cargo::cargo_bin("gaia");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &enter]).arg(program).args(arguments);
        command.current_dir(bench.folder.path()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut resident = Vec::new();
        while child.try_wait().unwrap().is_none() {
            resident.extend(resident_bytes(&child));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let output = child.wait_with_output().unwrap();
        Ended { status: output.status.code(), stderr: output.stderr, resident }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn resident_bytes(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}
