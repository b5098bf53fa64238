//! Batches of CIFAR-10, plain and gzip: one file, to train and to test on.

use gaia_data::read_cifar;

use super::files::{check_error, gzip, in_folder, write};
use super::{Seed, Target};

pub const TARGET: Target = Target { name: "cifar", check, seeds };

fn check(data: &[u8]) {
    in_folder(|folder| {
        write(folder, "data_batch_1.bin", data);
        write(folder, "test_batch.bin", data);
        match read_cifar(folder) {
            Ok((train, test)) => {
                assert_eq!(train, test);
                assert!(!train.is_empty());
                assert!(train.labels.iter().all(|label| (*label as usize) < train.classes));
                train.copy_features(train.len() - 1, &mut vec![0.0; train.width()]);
            }
            Err(error) => check_error(&error, &folder.join("any")),
        }
    });
}

fn seeds() -> Vec<Seed> {
    let record = |label: u8| [label].into_iter().chain((0..3072).map(|at| (at % 251) as u8));
    let batch: Vec<u8> = record(1).chain(record(9)).collect();
    vec![("image", record(3).collect()), ("batch-gzip", gzip(&batch))]
}
