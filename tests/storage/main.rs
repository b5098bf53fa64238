//! Data in object storage: a server on this machine stands for it.
#![allow(clippy::unwrap_used)]

#[path = "../real_data/mod.rs"]
mod real_data;
mod server;

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use serde_json::Value;
use server::{ACCESS_KEY, Fault, Server};
use tempfile::TempDir;

/// A server, and a folder with what the program writes, its cache among it.
struct Bench {
    server: Server,
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { server: Server::start(), folder: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program in an environment without credentials but these.
    fn gaia(&self, verb: &str, arguments: &[&str]) -> Command {
        self.program(&[&[verb, "run.toml"], arguments].concat())
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let mut gaia = Command::cargo_bin("gaia").unwrap();
        gaia.current_dir(self.folder.path())
            .env_clear()
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", "secret-of-a-test")
            .env("AWS_REGION", "eu-central-1")
            .env("AWS_ENDPOINT", self.server.url())
            .env("AWS_ALLOW_HTTP", "true")
            .env("GAIA_CACHE", self.path("cache"))
            .args(arguments);
        gaia
    }

    /// Writes a run file over data.
    fn run(&self, kind: &str, data: &str) {
        let text = format!(
            "name = \"objects\"\nseed = 7\ndriver = \"simulated\"\nstop.clocks = 4\n\
             [app]\nkind = \"{kind}\"\ndata = {{ {data} }}\n\
             [topology]\nfile = \"three-regions\"\n\
             [sync.remote]\nmodel = \"bsp\"\n[compute]\nflops_per_second = 1e9\n"
        );
        fs::write(self.path("run.toml"), text).unwrap();
    }

    /// Trains, and returns the progress of the run.
    fn train(&self, out: &str) -> String {
        self.gaia("train", &["--quiet", "--out", out]).assert().success();
        fs::read_to_string(self.path(out).join("progress.jsonl")).unwrap()
    }

    /// The error of a run that is refused for its data, in one line.
    fn refusal(&self) -> String {
        let output =
            self.gaia("train", &["--out", "refused"]).assert().code(2).get_output().clone();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!said.contains("secret-of-a-test"), "{said}");
        said
    }
}

/// Ratings as text, more than a chunk of four MiB of them.
fn ratings(first_user: usize, count: usize) -> String {
    let mut text = String::from("userId,movieId,rating,timestamp\n");
    for at in 0..count {
        let (user, item) = (first_user + at % 500, 1 + at / 500 * 7 % 1000);
        writeln!(text, "{user},{item},{}.5,964982703", (user * item) % 5).unwrap();
    }
    text
}

#[test]
fn objects_train_as_files_do_and_are_read_by_ranges_once() {
    let bench = Bench::new();
    let text = ratings(1, 400_000);
    assert!(text.len() > 2 * CHUNK && text.len() < 3 * CHUNK);
    fs::write(bench.path("ratings.csv"), &text).unwrap();
    bench.server.put("bucket/a/ratings.csv", text);

    bench.run("matrix-factorization", "source = \"movielens\", path = \"ratings.csv\"");
    let expected = bench.train("files");
    bench.run(
        "matrix-factorization",
        "source = \"movielens\", path = \"s3://bucket/a/ratings.csv\"",
    );
    assert_eq!(bench.train("objects"), expected);
    let seen = bench.server.seen();
    assert_eq!((seen.ranges, seen.wholes, seen.most_bytes), (3, 0, CHUNK), "{seen:?}");

    assert_eq!(bench.train("again"), expected);
    assert_eq!(bench.server.seen().ranges, 0, "the cache has it");

    // A chunk that is broken on disk is fetched again, and so is an object that was replaced.
    let chunk = fs::read_dir(bench.path("cache/objects")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&chunk).unwrap();
    bytes[100] ^= 1;
    fs::write(&chunk, bytes).unwrap();
    assert_eq!(bench.train("repaired"), expected);
    assert_eq!(bench.server.seen().ranges, 1);
    bench.server.put("bucket/a/ratings.csv", ratings(1, 300_000));
    assert_ne!(bench.train("replaced"), expected);
    assert!(bench.server.seen().ranges >= 2);
}

