//! What Python makes of a model and of predictions.

use std::process::Command;

use super::Bench;

/// Loads a model, predicts one pair as its documentation says, and prints what the file of predictions has beside it.
const SCRIPT: &str = "\
import csv, json, sys
import numpy, safetensors, safetensors.numpy
model = safetensors.numpy.load_file(sys.argv[1])
with safetensors.safe_open(sys.argv[1], 'np') as file:
    run = json.loads(file.metadata()['gaia'])
rank = run['application']['rank']
for row in csv.DictReader(open(sys.argv[2])):
    user = model['users'][numpy.searchsorted(model['users.names'], int(row['user']))]
    item = model['items'][numpy.searchsorted(model['items.names'], int(row['item']))]
    own = model['mean'][0] + user[rank] + item[rank] + user[:rank] @ item[:rank]
    print(abs(own - float(row['prediction'])) < 1e-5)
";

#[test]
fn python_predicts_from_the_file_what_gaia_predicts() {
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let has = Command::new(&python).args(["-c", "import numpy, safetensors.numpy"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        println!("skipped: {python:?} has no numpy and safetensors");
        return;
    }
    let bench = Bench::new();
    let rows = (0..30_u64).flat_map(|user| (0..5_u64).map(move |item| (7 * user, 2 * item)));
    let rows = rows.map(|(user, item)| format!("{user},{item},{}\n", 1 + (user * item) % 5));
    bench.write("train.csv", rows.collect::<String>());
    bench.write("pairs.csv", "7,4\n14,0\n203,8\n");
    let keys = "rank = 3\ndata = { source = \"movielens\", path = \"train.csv\" }";
    let model = bench.train("mf", "matrix-factorization", keys);
    bench.gaia(&["predict", &model, "--data", "pairs.csv", "--out", "p.csv"]).assert().success();

    let mut script = Command::new(&python);
    script.args(["-c", SCRIPT]).arg(bench.path(&model)).arg(bench.path("p.csv"));
    let output = script.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.lines().collect::<Vec<_>>(), ["True"; 3]);
}
