//! Run files, and what `--set` lays over them: after the file each setting, a zero byte before it.

use gaia_config::{ConfigError, Override, Plan, RunFile};

use super::{Seed, Target};

pub const TARGET: Target = Target { name: "run_file", check, seeds };

fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.split('\0');
    let file = parts.next().unwrap_or("");
    match plan(file, parts) {
        Ok(plan) => {
            let again = RunFile::from_text("again.toml", &plan.to_toml(), &[]);
            assert_eq!(again.and_then(|file| file.plan()), Ok(plan), "what was resolved repeats");
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.starts_with("--set ") || said.contains(".toml:"), "{said}");
            assert!(error.render(false).contains("error"));
        }
    }
}

fn plan<'a>(file: &str, settings: impl Iterator<Item = &'a str>) -> Result<Plan, ConfigError> {
    let settings: Vec<Override> = settings.map(Override::parse).collect::<Result<_, _>>()?;
    RunFile::from_text("run.toml", file, &settings)?.plan()
}

fn seeds() -> Vec<Seed> {
    let text = |text: String| text.into_bytes();
    let settings = "\0sync.remote.threshold=0.5\0topology.file=lan\0app.data.synthetic.rank=3";
    vec![
        ("factorization", text(RUN.to_owned())),
        ("settings", text(format!("{RUN}{settings}"))),
        ("network", text(format!("{NETWORK}\0stop.seconds=1e3"))),
    ]
}

const RUN: &str = "\
name = \"base\"
seed = 7
driver = \"simulated\"
cost.usd_per_machine_hour = 0.4

[app]
kind = \"matrix-factorization\"
rank = 4
data.source = \"synthetic\"

[topology]
file = \"three-regions\"
bandwidth_scale = 0.5

[sync.local]
model = \"ssp\"
staleness = 2

[sync.remote]
model = \"asp\"
threshold = 0.01
barrier_deadline = \"3 s\"
guard.every = 7

[compute]
flops_per_second = 1e9
slowdown = [1, 2.0, 1]

[stop]
clocks = 10
change = { percent = 2.0, clocks = 10 }
";

const NETWORK: &str = "\
name = \"net\"
app = { kind = \"perceptron\", hidden = [8, 4], momentum = 0.9 }
topology = { name = \"one\", data_center = [{ name = \"a\", workers = 2 }] }
sync.remote = { model = \"local-steps\", steps = 5, values = \"int8\" }
stop.objective = 0.5
";
