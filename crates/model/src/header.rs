//! The header of a safetensors file, and whether it is short enough to be read again.

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use gaia_core::types::ByteSize;

/// The header of a file would be longer than the format allows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "found {} for the names and shapes of {tensors} tensors and {} for settings, expected at most {} for both in a \
     safetensors file",
    ByteSize(*tensor_bytes as u64), ByteSize(*text_bytes as u64), ByteSize(HEADER_BYTES_MAX as u64)
)]
pub struct HeaderTooLong {
    /// The number of tensors.
    pub tensors: usize,
    /// The bytes of their names, shapes and places.
    pub tensor_bytes: usize,
    /// The bytes of the text of the metadata, as JSON.
    pub text_bytes: usize,
}

/// Checks the header of a file with these tensors, each with its name, its type and its shape, and with this text under
/// a key of the metadata.
///
/// # Errors
/// [`HeaderTooLong`], with what is in it.
pub(super) fn check_header<'n>(
    tensors: impl Iterator<Item = (&'n str, Dtype, Vec<usize>)>,
    metadata: Option<(&str, &str)>,
) -> Result<(), HeaderTooLong> {
    header_json(tensors, metadata).map(drop)
}

/// The bytes before the values of a file with these tensors, which follow in the order of their types, from the last on, and of
/// their names.
///
/// # Errors
/// As [`check_header`].
pub(super) fn header_of<'n>(
    tensors: impl Iterator<Item = (&'n str, Dtype, Vec<usize>)>,
    metadata: Option<(&str, &str)>,
) -> Result<Vec<u8>, HeaderTooLong> {
    let mut json = header_json(tensors, metadata)?;
    json.resize(json.len().next_multiple_of(LENGTH_BYTES), b' ');
    let mut header = (json.len() as u64).to_le_bytes().to_vec();
    header.append(&mut json);
    Ok(header)
}

fn header_json<'n>(
    tensors: impl Iterator<Item = (&'n str, Dtype, Vec<usize>)>,
    metadata: Option<(&str, &str)>,
) -> Result<Vec<u8>, HeaderTooLong> {
    let mut tensors: Vec<_> = tensors.collect();
    // The order of the file: places have more digits the later they are.
    tensors.sort_by(|(a, a_type, _), (b, b_type, _)| b_type.cmp(a_type).then(a.cmp(b)));

    let mut end = 0;
    let places = tensors.into_iter().map(|(name, dtype, shape)| {
        let start = end;
        end += shape.iter().product::<usize>() * dtype.bitsize() / 8;
        (name.to_owned(), TensorInfo { dtype, shape, data_offsets: (start, end) })
    });
    let places: Vec<_> = places.collect();
    let count = places.len();

    let text_bytes = metadata.map_or(0, |(_, text)| json(text).len());
    let metadata = metadata.map(|(key, text)| [(key.to_owned(), text.to_owned())].into());
    let header = Metadata::new(metadata, places).expect("each tensor begins where the last ends");
    let header = json(&header);
    if header.len() <= HEADER_BYTES_MAX {
        Ok(header)
    } else {
        let tensor_bytes = header.len() - text_bytes;
        Err(HeaderTooLong { tensors: count, tensor_bytes, text_bytes })
    }
}

fn json(value: &(impl serde::Serialize + ?Sized)) -> Vec<u8> {
    serde_json::to_vec(value).expect("names and numbers can be written as JSON")
}

/// A file begins with the length of its header, and values begin at a multiple of this.
const LENGTH_BYTES: usize = 8;

/// The longest header that readers of the format accept.
const HEADER_BYTES_MAX: usize = 100_000_000;

#[cfg(test)]
mod tests {
    use safetensors::tensor::TensorView;

    use super::*;

    fn is_ok(name_length: usize, text: &str) -> bool {
        let name = "n".repeat(name_length);
        let tensors = [(name.as_str(), Dtype::F32, vec![1])].into_iter();
        let checked = check_header(tensors, Some(("k", text)));

        let tensor = TensorView::new(Dtype::F32, vec![1], &[0; 4]).unwrap();
        let metadata = [("k".to_owned(), text.to_owned())].into();
        let written = safetensors::serialize([(&name, tensor)], Some(metadata));
        assert_eq!(checked.is_ok(), written.is_ok(), "{checked:?}");
        checked.is_ok()
    }

    #[test]
    fn a_header_is_refused_exactly_where_the_format_refuses_it() {
        let text = "\"\n";
        let header =
            r#"{"__metadata__":{"k":"\"\n"},"":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
        let longest = HEADER_BYTES_MAX - header.len();
        assert!(is_ok(longest, text));
        assert!(!is_ok(longest + 1, text));
    }

    #[test]
    fn what_is_in_a_header_that_is_too_long_is_said() {
        let text = "t".repeat(HEADER_BYTES_MAX);
        let tensors = ["a", "b"].map(|name| (name, Dtype::U8, vec![3]));
        let error = check_header(tensors.into_iter(), Some(("k", &text))).unwrap_err();
        let expected = "found 127 B for the names and shapes of 2 tensors and 100 MB for settings, expected at most 100 MB";
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
