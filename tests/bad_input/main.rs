//! Every mistake a user can make in a file or a flag gives one error that says where, what and what was expected,
//! and exit code 2.
//!
//! A case is a good file with one part replaced. A `«` in the replacement is where the error must point: it is
//! taken out before the file is written. Without one the error points at the end, where what is missing could go.
#![allow(clippy::unwrap_used)]

mod damage;

use std::path::Path;

use assert_cmd::Command;
use tempfile::TempDir;

const RUN: &str = "\
name = \"base\"
seed = 7
driver = \"simulated\"

[app]
kind = \"matrix-factorization\"
rank = 4

[app.data]
source = \"synthetic\"

[topology]
file = \"wan.toml\"

[sync.local]
model = \"bsp\"

[sync.remote]
model = \"asp\"
threshold = 0.01

[compute]
flops_per_second = 1e9

[stop]
clocks = 10
";

/// All that `RUN` says of its application.
const WHOLE_APP: &str =
    "[app]\nkind = \"matrix-factorization\"\nrank = 4\n\n[app.data]\nsource = \"synthetic\"\n";

const WAN: &str = "\
name = \"wan\"
bandwidth_scale = 1.0

[defaults]
servers = 1
workers = 2
lan_bandwidth = \"1 Gbit/s\"

[wan]
bandwidth = { matrix = \"matrix.csv\", unit = \"Mbit/s\" }
rtt = \"80 ms\"
loss = 0.0

[[data_center]]
name = \"north\"

[[data_center]]
name = \"south\"

[[data_center]]
name = \"west\"

[[link]]
from = \"north\"
to = \"west\"
rtt = \"20 ms\"
";

const MATRIX: &str = "\
# Made up.
from,north,south,west
north,,100,90
south,100,,80
west,90,80,
";

/// One mistake: in `file`, `part` becomes `broken`; the error says all of `says`.
struct Case {
    file: &'static str,
    part: &'static str,
    broken: &'static str,
    says: &'static [&'static str],
}

const fn run(part: &'static str, broken: &'static str, says: &'static [&'static str]) -> Case {
    Case { file: "run.toml", part, broken, says }
}

const fn wan(part: &'static str, broken: &'static str, says: &'static [&'static str]) -> Case {
    Case { file: "wan.toml", part, broken, says }
}

const fn matrix(part: &'static str, broken: &'static str, says: &'static [&'static str]) -> Case {
    Case { file: "matrix.csv", part, broken, says }
}

/// A folder with the base files, of which one is broken, and where the error should point.
fn broken(case: &Case) -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    let mut position = String::new();
    for (file, good) in [("run.toml", RUN), ("wan.toml", WAN), ("matrix.csv", MATRIX)] {
        let mut text = good.to_owned();
        if file == case.file {
            assert!(good.contains(case.part), "{:?} is in {file}", case.part);
            let marked = good.replacen(case.part, case.broken, 1);
            let at = marked.find('«').unwrap_or_else(|| marked.trim_end().len());
            let line_start = marked[..at].rfind('\n').map_or(0, |newline| newline + 1);
            let line = marked[..at].matches('\n').count() + 1;
            let column = marked[line_start..at].chars().count() + 1;
            position = format!("{file}:{line}:{column}\n");
            text = marked.replacen('«', "", 1);
        }
        std::fs::write(folder.path().join(file), text).unwrap();
    }
    (folder, position)
}

/// What `gaia` says on standard error, having ended with exit code 2 and said nothing else.
fn refusal(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::cargo_bin("gaia").unwrap();
    let output = command.current_dir(folder).args(arguments).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        output.status.code(),
        Some(2),
        "{arguments:?} ended with {}:\n{errors}",
        output.status
    );
    assert!(output.stdout.is_empty(), "{arguments:?} printed a result");
    assert_eq!(errors.matches("error: ").count(), 1, "one error, not more:\n{errors}");
    errors
}

fn check(cases: &[Case]) {
    check_with(&[], cases);
}

/// With further arguments, which are not the mistake.
fn check_with(arguments: &[&str], cases: &[Case]) {
    let arguments: Vec<&str> = ["check", "run.toml"].iter().chain(arguments).copied().collect();
    for case in cases {
        let (folder, position) = broken(case);
        let errors = refusal(folder.path(), &arguments);
        assert!(
            errors.contains(&format!("--> {position}")),
            "{:?} should point at {position}{errors}",
            case.broken
        );
        for said in case.says {
            assert!(errors.contains(said), "{:?} should say {said:?}:\n{errors}", case.broken);
        }
    }
}

#[test]
fn the_base_files_are_good() {
    let (folder, _) = broken(&run("seed = 7", "seed = «7", &[]));
    let mut command = Command::cargo_bin("gaia").unwrap();
    command.current_dir(folder.path()).args(["check", "run.toml"]).assert().success();
}

#[test]
fn a_run_file_that_is_not_toml() {
    check(&[
        run("seed = 7", "seed = «7 8", &["not TOML"]),
        run("seed = 7", "seed = 7\n«seed = 8", &["not TOML", "duplicate key"]),
        run("[app.data]", "[app.data«", &["not TOML", "expected `]`"]),
        run("\"synthetic\"", "\"synthetic«", &["not TOML", "invalid basic string"]),
    ]);
}

