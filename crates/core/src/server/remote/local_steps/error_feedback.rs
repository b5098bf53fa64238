//! Error feedback: what a data center owes to later rounds, because a sparse round sends the largest changes alone.
//!
//! What is owed stays apart from the copy: with the end of a round the copy is the agreed values and the changes since the
//! round began. A copy that kept what is owed would move away from the others' by changes that they do not know. Sent and
//! owed changes together are all changes that workers have made (Stich, Cordonnier and Jaggi, NeurIPS 2018).

use std::ops::Range;

use crate::persist;
use crate::server::blocks::{Part, TablePart};
use crate::store::Touched;
use crate::sync::ValueFormat;
use crate::types::Content;

/// What one data center owes.
#[derive(Debug)]
pub(super) struct ErrorFeedback {
    /// The share of a block's weights that a round sends.
    density: f64,
    format: ValueFormat,
    owed: Vec<f32>,
    /// The parameters of which homes know that this data center changes them.
    told: Touched,
}

impl ErrorFeedback {
    pub(super) fn new(density: f64, format: ValueFormat, parameters: usize) -> Self {
        Self { density, format, owed: vec![0.0; parameters], told: Touched::none(parameters) }
    }

    /// Takes a part of all that is owed of a block with its newest changes `own`, which become 0. `tables` are the
    /// block's, and `number` is that of the round.
    pub(super) fn take(
        &mut self,
        own: &mut [f32],
        block: Range<usize>,
        (tables, number): (&[TablePart], u64),
    ) -> Part {
        let owed = &mut self.owed[block.clone()];
        for (owed, own) in owed.iter_mut().zip(own) {
            *owed += std::mem::take(own);
        }
        Part::take_largest(
            owed,
            block.start,
            count_of(self.density, block.len()),
            (tables, number),
            self.format,
        )
    }

    /// The parameters of a block that are owed or in the newest changes `own` for the first time, in runs: their first
    /// parameter and their number. `None` if there are none.
    pub(super) fn first_changed(&mut self, own: &[f32], block: Range<usize>) -> Option<Part> {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        let owed = self.owed[block.clone()].iter().zip(own);
        for (place, (owed, own)) in block.zip(owed) {
            if (*owed == 0.0 && *own == 0.0) || !self.told.insert(place) {
                continue;
            }
            match runs.last_mut() {
                Some((first, count)) if *first + *count == place && *count < RUN_MAX => *count += 1,
                _ => runs.push((place, 1)),
            }
        }

        let changes = runs.into_iter().map(|(first, count)| (first as u32, count as f32));
        let (indexes, counts): (Vec<u32>, Vec<f32>) = changes.unzip();
        (!indexes.is_empty()).then(|| Part::exact(indexes, counts))
    }

    /// What is owed, for each parameter.
    pub(super) fn owed(&self) -> &[f32] {
        &self.owed
    }
}

persist! {
    impl Persist<()> for ErrorFeedback {
        fn walk(Self { density: _, format: _, owed, told }, walk, ()) {
            let parameters = owed.len();
            walk.tensor("owed", Content::Changes, owed)?;
            walk.flatten(told, ("told", parameters))
        }
    }
}

/// How many of a block's weights a part or a total has at this density, at least 1.
pub(super) fn count_of(density: f64, parameters: usize) -> usize {
    ((density * parameters as f64).ceil() as usize).max(1)
}

/// The longest run that single precision holds exactly.
const RUN_MAX: usize = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_workers_start_with_is_in_the_first_part_however_sparse() {
        let table = |range, is_initialized_by_workers| TablePart {
            range,
            is_statistics: false,
            is_initialized_by_workers,
        };
        let tables = [table(0..4, true), table(4..8, false)];
        let mut feedback = ErrorFeedback::new(0.125, ValueFormat::F32, 8);
        let mut taken = |own: [f32; 8], number| {
            let mut values = [0.0; 8];
            let part = feedback.take(&mut own.clone(), 0..8, (&tables, number));
            part.changes().for_each(|index, value| values[index] = value);
            values
        };
        let first = taken([0.5, -0.25, 0.125, 3.0, 1.0, 2.0, 1.0, 1.0], 1);
        assert_eq!(first, [0.5, -0.25, 0.125, 3.0, 0.0, 2.0, 0.0, 0.0]);
        // Later changes of them are as any.
        let second = taken([0.5, 0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 4.0], 2);
        assert_eq!(second, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0]);
    }
}
