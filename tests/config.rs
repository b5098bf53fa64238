//! What good files mean: the shipped ones, overrides, and a plan written out and read again.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use gaia::ComparisonPlan;
use gaia_config::{
    DriverKind, LostWorkers, Override, Plan, RunFile, load_topology, topologies, topology_from_text,
};
use gaia_core::sync::{Combine, LocalStepsConfig, Outer, OverlayKind, RemoteSync};
use gaia_core::types::{Bandwidth, DcId, Seed};
use gaia_ml::apps::{AppConfig, RatingSource};

fn load(path: &str, settings: &[&str]) -> Plan {
    let overrides: Vec<Override> =
        settings.iter().map(|setting| Override::parse(setting).unwrap()).collect();
    Plan::load(Path::new(path), &overrides)
        .unwrap_or_else(|error| panic!("{}", error.render(false)))
}

#[test]
fn every_shipped_run_file_is_good() {
    for entry in fs::read_dir("config/run").unwrap() {
        let path = entry.unwrap().path();
        let plan = load(path.to_str().unwrap(), &[]);
        assert_eq!(Some(plan.name.as_str()), path.file_stem().and_then(|stem| stem.to_str()));
    }
}

#[test]
fn every_shipped_topology_is_known_by_its_name() {
    let mut files: Vec<String> = fs::read_dir("config/topology")
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let mut names: Vec<&str> = topologies().collect();
    names.sort_unstable();
    assert_eq!(files, names);
    for name in names {
        let topology =
            load_topology(name).unwrap_or_else(|error| panic!("{}", error.render(false)));
        assert_eq!(topology.name, name);
        let from_file = load_topology(&format!("config/topology/{name}.toml")).unwrap();
        assert_eq!(topology, from_file);
    }
}

#[test]
fn figures_of_the_paper_stand_in_its_topologies() {
    let all = load_topology("gaia-2016-ec2-all").unwrap();
    assert_eq!((all.data_centers.len(), all.workers(), all.links.len()), (11, 22, 110));
    let ss = load_topology("gaia-2016-ss").unwrap();
    let slow = ss.link(DcId(0), DcId(1));
    assert_eq!(slow.bandwidth, Bandwidth::from_mbit(16.76));
    assert_eq!(slow.rtt, "359.2 ms".parse().unwrap());
    let vc = load_topology("gaia-2016-vc").unwrap();
    assert_eq!(vc.link(DcId(1), DcId(0)).bandwidth, Bandwidth::from_mbit(115.0));
    let lan = load_topology("lan").unwrap();
    assert_eq!((lan.data_centers.len(), lan.workers()), (1, 22));
}

#[test]
fn names_of_cloud_regions_stand_for_the_places_of_matrices() {
    let path = "config/topology/three-regions.toml";
    let places = fs::read_to_string(path).unwrap();
    let expect = topology_from_text(path, &places).unwrap();
    for names in [
        ["us-east-1", "eu-west-1", "ap-northeast-1"],
        ["us-east4", "northeurope", "asia-northeast1"],
        ["eastus", "ireland", "japaneast"],
    ] {
        let mut text = places.clone();
        for (place, name) in ["virginia", "ireland", "tokyo"].into_iter().zip(names) {
            text = text.replace(&format!("name = \"{place}\""), &format!("name = \"{name}\""));
        }
        let found = topology_from_text(path, &text).unwrap();
        assert_eq!(found.data_centers.iter().map(|dc| &*dc.name).collect::<Vec<_>>(), names);
        assert_eq!(found.links, expect.links, "{names:?}");
    }

    let unknown = places.replace("name = \"tokyo\"", "name = \"ap-northeast-9\"");
    let error = topology_from_text(path, &unknown).unwrap_err().render(false);
    assert!(error.contains("expected a column `ap-northeast-9`"), "{error}");
}

#[test]
fn each_data_center_has_the_format_of_its_own_files() {
    let sources = |data: &str| {
        let text = format!(
            "name = 'own'\ndriver = 'simulated'\nstop.clocks = 1\ncompute.examples_per_second = 1.0\nsync.remote.model = 'bsp'\n\
             topology.file = 'three-regions'\napp.kind = 'matrix-factorization'\napp.data = {{ {data} }}\n"
        );
        let plan = RunFile::from_text("/folder/run.toml", &text, &[]).unwrap().plan().unwrap();
        let Some(AppConfig::MatrixFactorization(config)) = plan.app else { panic!("{text}") };
        let of = |name: &str| config.data.at.get(name).and_then(|at| at.source);
        (config.data.source, ["virginia", "ireland", "tokyo"].map(of))
    };

    let mixed =
        "at.virginia.path = 'v.parquet', at.ireland.path = 'ratings.csv', at.tokyo.path = 't.dat'";
    let (_, found) = sources(mixed);
    assert_eq!(
        found,
        [RatingSource::Parquet, RatingSource::MovieLens, RatingSource::MovieLens].map(Some)
    );

    let (all, found) = sources(&format!("source = 'csv', {mixed}"));
    assert_eq!(
        (all, found),
        (RatingSource::Csv, [None, None, None]),
        "what is stated holds for all"
    );
}