#[test]
fn a_run_file_with_a_wrong_key_or_type() {
    check(&[
        run("seed = 7", "«sed = 7", &["unknown key `sed`", "did you mean `seed`?"]),
        run("[compute]", "[«compte]", &["unknown key `compte`", "did you mean `compute`?"]),
        run("seed = 7", "seed = «-1", &["`seed` is `-1`", "a whole number, 0 or more"]),
        run("seed = 7", "seed = «1.5", &["`seed` is `1.5`", "a whole number, 0 or more"]),
        run("seed = 7", "seed = «\"x\"", &["`seed` is `\"x\"`", "a whole number"]),
        run(
            "seed = 7",
            "seed = «99999999999999999999",
            &["`seed` is `99999999999999999999`", "63 bits"],
        ),
        run("seed = 7", "seed = «nan", &["`seed` is `nan`", "a finite number"]),
        run("seed = 7", "seed = «2020-01-01", &["`seed` is `2020-01-01`", "a whole number"]),
        run("name = \"base\"", "name = «\"\"", &["`name` is ``", "letters, digits"]),
        run("name = \"base\"", "name = «\"../up\"", &["`name` is `../up`", "letters, digits"]),
        run("name = \"base\"", "name = «[1]", &["`name` is `an array`", "a string"]),
        run("seed = 7", "seed = 7\ncost = «[5.0]", &["`cost` is `an array`", "a table"]),
        run("seed = 7", "seed = 7\ndrain = «[]", &["`drain` is `an array`", "a table"]),
        run(WHOLE_APP, "«app = [\"perceptron\"]\n", &["`app`", "a table"]),
        run("clocks = 10", "change = «[2.0]", &["`stop.change` is `an array`", "a table"]),
        wan(
            "name = \"wan\"\n",
            "name = \"wan\"\ngroup = [«[\"north\"]]\n",
            &["`group.0` is `an array`", "a table"],
        ),
        run("[stop]", "[«evalute]\nevery = 2\n[stop]", &["did you mean `evaluate`?"]),
    ]);
}

#[test]
fn a_run_file_that_lacks_something() {
    check(&[
        run("name = \"base\"\n", "", &["missing key `name`", "expected `name` here"]),
        run("[stop]\nclocks = 10\n", "", &["missing key `stop`", "expected `stop` here"]),
        run("[stop]\nclocks = 10\n", "[«stop]\n", &["`stop` is `empty`", "`objective`, `clocks`"]),
        run(WHOLE_APP, "", &["missing key `app`", "expected `app` here"]),
        run(WHOLE_APP, "[«ap]\n", &["unknown key `ap`", "`app`"]),
        run(
            "[app]\nkind = \"matrix-factorization\"",
            "[«app]",
            &["missing key `app.kind`", "`softmax-regression`"],
        ),
        run(
            "[sync.remote]\nmodel = \"asp\"",
            "[sync.«remote]",
            &["missing key `sync.remote.model`", "`tap`"],
        ),
        run(
            "[topology]\nfile = \"wan.toml\"",
            "[«topology]\nname = \"t\"",
            &["missing key `topology.data_center`"],
        ),
        run("source = \"synthetic\"", "source = \"movielens\"\npath«", &["not TOML"]),
        run(
            "source = \"synthetic\"",
            "source = \"movielens\"\npath = «\"no/such.csv\"",
            &["`app.data.path`: cannot read", "no/such.csv", "a file that can be read"],
        ),
        run(
            "source = \"synthetic\"",
            "source = \"movielens\"\npath = «\"\"",
            &["`app.data.path` is `empty`", "the path of a file or folder"],
        ),
        run(
            "source = \"synthetic\"",
            "source = \"movielens\"\nat.west.path = «\"\"",
            &["`app.data.at.west.path` is `empty`"],
        ),
        run("[stop]", "[model]\ninit = «\"\"\n[stop]", &["`model.init` is `empty`"]),
    ]);
}

#[test]
fn an_application_with_a_wrong_setting() {
    check(&[
        run(
            "\"matrix-factorization\"",
            "«\"matrix-factorisation\"",
            &["`app.kind` is `matrix-factorisation`", "did you mean `matrix-factorization`?"],
        ),
        run("\"matrix-factorization\"", "«3", &["`app.kind` is `3`", "`perceptron`"]),
        run("rank = 4", "«rnak = 4", &["unknown key `app.rnak`", "did you mean `rank`?"]),
        run("rank = 4", "rank = «0", &["`app.rank` is `0`", "1 to 1024"]),
        run("rank = 4", "rank = «\"4\"", &["`app.rank` is `\"4\"`", "a whole number"]),
        run("rank = 4", "learning_rate = «0.0", &["`app.learning_rate` is `0.0`", "above 0"]),
        run(
            "source = \"synthetic\"",
            "source = «\"synthetics\"",
            &["`app.data.source` is `synthetics`", "did you mean `synthetic`?"],
        ),
        run(
            "source = \"synthetic\"",
            "skew = «1.5",
            &["`app.data.skew` is `1.5`", "expected 0 to 1"],
        ),
        run(
            "source = \"synthetic\"",
            "split = «\"by-label\"",
            &["`app.data.split` is `by-label`", "by-user"],
        ),
        run(
            "source = \"synthetic\"",
            "source = \"synthetic\"\npath = «\"stars.csv\"",
            &["`app.data.path`", "no path beside source = \"synthetic\", or source = \"csv\""],
        ),
        run(
            "[app.data]\nsource = \"synthetic\"",
            "[app.«data]\nsource = \"movielens\"",
            &["`app.data.path`", "the path of the data files"],
        ),
    ]);
}

#[test]
fn a_convolutional_network_with_a_wrong_setting() {
    const APP: &str = "kind = \"matrix-factorization\"\nrank = 4";
    let network = |broken, says| run(APP, broken, says);
    check(&[
        network(
            "kind = «\"convolutional-netwrk\"",
            &["`app.kind` is `convolutional-netwrk`", "did you mean `convolutional-network`?"],
        ),
        network(
            "kind = \"convolutional-network\"\n«filters = []",
            &["`app.filters`", "1 to 16 layers"],
        ),
        network(
            "kind = \"convolutional-network\"\nkernel = «4",
            &["`app.kernel` is `4`", "an odd number, 1 to 15"],
        ),
        network(
            "kind = \"convolutional-network\"\nnormalization = «\"batch\"",
            &["`app.normalization` is `batch`", "`none` or `group`"],
        ),
        network(
            "kind = \"convolutional-network\"\nnormalization = \"group\"\ngroups = «5",
            &["`app.groups` is `5`", "divides all filters"],
        ),
        network("kind = \"convolutional-network\"\n«stride = 2", &["unknown key `app.stride`"]),
    ]);
}

