//! Data files that claim more than they hold, or hold more than they weigh.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use gaia_data::{
    DataError, read_cifar, read_docword, read_idx, read_libsvm, read_movielens, read_vocabulary,
};
use proptest::prelude::*;
use tempfile::TempDir;

use super::allocations::peak_of;
use super::fuzz::{TARGETS, Target};

/// What a reader may hold beyond a multiple of its file: buffers, and one row.
const BUFFERS_BYTES: usize = 1 << 20;

/// What a gzip file may expand to, however small it is, as the readers hold it: a few times over, in growing vectors.
const UNPACKED_BYTES: usize = (1 << 26) * 8;

fn write(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let file = folder.path().join(name);
    fs::write(&file, bytes).unwrap();
    file
}

/// A gzip file of `piece`, over and over.
fn packed(piece: &[u8], times: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    (0..times).for_each(|_| encoder.write_all(piece).unwrap());
    encoder.finish().unwrap()
}

/// The reader refuses, in words that name the file and say all of `says`, and holds no more than `bound`.
fn refuse<T>(file: &Path, says: &str, bound: usize, read: impl FnOnce() -> Result<T, DataError>) {
    let (answer, most) = peak_of(read);
    let Err(error) = answer else { panic!("read without an error, expected {says}") };
    let error = error.to_string();
    assert!(error.starts_with(&file.display().to_string()), "{error}");
    assert!(error.contains(says), "{error}\nshould say {says}");
    assert!(most <= bound, "{error}\nheld {most} bytes");
}

#[test]
fn dimensions_that_are_claimed_make_no_room() {
    let folder = TempDir::new().unwrap();
    let idx = |sizes: &[u32]| {
        let mut bytes = vec![0, 0, 8, sizes.len() as u8];
        bytes.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
        bytes
    };
    write(&folder, "train-labels-idx1-ubyte", &idx(&[1]));
    for (sizes, says) in [
        ([1 << 31, 28, 28], "byte 4: found dimensions of [2147483648, 28, 28]"),
        ([u32::MAX; 3], "at most 4294967296 values"),
        ([1 << 31, 1, 2], "byte 16: found the end of the file"),
        ([1, 1 << 16, (1 << 16) - 1], "byte 16: found the end of the file"),
        ([0, u32::MAX, u32::MAX], "at least one image"),
        ([u32::MAX, u32::MAX, 0], "at least one pixel"),
    ] {
        let file = write(&folder, "train-images-idx3-ubyte", &idx(&sizes));
        refuse(&file, says, BUFFERS_BYTES, || read_idx(folder.path()));
    }
    for (text, says) in [
        ("1000000000\n1000000000\n3\n1 1 1\n", "row 2: found \"1000000000\""),
        ("1000000000\n67108864\n1000000000\n1 1 1\n", "1 counts, expected 1000000000"),
        ("4294967295\n67108864\n1073741825\n1 1 1\n", "row 3"),
        ("2\n2\n2\n1 1 4294967295\n2 1 1\n", "row 4: found \"4294967295\", expected a count"),
        ("99999999999999999999\n2\n2\n", "row 1"),
        ("2\n67108864\n2\n1 1 1\n2 1 1\n", "row 2: found 67108864, expected at most 1048576"),
    ] {
        let file = write(&folder, "docword", text.as_bytes());
        refuse(&file, says, BUFFERS_BYTES, || read_docword(&file));
    }
    for (row, says) in [
        (
            "1 1000000000000000000:1",
            "row 2: found \"1000000000000000000:1\", expected an index, 1 to",
        ),
        ("1 67108865:1", "row 2"),
        ("1 4294967296:1", "row 2"),
        ("1 1:1e39", "row 2: found \"1:1e39\", expected a finite value"),
    ] {
        let file = write(&folder, "rows", format!("0 1:1\n{row}\n").as_bytes());
        refuse(&file, says, BUFFERS_BYTES, || read_libsvm(&file));
    }
    let file = write(&folder, "ratings", b"1,1,1\n18446744073709551616,1,1\n");
    refuse(&file, "row 2: found \"18446744073709551616\"", BUFFERS_BYTES, || read_movielens(&file));
    let file = write(&folder, "words", b"one\n");
    refuse(&file, "1 words", BUFFERS_BYTES, || read_vocabulary(&file, 1 << 26));
}

