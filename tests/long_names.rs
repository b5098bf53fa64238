//! A model whose names and settings have no room in the header of a file: every verb that would train it refuses it first.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod addresses;

use std::fs;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use addresses::free_address;
use gaia::cli::try_run;
use gaia::{
    Aggregation, Application, ApplicationError, Applications, DataError, Direction, EvaluationSums,
    Metric, Model, ModelLayout, Plan, Seed, TableLayout, Task,
};
use gaia_certificates::{Directory, Identity};
use rustls::pki_types::UnixTime;

/// An application whose table has a name of this many bytes.
struct Wordy {
    layout: Arc<ModelLayout>,
    workers: usize,
}

impl Application for Wordy {
    fn layout(&self) -> &Arc<ModelLayout> {
        &self.layout
    }

    fn workers(&self) -> usize {
        self.workers
    }

    fn task(&self, _: usize, _: Seed) -> Box<dyn Task> {
        unreachable!("no worker trains a model that is refused")
    }

    fn sums(&self, _: &Model, _: Range<usize>) -> Result<EvaluationSums, ApplicationError> {
        Ok(EvaluationSums::default())
    }

    fn metric(&self) -> Metric {
        let (aggregation, direction) = (Aggregation::Mean, Direction::Lower);
        Metric { name: "loss".into(), aggregation, direction }
    }
}

struct LongNames;

impl Applications for LongNames {
    fn build(&self, plan: &Plan, _: Range<usize>) -> Result<Arc<dyn Application>, DataError> {
        let table = TableLayout { name: "n".repeat(NAME_BYTES), rows: 1, width: 1 };
        let layout = Arc::new(ModelLayout::new(vec![table]));
        Ok(Arc::new(Wordy { layout, workers: plan.topology.workers() }))
    }
}

#[test]
fn check_and_train_and_every_node_refuse_a_model_that_no_file_has_room_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = |file: &str| folder.path().join(file).to_str().unwrap().to_owned();
    fs::write(path("run.toml"), RUN.replace("ADDRESS", &free_address())).unwrap();
    let nodes = [
        Identity::coordinator("long", "a"),
        Identity::server("long", "a", 0),
        Identity::worker("long", "a", 0),
    ];
    let now = UnixTime::now();
    let mut directory = Directory::create(path("certs").as_ref(), "long", now).unwrap();
    directory.issue(&nodes, now, Duration::from_secs(86_400)).unwrap();

    let (run, certs) = (path("run.toml"), path("certs"));
    let [one, two, three] = ["one", "two", "three"].map(path);
    let verbs: [&[&str]; 6] = [
        &["check", &run],
        &["train", &run, "--out", &one],
        &["train", &run, "--out", &two, "--driver", "real"],
        &["node", &run, "--certs", &certs, "--coordinator", "--out", &three],
        &["node", &run, "--certs", &certs, "--dc", "a", "--server", "0"],
        &["node", &run, "--certs", &certs, "--dc", "a", "--worker", "0"],
    ];
    for verb in verbs {
        let arguments = ["gaia"].iter().chain(verb).map(Into::into);
        let refused = try_run(arguments, &LongNames).unwrap_err();
        let expected = " for the names and shapes of 1 tensors and ";
        let text = refused.text.as_str();
        assert!(
            text.contains(expected) && text.contains("expected at most 100 MB"),
            "{verb:?}: {text}"
        );
        assert!(
            refused.exit_code == 1 || refused.exit_code == 2,
            "{verb:?}: {}",
            refused.exit_code
        );
    }
}

const NAME_BYTES: usize = 100_000_000;

const RUN: &str = "\
name = \"long\"
driver = \"simulated\"
app = { kind = \"external\" }
sync.remote.model = \"asp\"
stop.clocks = 1
[topology]
name = \"t\"
coordinator_address = \"ADDRESS\"
[[topology.data_center]]
name = \"a\"
servers = 1
workers = 1
";