#[test]
fn the_cache_stays_below_its_bound() {
    let bench = Bench::new();
    bench.server.put("bucket/ratings.csv", ratings(1, 500_000));
    bench.run("matrix-factorization", "source = \"movielens\", path = \"s3://bucket/ratings.csv\"");
    let bound = 2 * CHUNK as u64 + 100;
    let train = |bound: u64, out: &str| {
        let mut gaia = bench.gaia("train", &["--quiet", "--out", out]);
        gaia.env("GAIA_CACHE_BYTES", bound.to_string()).assert().success();
    };
    train(bound, "bounded");
    let files = fs::read_dir(bench.path("cache/objects")).unwrap();
    let held: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(held > 0 && held <= bound, "{held} of {bound}");

    fs::remove_dir_all(bench.path("cache")).unwrap();
    train(0, "without");
    assert!(!bench.path("cache").exists());
}

#[test]
fn a_bound_of_the_cache_may_have_a_unit_and_is_refused_where_it_is_none() {
    let bench = Bench::new();
    bench.server.put("bucket/ratings.csv", ratings(1, 1000));
    bench.run("matrix-factorization", "source = \"movielens\", path = \"s3://bucket/ratings.csv\"");
    let train = |bound: &str, out: &str| {
        let mut gaia = bench.gaia("train", &["--quiet", "--out", out]);
        gaia.env("GAIA_CACHE_BYTES", bound).assert()
    };
    train("500 MB", "with-unit").success();
    let refused = train("10G", "refused").code(2).get_output().clone();
    let said = String::from_utf8(refused.stderr).unwrap();
    let expect =
        "GAIA_CACHE_BYTES is `10G`, expected a number of bytes or an amount such as \"500 MB\"";
    assert!(said.contains(expect), "{said}");
}

#[test]
fn a_validation_set_may_be_an_object() {
    let bench = Bench::new();
    let parts = [("ratings.csv", ratings(1, 1000)), ("check.csv", ratings(1, 100))];
    for (name, text) in parts {
        bench.server.put(&format!("bucket/{name}"), text.as_str());
        fs::write(bench.path(name), text).unwrap();
    }
    let train = |root: &str, out: &str| {
        let data = format!("source = \"movielens\", path = \"{root}ratings.csv\"");
        bench.run("matrix-factorization", &data);
        let validation = format!("evaluate.data={root}check.csv");
        let arguments = ["--quiet", "--out", out, "--set", &validation];
        bench.gaia("train", &arguments).assert().success();
        fs::read_to_string(bench.path(out).join("progress.jsonl")).unwrap()
    };
    assert_eq!(train("s3://bucket/", "objects"), train("", "files"));
}

