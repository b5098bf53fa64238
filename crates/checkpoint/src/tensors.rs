//! Numbers as safetensors files, which `safetensors.torch.load_file` and other tools can read.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use crc32fast::Hasher;
use safetensors::Dtype;
use safetensors::tensor::Metadata;

use super::error::CheckpointError;
use super::manifest::FileMark;
use super::marked_file::MarkedFile;
use gaia_core::types::{Content, State, Tensor};
use gaia_model::{HeaderTooLong, Row, rows_in_parts};

/// The file of each kind of tensor.
pub(super) const FILES: [(Content, &str); 3] = [
    (Content::Values, "values.safetensors"),
    (Content::Changes, "residuals.safetensors"),
    (Content::Optimizer, "optimizer.safetensors"),
];

/// The parts of the file with all tensors of one kind, each as one row of numbers. Of a tensor with few runs of the same number it
/// has a number for each run, and their lengths are in the metadata: what nobody has changed, and factors that are the same
/// nearly everywhere, take no room. Counts up to 255 take one byte each, and other numbers that bf16 represents exactly, such as
/// changes that were rounded, two.
///
/// # Errors
/// [`HeaderTooLong`] if there are too many for a file.
pub(super) fn state_file(
    state: &State,
    content: Content,
) -> Result<Vec<Cow<'_, [u8]>>, HeaderTooLong> {
    let tensors = state.tensors.iter().filter(|(_, tensor)| tensor.content == content);
    let (mut rows, mut lengths) = (BTreeMap::new(), BTreeMap::new());
    for (name, Tensor { values, .. }) in tensors {
        let row = match runs_of(values) {
            Some((numbers, of_runs)) => {
                lengths.insert(name, of_runs);
                Cow::Owned(numbers)
            }
            None => Cow::Borrowed(values.as_slice()),
        };
        let small = counts_of(&row).map(Row::U8);
        let small = small.or_else(|| halves_of(&row).map(Row::Bf16));
        rows.insert(name.as_str(), small.unwrap_or(Row::F32(row)));
    }
    let lengths = (!lengths.is_empty()).then(|| {
        serde_json::to_string(&lengths).expect("names and lengths can be written as JSON")
    });
    rows_in_parts(rows, lengths.as_deref().map(|lengths| (RUNS, lengths)))
}

/// The number of each run of the same bits, and the runs' lengths. `None` where they save little.
fn runs_of(values: &[f32]) -> Option<(Vec<f32>, Vec<usize>)> {
    let runs_max = RUNS_MAX.min(values.len() / RUN_LENGTH_MIN);
    let (mut numbers, mut lengths) = (Vec::new(), Vec::new());
    for run in values.chunk_by(|a, b| a.to_bits() == b.to_bits()) {
        if numbers.len() == runs_max {
            return None;
        }
        numbers.push(run[0]);
        lengths.push(run.len());
    }
    (!numbers.is_empty()).then_some((numbers, lengths))
}

/// Numbers that are all whole, from 0 to 255. `None` if one is not.
fn counts_of(numbers: &[f32]) -> Option<Vec<u8>> {
    let is_count = |number: &f32| f32::from(*number as u8).to_bits() == number.to_bits();
    let are_counts = |part: &[f32]| part.iter().fold(true, |all, number| all & is_count(number));
    let fits = numbers.chunks(PART).all(are_counts);
    fits.then(|| numbers.iter().map(|number| *number as u8).collect())
}

/// The upper halves of numbers. `None` if a lower half is not zero.
fn halves_of(numbers: &[f32]) -> Option<Vec<[u8; 2]>> {
    let lower = |part: &[f32]| part.iter().fold(0, |bits, number| bits | number.to_bits()) as u16;
    let fits = numbers.chunks(PART).all(|part| lower(part) == 0);
    let upper = |number: &f32| ((number.to_bits() >> 16) as u16).to_le_bytes();
    fits.then(|| numbers.iter().map(upper).collect())
}

