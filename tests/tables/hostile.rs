//! Parquet and csv files that are damaged, or claim more than they hold.

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;

use super::allocations::peak_of;
use super::build;
use super::files::{Folder, compressed, dictionary, float32, int64, parquet, text};

/// What a file may expand to, however small it is, as a reader holds it: a few times over, in growing vectors.
const UNPACKED_BYTES: usize = (1 << 26) * 4;

/// Reads ratings, and says what is wrong with them and how many bytes were held for them.
fn read(source: &str, bytes: &[u8]) -> (Result<(), String>, usize) {
    let folder = Folder::new();
    let file = folder.bytes("file", bytes);
    let keys = format!("rank = 1\ndata = {{ source = '{source}', path = '{}' }}", file.display());
    let (read, most) = peak_of(|| build("matrix-factorization", &keys, &[1]));
    let name = format!("{}", file.display());
    let error = read.map(drop).map_err(|error| error.to_string());
    if let Err(error) = &error {
        assert!(error.starts_with(&name) || error.contains("parameters"), "{error}");
    }
    (error, most)
}

fn good(properties: WriterProperties) -> Vec<u8> {
    let names: Vec<String> = (0..300).map(|at| format!("user {}", at % 40)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let columns = [
        ("user", dictionary(&names)),
        ("item", int64((0..300).map(|at| at % 17))),
        ("rating", float32((0..300).map(|at| (at % 5) as f32))),
    ];
    parquet(&columns, properties)
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused() {
    let whole = good(compressed(Compression::SNAPPY));
    assert_eq!(read("parquet", &whole).0, Ok(()));
    for length in (0..whole.len()).step_by(7) {
        let (read, most) = read("parquet", &whole[..length]);
        assert!(read.unwrap_err().contains("cannot be decoded"), "{length}");
        assert!(most < 1 << 22, "held {most} bytes");
    }
}

#[test]
fn no_number_in_a_file_makes_much_room() {
    let whole = good(compressed(Compression::SNAPPY));
    // The largest number of 32 bits and the largest of 64, as the format writes numbers.
    let numbers: [&[u8]; 2] = [
        &[0xfe, 0xff, 0xff, 0xff, 0x0f],
        &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    ];
    for number in numbers {
        for at in 0..whole.len() - number.len() {
            let mut bytes = whole.clone();
            bytes[at..at + number.len()].copy_from_slice(number);
            let (_, most) = read("parquet", &bytes);
            assert!(most < 1 << 23, "held {most} bytes after a change at byte {at}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_damage_to_a_good_file_makes_a_reader_panic_or_take_much_memory(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        in_footer in any::<bool>(),
        version in 0..3,
    ) {
        let properties = match version {
            0 => compressed(Compression::SNAPPY),
            1 => compressed(Compression::ZSTD(ZstdLevel::default())),
            _ => WriterProperties::builder()
                .set_writer_version(parquet::file::properties::WriterVersion::PARQUET_2_0)
                .set_dictionary_enabled(false)
                .set_column_encoding("user".into(), Encoding::DELTA_LENGTH_BYTE_ARRAY)
                .build(),
        };
        let mut bytes = good(properties);
        let start = if in_footer { bytes.len() * 2 / 3 } else { 0 };
        for (at, byte) in changes {
            let length = bytes.len();
            bytes[start + at.index(length - start)] = byte;
        }
        let (_, most) = read("parquet", &bytes);
        prop_assert!(most < UNPACKED_BYTES, "held {} bytes", most);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), at_end in any::<bool>()) {
        let mut framed = b"PAR1".to_vec();
        framed.extend(&bytes);
        if at_end {
            framed.extend((bytes.len() as u32).to_le_bytes());
            framed.extend(b"PAR1");
        }
        for (source, bytes) in [("parquet", &framed), ("parquet", &bytes), ("csv", &bytes)] {
            let (_, most) = read(source, bytes);
            prop_assert!(most < 1 << 22, "held {} bytes", most);
        }
    }
}

#[test]
fn a_quote_that_is_not_closed_takes_no_memory_for_the_rest_of_the_file() {
    let mut bytes = b"user,item,rating\n1,1,1\n\"".to_vec();
    bytes.resize(1 << 26, b'x');
    let (read, most) = read("csv", &bytes);
    let error = read.unwrap_err();
    assert!(
        error.contains(
            ", row 3: found a longer row, or a quote that is not closed, expected a row of at most"
        ),
        "{error}"
    );
    assert!(most < 1 << 26, "held {most} bytes");
}

#[test]
fn a_value_that_is_repeated_makes_no_more_room_than_the_file_may_expand_to() {
    let count = 30_000_000;
    let one = |value| int64((0..count).map(move |_| value));
    let ratings = float32((0..count).map(|_| 1.0));
    let bytes = parquet(
        &[("user", one(1)), ("item", one(2)), ("rating", ratings)],
        compressed(Compression::ZSTD(ZstdLevel::default())),
    );
    assert!(bytes.len() < 1 << 19, "{}", bytes.len());
    let (read, most) = read("parquet", &bytes);
    let error = read.unwrap_err();
    assert!(error.contains("found more values than the file may expand to"), "{error}");
    assert!(most < UNPACKED_BYTES, "held {most} bytes");
}

#[test]
fn long_text_that_is_repeated_is_not_copied() {
    let long = "x".repeat(1 << 20);
    let users = vec![long.as_str(); 2000];
    let columns = [
        ("user", dictionary(&users)),
        ("item", int64(0..2000)),
        ("rating", float32((0..2000).map(|_| 1.0))),
    ];
    let bytes = parquet(&columns, compressed(Compression::SNAPPY));
    assert!(bytes.len() < 1 << 22, "{}", bytes.len());
    let (read, most) = read("parquet", &bytes);
    assert!(read.unwrap_err().contains(", row 1: found \"xxx"));
    assert!(most < 1 << 25, "held {most} bytes");

    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_column_encoding("user".into(), Encoding::DELTA_BYTE_ARRAY)
        .build();
    let users: Vec<String> = (0..500).map(|at| format!("{at}")).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    let columns = [
        ("user", text(&users)),
        ("item", int64(0..500)),
        ("rating", float32((0..500).map(|_| 1.0))),
    ];
    let error = read_error(&parquet(&columns, properties));
    assert!(
        error.contains("found text as differences (DELTA_BYTE_ARRAY), expected text in plain"),
        "{error}"
    );
}

fn read_error(bytes: &[u8]) -> String {
    read("parquet", bytes).0.unwrap_err()
}
