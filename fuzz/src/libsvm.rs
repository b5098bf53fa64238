//! libsvm rows, plain and gzip.

use gaia_data::read_libsvm;

use super::files::{check_error, gzip, in_folder, write};
use super::{Seed, Target};

pub const TARGET: Target = Target { name: "libsvm", check, seeds };

fn check(data: &[u8]) {
    in_folder(|folder| {
        let file = write(folder, "rows", data);
        match read_libsvm(&file) {
            Ok((examples, _)) => {
                assert!(examples.len() >= 2 && examples.offsets.len() == examples.len() + 1);
                assert!(examples.labels.iter().all(|label| label.abs() == 1.0));
                for example in 0..examples.len() {
                    let (columns, values) = examples.example(example);
                    assert!(columns.is_sorted_by(|a, b| a < b), "columns ascend");
                    assert!(columns.last().is_none_or(|last| (*last as usize) < examples.width));
                    assert!(values.iter().all(|value| value.is_finite()));
                }
            }
            Err(error) => check_error(&error, &file),
        }
    });
}

fn seeds() -> Vec<Seed> {
    let rows = "# made up\n+1 1:0.5 4:-2 7:1\n-1 qid:3 2:1e-3 # more\n\n+1\n-1 1:1 67108864:3\n";
    let zeros = "1 1:1\n0 2:0.25\n1 3:4\n";
    vec![
        ("rows", rows.as_bytes().to_vec()),
        ("rows-gzip", gzip(rows.as_bytes())),
        ("labels-1-and-0", zeros.as_bytes().to_vec()),
    ]
}
