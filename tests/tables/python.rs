//! Files that pyarrow writes, and what it reads of files that Gaia writes.

use std::process::Command;

use gaia_data::TableWriter;

use super::files::{Folder, batch, bools, float32, int64, text};
use super::{build, trained};

/// Runs a script with the path of a folder. `None` where Python has no pyarrow.
#[allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a skipped test says so")]
fn python(script: &str, folder: &Folder) -> Option<String> {
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let has = Command::new(&python).args(["-c", "import pyarrow.parquet, pyarrow.csv"]).output();
    if !has.is_ok_and(|has| has.status.success()) {
        println!("skipped: {} has no pyarrow; PYTHON names the interpreter", python.display());
        return None;
    }
    let done = Command::new(&python).args(["-c", script]).arg(folder.path()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(String::from_utf8(done.stdout).unwrap())
}

#[test]
fn files_of_pyarrow_are_read_in_every_type_and_version() {
    let script = "
import sys, pyarrow as pa, pyarrow.parquet as pq
n = 300
pixels = [[float(at % 7), float(at % 5), float(at % 3 == 0)] for at in range(n)]
types = {
    'list': pa.list_(pa.float32()),
    'large': pa.large_list(pa.float64()),
    'fixed': pa.list_(pa.float16(), 3),
    'bytes': pa.list_(pa.uint8()),
}
names = ['no' if at % 3 else 'yes' for at in range(n)]
labels = {'text': pa.string(), 'long': pa.large_string(), 'dict': pa.dictionary(pa.int8(), pa.string())}
for name, kind in types.items():
    for label, of in labels.items():
        table = pa.table({'label': pa.array(names).cast(of), 'x': pa.array(pixels).cast(pa.list_(pa.float32())).cast(kind)})
        for version in ['1.0', '2.0']:
            pq.write_table(table, f'{sys.argv[1]}/{name}-{label}-{version}', data_page_version=version,
                           row_group_size=100, data_page_size=64, compression='zstd')
";
    let folder = Folder::new();
    if python(script, &folder).is_none() {
        return;
    }
    let mut models = Vec::new();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap().path();
        let keys = format!("data = {{ source = 'parquet', path = '{}' }}", file.display());
        models.push(trained(&*build("softmax-regression", &keys, &[2]).unwrap(), 5));
    }
    assert_eq!(models.len(), 24);
    assert!(models.iter().all(|model| *model == models[0]));
}

#[test]
fn pyarrow_reads_what_is_written() {
    let folder = Folder::new();
    let rows = batch(&[
        ("name", text(&["a,b", "é", "\"q\""])),
        ("count", int64([-1, 0, i64::MAX])),
        ("share", float32([0.1, -2.5, 1e30])),
        ("is", bools(&[true, false, true])),
    ]);
    for name in ["rows.csv", "rows.csv.gz", "rows.parquet"] {
        let mut writer = TableWriter::create(&folder.path().join(name), rows.schema()).unwrap();
        writer.write(&rows).unwrap();
        writer.finish().unwrap();
    }
    let script = "
import sys, pyarrow as pa, pyarrow.csv, pyarrow.parquet as pq
expected = {'name': ['a,b', 'é', '\"q\"'], 'count': [-1, 0, 2**63 - 1], 'is': [True, False, True]}
for name in ['rows.csv', 'rows.csv.gz', 'rows.parquet']:
    path = f'{sys.argv[1]}/{name}'
    rows = pq.read_table(path) if name.endswith('parquet') else pa.csv.read_csv(path)
    shares = rows['share'].cast(pa.float32()).to_pylist()
    assert shares == pa.array([0.1, -2.5, 1e30], pa.float32()).to_pylist(), shares
    assert rows.drop(['share']).to_pydict() == expected, rows
";
    python(script, &folder);
}
