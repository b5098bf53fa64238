//! To the bit: every application with every remote model, stopped at many clocks.

use gaia_driver::Ending;
use tempfile::tempdir;

use super::training::Training;

const APPS: [(&str, &str); 8] = [
    (
        "matrix factorisation",
        "[app]\nkind = \"matrix-factorization\"\nrank = 3\nclocks_per_pass = 4\n\
         data.synthetic = { users = 40, items = 30, ratings = 900, rank = 2, noise = 0.3 }",
    ),
    (
        "logistic regression",
        "[app]\nkind = \"logistic-regression\"\noptimizer = \"sgd\"\nbatch = 16\ndata.synthetic.examples = 600",
    ),
    (
        "softmax regression with momentum",
        "[app]\nkind = \"softmax-regression\"\noptimizer = \"sgd\"\nbatch = 8\nmomentum = 0.8\n\
         data.synthetic = { classes = 3, features = 12, examples = 400, separation = 3.5 }",
    ),
    (
        "perceptron",
        "[app]\nkind = \"perceptron\"\noptimizer = \"sgd\"\nhidden = [6]\nbatch = 8\nmomentum = 0.5\n\
         data.synthetic = { classes = 3, features = 6, hidden = 4, examples = 400, label_noise = 0.0 }",
    ),
    (
        "convolutional network",
        "[app]\nkind = \"convolutional-network\"\nfilters = [2]\nhidden = []\nbatch = 4\nmomentum = 0.5\n\
         data.synthetic = { classes = 2, examples = 120, side = 8 }",
    ),
    (
        "topic model",
        "[app]\nkind = \"topic-model\"\ntopics = 4\nclocks_per_pass = 3\n\
         data.synthetic = { documents = 60, vocabulary = 40, topics = 4, length = 20 }",
    ),
    (
        "logistic regression with AdaGrad",
        "[app]\nkind = \"logistic-regression\"\nbatch = 16\noptimizer = \"adagrad\"\n\
         data.synthetic.examples = 600",
    ),
    (
        "softmax regression with Adam",
        "[app]\nkind = \"softmax-regression\"\nbatch = 8\noptimizer = \"adam\"\nwarm_up = 3\n\
         data.synthetic = { classes = 3, features = 12, examples = 400, separation = 3.5 }",
    ),
];

const REMOTES: [&str; 9] = [
    "{model = 'bsp'}",
    "{model = 'bsp', exchange = 'ring', values = 'bf16'}",
    "{model = 'bsp', exchange = 'tree'}",
    "{model = 'ssp', staleness = 2}",
    "{model = 'tap'}",
    "{model = 'asp'}",
    "{model = 'asp', policy = 'paper', selective_barrier = 'on', mirror_clock = 'on'}",
    "{model = 'asp', overlay = 'groups', momentum = 'masked'}",
    "{model = 'local-steps', steps = 2, fragments = 2, combine = 'sum', outer = 'plain', outer_learning_rate = 1.0}",
];

/// Settings that only some of the applications have something to keep for.
const SETTINGS: [&str; 9] = [
    "{model = 'bsp', values = 'bf16'}",
    "{model = 'asp', goal = 'cost', selective_barrier = 'on', function = 'absolute', values = 'int8'}",
    "{model = 'asp', momentum = 'on', overlay = 'tree', function = 'progress'}",
    "{model = 'asp', momentum = 'off', mirror_clock = 'off', floor = 'zero'}",
    "{model = 'asp', guard = {every = 2, bound = 0.0001, examples = 8}}",
    "{model = 'local-steps', steps = 3, overlap = 2, density = 1.0, values = 'int4', combine = 'mean', outer = 'nesterov'}",
    "{model = 'local-steps', steps = 4, fragments = 1, guard = {every = 2, bound = 0.0001, examples = 8}}",
    "{model = 'local-steps', steps = 2, density = 0.3, total_density = 0.1, values = 'int2', drift_correction = 0.5, combine = 'mean', outer = 'nesterov'}",
    "{model = 'tap', values = 'bf16'}",
];

/// A run that goes on from its checkpoint of every so many clocks ends the same each time.
#[track_caller]
fn check(app: &str, settings: &[&str], stride: usize) {
    let training = Training::new(app, settings);
    let directory = tempdir().unwrap();
    let whole = training.run();
    assert!(whole.lines.len() >= 3, "{settings:?}: {:?}", whole.lines);
    let kept = training.run_with_checkpoints(directory.path());
    assert!(kept == whole, "{settings:?}: keeping checkpoints changes the run");
    let checkpoints = training.checkpoints(directory.path());
    let clocks = checkpoints.numbers().unwrap();
    assert!(clocks.len() >= 9, "{settings:?}: {clocks:?}");
    for clock in clocks.into_iter().step_by(stride) {
        let from = checkpoints.read(&directory.path().join(format!("clock-{clock:04}"))).unwrap();
        let rest = training
            .resume(directory.path(), from)
            .unwrap_or_else(|error| panic!("{settings:?}, clock {clock}: {error}"));
        assert!(
            rest == whole,
            "{settings:?} at clock {clock} goes on elsewhere:\n{:#?}\n{:#?}",
            rest.end,
            whole.end
        );
    }
}

