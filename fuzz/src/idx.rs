//! IDX images and labels, plain and gzip.
//!
//! The first two bytes say how many of those behind them are the file of images; the rest is that of labels. Both
//! are taken for the training and for the test set.

use gaia_data::read_idx;

use super::files::{check_error, gzip, in_folder, write};
use super::{Seed, Target};

pub const TARGET: Target = Target { name: "idx", check, seeds };

fn check(data: &[u8]) {
    let Some((length, files)) = data.split_first_chunk() else { return };
    let length = usize::from(u16::from_le_bytes(*length)).min(files.len());
    let (images, labels) = files.split_at(length);
    in_folder(|folder| {
        for set in ["train", "t10k"] {
            write(folder, &format!("{set}-images-idx3-ubyte"), images);
            write(folder, &format!("{set}-labels-idx1-ubyte"), labels);
        }
        match read_idx(folder) {
            Ok((train, test)) => {
                assert_eq!(train, test);
                assert!(!train.is_empty() && train.width() > 0);
                assert!(train.labels.iter().all(|label| (*label as usize) < train.classes));
                train.copy_features(train.len() - 1, &mut vec![0.0; train.width()]);
            }
            Err(error) => check_error(&error, &folder.join("any")),
        }
    });
}

fn seeds() -> Vec<Seed> {
    let images = file(&[3, 2, 2], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255]);
    let labels = file(&[3], &[0, 5, 9]);
    vec![("plain", joined(&images, &labels)), ("gzip", joined(&gzip(&images), &gzip(&labels)))]
}

fn joined(images: &[u8], labels: &[u8]) -> Vec<u8> {
    [&(images.len() as u16).to_le_bytes(), images, labels].concat()
}

/// An IDX file of bytes.
fn file(dimensions: &[u32], values: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, dimensions.len() as u8];
    bytes.extend(dimensions.iter().flat_map(|size| size.to_be_bytes()));
    bytes.extend_from_slice(values);
    bytes
}