#[test]
fn folders_patterns_and_data_centers_name_objects_as_they_name_files() {
    let bench = Bench::new();
    let mut parts = Vec::new();
    for (at, name) in ["süd & west (1).csv", "50%+1=#.csv"].into_iter().enumerate() {
        parts.push((format!("names/{name}"), ratings(500 + 20 * at, 300)));
    }
    for dc in ["virginia", "ireland", "tokyo"] {
        for part in 0..3 {
            parts.push((format!("{dc}/part-{part}.csv"), ratings(1 + 20 * parts.len(), 300)));
        }
        // What is no data, and what is deeper.
        parts.push((format!("{dc}/_SUCCESS"), String::new()));
        parts.push((format!("{dc}/old/part-9.csv"), "broken".into()));
    }
    for (name, text) in &parts {
        bench.server.put(&format!("bucket/data/{name}"), text.as_str());
        let file = bench.path("data").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    for marker in ["", "tokyo/", "tokyo/old/", "tokyo/part-0.csv/"] {
        bench.server.put(&format!("bucket/data/{marker}"), "");
    }

    let both = |path: &str| {
        let data = |root: &str| format!("source = \"movielens\", path = \"{root}data/{path}\"");
        bench.run("matrix-factorization", &data(""));
        let name = path.replace(['/', '*', '{', '}'], "-");
        let expected = bench.train(&format!("files-{name}"));
        bench.run("matrix-factorization", &data("s3://bucket/"));
        assert_eq!(bench.train(&format!("objects-{name}")), expected, "{path}");
    };
    both("tokyo/");
    both("names/");
    both("names/süd & west (1).csv");
    both("names/50%+1=#.csv");
    both("*/part-?.csv");
    both("{dc}/part-[01].csv");

    let check = bench.gaia("check", &["--data", "--dc", "tokyo", "--json"]);
    let output = { check }.assert().success().get_output().stdout.clone();
    let place = &serde_json::from_slice::<Value>(&output).unwrap()["places"][0];
    assert_eq!(place["files"][1], "s3://bucket/data/tokyo/part-1.csv", "{place}");
    let bytes = parts.iter().filter(|(name, _)| name.starts_with("tokyo/part-")).take(2);
    assert_eq!(place["bytes"], bytes.map(|(_, text)| text.len()).sum::<usize>());
}

#[test]
fn every_format_is_read_from_objects() {
    let bench = Bench::new();
    let train = |kind: &str, data: &str, out: &str| {
        bench.run(kind, data);
        bench.train(out)
    };
    let both = |kind: &str, data: &str, name: &str| {
        let local = train(kind, &data.replace("AT", ""), &format!("files-{name}"));
        let remote = train(kind, &data.replace("AT", "s3://bucket/"), &format!("objects-{name}"));
        assert_eq!(local, remote, "{name}");
    };
    let put = |name: &str, bytes: &[u8]| {
        fs::write(bench.path(name), bytes).unwrap();
        bench.server.put(&format!("bucket/{name}"), bytes);
    };

    let rows: String = (0..200).map(|at| format!("{},{},{}\n", at % 7, at % 5, at % 2)).collect();
    put("rows.csv", format!("a,b,label\n{rows}").as_bytes());
    both("softmax-regression", "source = \"csv\", path = \"ATrows.csv\"", "csv");

    // What this program predicts is a Parquet file of two columns of numbers and a label.
    let model = "files-csv/model.safetensors";
    let with_data =
        |verb: &str, data: &str| bench.program(&[verb, model, "--data", data, "--json"]);
    with_data("predict", "rows.csv").args(["--out", "rows.parquet"]).assert().success();
    with_data("predict", "s3://bucket/rows.csv").args(["--out", "same.parquet"]).assert().success();
    let [local, remote] =
        ["rows.parquet", "same.parquet"].map(|name| fs::read(bench.path(name)).unwrap());
    assert_eq!(local, remote);
    let metric = |data: &str| {
        let output = with_data("evaluate", data).assert().success().get_output().stdout.clone();
        serde_json::from_slice::<Value>(&output).unwrap()["metric"].clone()
    };
    assert_eq!(metric("rows.csv"), metric("s3://bucket/rows.csv"));
    let bytes = fs::read(bench.path("rows.parquet")).unwrap();
    bench.server.put("bucket/rows.parquet", bytes);
    let columns = "columns = { features = [\"probability.0\", \"probability.1\"] }";
    let data = format!("source = \"parquet\", path = \"ATrows.parquet\", {columns}");
    both("softmax-regression", &data, "parquet");

    // What the decoder finds of an object that is replaced is not what is wrong with it.
    bench.server.fail(&[Fault::Replaced]);
    fs::remove_dir_all(bench.path("cache")).unwrap();
    bench.run("softmax-regression", &data.replace("AT", "s3://bucket/"));
    let said = bench.refusal();
    assert!(said.contains("the object has changed since it was opened"), "{said}");

    put("rows", b"+1 1:1 4:2\n-1 2:1\n+1 3:1\n-1 2:2\n");
    put("rows.t", b"+1 1:1\n-1 2:1\n");
    both("logistic-regression", "source = \"libsvm\", path = \"ATrows\"", "libsvm");
    put("words.txt", b"3\n4\n4\n1 1 2\n2 2 1\n3 1 4\n3 2 1\n");
    both("topic-model", "source = \"docword\", path = \"ATwords.txt\"", "docword");
    if let Some(folder) = real_data::real_data("mnist") {
        for file in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = format!("mnist/{}", file.file_name().to_string_lossy());
            fs::create_dir_all(bench.path("mnist")).unwrap();
            put(&name, &fs::read(file.path()).unwrap());
        }
        both("softmax-regression", "source = \"idx\", path = \"ATmnist\"", "idx");
    }
}