#[test]
fn on_a_lan_workers_keep_the_data_of_their_data_centers() {
    let run = |path: &str| {
        let text = format!(
            "name = 'own'\ndriver = 'simulated'\nstop.clocks = 1\ncompute.examples_per_second = 1.0\nsync.remote.model = 'bsp'\n\
             topology.file = 'three-regions'\napp.kind = 'matrix-factorization'\n\
             app.data = {{ source = 'movielens', path = '{path}', at.tokyo.path = 'tokyo.csv' }}\n"
        );
        let own = text.replace(", at.tokyo.path = 'tokyo.csv'", "");
        let text = if path.contains("shared") { own } else { text };
        RunFile::from_text("/folder/run.toml", &text, &[]).unwrap().plan().unwrap()
    };

    let plan = run("{dc}.csv");
    let homes = plan.data_homes();
    let names: Vec<&str> = homes.iter().map(|home| home.name.as_str()).collect();
    assert_eq!(names, ["virginia", "ireland", "tokyo"]);
    let lan = plan.on_lan();
    assert_eq!((lan.topology.data_centers.len(), lan.data_homes()), (1, homes.clone()));

    let text = lan.to_toml();
    assert!(text.contains("/folder/{dc}.csv") && text.contains("/folder/tokyo.csv"), "{text}");
    let again = RunFile::from_text("again.toml", &text, &[]).unwrap().plan().unwrap();
    assert_eq!((again.to_toml(), again.data_homes()), (text, homes));

    let shared = run("shared.csv");
    assert_eq!(shared.data_homes(), shared.on_lan().data_homes());
    assert!(!shared.on_lan().to_toml().contains("stands_for"));
}

#[test]
fn a_plan_written_out_reads_back_the_same() {
    let cases: [(&str, &[&str]); 15] = [
        ("mnist-cnn", &["app.normalization=group", "app.filters=[4, 8]", "app.hidden=[]"]),
        ("quickstart", &[]),
        ("movielens", &["topology.bandwidth_scale=0.0123456789", "seed=7"]),
        ("mnist", &["sync.remote.model=bsp", "topology.wan.bandwidth=33.333333333 Mbit/s"]),
        ("kos", &["app.data.vocabulary_path=vocab.kos.txt", "app.alpha=0.1234567891"]),
        ("a9a", &["sync.remote={ model = 'ssp', staleness = 3 }", "topology.wan.loss=0.001"]),
        ("a9a", &["topology.file=lan", "compute.slowdown.lan=1.5", "sync.local.model=bsp"]),
        ("a9a", &["sync.remote={ model = 'local-steps', fragments = 2, values = 'int8' }"]),
        ("kos", &["sync.remote={ model = 'local-steps', steps = 3 }"]),
        ("quickstart", &["sync.local.quorum=0.75", "sync.local.grace=20 ms"]),
        ("quickstart", &["sync.local.quorum=0.75", "sync.local.grace=1.23456 ms"]),
        ("movielens", &["app.data.examples=disk", "app.data.memory=1024 GiB"]),
        ("quickstart", &["topology.detours=false", "topology.lan_tls=false"]),
        (
            "quickstart",
            &["compute.slowdown.tokyo=[1.0, 2.5]", "compute.slowdown.ireland=[3.0, 3.0]"],
        ),
        ("quickstart", &["compute.slowdown.tokyo=2", "topology.wan.queue=1.23456789 s"]),
    ];
    for (name, settings) in cases {
        let plan = load(&format!("config/run/{name}.toml"), settings);
        let text = plan.to_toml();
        let again = RunFile::from_text("run.toml", &text, &[])
            .and_then(|file| file.plan())
            .unwrap_or_else(|error| panic!("{}\n{text}", error.render(false)));
        assert_eq!(again, plan, "{text}");
        assert_eq!(again.to_toml(), text);
    }
}

/// What a run file leaves out of local steps is for an application that counts what keeps counts, and a run says so.
#[test]
fn local_steps_add_up_what_counts_and_average_what_does_not() {
    let remote = |name: &str, keys: &str| {
        let remote = format!("sync.remote={{ model = 'local-steps'{keys} }}");
        load(&format!("config/run/{name}.toml"), &[&remote])
    };
    let RemoteSync::LocalSteps(mean) = remote("a9a", "").remote else { panic!("another model") };
    assert_eq!(mean, LocalStepsConfig::default());
    let counts = remote("kos", "");
    let sum = LocalStepsConfig {
        combine: Combine::Sum,
        outer: Outer::Plain,
        outer_learning_rate: 1.0,
        ..LocalStepsConfig::default()
    };
    assert_eq!(counts.remote, RemoteSync::LocalSteps(sum));
    let written = counts.to_toml();
    for line in ["combine = \"sum\"", "outer = \"plain\"", "outer_learning_rate = 1.0"] {
        assert!(written.contains(line), "{written}");
    }
    let said = ", combine = 'sum', outer = 'plain', outer_learning_rate = 1";
    assert_eq!(remote("kos", said), counts);
}