/// Reads a file of tensors of one kind, and checks it against its mark.
///
/// Each tensor is read to its final place in memory: a state has gigabytes, and copying it takes longer than its
/// checksum.
pub(super) fn read(
    directory: &Path,
    mark: &FileMark,
    content: Content,
    tensors: &mut BTreeMap<String, Tensor>,
) -> Result<(), CheckpointError> {
    let file = MarkedFile::open(directory, mark)?;
    let unreadable = |problem: String| CheckpointError::unreadable(file.path(), problem);

    let (header, metadata) = match header(&file) {
        Ok(found) => found,
        Err(Unfit::Disk(error)) => return Err(error),
        Err(Unfit::Header(problem)) => {
            // A wrong checksum is the better explanation of a header that makes no sense.
            file.read()?;
            return Err(unreadable(problem));
        }
    };

    let mut lengths = lengths(&metadata).map_err(unreadable)?;
    let mut whole = Hasher::new();
    whole.update(&header);

    let mut read = Vec::new();
    for name in metadata.offset_keys() {
        let info = metadata.info(&name).expect("a name of the header");
        let (from, to) = info.data_offsets;
        let mut part = |bytes: &mut [u8]| file.read_part(header.len() + from, bytes, &mut whole);
        let values = match info.dtype {
            Dtype::U8 => {
                let mut counts = vec![0; to - from];
                part(&mut counts)?;
                counts.into_iter().map(f32::from).collect()
            }
            Dtype::BF16 => {
                let mut halves = vec![[0; 2]; (to - from) / 2];
                part(halves.as_flattened_mut())?;
                let upper =
                    |half: [u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(half)) << 16);
                halves.into_iter().map(upper).collect()
            }
            _ => {
                let mut values = vec![0.0_f32; (to - from) / 4];
                part(bytemuck::cast_slice_mut(&mut values))?;
                if cfg!(target_endian = "big") {
                    let swap =
                        |value: &mut f32| *value = f32::from_bits(value.to_bits().swap_bytes());
                    values.iter_mut().for_each(swap);
                }
                values
            }
        };
        read.push((name, Tensor { content, values }));
    }

    // Lengths may be anything before the checksum is known.
    file.check(&whole)?;
    for (name, Tensor { values, .. }) in &mut read {
        if let Some(lengths) = lengths.remove(name) {
            *values = whole_of(values, &lengths)
                .map_err(|problem| unreadable(format!("`{name}` {problem}")))?;
        }
    }
    if let Some(name) = lengths.into_keys().next() {
        return Err(unreadable(format!("`{name}` has runs and no numbers")));
    }
    tensors.extend(read);
    Ok(())
}

/// The lengths of the runs of each tensor that has few.
fn lengths(metadata: &Metadata) -> Result<BTreeMap<String, Vec<usize>>, String> {
    let text = metadata.metadata().as_ref().and_then(|metadata| metadata.get(RUNS));
    let lengths = text.map(|text| serde_json::from_str(text)).transpose();
    lengths.map(Option::unwrap_or_default).map_err(|error| format!("lengths of runs: {error}"))
}

/// The tensor of runs with these numbers and lengths.
fn whole_of(numbers: &[f32], lengths: &[usize]) -> Result<Vec<f32>, String> {
    if numbers.len() != lengths.len() {
        let (numbers, runs) = (numbers.len(), lengths.len());
        return Err(format!("has {numbers} numbers, expected one for each of {runs} runs"));
    }
    let length = lengths.iter().try_fold(0_usize, |sum, length| sum.checked_add(*length));
    let mut whole = Vec::new();
    length
        .and_then(|length| whole.try_reserve_exact(length).ok())
        .ok_or_else(|| "has more numbers than memory holds".to_owned())?;
    for (number, length) in numbers.iter().zip(lengths) {
        whole.resize(whole.len() + length, *number);
    }
    Ok(whole)
}

/// Why a header cannot be used.
enum Unfit {
    Disk(CheckpointError),
    Header(String),
}

/// The bytes before the numbers, and their contents. All tensors have numbers of four bytes, their upper halves or counts, and fill
/// the rest of the file.
fn header(file: &MarkedFile<'_>) -> Result<(Vec<u8>, Metadata), Unfit> {
    let problem = |problem: String| Unfit::Header(problem);
    let short = || problem(format!("found {} bytes, expected a complete header", file.len()));

    // The header is checked together with the rest of the file.
    let mut unchecked = Hasher::new();
    let mut bytes = vec![0; LENGTH_BYTES];
    if file.len() < LENGTH_BYTES {
        return Err(short());
    }

    file.read_part(0, &mut bytes, &mut unchecked).map_err(Unfit::Disk)?;

    let length = bytes.first_chunk().copied().map_or(0, u64::from_le_bytes);
    let end = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(LENGTH_BYTES);
    if end > file.len() {
        return Err(short());
    }

    bytes.resize(end, 0);
    let rest = &mut bytes[LENGTH_BYTES..];
    file.read_part(LENGTH_BYTES, rest, &mut unchecked).map_err(Unfit::Disk)?;

    let metadata: Metadata =
        serde_json::from_slice(rest).map_err(|error| problem(error.to_string()))?;
    for name in metadata.offset_keys() {
        let found = metadata.info(&name).map(|info| info.dtype);
        let known = [Dtype::F32, Dtype::BF16, Dtype::U8];
        if let Some(found) = found.filter(|found| !known.contains(found)) {
            return Err(problem(format!("`{name}` is {found:?}, expected F32, BF16 or U8")));
        }
    }

    if end.saturating_add(metadata.data_len()) != file.len() {
        return Err(problem("its tensors do not end at the end of the file".into()));
    }

    Ok((bytes, metadata))
}

