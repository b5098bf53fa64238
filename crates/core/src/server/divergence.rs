//! Detection of diverged training: changes that are not a number, infinite, or so large that sums of them would
//! overflow.
//!
//! Changes are checked when they are received, from workers and from mirrors, against one bound ([`CHANGE_MAX`]). So no
//! sum of them overflows, and the reported node is the one that sent the first diverged change. A frame of a mirror adds up
//! what workers have sent, so several changes just below the bound name the server that has added them up.

use serde::{Deserialize, Serialize};

use super::error::PeerError;
use crate::store::ShardDeltas;
use crate::types::limits::CHANGE_MAX;
use crate::types::{Clock, DcId, ShardLayout, TableId, TableRows, WorkerId};

/// A diverged change in a worker's update. No part of the update was applied.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Divergence {
    /// The worker that sent the update.
    pub worker: WorkerId,
    /// The clock at which the iteration started.
    pub clock: Clock,
    /// The table of the parameter.
    pub table: TableId,
    /// The model row of the parameter.
    pub row: u32,
    /// The change.
    pub value: f32,
}

impl Divergence {
    /// The first diverged change of a worker's update, if there is one.
    pub(super) fn find(
        worker: WorkerId,
        clock: Clock,
        deltas: &ShardDeltas,
        layout: &ShardLayout,
    ) -> Option<Self> {
        deltas.tables().find_map(|(table, changes)| {
            let place = first_diverged(&changes.values)?;
            let at = place / layout.width_of(table);
            let row = match &changes.rows {
                TableRows::All => layout.model_row(at) as u32,
                TableRows::Listed(listed) => listed[at],
            };
            Some(Self { worker, clock, table, row, value: changes.values[place] })
        })
    }
}

/// Checks the changes of a mirror's frame. `parameter` maps the position of a change to its parameter.
pub(super) fn check_frame(
    from: DcId,
    changes: &[f32],
    parameter: impl FnOnce(usize) -> usize,
    layout: &ShardLayout,
) -> Result<(), PeerError> {
    let Some(place) = first_diverged(changes) else { return Ok(()) };

    let (table, shard_row) = layout.row_of_parameter(parameter(place));
    let row = layout.model_row(shard_row - layout.first_row_of(table));
    let (table, value) = (layout.model().table(table).name.clone(), changes[place]);
    Err(PeerError::PeerSentDivergedChange { from, table, row, value })
}

/// The position of the first change that is beyond [`CHANGE_MAX`] or not a number.
fn first_diverged(changes: &[f32]) -> Option<usize> {
    // The bits of magnitudes have the order of the magnitudes, with infinity and NaN above all, and no sign bit. So the
    // difference of the bound and a magnitude has the sign bit set only if the magnitude is larger. The loop has no
    // early exit, so that it is vectorised.
    let magnitude = |change: &f32| change.to_bits() & MAGNITUDE;
    let beyond = |change: &f32| CHANGE_MAX.to_bits().wrapping_sub(magnitude(change)) & !MAGNITUDE;
    if changes.iter().map(beyond).fold(0, |some, one| some | one) == 0 {
        return None;
    }
    changes.iter().position(|change| beyond(change) != 0)
}

/// All bits but the sign.
const MAGNITUDE: u32 = !(1 << 31);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_diverged_where_it_is_not_finite_or_beyond_the_bound() {
        let sound = [0.0, -0.0, f32::MIN_POSITIVE, CHANGE_MAX, -CHANGE_MAX];
        let beyond = CHANGE_MAX.next_up();
        for value in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e38, beyond, -beyond]
        {
            for place in 0..40 {
                let mut changes: Vec<f32> = sound.iter().copied().cycle().take(40).collect();
                assert_eq!(first_diverged(&changes), None);
                changes[place] = value;
                assert_eq!(first_diverged(&changes), Some(place), "{value}");
            }
        }
    }

    #[test]
    fn squares_of_changes_to_a_whole_model_add_up_in_single_precision() {
        let model = crate::types::limits::MODEL_PARAMETERS_MAX as f32;
        assert!((CHANGE_MAX * CHANGE_MAX * model).is_finite());
    }
}
