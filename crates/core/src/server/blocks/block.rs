//! The bounds of blocks.

use std::ops::Range;

use crate::codec::Changes;
use crate::server::error::PeerError;
use crate::types::DcId;

/// The block of a shard whose home is the data center number `place` of `count`.
pub(in crate::server) fn block(parameters: usize, place: usize, count: usize) -> Range<usize> {
    parameters * place / count..parameters * (place + 1) / count
}

/// Checks that a frame changes no parameter outside of a range.
pub(in crate::server) fn check_span(
    from: DcId,
    changes: Changes<'_>,
    range: &Range<usize>,
) -> Result<(), PeerError> {
    let outside = match changes {
        Changes::Dense { values: [], .. } => None,
        Changes::Dense { start, values } => {
            let (first, last) = (start as usize, start as usize + values.len() - 1);
            [first, last].into_iter().find(|index| !range.contains(index))
        }
        Changes::Sparse { indexes, .. } => {
            let mut indexes = indexes.iter().map(|index| *index as usize);
            indexes.find(|index| !range.contains(index))
        }
    };

    let expected = || format!("{range:?}");
    outside.map_or(Ok(()), |index| {
        Err(PeerError::PeerSentForeignParameter { from, index, expected: expected() })
    })
}