/// The length of the header is a number of eight bytes at the start of the file.
const LENGTH_BYTES: usize = 8;
/// The key of the metadata that has the lengths of runs.
const RUNS: &str = "runs";
/// Runs are looked for until there are so many, which is soon in numbers that differ.
const RUNS_MAX: usize = 1_000;
/// So many numbers are looked at before the next ones.
const PART: usize = 4096;
/// So many numbers a run at least, in the mean: a length takes some bytes of text.
const RUN_LENGTH_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: Content = Content::Optimizer;

    fn state(tensors: &[(&str, &[f32])]) -> State {
        let tensor = |values: &[f32]| Tensor { content: CONTENT, values: values.to_vec() };
        let tensors = tensors.iter().map(|(name, values)| ((*name).to_owned(), tensor(values)));
        State { tensors: tensors.collect(), ..State::default() }
    }

    fn read_back(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>, CheckpointError> {
        let folder = tempfile::tempdir().unwrap();
        let mark = FileMark::of("optimizer.safetensors", &[bytes]);
        std::fs::write(folder.path().join(&mark.name), bytes).unwrap();
        let mut tensors = BTreeMap::new();
        read(folder.path(), &mark, CONTENT, &mut tensors).map(|()| tensors)
    }

    #[test]
    fn numbers_that_are_the_same_take_no_room_and_come_back() {
        let (ones, zeros) = (vec![1.0; 100_000], vec![-0.0; 30_000]);
        let mut nearly = ones.clone();
        nearly[77_777] = 2.0;
        let many: Vec<f32> = (0..20_000).map(|at| (at / 4) as f32).collect();
        let saved = state(&[
            ("factors", &ones),
            ("velocity", &zeros),
            ("counts", &nearly),
            ("many runs", &many),
            ("signs", &[0.0, -0.0]),
            ("one", &[3.0]),
            ("none", &[]),
            ("nan", &[f32::NAN; 99]),
        ]);
        let bytes = state_file(&saved, CONTENT).unwrap().concat();
        assert!(bytes.len() < 4 * many.len() + 2_000, "{}", bytes.len());

        let bits = |tensors: &BTreeMap<String, Tensor>| -> BTreeMap<String, Vec<u32>> {
            let bits = |tensor: &Tensor| tensor.values.iter().map(|one| one.to_bits()).collect();
            tensors.iter().map(|(name, tensor)| (name.clone(), bits(tensor))).collect()
        };
        assert_eq!(bits(&read_back(&bytes).unwrap()), bits(&saved.tensors));
    }

    #[test]
    fn numbers_that_are_bf16_take_two_bytes_and_counts_take_one() {
        let counts: Vec<f32> = (0..10_000).map(|at| (at % 256) as f32).collect();
        let rounded: Vec<f32> = (0..10_000_u32)
            .map(|at| f32::from_bits(at.wrapping_mul(0x9e37_79b9) & !0xffff))
            .collect();
        let mut nearly = rounded.clone();
        nearly[9_999] = 0.1;
        let [mut negative, mut large] = [counts.clone(), counts.clone()];
        (negative[5], large[6]) = (-0.0, 256.0);
        let saved = state(&[
            ("counts", &counts),
            ("rounded", &rounded),
            ("nearly", &nearly),
            ("negative", &negative),
            ("large", &large),
        ]);
        let bytes = state_file(&saved, CONTENT).unwrap().concat();
        assert!((110_000..111_000).contains(&bytes.len()), "{}", bytes.len());

        let found = read_back(&bytes).unwrap();
        for (name, tensor) in &saved.tensors {
            let same = tensor.values.iter().zip(&found[name].values);
            assert_eq!(tensor.values.len(), found[name].values.len());
            assert!(same.into_iter().all(|(a, b)| a.to_bits() == b.to_bits()), "{name}");
        }
    }

    #[test]
    fn runs_that_no_memory_holds_or_no_tensor_has_are_refused() {
        for (lengths, expected) in [
            (r#"{"a":[18446744073709551615]}"#, "`a` has more numbers than memory holds"),
            (r#"{"two":[18446744073709551615,1]}"#, "`two` has more numbers than memory holds"),
            (r#"{"two":[3]}"#, "`two` has 2 numbers, expected one for each of 1 runs"),
            (r#"{"b":[3]}"#, "`b` has runs and no numbers"),
            ("3", "lengths of runs"),
        ] {
            let rows: [(&str, &[f32]); 2] = [("a", &[1.0]), ("two", &[1.0, 2.0])];
            let rows = rows.map(|(name, values)| (name, Row::F32(Cow::Borrowed(values)))).into();
            let bytes = rows_in_parts(rows, Some((RUNS, lengths))).unwrap().concat();
            let problem = read_back(&bytes).unwrap_err().to_string();
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