#[test]
fn a_synchronisation_model_with_a_wrong_setting() {
    check(&[
        run("\"asp\"", "«\"asap\"", &["`sync.remote.model` is `asap`", "did you mean `asp`?"]),
        run("\"bsp\"", "«\"tap\"", &["`sync.local.model` is `tap`", "`bsp` or `ssp`"]),
        run("\"bsp\"", "\"bsp\"\n«staleness = 1", &["unknown key `sync.local.staleness`"]),
        run(
            "\"bsp\"",
            "\"bsp\"\nquorum = «1.5",
            &["`sync.local.quorum` is `1.5`", "a share above 0, at most 1"],
        ),
        run(
            "\"bsp\"",
            "\"bsp\"\ngrace = «\"soon\"",
            &["`sync.local.grace` is `soon`", "a time such as"],
        ),
        run(
            "[sync.local]\nmodel = \"bsp\"",
            "[sync.«local]\nmodel = \"ssp\"",
            &["missing key `sync.local.staleness`"],
        ),
        run("[sync.local]", "[sync.«locale]", &["unknown key `sync.locale`", "mean `local`?"]),
        run("threshold = 0.01", "threshold = «0", &["`sync.remote.threshold` is `0`", "above 0"]),
        run("threshold = 0.01", "threshold = «\"1 %\"", &["`\"1 %\"`", "expected a number"]),
        run(
            "threshold = 0.01",
            "«thresold = 0.01",
            &["unknown key `sync.remote.thresold`", "did you mean `threshold`?"],
        ),
        run(
            "threshold = 0.01",
            "link_share = «1.01",
            &["`sync.remote.link_share` is `1.01`", "a share above 0, at most 1"],
        ),
        run(
            "threshold = 0.01",
            "guard = { every = «0 }",
            &["`sync.remote.guard.every` is `0`", "a whole number of clocks from 1 to"],
        ),
        run(
            "threshold = 0.01",
            "guard = { bound = «0.0 }",
            &["`sync.remote.guard.bound` is `0.0`", "a share above 0"],
        ),
        run(
            "threshold = 0.01",
            "guard = { examples = «0 }",
            &["`sync.remote.guard.examples` is `0`", "a whole number from 1 to"],
        ),
        run(
            "threshold = 0.01",
            "guard = { «often = 3 }",
            &["unknown key `sync.remote.guard.often`", "`every`, `bound` or `examples`"],
        ),
        run(
            "threshold = 0.01",
            "guard = {}\nmirror_clock = «\"off\"",
            &["`sync.remote.mirror_clock` is `off`", "a guard tightens it"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"local-steps\"\nguard = {}\nfragments = «2",
            &["`sync.remote.fragments` is `2`", "1 under a guard"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"bsp\"\n«guard = {}",
            &["unknown key `sync.remote.guard`"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"bsp\"\nexchange = «\"rings\"",
            &["`sync.remote.exchange` is `rings`", "did you mean `ring`?"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"tap\"\n«exchange = \"ring\"",
            &["unknown key `sync.remote.exchange`"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"bsp\"\n«ring = [\"north\"]",
            &["`sync.remote.ring` is `north`", "no ring, as `exchange` is `homes`"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"bsp\"\nexchange = \"ring\"\n«ring = [\"north\", \"atlantis\"]",
            &["`sync.remote.ring` is `atlantis`", "`north`"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"bsp\"\nexchange = \"ring\"\n«ring = [\"north\", \"north\"]",
            &["each data center once, not north again"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"bsp\"\nexchange = \"ring\"\n«ring = [\"north\"]",
            &["`sync.remote.ring` is `north`", "all data centers of the topology, with"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"ssp\"\nstaleness = 1\nblocks = «\"even\"",
            &["`sync.remote.blocks` is `even`", "`bandwidth` or `equal`"],
        ),
        run(
            "threshold = 0.01",
            "momentum = «\"mask\"",
            &["`sync.remote.momentum` is `mask`", "did you mean `masked`?"],
        ),
        run(
            "threshold = 0.01",
            "data_center_staleness = «0",
            &["`sync.remote.data_center_staleness` is `0`", "clocks from 1 to"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"local-steps\"\nsteps = «0",
            &["`sync.remote.steps` is `0`", "a whole number of clocks from 1 to"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"local-steps\"\nsteps = 4\nfragments = «5",
            &["`sync.remote.fragments` is `5`", "from 1 to 4"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"local-steps\"\nsteps = 4\noverlap = «4",
            &["`sync.remote.overlap` is `4`", "with 4 clocks between rounds", "from 0 to 3"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"local-steps\"\noverlap = «\"most\"",
            &["`sync.remote.overlap`", "most", "`auto` or a whole number of clocks"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"local-steps\"\ndensity = «0.0",
            &["`sync.remote.density` is `0.0`", "a share above 0, at most 1"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"local-steps\"\ntotal_density = «2.0",
            &["`sync.remote.total_density` is `2.0`", "a share above 0, at most 1"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"local-steps\"\ndrift_correction = «-0.5",
            &["`sync.remote.drift_correction` is `-0.5`", "a share from 0 to 1"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"local-steps\"\ncombine = \"sum\"\ndrift_correction = «0.5",
            &["`sync.remote.drift_correction` is `0.5`", "0 with `combine = \"sum\"`"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"local-steps\"\nquorum = «1.5",
            &["`sync.remote.quorum` is `1.5`", "a share above 0, at most 1"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"local-steps\"\nguard = {}\nquorum = «0.75",
            &["`sync.remote.quorum` is `0.75`", "1 under a guard"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"local-steps\"\nouter_learning_rate = «0",
            &["`sync.remote.outer_learning_rate` is `0`", "above 0"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"local-steps\"\nouter_momentum = «1",
            &["`sync.remote.outer_momentum` is `1`", "a share from 0 to below 1"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"local-steps\"\ncombine = «\"average\"",
            &["`sync.remote.combine` is `average`", "`sum` or `mean`"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"tap\"\nvalues = «\"int4\"",
            &["`sync.remote.values` is `int4`", "`f32` or `bf16`"],
        ),
        run(
            "threshold = 0.01",
            "values = «\"int5\"",
            &["`sync.remote.values` is `int5`", "`int4`"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"ssp\"\nstaleness = «5000000",
            &["`sync.remote.staleness` is `5000000`", "clocks from 0 to"],
        ),
        run(
            "threshold = 0.01",
            "barrier_deadline = «\"10 parsecs\"",
            &["`sync.remote.barrier_deadline` is `10 parsecs`", "a time such as"],
        ),
        run(
            "threshold = 0.01",
            "barrier_deadline = «\"0 s\"",
            &["`sync.remote.barrier_deadline` is `0 s`", "above 0"],
        ),
        run(
            "threshold = 0.01",
            "decay = «\"learning_rate\"",
            &["`sync.remote.decay` is `learning_rate`", "did you mean `learning-rate`?"],
        ),
    ]);
}

#[test]
fn lost_workers_whose_counts_would_be_counted_again() {
    let counts = ["--set", "app={ kind = 'topic-model' }"];
    let case = run(
        "[stop]",
        "[failures]\nlost_workers = «\"take-over\"\n[stop]",
        &[
            "`failures.lost_workers` is `take-over`",
            "expected `wait`",
            "the deltas of topic-model are counts",
        ],
    );
    check_with(&counts, &[case]);
}

#[test]
fn local_steps_that_do_not_add_up_what_an_application_counts() {
    const WHY: &str = "the deltas of topic-model are counts, which must add up";
    let counts = ["--set", "app={ kind = 'topic-model' }"];
    let cases = [
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"local-steps\"\ncombine = «\"mean\"",
            &["`sync.remote.combine` is `mean`", "expected `sum`", WHY],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"local-steps\"\ncombine = \"sum\"\nouter = «\"nesterov\"",
            &["`sync.remote.outer` is `nesterov`", "expected `plain`", WHY],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"local-steps\"\nouter_learning_rate = «0.7",
            &["`sync.remote.outer_learning_rate` is `0.7`", "expected 1", WHY],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"local-steps\"\ndrift_correction = «0.5",
            &["`sync.remote.drift_correction` is `0.5`", "expected 0", WHY],
        ),
    ];
    check_with(&counts, &cases);
    let (folder, _) = broken(&cases[0]);
    let mut command = Command::cargo_bin("gaia").unwrap();
    command.current_dir(folder.path()).args(["check", "run.toml"]).assert().success();
}

#[test]
fn a_driver_or_cost_model_with_a_wrong_setting() {
    check(&[
        run("\"simulated\"", "«\"reel\"", &["`reel`", "`real`"]),
        run("\"simulated\"", "«\"simulate\"", &["did you mean `simulated`?"]),
        run(
            "flops_per_second = 1e9",
            "model = «\"measured\"",
            &["`compute.model` is `measured`", "expected `cost`"],
        ),
        run(
            "flops_per_second = 1e9",
            "flops_per_second = «0.0",
            &["`compute.flops_per_second` is `0.0`", "a rate from"],
        ),
        run(
            "flops_per_second = 1e9",
            "examples_per_second = 5\nflops_per_second = «1e9",
            &["`compute.flops_per_second`", "not both"],
        ),
        run(
            "flops_per_second = 1e9",
            "clock_overhead = «5",
            &["`compute.clock_overhead` is `5`", "a string", "quantities carry their unit"],
        ),
        run("flops_per_second = 1e9", "jitter = «-0.1", &["`compute.jitter` is `-0.1`", "0 to 2"]),
        run(
            "flops_per_second = 1e9",
            "slowdown = { «nroth = 2.0 }",
            &[
                "unknown key `compute.slowdown.nroth`",
                "`north`, `south` or `west`",
                "mean `north`?",
            ],
        ),
        run(
            "flops_per_second = 1e9",
            "slowdown = { «north = [1.0, 2.0, 3.0, 4.0, 5.0] }",
            &["`compute.slowdown.north` is `5 factors`", "for each of its workers"],
        ),
        run(
            "flops_per_second = 1e9",
            "slowdown = { north = «\"twice\" }",
            &["`compute.slowdown.north` is `\"twice\"`", "a list of one for each worker"],
        ),
        run("[stop]", "[evaluate]\nevery = «0\n[stop]", &["`evaluate.every` is `0`", "from 1 to"]),
        run(
            "[stop]",
            "[drain]\nmethod = «\"median\"\n[stop]",
            &["`drain.method` is `median`", "`mean` or `residuals`"],
        ),
        run(
            "[stop]",
            "[cost]\nusd_per_machine_hour = «-1\n[stop]",
            &["`cost.usd_per_machine_hour` is `-1`", "US dollars from 0"],
        ),
        run(
            "[stop]",
            "[checkpoint]\nevery = «0\n[stop]",
            &["`checkpoint.every` is `0`", "whole number of clocks from 1"],
        ),
        run(
            "[stop]",
            "[checkpoint]\nkeep = «0\n[stop]",
            &["`checkpoint.keep` is `0`", "from 1 to 10000"],
        ),
        run(
            "[stop]",
            "[checkpoint]\n«evry = 5\n[stop]",
            &["unknown key `checkpoint.evry`", "mean `every`?"],
        ),
        run("[stop]", "[log]\nsync = «\"often\"\n[stop]", &["`log.sync`", "`often`", "always"]),
        run(
            "[stop]",
            "[failures]\ngive_up_after = «\"31 d\"\n[stop]",
            &["`failures.give_up_after`", "`31 d`"],
        ),
        run(
            "[stop]",
            "[failures]\ngive_up_after = «\"721 h\"\n[stop]",
            &["`failures.give_up_after`", "at most"],
        ),
        run(
            "[stop]",
            "[failures]\non_give_up = «\"go-on\"\n[stop]",
            &["`failures.on_give_up`", "`go-on`", "leave"],
        ),
        run(
            "model = \"asp\"\nthreshold = 0.01",
            "model = \"bsp\"\n[failures]\non_give_up = «\"leave\"",
            &["`failures.on_give_up` is `leave`", "under bsp every clock needs all"],
        ),
        run(
            "threshold = 0.01",
            "overlay = \"tree\"\n[failures]\n«late = [\"west\"]",
            &["`failures.late` is `west`", "the updates that a hub has not forwarded"],
        ),
        run(
            "[stop]",
            "[failures]\n«late = [\"east\"]\n[stop]",
            &["`failures.late` is `east`", "names of data centers: north, south, west"],
        ),
        run(
            "[stop]",
            "[failures]\n«late = [\"west\", \"south\", \"north\"]\n[stop]",
            &["`failures.late`", "expected not all data centers"],
        ),
        run(
            "[stop]",
            "[failures]\n«late = [\"west\"]\n[stop]",
            &[
                "`failures.late` is `west`",
                "with the simulated driver all data centers start together",
            ],
        ),
        run(
            "[stop]",
            "[failures]\nlost_workers = «\"give-up\"\n[stop]",
            &["`failures.lost_workers`", "`give-up`", "take-over"],
        ),
        run(
            "[stop]",
            "[failures]\ntake_over_after = «\"5 s\"\n[stop]",
            &["`failures.take_over_after` is `5 s`", "no worker takes over"],
        ),
        run(
            "[stop]",
            "[failures]\nlost_workers = \"take-over\"\ntake_over_after = «\"1 h\"\n[stop]",
            &["`failures.take_over_after` is `1 h`", "less than `give_up_after`, which is 1800 s"],
        ),
        run(
            "[stop]",
            "[«failures]\nlost_workers = \"take-over\"\ngive_up_after = \"30 s\"\n[stop]",
            &["`failures.take_over_after` is `30 s`", "less than `give_up_after`, which is 30 s"],
        ),
        run(
            "[stop]",
            "[failures]\nlost_workers = \"take-over\"\ntake_over_after = «\"-1 s\"\n[stop]",
            &["`failures.take_over_after`", "-1 s"],
        ),
        run("clocks = 10", "clocks = «0", &["`stop.clocks` is `0`", "from 1 to"]),
        run("clocks = 10", "seconds = «0.0", &["`stop.seconds` is `0.0`", "seconds above 0"]),
        run(
            "clocks = 10",
            "change = { percent = «200.0 }",
            &["`stop.change.percent` is `200.0`", "a percentage above 0"],
        ),
        run("clocks = 10", "change = «2", &["`stop.change` is `2`", "a table"]),
        run(
            "clocks = 10",
            "clocks = 10\nheld = «3",
            &["`stop.held` is `3`", "`objective` beside it"],
        ),
    ]);
}

#[test]
fn a_topology_file_with_a_wrong_setting() {
    check(&[
        run("\"wan.toml\"", "«\"wam.toml\"", &["cannot read `wam.toml`", "`topology.file`"]),
        run(
            "\"wan.toml\"",
            "«\"three-region\"",
            &["`topology.file` is `three-region`", "did you mean `three-regions`?"],
        ),
        run("\"wan.toml\"", "«7", &["`topology.file` is `7`", "a path"]),
        run(
            "file = \"wan.toml\"",
            "file = \"wan.toml\"\nbandwidth_scale = «0",
            &["`topology.bandwidth_scale` is `0`", "above 0"],
        ),
        wan("name = \"wan\"\n", "", &["missing key `name`"]),
        wan("[defaults]", "«file = \"x\"\n[defaults]", &["`file`"]),
        wan("workers = 2", "workers = «0", &["`defaults.workers` is `0`", "1 to 1024"]),
        wan(
            "lan_bandwidth = \"1 Gbit/s\"",
            "lan_bandwidth = «\"1 gbps\"",
            &["`defaults.lan_bandwidth` is `1 gbps`", "\"115 Mbit/s\""],
        ),
        wan(
            "name = \"wan\"\n",
            "name = \"wan\"\ncoordinator_address = «\"here\"\n",
            &["`coordinator_address` is `here`", "with a port"],
        ),
        wan(
            "name = \"south\"",
            "name = \"south\"\n«server_addresses = [\"a:1\", \"b:1\"]",
            &["`data_center.1.server_addresses` is `2 addresses`", "one for each server, 1"],
        ),
        wan(
            "name = \"south\"",
            "name = \"south\"\n«server_addresses = [\"::1:80\"]",
            &["`data_center.1.server_addresses` is `::1:80`", "[fd00::7]:4433"],
        ),
        wan("rtt = \"80 ms\"", "rtt = «80", &["`wan.rtt` is `80`", "\"59.5 ms\""]),
        wan("rtt = \"80 ms\"", "rtt = «\"2 h\"", &["`wan.rtt` is `2 h`", "at most"]),
        wan(
            "[wan]\nbandwidth = { matrix = \"matrix.csv\", unit = \"Mbit/s\" }\nrtt = \"80 ms\"",
            "[«wan]\nbandwidth = \"1 Gbit/s\"",
            &["missing key `wan.rtt`", "`north` to `south`"],
        ),
        wan("loss = 0.0", "loss = «1.0", &["`wan.loss` is `1.0`", "from 0 to below 1"]),
        wan("loss = 0.0", "queue = «\"5 km\"", &["`wan.queue` is `5 km`", "\"256 KiB\""]),
        wan("loss = 0.0", "queue = «\"10 B\"", &["`wan.queue` is `10 B`", "from 1.5 kB"]),
        wan(
            "name = \"south\"",
            "name = «\"north\"",
            &["`data_center.1.name` is `north`", "no other"],
        ),
        wan("name = \"south\"", "name = «\"so uth\"", &["`data_center.1.name` is `so uth`"]),
        wan(
            "name = \"south\"",
            "name = \"south\"\nservers = «2",
            &["`data_center.1.servers` is `2`", "expected 1, as many"],
        ),
        wan("from = \"north\"", "from = «\"nort\"", &["`link.0.from` is `nort`", "mean `north`?"]),
        wan("to = \"west\"", "to = «\"north\"", &["`link.0.to` is `north`", "another data center"]),
        wan("rtt = \"20 ms\"", "«latency = \"20 ms\"", &["unknown key `link.0.latency`", "`rtt`"]),
        wan("rtt = \"20 ms\"", "bandwidth = «\"1 bit/s\"", &["`link.0.bandwidth` is `1 bit/s`"]),
        wan(
            "rtt = \"20 ms\"",
            "rtt = \"20 ms\"\n[[link]]\nfrom = \"west\"\nto = «\"north\"\nloss = 0.1",
            &["`link.1.to` is `north`", "link.0 has the one from `west` to `north`, too"],
        ),
    ]);
}

#[test]
fn a_matrix_with_a_wrong_cell() {
    check(&[
        wan("\"matrix.csv", "«\"matrix.cvs", &["cannot read `matrix.cvs`"]),
        wan("\"Mbit/s\"", "«\"Mbps\"", &["`wan.bandwidth.unit` is `Mbps`", "the unit of"]),
        wan("unit =", "«units =", &["unknown key `wan.bandwidth.units`", "did you mean `unit`?"]),
        matrix("90\nsouth", "«\nsouth", &["row `north`, column `west` is `empty`", "Mbit/s"]),
        matrix("100,90", "«fast,90", &["row `north`, column `south` is `fast`", "Mbit/s"]),
        matrix("100,90", "«-5,90", &["row `north`, column `south` is `-5`", "Mbit/s"]),
        matrix("90,80,", "90,«0,", &["row `west`, column `south` is `0`", "Mbit/s"]),
        matrix("south,100", "«south,1,100", &["row `south` is `5 cells`", "4 cells"]),
        matrix("west,90", "«south,90", &["row `south` is `listed twice`"]),
        matrix("south,west\n", "south,«south\n", &["column `south` is `listed twice`"]),
        matrix("west,90", "wset,90", &["row `west`", "did you mean `wset`?"]),
        matrix("south,west\n", "south,wets«\n", &["column `west`", "did you mean `wets`?"]),
    ]);
}

/// A data file that is broken names its row or byte, what stands there and what was expected.
#[test]
fn a_data_file_with_a_broken_row() {
    let folder = TempDir::new().unwrap();
    for (file, good) in [("run.toml", RUN), ("wan.toml", WAN), ("matrix.csv", MATRIX)] {
        std::fs::write(folder.path().join(file), good).unwrap();
    }
    let ratings = "userId,movieId,rating,timestamp\n1,10,4.0,0\n2,10,many,0\n";
    std::fs::write(folder.path().join("ratings.csv"), ratings).unwrap();
    std::fs::write(folder.path().join("a9a"), "+1 3:1 11:1\n-1 5:1 4:x\n").unwrap();
    std::fs::write(folder.path().join("docword"), "2\n3\n3\n1 1 1\n2 7 1\n2 1 1\n").unwrap();
    std::fs::create_dir(folder.path().join("digits")).unwrap();
    for file in ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"] {
        std::fs::write(folder.path().join("digits").join(file), [9, 9, 9, 9]).unwrap();
    }
    std::fs::create_dir(folder.path().join("pictures")).unwrap();
    std::fs::write(folder.path().join("pictures/data_batch_1.bin"), [3; 100]).unwrap();
    let cases: [(&str, &str, &str, &[&str]); 6] = [
        ("matrix-factorization", "movielens", "ratings.csv", &["ratings.csv", "row 3", "many"]),
        (
            "matrix-factorization",
            "movielens",
            "none.csv",
            &["none.csv", "`app.data.path`", "No such file"],
        ),
        ("logistic-regression", "libsvm", "a9a", &["a9a", "row 2", "4:x"]),
        ("topic-model", "docword", "docword", &["docword", "row 5", "\"7\"", "1 to 3"]),
        ("softmax-regression", "idx", "digits", &["train-images-idx3-ubyte", "expected"]),
        ("convolutional-network", "cifar", "pictures", &["data_batch_1.bin", "byte 100", "3072"]),
    ];
    for (kind, source, path, says) in cases {
        let kind = format!("app.kind={kind}");
        let source = format!("app.data.source={source}");
        let path = format!("app.data.path={path}");
        let settings = ["check", "run.toml", "--set", &kind, "--set", &source, "--set", &path];
        let errors = refusal(folder.path(), &settings);
        for said in says {
            assert!(errors.contains(said), "{path} should say {said:?}:\n{errors}");
        }
    }
}

/// Serde knows no value that none of the forms of a setting fits.
#[test]
fn a_setting_of_several_forms_has_none_of_them() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("run.toml"), RUN).unwrap();
    std::fs::write(folder.path().join("wan.toml"), WAN).unwrap();
    for (found, said) in [("2.5", "2.5"), ("\"two\"", "\"two\""), ("[1.5, 2]", "an array")] {
        let classes = format!("app.data.declared.classes={found}");
        let settings = ["check", "run.toml", "--set", "app.kind=perceptron", "--set", &classes];
        let errors = refusal(folder.path(), &settings);
        let is = format!("`app.data.declared.classes` is `{said}`");
        let expected = "expected the number of the classes, or a list of their names";
        assert!(errors.contains(&is) && errors.contains(expected), "{errors}");
    }
}

/// The words of documents are in a file of their own: where it is not there, the error shows its key and not the
/// documents' one.
#[test]
fn a_vocabulary_that_is_not_there() {
    let folder = TempDir::new().unwrap();
    let (from, to) = (
        "kind = \"matrix-factorization\"\nrank = 4\n\n[app.data]\nsource = \"synthetic\"",
        "kind = \"topic-model\"\n[app.data]\nsource = \"docword\"\npath = \"docword\"\nvocabulary_path = \"vocab\"",
    );
    assert!(RUN.contains(from));
    std::fs::write(folder.path().join("run.toml"), RUN.replace(from, to)).unwrap();
    std::fs::write(folder.path().join("wan.toml"), WAN).unwrap();
    std::fs::write(folder.path().join("matrix.csv"), MATRIX).unwrap();
    std::fs::write(folder.path().join("docword"), "2\n3\n2\n1 1 1\n2 3 1\n").unwrap();
    let errors = refusal(folder.path(), &["check", "run.toml"]);
    for said in ["`app.data.vocabulary_path`", "run.toml:10:19", "vocab", "No such file"] {
        assert!(errors.contains(said), "{said:?} in\n{errors}");
    }
    std::fs::write(folder.path().join("vocab"), "ant\nbee\n").unwrap();
    let errors = refusal(folder.path(), &["check", "run.toml"]);
    for said in ["vocab", "2 words", "3 of them"] {
        assert!(errors.contains(said), "{said:?} in\n{errors}");
    }
}

#[test]
fn an_initial_model_that_does_not_fit() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (file, good) in [("run.toml", RUN), ("wan.toml", WAN), ("matrix.csv", MATRIX)] {
        std::fs::write(path(file), good).unwrap();
    }
    let mut train = Command::cargo_bin("gaia").unwrap();
    train.current_dir(folder.path()).args(["train", "run.toml", "--quiet", "--out", "out"]);
    train.args(["--set", "stop.clocks=1"]).assert().success();
    let model = std::fs::read(path("out/model.safetensors")).unwrap();
    std::fs::write(path("model"), &model).unwrap();
    let mut with_nan = model;
    let last = with_nan.len() - 4;
    with_nan[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(path("nan"), with_nan).unwrap();

    let mut good = Command::cargo_bin("gaia").unwrap();
    good.current_dir(folder.path()).args(["check", "run.toml", "--init", "model"]);
    let output = good.assert().success().get_output().stdout.clone();
    assert!(String::from_utf8(output).unwrap().contains(", from "));

    let cases: [(&str, &str, &[&str]); 7] = [
        ("none", "app.rank=4", &["none", "in --init none", "`model.init`", "No such file"]),
        ("run.toml", "app.rank=4", &["run.toml", "expected a safetensors file"]),
        ("model", "app.rank=3", &["`users` with the shape [", "`users` with the shape [", "4]"]),
        ("model", "app.kind=softmax-regression", &["the tables \"", "\"users\"", "`weights"]),
        (".", "app.rank=4", &["found a folder without shards of a model", "expected a file"]),
        ("nan", "app.rank=4", &["NaN in row 599", "of `users`", "expected a number"]),
        ("model", "app.kind=topic-model", &["`model.init`", "no such key", "counts"]),
    ];
    for (file, setting, says) in cases {
        let errors =
            refusal(folder.path(), &["check", "run.toml", "--set", setting, "--init", file]);
        for said in says {
            assert!(errors.contains(said), "{file} with {setting} should say {said:?}:\n{errors}");
        }
    }
}

#[test]
fn a_wrong_flag() {
    let folder = TempDir::new().unwrap();
    for (file, good) in [("run.toml", RUN), ("wan.toml", WAN), ("matrix.csv", MATRIX)] {
        std::fs::write(folder.path().join(file), good).unwrap();
    }
    let cases: [(&[&str], &[&str]); 24] = [
        (&["check", "none.toml"], &["cannot read `none.toml`", "No such file"]),
        (&["check", "."], &["cannot read `.`: Is a directory", "in ., expected a file"]),
        (&["chekc", "run.toml"], &["unrecognized subcommand 'chekc'", "'check'"]),
        (&["check"], &["required", "<RUN.toml>"]),
        (&["check", "run.toml", "--quite"], &["unexpected argument '--quite'", "'--quiet'"]),
        (&["check", "run.toml", "--seed", "x"], &["invalid value 'x'", "--seed"]),
        (&["check", "run.toml", "--seed", "9223372036854775808"], &["--seed", "not in"]),
        (&["check", "run.toml", "--driver", "reel"], &["'reel'", "simulated, emulated, real"]),
        (&["train", "run.toml", "--resume", "auto"], &["--out <DIR>"]),
        (
            &["train", "run.toml", "--resume", "wan.toml"],
            &["wan.toml", "found a file, expected the folder of a checkpoint"],
        ),
        (&["check", "run.toml", "--dc", "west"], &["--dc", "expected --data or --connect"]),
        (
            &["check", "run.toml", "--data", "--dc", "west", "--server", "0"],
            &["--server is for the links of one node, expected --connect"],
        ),
        (
            &["train", "run.toml", "--resume", "none"],
            &["none/manifest.json cannot be read", "No such file"],
        ),
        (
            &["train", "run.toml", "--driver", "real", "--resume", "none"],
            &["expected --resume auto --out DIR", "the states of its nodes"],
        ),
        (
            &["train", "run.toml", "--driver", "emulated", "--resume", "none"],
            &["--resume", "the emulated driver keeps no checkpoints"],
        ),
        (
            &["train", "run.toml", "--driver", "emulated", "--set", "checkpoint.every=9"],
            &["`checkpoint.every` is `9`", "the emulated driver keeps no checkpoints"],
        ),
        (&["check", "run.toml", "--set", "seed"], &["--set seed", "a key and its value"]),
        (&["check", "run.toml", "--set", ".=1"], &["--set .=1", "a key and its value"]),
        (
            &["check", "run.toml", "--set", "sync.remote.threshold=-1"],
            &["`sync.remote.threshold` is `-1`", "in --set sync.remote.threshold=-1", "above 0"],
        ),
        (
            &["check", "run.toml", "--set", "sync.remote.thresold=1"],
            &["unknown key `sync.remote.thresold`", "did you mean `threshold`?"],
        ),
        (
            &["check", "run.toml", "--set", "seed.x=1"],
            &["`seed.x`", "in --set seed.x=1", "`seed`, which holds one value"],
        ),
        (
            &["check", "run.toml", "--set", "topology.data_center.9.name=x"],
            &["`topology.data_center.9.name`", "from 0 to 2"],
        ),
        (
            &["compare", "run.toml", "--remote", "bsp,asap"],
            &["invalid value 'asap'", "bsp, bsp-ring, bsp-tree, ssp, tap, asp"],
        ),
        (
            &["compare", "run.toml", "--wan", "lan,gaia-2016"],
            &["`topology.file` is `gaia-2016`", "in --wan gaia-2016", "`gaia-2016-vc`"],
        ),
    ];
    for (arguments, says) in cases {
        let errors = refusal(folder.path(), arguments);
        for said in says {
            assert!(errors.contains(said), "{arguments:?} should say {said:?}:\n{errors}");
        }
    }
}

/// A supervisor does not start a node again that ends with exit code 2.
#[test]
fn a_node_with_a_wrong_file() {
    let folder = TempDir::new().unwrap();
    for (file, good) in [("run.toml", RUN), ("wan.toml", WAN), ("matrix.csv", MATRIX)] {
        std::fs::write(folder.path().join(file), good).unwrap();
    }
    let mut init = Command::cargo_bin("gaia").unwrap();
    init.current_dir(folder.path()).args(["certs", "init", "run.toml", "--out", "certs"]);
    init.assert().success();
    std::fs::create_dir(folder.path().join("text")).unwrap();
    std::fs::write(folder.path().join("text/node.pem"), "no key").unwrap();
    std::fs::create_dir_all(folder.path().join("folder/node.pem")).unwrap();

    let address = "topology.coordinator_address=127.0.0.1:1";
    let cases: [(&[&str], &[&str]); 5] = [
        (&["--certs", "none"], &["none/node.pem: no such file, expected a key and a certificate"]),
        (&["--certs", "text"], &["text/node.pem: found no private key or several, expected one"]),
        (&["--certs", "folder"], &["folder/node.pem: cannot be read: Is a directory"]),
        (
            &["--certs", "certs/nodes/north/worker-1"],
            &["is for gaia://base/north/worker/1, expected gaia://base/north/worker/0"],
        ),
        (
            &["--set", "model.keep=home", "--server", "0"],
            &["no folder for the model", "expected --out DIR for each server"],
        ),
    ];
    let place = ["node", "run.toml", "--dc", "north", "--worker", "0", "--set", address];
    for (arguments, says) in cases {
        let errors = refusal(folder.path(), &[&place, arguments].concat());
        for said in says {
            assert!(errors.contains(said), "{arguments:?} should say {said:?}:\n{errors}");
        }
    }
    let errors = refusal(folder.path(), &place[..6]);
    assert!(errors.contains("no address for the coordinator: expected `coordinator_address`"));
}

/// Two commands that go on in one directory would write the same files.
#[test]
fn a_directory_that_another_process_writes() {
    let folder = TempDir::new().unwrap();
    for (file, good) in [("run.toml", RUN), ("wan.toml", WAN), ("matrix.csv", MATRIX)] {
        std::fs::write(folder.path().join(file), good).unwrap();
    }
    std::fs::create_dir(folder.path().join("out")).unwrap();
    let other = std::fs::File::open(folder.path().join("out")).unwrap();
    other.try_lock().unwrap();

    let cases: [&[&str]; 4] = [
        &["train", "run.toml"],
        &["train", "run.toml", "--resume", "auto"],
        &["train", "run.toml", "--resume", "auto", "--seeds", "2"],
        &["compare", "run.toml", "--resume", "auto"],
    ];
    for arguments in cases {
        let quiet = ["--out", "out", "--quiet"];
        let errors = refusal(folder.path(), &[arguments, &quiet].concat());
        assert!(errors.contains("error: out is used by another process, expected"), "{errors}");
    }
    assert_eq!(std::fs::read_dir(folder.path().join("out")).unwrap().count(), 0);
}

/// A run that was killed before its first checkpoint has left its settings and its evaluations, and nothing else.
#[test]
fn a_directory_of_another_run() {
    let folder = TempDir::new().unwrap();
    for (file, good) in [("run.toml", RUN), ("wan.toml", WAN), ("matrix.csv", MATRIX)] {
        std::fs::write(folder.path().join(file), good).unwrap();
    }
    let train = ["train", "run.toml", "--out", "out", "--quiet"];
    let mut first = Command::cargo_bin("gaia").unwrap();
    first.current_dir(folder.path()).args(train).assert().success();
    std::fs::remove_file(folder.path().join("out/summary.json")).unwrap();
    let evaluations = || std::fs::read(folder.path().join("out/progress.jsonl")).unwrap();
    let before = evaluations();

    for other in ["--seed=8", "--set=sync.remote.threshold=0.5"] {
        let go_on = [&train[..], &["--resume", "auto", other]].concat();
        let errors = refusal(folder.path(), &go_on);
        assert!(errors.contains("out/run.toml: other settings, expected those of"), "{errors}");
        assert_eq!(evaluations(), before, "{other}");
    }
    // Another length of the same run is no other run.
    let go_on = [&train[..], &["--resume", "auto", "--set=stop.clocks=12"]].concat();
    let mut longer = Command::cargo_bin("gaia").unwrap();
    longer.current_dir(folder.path()).args(go_on).assert().success();
}

#[test]
fn a_model_that_no_memory_can_hold_is_refused_before_it_is_allocated() {
    let folder = tempfile::tempdir().unwrap();
    let run = "name = \"large\"\napp = { kind = \"perceptron\", hidden = [20000, 20000] }\n\
               topology.file = \"gaia-2016-ec2-all\"\nsync.remote.model = \"asp\"\nstop.clocks = 1\n";
    std::fs::write(folder.path().join("run.toml"), run).unwrap();

    // 400 million parameters, in eleven data centers: their values alone may fit.
    if gaia_data::free_memory().is_none_or(|free| free > 11 * 64 * 400_000_000) {
        eprintln!("skipped: this machine can hold the model");
        return;
    }
    for verb in ["check", "train", "compare", "plan"] {
        let mut arguments = vec![verb, "run.toml", "--quiet"];
        if verb == "compare" {
            arguments.extend(["--remote", "asp"]);
        }
        let errors = refusal(folder.path(), &arguments);
        for said in
            ["asp may hold", "of memory are free", "a smaller app.hidden", "--ignore-memory"]
        {
            assert!(errors.contains(said), "{verb} should say {said:?}:\n{errors}");
        }
    }
    // Runs of BSP find the bandwidths first.
    let slowed = ["compare", "run.toml", "--quiet", "--remote", "asp", "--slowdown", "3"];
    let errors = refusal(folder.path(), &slowed);
    assert!(errors.contains("bsp may hold") && errors.contains("--ignore-memory"), "{errors}");
}
