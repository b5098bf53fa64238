//! Examples in pieces, as they are evaluated.

use std::ops::Range;

use crate::stored::StoredExamples;
use gaia_core::application::{ApplicationError, WeightedSum};
use rayon::prelude::*;

/// A run of one worker's examples.
pub(crate) enum Piece<'a, E> {
    /// At some positions among those that are in memory.
    InMemory(&'a E, &'a [u32]),
    /// At some places among those that are stored.
    Stored(&'a dyn StoredExamples<E>, Range<usize>),
}

impl<'a, E> Piece<'a, E> {
    /// A worker's examples that are in memory, in pieces of at most `length`.
    pub(crate) fn of_part(examples: &'a E, part: &'a [u32], length: usize) -> Vec<Self> {
        part.chunks(length).map(|piece| Self::InMemory(examples, piece)).collect()
    }

    /// The first `count` of stored examples, in pieces that are read at no extra cost.
    pub(crate) fn of_stored(stored: &'a dyn StoredExamples<E>, count: usize) -> Vec<Self> {
        let blocks = stored.blocks().into_iter().take_while(|block| block.start < count);
        let cut = |block: Range<usize>| Self::Stored(stored, block.start..block.end.min(count));
        blocks.map(cut).collect()
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::InMemory(_, positions) => positions.len(),
            Self::Stored(_, places) => places.len(),
        }
    }

    /// The place of its first example among those of the worker, if they are stored.
    pub(crate) fn first_stored(&self) -> Option<usize> {
        match self {
            Self::InMemory(..) => None,
            Self::Stored(_, places) => Some(places.start),
        }
    }

    /// Calls a function with the examples of this piece: some examples, and which of them they are.
    ///
    /// # Errors
    /// Where stored examples cannot be read.
    pub(crate) fn visit<T>(
        &self,
        function: impl FnOnce(&E, &[u32]) -> T,
    ) -> Result<T, ApplicationError> {
        match self {
            Self::InMemory(examples, positions) => Ok(function(examples, positions)),
            Self::Stored(stored, places) => {
                let examples = stored.read(places.clone())?;
                let positions: Vec<u32> = (0..places.len() as u32).collect();
                Ok(function(&examples, &positions))
            }
        }
    }
}

/// The sum of a figure over the examples in pieces, added piece by piece in order.
///
/// # Errors
/// Where stored examples cannot be read.
pub(crate) fn sum<E: Sync>(
    pieces: &[Piece<'_, E>],
    of: impl Fn(&E, usize) -> f64 + Sync,
) -> Result<WeightedSum, ApplicationError> {
    let of_piece = |piece: &Piece<'_, E>| {
        piece.visit(|examples, positions| {
            positions.iter().map(|&at| of(examples, at as usize)).sum::<f64>()
        })
    };
    let sums = pieces.par_iter().map(of_piece).collect::<Result<Vec<f64>, _>>()?;
    let weight = pieces.iter().map(Piece::len).sum::<usize>() as f64;
    Ok(WeightedSum { sum: sums.iter().sum(), weight })
}