/// What a run does about lost workers can be said on the command line, and a run file that repeats it says it in full.
#[test]
fn lost_workers_are_taken_over_after_half_a_minute_unless_something_else_is_said() {
    let failures = |settings: &[&str]| {
        let plan = load("config/run/quickstart.toml", settings);
        let again = RunFile::from_text("again", &plan.to_toml(), &[]).and_then(|file| file.plan());
        assert_eq!(again.unwrap().failures, plan.failures);
        (plan.failures.lost_workers, plan.failures.take_over_after.map(|after| after.to_string()))
    };
    assert_eq!(failures(&[]), (LostWorkers::Wait, None));
    let take_over = "failures.lost_workers=take-over";
    assert_eq!(failures(&[take_over]), (LostWorkers::TakeOver, Some("30 s".into())));
    let after = "failures.take_over_after=1500 ms";
    assert_eq!(failures(&[take_over, after]), (LostWorkers::TakeOver, Some("1.5 s".into())));
}

#[test]
fn the_last_override_of_a_key_wins_and_the_file_gives_way() {
    let settings = ["seed=1", "seed=2", "driver=simulated", "stop.clocks=3"];
    let plan = load("config/run/quickstart.toml", &settings);
    assert_eq!((plan.seed, plan.driver), (Seed(2), DriverKind::Simulated));
    assert_eq!(plan.stop.clocks, Some(3));
}

#[test]
fn choosing_another_model_drops_the_settings_of_the_one_in_the_file() {
    let settings = ["sync.remote.staleness=4", "sync.remote.model=ssp"];
    let plan = load("config/run/quickstart.toml", &settings);
    let RemoteSync::Ssp(ssp) = plan.remote else { panic!("{:?}", plan.remote) };
    assert_eq!(ssp.staleness.0, 4);
    let plan = load("config/run/movielens.toml", &["sync.remote.model=asp"]);
    let RemoteSync::Asp(asp) = plan.remote else { panic!("{:?}", plan.remote) };
    assert_eq!(asp.overlay, OverlayKind::Tree, "the file's own model keeps its settings");
}

#[test]
fn paths_start_at_the_file_they_stand_in_and_those_of_overrides_at_the_working_directory() {
    let here = std::env::current_dir().unwrap();
    let path = |settings: &[&str]| {
        let text = load("config/run/a9a.toml", settings).to_toml();
        let table: toml::Table = text.parse().unwrap();
        table["app"]["data"]["path"].as_str().unwrap().to_owned()
    };
    assert_eq!(Path::new(&path(&[])), here.join("data/a9a"));
    assert_eq!(Path::new(&path(&["app.data.path=data/x.gz"])), here.join("data/x.gz"));
    assert_eq!(path(&["app.data.path=/abs/x"]), "/abs/x");
}

#[test]
fn another_application_trains_on_the_data_that_the_file_names() {
    let digits = ["app.kind=perceptron", "app.data.path=/abs/digits"];
    assert_eq!(data("config/run/mnist.toml", &digits, "source"), "idx");
    assert_eq!(data("config/run/mnist.toml", &digits, "path"), "/abs/digits");

    let settings = ["app.data.source=synthetic", "app.kind=perceptron"];
    assert_eq!(data("config/run/mnist.toml", &settings, "source"), "synthetic");

    let generated = load("config/paper/skew-cnn.toml", &["app.kind=perceptron"]);
    assert_eq!(generated.app, load("config/paper/skew-cnn.toml", &PERCEPTRON).app);
}

#[test]
fn the_format_of_data_follows_from_the_name_of_its_path() {
    let ratings = |path: &str| {
        let path = format!("app.data.path={path}");
        data("config/run/quickstart.toml", &[&path], "source")
    };
    assert_eq!(ratings("ratings.csv.gz"), "movielens");
    assert_eq!(ratings("ml-100k/u.data"), "movielens");
    assert_eq!(ratings("stars.CSV"), "csv");
    assert_eq!(ratings("s3://bucket/{dc}/*.parquet"), "parquet");

    let digits = |kind: &str, path: &str| {
        let settings = [format!("app.kind={kind}"), format!("app.data.path={path}")];
        data("config/run/quickstart.toml", &settings.each_ref().map(String::as_str), "source")
    };
    assert_eq!(digits("perceptron", "mnist"), "idx");
    assert_eq!(digits("convolutional-network", "CIFAR-10"), "cifar");
    assert_eq!(digits("logistic-regression", "a9a"), "libsvm");
    assert_eq!(digits("topic-model", "docword.kos.txt"), "docword");

    let own = load("config/run/quickstart.toml", &["app.data.at.tokyo.path=tokyo/ratings.csv"]);
    let own: toml::Table = own.to_toml().parse().unwrap();
    assert_eq!(own["app"]["data"]["at"]["tokyo"]["source"].as_str(), Some("movielens"));
}

