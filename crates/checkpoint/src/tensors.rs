//! Numbers as safetensors files, which `safetensors.numpy.load_file` and other tools can read.

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
use gaia_model::{HeaderTooLong, rows_in_parts};

/// The file of each kind of tensor.
pub(super) const FILES: [(Content, &str); 3] = [
    (Content::Values, "values.safetensors"),
    (Content::Changes, "residuals.safetensors"),
    (Content::Optimizer, "optimizer.safetensors"),
];

/// The parts of the file with all tensors of one kind, each as one row of numbers.
///
/// # Errors
/// [`HeaderTooLong`] if there are too many for a file.
pub(super) fn state_file(
    state: &State,
    content: Content,
) -> Result<Vec<Cow<'_, [u8]>>, HeaderTooLong> {
    let tensors = state.tensors.iter().filter(|(_, tensor)| tensor.content == content);
    let rows = tensors.map(|(name, Tensor { values, .. })| (name.as_str(), values.as_slice()));
    rows_in_parts(&rows.collect())
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

    let mut whole = Hasher::new();
    whole.update(&header);

    let mut read = Vec::new();
    for name in metadata.offset_keys() {
        let info = metadata.info(&name).expect("a name of the header");
        let (from, to) = info.data_offsets;
        let mut values = vec![0.0_f32; (to - from) / 4];

        file.read_part(header.len() + from, bytemuck::cast_slice_mut(&mut values), &mut whole)?;

        if cfg!(target_endian = "big") {
            let swap = |value: &mut f32| *value = f32::from_bits(value.to_bits().swap_bytes());
            values.iter_mut().for_each(swap);
        }

        read.push((name, Tensor { content, values }));
    }

    file.check(&whole)?;
    tensors.extend(read);
    Ok(())
}

/// Why a header cannot be used.
enum Unfit {
    Disk(CheckpointError),
    Header(String),
}

/// The bytes before the numbers, and their contents. All tensors have numbers of four bytes and fill the rest of the file.
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
        if let Some(found) = found.filter(|found| *found != Dtype::F32) {
            return Err(problem(format!("`{name}` is {found:?}, expected F32")));
        }
    }

    if end.saturating_add(metadata.data_len()) != file.len() {
        return Err(problem("its tensors do not end at the end of the file".into()));
    }

    Ok((bytes, metadata))
}

/// The length of the header is a number of eight bytes at the start of the file.
const LENGTH_BYTES: usize = 8;