fn check_app(number: usize) {
    let (_, app) = APPS[number];
    for remote in REMOTES {
        check(app, &[&format!("sync.remote={remote}")], 3);
    }
}

#[test]
fn matrix_factorisation_goes_on_to_the_bit() {
    check_app(0);
}

#[test]
fn logistic_regression_goes_on_to_the_bit() {
    check_app(1);
}

#[test]
fn softmax_regression_goes_on_to_the_bit() {
    check_app(2);
}

#[test]
fn a_perceptron_goes_on_to_the_bit() {
    check_app(3);
}

#[test]
fn a_convolutional_network_goes_on_to_the_bit() {
    check_app(4);
}

#[test]
fn a_topic_model_goes_on_to_the_bit() {
    check_app(5);
}

#[test]
fn squares_of_adagrad_go_on_to_the_bit() {
    check_app(6);
}

#[test]
fn squares_and_means_of_adam_go_on_to_the_bit() {
    check_app(7);
}

#[test]
fn settings_of_models_go_on_to_the_bit() {
    for remote in SETTINGS {
        check(APPS[2].1, &[&format!("sync.remote={remote}")], 1);
    }
}

#[test]
fn local_ssp_stragglers_and_other_drains_go_on_to_the_bit() {
    for settings in [
        ["sync.local={model = 'ssp', staleness = 2}", "compute.slowdown.west=3.0"],
        ["drain.method='residuals'", "topology.defaults.colocated=true"],
        ["stop={seconds = 4.0}", "compute.slowdown.east=2.0"],
    ] {
        check(APPS[0].1, &settings, 2);
        check(
            APPS[0].1,
            &[settings[0], settings[1], "sync.remote={model = 'ssp', staleness = 1}"],
            2,
        );
    }
}

/// Stopped at every clock, the run is the work of as many processes as it has clocks.
#[test]
fn a_run_that_is_interrupted_again_and_again_comes_to_the_same_end() {
    let training = Training::new(APPS[3].1, &["sync.remote={model = 'asp', momentum = 'masked'}"]);
    let directory = tempdir().unwrap();
    let mut stops = 0;
    let mut from = None;
    let end = loop {
        match training.one_clock(directory.path(), from) {
            Ending::Finished(outcome) => break outcome,
            Ending::Interrupted { clock, checkpoint, .. } => {
                stops += 1;
                assert_eq!(clock.0, stops);
                from = Some(training.checkpoints(directory.path()).read(&checkpoint).unwrap());
            }
        }
    };
    assert!(stops >= 9, "{stops}");
    let whole = training.run();
    let mut summary = end.summary;
    summary.wall_s = 0.0;
    assert_eq!(serde_json::to_string_pretty(&summary).unwrap(), whole.end["summary"]);
    assert_eq!(end.progress.len(), whole.lines.len());
}

/// What makes the tests above worth something: with any of these as they were at another clock, the rest is another.
#[test]
fn state_of_another_clock_leads_elsewhere() {
    let training = Training::new(APPS[2].1, &["sync.remote={model = 'asp'}"]);
    let directory = tempdir().unwrap();
    let whole = training.run_with_checkpoints(directory.path());
    let checkpoints = training.checkpoints(directory.path());
    let read = |clock: &str| checkpoints.read(&directory.path().join(clock)).unwrap();
    let (earlier, good) = (read("clock-0002"), read("clock-0004"));
    let of_tensors = [
        "dc0/server0.values",
        "dc0/server0.remote.client.sources.clique.0",
        "dc0/server0.remote.client.dc1.outbox.shared",
        "dc0/server0.remote.momentum_correction.step",
        "dc0/worker0.task.velocity.0",
    ];
    let of_records = ["cost.chance", "recorder.held"];
    for name in of_tensors.into_iter().chain(of_records) {
        let mut mixed = good.clone();
        let state = &mut mixed.state;
        if let Some(tensor) = state.tensors.get_mut(name) {
            *tensor = earlier.state.tensors[name].clone();
        } else {
            *state.records.get_mut(name).unwrap() = earlier.state.records[name].clone();
        }
        assert!(mixed != good, "{name} has not changed");
        assert!(training.resume(directory.path(), mixed).unwrap() != whole, "{name}");
    }
    assert!(training.resume(directory.path(), good).unwrap() == whole);
}

/// Workers skip clocks, and late updates join the next.
#[test]
fn clocks_with_a_quorum_of_workers_go_on_to_the_bit() {
    for model in ["model = 'bsp'", "model = 'asp'"] {
        let settings = [
            &format!("sync.remote={{{model}}}"),
            "sync.local={model = 'bsp', quorum = 0.6, grace = '20 ms'}",
            "topology.defaults.workers=3",
            "compute.jitter=1.0",
        ];
        check(APPS[2].1, &settings, 1);
    }
}

/// Data centers skip clocks, so that as many checkpoints need a longer run.
#[test]
fn rounds_with_a_quorum_go_on_to_the_bit() {
    let remote = "{model = 'local-steps', steps = 2, quorum = 0.5, grace = '20 ms', combine = 'mean', outer = 'nesterov'}";
    check(APPS[2].1, &[&format!("sync.remote={remote}"), "stop.clocks=24"], 1);
}