#[test]
fn what_passes_is_repeated_and_what_does_not_is_one_clear_error() {
    let bench = Bench::new();
    let url = "s3://bucket/ratings.csv";
    let refused = |says: &str| {
        let said = bench.refusal();
        assert!(said.contains(says) && said.contains(url), "{said}\nshould say {says}");
    };
    bench.run("matrix-factorization", &format!("source = \"movielens\", path = \"{url}\""));
    refused("no such object; a folder is written with `/` at its end");

    let text = ratings(1, 300_000);
    bench.server.put("bucket/ratings.csv", text.as_str());
    bench.server.fail(&[Fault::Status(503), Fault::Cut(70_000), Fault::Status(500), Fault::Cut(3)]);
    let expected = bench.train("repeated");
    fs::remove_dir_all(bench.path("cache")).unwrap();
    assert_eq!(bench.train("calm"), expected);

    for (fault, says) in [
        (Fault::Replaced, "the object has changed since it was opened"),
        (Fault::Deleted, "no such object"),
        (Fault::Status(403), "access is refused; credentials are read from AWS_ACCESS_KEY_ID"),
    ] {
        fs::remove_dir_all(bench.path("cache")).unwrap();
        bench.server.put("bucket/ratings.csv", text.as_str());
        bench.server.fail(&[fault]);
        refused(says);
        fs::create_dir_all(bench.path("cache")).unwrap();
    }

    let mut stranger = bench.gaia("train", &["--out", "refused"]);
    let output = stranger.env("AWS_ACCESS_KEY_ID", "other").assert().code(2).get_output().clone();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("access is refused") && said.contains(url), "{said}");

    for (path, says) in [
        ("ftp://bucket/a.csv", "found ftp, expected a URL of s3, gs, az or https"),
        ("http://example.com/a.csv", "found http, expected https, or http on this machine alone"),
        ("s3://bucket/none/", "found no object there"),
        ("s3://bucket/[/a.csv", "a pattern with a mistake"),
    ] {
        bench.run("matrix-factorization", &format!("source = \"movielens\", path = \"{path}\""));
        let said = bench.refusal();
        assert!(said.contains(says) && said.contains(path), "{said}\nshould say {says}");
    }
}

#[test]
fn a_web_server_has_single_objects() {
    let bench = Bench::new();
    let text = ratings(1, 1000);
    bench.server.put("open/ratings.csv", text.as_str());
    fs::write(bench.path("ratings.csv"), text).unwrap();
    bench.run("matrix-factorization", "source = \"movielens\", path = \"ratings.csv\"");
    let expected = bench.train("files");
    for (out, signature) in [("objects", ""), ("signed", "?signature=a%2Fb")] {
        let url = format!("{}/open/ratings.csv{signature}", bench.server.url());
        bench.run("matrix-factorization", &format!("source = \"movielens\", path = \"{url}\""));
        assert_eq!(bench.train(out), expected);
    }
}

/// The server stands for these, too, where nothing is signed.
#[test]
fn google_cloud_and_azure_are_found_through_their_variables() {
    let bench = Bench::new();
    let text = ratings(1, 1000);
    bench.server.put("open/a/ratings.csv", text.as_str());
    fs::write(bench.path("ratings.csv"), text).unwrap();
    bench.run("matrix-factorization", "source = \"movielens\", path = \"ratings.csv\"");
    let expected = bench.train("files");

    let account = format!(
        "{{\"gcs_base_url\": \"{}\", \"disable_oauth\": true, \"client_email\": \"\", \
          \"private_key\": \"\", \"private_key_id\": \"\"}}",
        bench.server.url()
    );
    fs::write(bench.path("account.json"), account).unwrap();
    for path in ["gs://open/a/ratings.csv", "gs://open/a/", "az://open/a/ratings.csv"] {
        bench.run("matrix-factorization", &format!("source = \"movielens\", path = \"{path}\""));
        let out = path.replace(['/', ':'], "-");
        bench
            .gaia("train", &["--quiet", "--out", &out])
            .env("GOOGLE_SERVICE_ACCOUNT", bench.path("account.json"))
            .env("AZURE_STORAGE_ACCOUNT_NAME", "account")
            .env("AZURE_SKIP_SIGNATURE", "true")
            .env("AZURE_ENDPOINT", bench.server.url())
            .env("AZURE_ALLOW_HTTP", "true")
            .assert()
            .success();
        let progress = fs::read_to_string(bench.path(&out).join("progress.jsonl")).unwrap();
        assert_eq!(progress, expected, "{path}");
    }
}

/// Bytes of a request.
const CHUNK: usize = 4 << 20;