/// A key of `[app.data]` in the plan of a run file.
fn data(file: &str, settings: &[&str], key: &str) -> String {
    let table: toml::Table = load(file, settings).to_toml().parse().unwrap();
    table["app"]["data"][key].as_str().unwrap().to_owned()
}

/// The settings of the generator of images are those of no other application.
const PERCEPTRON: [&str; 3] =
    ["app.kind=perceptron", "app.data.split=by-label", "app.data.skew=1.0"];

#[test]
fn comparing_changes_the_wan_and_the_model_and_keeps_the_scale() {
    let file = RunFile::read(Path::new("config/run/movielens.toml"), &[]).unwrap();
    let own = file.plan().unwrap();
    let plan = file.with_wan("gaia-2016-vc").unwrap().with_remote("ssp").unwrap().plan().unwrap();
    assert_eq!(plan.topology.name, "gaia-2016-vc");
    assert_eq!(plan.topology.bandwidth_scale, own.topology.bandwidth_scale);
    assert_eq!(plan.remote.name(), "ssp");
    let same = file.with_remote("asp").unwrap().plan().unwrap();
    assert_eq!(same.remote, own.remote);
}

#[test]
fn a_link_entry_overrides_its_pair_both_ways_unless_it_says_otherwise() {
    let settings = [
        "topology.link=[{ from = 'tokyo', to = 'ireland', bandwidth = '5 Mbit/s' }, \
         { from = 'virginia', to = 'tokyo', rtt = '1 s', symmetric = false }]",
        "topology.bandwidth_scale=2",
    ];
    let topology = load("config/run/quickstart.toml", &settings).topology;
    let [virginia, ireland, tokyo] = [DcId(0), DcId(1), DcId(2)];
    assert_eq!(topology.link(tokyo, ireland).bandwidth, Bandwidth::from_mbit(10.0));
    assert_eq!(topology.link(ireland, tokyo).bandwidth, Bandwidth::from_mbit(10.0));
    assert_eq!(topology.link(virginia, tokyo).rtt, "1 s".parse().unwrap());
    assert_eq!(topology.link(tokyo, virginia).rtt, "168.4 ms".parse().unwrap());
    assert_eq!(topology.link(virginia, tokyo).bandwidth, Bandwidth::from_mbit(114.0));
}

#[test]
fn check_says_what_would_run() {
    let gaia = |arguments: &[&str]| {
        let mut command = Command::cargo_bin("gaia").unwrap();
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = gaia(&["check", "config/run/quickstart.toml", "--seed", "7"]);
    for said in ["quickstart", "seed 7", "asp", "virginia, ireland, tokyo", "6 workers"] {
        assert!(text.contains(said), "{said:?} in {text}");
    }
    let json = gaia(&["check", "config/run/quickstart.toml", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["data_centers"], serde_json::json!(["virginia", "ireland", "tokyo"]));
    assert_eq!(json["links"]["count"], 6);
    assert_eq!(gaia(&["check", "config/run/quickstart.toml", "--quiet"]), "");
    assert_eq!(gaia(&["--version"]), format!("gaia {}\n", env!("CARGO_PKG_VERSION")));
    assert!(gaia(&["train", "--help"]).contains("Examples:"));
}

#[test]
fn a_comparison_checks_every_plan_before_the_first_one_runs() {
    let file = RunFile::read(Path::new("config/run/quickstart.toml"), &[]).unwrap();
    let plan = ComparisonPlan::new(&file, &["bsp", "asp"], &["lan", "gaia-2016-ss"]).unwrap();
    let cells: Vec<(&str, &str, usize)> = [&plan.reference]
        .into_iter()
        .chain(&plan.variants)
        .map(|cell| (&*cell.wan, cell.plan.remote.name(), cell.plan.topology.links.len()))
        .collect();
    let expected = [
        ("lan", "bsp", 0),
        ("lan", "asp", 0),
        ("gaia-2016-ss", "bsp", 2),
        ("gaia-2016-ss", "asp", 2),
    ];
    assert_eq!(cells, expected);
    assert!(ComparisonPlan::new(&file, &["bsp"], &["nowhere"]).is_err());
}
