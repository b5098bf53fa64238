//! The memory of answers to reads.

use crate::store::{ShardRows, ShardStore};
use crate::types::SharedValues;

/// The values of answers that workers may still hold. Their memory is used again once nobody else holds it, so that a
/// read of a whole shard does not fault in fresh pages.
#[derive(Debug, Default)]
pub(super) struct ReadBuffers {
    given: Vec<SharedValues>,
}

impl ReadBuffers {
    /// The values of the requested rows, one after another.
    ///
    /// # Panics
    /// If the store lacks one of the rows.
    pub(super) fn read(&mut self, store: &ShardStore, rows: &ShardRows) -> SharedValues {
        let mut free = None;
        let is_free = |given: &mut SharedValues| {
            free = given.reclaim();
            free.is_some()
        };
        if let Some(at) = self.given.iter_mut().position(is_free) {
            self.given.swap_remove(at);
        }

        let mut values: Vec<f32> = free.unwrap_or_default();
        values.clear();
        store.read(rows, &mut values);

        let values = SharedValues::from(values);
        if self.given.len() < GIVEN_MAX {
            self.given.push(values.clone());
        }
        values
    }
}

/// Answers beyond so many are not remembered, and give their memory back to the system.
const GIVEN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::types::{Model, ModelLayout, RowSet, ShardLayout, TableLayout};

    #[test]
    fn memory_is_used_again_once_the_worker_has_dropped_its_answer() {
        let table = TableLayout { name: "a".into(), rows: 3, width: 2 };
        let layout = Arc::new(ModelLayout::new(vec![table]));
        let shard = ShardLayout::all(&layout, 1).remove(0);
        let rows = ShardRows::of(&RowSet::all(&layout), &shard);
        let mut store = ShardStore::new(shard, &Model::zeros(layout));
        let mut buffers = ReadBuffers::default();

        let held = buffers.read(&store, &rows);
        store.values_mut().fill(1.0);
        let other = buffers.read(&store, &rows);
        assert_eq!((&held[..], &other[..]), (&[0.0; 6][..], &[1.0; 6][..]));

        let (address, also_held) = (held.as_ptr(), other.clone());
        drop((held, other));
        let again = buffers.read(&store, &rows);
        assert_eq!((again.as_ptr(), &also_held[..]), (address, &[1.0; 6][..]));

        let mut addresses = [again.as_ptr(), also_held.as_ptr()];
        drop((again, also_held));
        let both = [buffers.read(&store, &rows), buffers.read(&store, &rows)];
        let mut found = both.each_ref().map(|values| values.as_ptr());
        addresses.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, addresses);
    }
}