#[test]
fn a_gzip_file_that_expands_without_end_is_refused_by_every_reader() {
    let folder = TempDir::new().unwrap();
    // 256 MiB from a quarter of one.
    let bomb = |piece: &str| packed(&piece.repeat((1 << 20) / piece.len()).into_bytes(), 256);
    let says = "found more bytes than the file may expand to, expected a gzip file that expands to";
    let file = write(&folder, "ratings", &bomb("1,1,1\n"));
    refuse(&file, says, UNPACKED_BYTES, || read_movielens(&file));
    let file = write(&folder, "rows", &bomb("1 1:1\n"));
    refuse(&file, says, UNPACKED_BYTES, || read_libsvm(&file));
    let counts = packed(b"9\n9\n999999999\n", 1);
    let file = write(&folder, "docword", &[counts, bomb("1 1 1\n")].concat());
    refuse(&file, says, UNPACKED_BYTES, || read_docword(&file));
    let file = write(&folder, "blank", &bomb("\n\n"));
    refuse(&file, says, BUFFERS_BYTES, || read_libsvm(&file));
    let zeros = packed(&[0; 1 << 20], 256);
    let file = write(&folder, "data_batch_1.bin.gz", &zeros);
    refuse(&file, says, UNPACKED_BYTES, || read_cifar(folder.path()));
    let header = packed(&[0, 0, 8, 3, 0, 0, 0x10, 0, 0, 0, 1, 0, 0, 0, 0x10, 0], 1);
    let file = write(&folder, "train-images-idx3-ubyte.gz", &[header, zeros].concat());
    refuse(&file, says, UNPACKED_BYTES, || read_idx(folder.path()));
}

#[test]
fn a_gzip_file_may_repeat_itself_as_real_ones_do() {
    let folder = TempDir::new().unwrap();
    // A few kilobytes that expand four hundredfold, to less than any file may.
    let small = write(&folder, "small", &packed(&"1,1,1\n2,2,2\n".repeat(1000).into_bytes(), 100));
    assert!(fs::metadata(&small).unwrap().len() * 200 < 1_200_000);
    assert_eq!(read_movielens(&small).unwrap().len(), 200_000);
}

#[test]
fn a_row_without_an_end_is_refused_once_it_is_too_long() {
    let folder = TempDir::new().unwrap();
    let file = write(&folder, "endless", &packed(&[b'1'; 1 << 16], 1 << 9));
    // A row may be 16 MiB long, in a vector that grows.
    let bound = (3 << 24) + BUFFERS_BYTES;
    refuse(&file, "row 1: found \"1111111", bound, || read_movielens(&file));
    refuse(&file, "row 1: found \"1111111", bound, || read_libsvm(&file));
    refuse(&file, "row 1: found \"1111111", bound, || read_docword(&file));
    refuse(&file, "row 1: found \"1111111", bound, || read_vocabulary(&file, 9));
}

/// The targets that read data files.
fn readers() -> impl Iterator<Item = &'static Target> {
    let names = ["cifar", "docword", "idx", "libsvm", "movielens", "vocabulary"];
    TARGETS.iter().filter(move |target| names.contains(&target.name))
}

proptest! {
    /// Of plain files a reader holds a few times the bytes: positions, numbers and vectors that grow.
    #[test]
    fn any_bytes_are_data_or_an_error_that_names_the_file(
        bytes in prop::collection::vec(any::<u8>(), 0..4000),
        text in "([0-9]{1,9}[,:. \t\n+-]{1,2}){0,200}",
    ) {
        for target in readers() {
            for bytes in [&bytes, text.as_bytes()] {
                let ((), most) = peak_of(|| (target.check)(bytes));
                prop_assert!(most <= 64 * bytes.len() + BUFFERS_BYTES, "{} {}", target.name, most);
            }
        }
    }
}
