//! The catch-up backlog of a mirror that has taken its copy from this server: updates that this server received after
//! the copy was taken, and that their origins do not send to the mirror.

use bytes::Bytes;

use super::budget::entries_in;
use crate::codec::Changes;
use crate::persist;
use crate::store::Touched;
use crate::sync::ValueFormat;
use crate::types::{Clock, Content, ServerId, Tightness};
use crate::wire::{BulkHeader, BulkKind, encode_bulk};

/// Changes that are forwarded unfiltered, because their origin counts them as delivered.
#[derive(Debug, Default)]
pub(super) struct CatchUpBacklog {
    /// `None` if the backlog is empty.
    pending: Option<Pending>,
}

#[derive(Debug)]
struct Pending {
    sums: Vec<f32>,
    /// The parameters with changes.
    which: Touched,
    /// A lower bound of these parameters.
    first: usize,
}

impl CatchUpBacklog {
    /// Adds changes of a shard of `parameters` parameters.
    pub(super) fn enqueue(&mut self, changes: Changes<'_>, parameters: usize) {
        let pending = self.pending.get_or_insert_with(|| Pending::none(parameters));
        changes.for_each(|index, value| {
            pending.sums[index] += value;
            pending.which.insert(index);
            pending.first = pending.first.min(index);
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.as_ref().is_none_or(|pending| pending.which.is_empty())
    }

    /// The next frame, of at most about `room` bytes, and whether it empties the backlog.
    pub(super) fn next_frame(
        &mut self,
        from: ServerId,
        sequence: u64,
        room: usize,
        ends: bool,
    ) -> (Bytes, bool) {
        let most = entries_in(room, ValueFormat::F32).max(ENTRIES_MIN);
        let (indexes, values) = self.take(most);
        let last = ends && self.is_empty();
        let header = BulkHeader {
            kind: BulkKind::Backlog,
            origin: from.dc,
            shard: from.shard,
            sequence,
            clock: Clock::ZERO,
            last,
            relayed: false,
            tightness: Tightness::NONE,
        };

        let changes = Changes::Sparse { indexes: &indexes, values: &values };
        let mut frame = Vec::with_capacity(8 * indexes.len() + 64);
        encode_bulk(&header, changes, ValueFormat::F32, &mut frame);
        (Bytes::from(frame), last)
    }

    /// Removes and returns all changes: the parameters, and the change of each.
    pub(super) fn take_all(&mut self) -> (Vec<u32>, Vec<f32>) {
        self.take(usize::MAX)
    }

    fn take(&mut self, most: usize) -> (Vec<u32>, Vec<f32>) {
        let Some(pending) = &mut self.pending else { return Default::default() };
        let (indexes, values): (Vec<u32>, Vec<f32>) = pending.iter().take(most).unzip();
        for index in &indexes {
            pending.sums[*index as usize] = 0.0;
            pending.which.remove(*index as usize);
        }
        pending.first = indexes.last().map_or(pending.first, |last| *last as usize + 1);
        if pending.which.is_empty() {
            self.pending = None;
        }
        (indexes, values)
    }
}

persist! {
    impl Persist<usize> for CatchUpBacklog {
        fn walk(Self { pending }, walk, parameters) {
            let fresh = || Some(Pending::none(parameters));
            walk.option("pending", pending, fresh, |one, walk| walk.flatten(one, ()))
        }
    }
}

impl Pending {
    fn none(parameters: usize) -> Self {
        Self { sums: vec![0.0; parameters], which: Touched::none(parameters), first: 0 }
    }

    fn iter(&self) -> impl Iterator<Item = (u32, f32)> + '_ {
        let which = self.which.iter_range(self.first..self.sums.len());
        which.map(|index| (index as u32, self.sums[index]))
    }
}

persist! {
    impl Persist<()> for Pending {
        fn walk(Self { sums, which, first: _ }, walk, ()) {
            walk.tensor("sums", Content::Changes, sums)?;
            walk.flatten(which, ("which", sums.len()))
        }

        fn restored(pending, _, ()) {
            // Without it more is looked through, once.
            pending.first = 0;
            Ok(())
        }
    }
}

/// The smallest number of changes in a frame that is not the last.
const ENTRIES_MIN: usize = 64;
