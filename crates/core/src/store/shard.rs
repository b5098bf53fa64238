//! The values of one shard, and the parts of requests and deltas that belong to it.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::persist;
use crate::types::{
    Content, Deltas, Model, ReusedValues, RowSet, ShardLayout, SharedValues, TableDeltas, TableId,
    TableRows,
};

/// The values of one shard, in the order of its [`ShardLayout`].
///
/// An answer with all of them holds them, as they were when it was given. The next change is made in other memory, which takes
/// a dense update no longer: it reads a value and writes another, wherever that is.
#[derive(Debug)]
pub struct ShardStore {
    layout: ShardLayout,
    values: SharedValues,
    /// The memory of answers and of earlier values.
    memory: ReusedValues,
}

/// The rows of one shard that one iteration reads, by model row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRows(RowSet);

/// The changes to rows of one shard, by model row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShardDeltas(Deltas);

impl ShardStore {
    /// A store with the shard's part of an initial model. Of sparse tables of which `initial` lacks rows, all follow from
    /// their rules.
    ///
    /// # Panics
    /// If `initial` has another layout than the shard's model.
    pub fn new(layout: ShardLayout, initial: &Model) -> Self {
        let mut values = vec![0.0; layout.parameters()];
        let mut rest = values.as_mut_slice();
        for table in layout.model().table_ids() {
            let width = layout.width_of(table);
            let rule = layout.model().sparse(table).filter(|_| !initial.is_whole());
            for local in 0..layout.rows_of(table) {
                let row;
                (row, rest) = rest.split_at_mut(width);
                if let Some(rule) = rule {
                    rule.write(layout.model_row(local), row);
                    continue;
                }
                let initial = initial.row(table, layout.model_row(local));
                // Pages that stay zero take no memory. The values may be replaced soon, by a checkpoint or a mirror's
                // copy.
                if initial.iter().any(|value| value.to_bits() != 0) {
                    row.copy_from_slice(initial);
                }
            }
        }
        assert!(rest.is_empty(), "a shard has the parameters of its rows");
        Self { layout, values: values.into(), memory: ReusedValues::default() }
    }

    /// The layout of the shard.
    pub fn layout(&self) -> &ShardLayout {
        &self.layout
    }

    /// All values of the shard, in the order of its layout.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// As [`Self::values`], mutable.
    pub fn values_mut(&mut self) -> &mut [f32] {
        if let Some(before) = self.leave_to_holders() {
            self.values.copy_from_slice(&before);
        }
        &mut self.values
    }

    /// If an answer holds the values, leaves them to it, and goes on with as many that are not written yet. Returns those that
    /// were left.
    fn leave_to_holders(&mut self) -> Option<SharedValues> {
        if !self.values.is_shared() {
            return None;
        }
        let next = self.memory.take_stale(self.values.len());
        let before = std::mem::replace(&mut self.values, next.into());
        self.memory.remember(before.clone());
        Some(before)
    }

    /// Adds deltas to the values. Calls `on_change` with each changed range of the shard, its change and its new values.
    ///
    /// A range is a row, or several thousand parameters: few enough that they are in the processor's cache when
    /// `on_change` reads them.
    ///
    /// # Panics
    /// If the deltas do not fit the shard ([`ShardDeltas::fits`]).
    pub fn add(
        &mut self,
        deltas: &ShardDeltas,
        mut on_change: impl FnMut(Range<usize>, &[f32], &mut [f32]),
    ) {
        let before = self.leave_to_holders();
        let (layout, values) = (&self.layout, &mut self.values[..]);
        if let Some(before) = &before {
            let listed = deltas.tables().filter(|(_, changes)| changes.rows != TableRows::All);
            for range in listed.map(|(table, _)| layout.table_range(table)) {
                values[range.clone()].copy_from_slice(&before[range]);
            }
        }
        deltas.for_each_range(layout, values, |place, change, values| {
            if let Some(before) = &before {
                values.copy_from_slice(&before[place.clone()]);
            }
            values.iter_mut().zip(change).for_each(|(value, change)| *value += change);
            on_change(place, change, values);
        });
    }

    /// The values of the requested rows, one row after another. If these are all of the shard they are not copied.
    ///
    /// # Panics
    /// If the shard lacks one of the rows ([`ShardRows::fits`]).
    pub fn read(&mut self, rows: &ShardRows) -> SharedValues {
        if rows.tables().all(|(_, rows)| *rows == TableRows::All) {
            return self.values.clone();
        }
        let mut values = self.memory.take(rows.parameters(&self.layout));
        rows.append(&self.values, &self.layout, &mut values);
        self.memory.give(values)
    }
}

persist! {
    impl Persist<()> for ShardStore {
        fn walk(Self { layout: _, values, memory: _ }, walk, ()) {
            walk.tensor("values", Content::Values, values)
        }
    }
}

impl ShardRows {
    /// The part of a request that one shard answers.
    pub fn of(rows: &RowSet, layout: &ShardLayout) -> Self {
        let tables = rows
            .tables
            .iter()
            .map(|rows| match rows {
                TableRows::All => TableRows::All,
                TableRows::Listed(listed) => {
                    let owned = listed.iter().copied().filter(|row| layout.owns(*row as usize));
                    TableRows::Listed(owned.collect())
                }
            })
            .collect();
        Self(RowSet { tables })
    }

    /// A request that was received. `None` unless it fits the shard ([`Self::fits`]).
    pub fn checked(rows: RowSet, layout: &ShardLayout) -> Option<Self> {
        let rows = Self(rows);
        rows.fits(layout).then_some(rows)
    }

    /// The requests of all shards as one.
    pub(crate) fn joined(shards: &[Self]) -> RowSet {
        let of_table = |table: usize| {
            let mut all = Vec::new();
            for Self(rows) in shards {
                match &rows.tables[table] {
                    TableRows::All => return TableRows::All,
                    TableRows::Listed(listed) => all.extend_from_slice(listed),
                }
            }
            all.sort_unstable();
            TableRows::listed(all)
        };
        let tables = shards.first().map_or(0, |Self(rows)| rows.tables.len());
        RowSet { tables: (0..tables).map(of_table).collect() }
    }

    /// The requested rows of each table, in the layout's order.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &TableRows)> {
        self.0.tables.iter().enumerate().map(|(index, rows)| (TableId(index as u16), rows))
    }

    /// Whether the request has an entry for each table, with strictly ascending rows of this shard.
    pub fn fits(&self, layout: &ShardLayout) -> bool {
        self.0.tables.len() == layout.model().tables().len()
            && self.tables().all(|(table, rows)| has_rows(layout, table, rows))
    }

    /// The number of requested rows.
    pub fn rows(&self, layout: &ShardLayout) -> usize {
        self.tables().map(|(table, rows)| rows.len(layout.rows_of(table))).sum()
    }

    /// The number of parameters in the requested rows.
    pub fn parameters(&self, layout: &ShardLayout) -> usize {
        self.tables()
            .map(|(table, rows)| rows.len(layout.rows_of(table)) * layout.width_of(table))
            .sum()
    }

    /// The size of the request on the LAN in bytes: a header, and 4 bytes for each listed row.
    pub fn lan_bytes(&self) -> u64 {
        let listed: usize = self
            .tables()
            .map(|(_, rows)| match rows {
                TableRows::All => 0,
                TableRows::Listed(listed) => listed.len(),
            })
            .sum();
        LAN_HEADER_BYTES + 4 * listed as u64
    }

    /// The values of the requested rows, one row after another, of all `values` of the shard.
    ///
    /// # Panics
    /// If the shard lacks one of the rows ([`Self::fits`]).
    pub fn of_shard(&self, values: &[f32], layout: &ShardLayout) -> Vec<f32> {
        let mut rows = Vec::new();
        self.append(values, layout, &mut rows);
        rows
    }

    fn append(&self, shard: &[f32], layout: &ShardLayout, values: &mut Vec<f32>) {
        values.reserve_exact(self.parameters(layout));
        for (table, rows) in self.tables() {
            match rows {
                TableRows::All => values.extend_from_slice(&shard[layout.table_range(table)]),
                TableRows::Listed(listed) => {
                    let width = layout.width_of(table);
                    for row in listed.iter() {
                        let start = layout.row_offset(table, *row as usize);
                        values.extend_from_slice(&shard[start..start + width]);
                    }
                }
            }
        }
    }

    /// Copies the values of a reply to their rows in a worker's copy of the model.
    ///
    /// # Panics
    /// If the number of values is not that of the requested rows.
    pub fn scatter(&self, values: &[f32], layout: &ShardLayout, model: &mut Model) {
        let mut rest = values;
        for (table, rows) in self.tables() {
            let width = layout.width_of(table);
            let mut place = |row: usize| {
                let (head, tail) = rest.split_at(width);
                model.row_mut(table, row).copy_from_slice(head);
                rest = tail;
            };
            match rows {
                TableRows::All => {
                    (0..layout.rows_of(table)).for_each(|local| place(layout.model_row(local)));
                }
                TableRows::Listed(listed) => listed.iter().for_each(|row| place(*row as usize)),
            }
        }
        assert!(rest.is_empty(), "a reply holds the rows that were asked for");
    }
}

impl ShardDeltas {
    /// Splits deltas into one part for each shard.
    pub fn split(deltas: Deltas, layouts: &[ShardLayout]) -> Vec<Self> {
        if layouts.len() == 1 {
            return vec![Self(deltas)];
        }
        layouts.iter().map(|layout| Self(part(&deltas, layout))).collect()
    }

    /// Deltas that were received. `None` unless they fit the shard ([`Self::fits`]).
    pub fn checked(deltas: Deltas, layout: &ShardLayout) -> Option<Self> {
        let deltas = Self(deltas);
        deltas.fits(layout).then_some(deltas)
    }

    /// Visits each changed range of a shard: its place, its change and its values. A range is a row of a list, or a part of a
    /// table that changes as a whole.
    fn for_each_range(
        &self,
        layout: &ShardLayout,
        values: &mut [f32],
        mut visit: impl FnMut(Range<usize>, &[f32], &mut [f32]),
    ) {
        let mut visit = |start: usize, change: &[f32], values: &mut [f32]| {
            let place = start..start + change.len();
            visit(place.clone(), change, &mut values[place]);
        };
        for (table, changes) in self.tables() {
            match &changes.rows {
                TableRows::All => {
                    let starts = layout.table_range(table).step_by(RANGE_MAX);
                    for (start, change) in starts.zip(changes.values.chunks(RANGE_MAX)) {
                        visit(start, change, values);
                    }
                }
                TableRows::Listed(listed) => {
                    let width = layout.width_of(table).max(1);
                    for (row, change) in listed.iter().zip(changes.values.chunks_exact(width)) {
                        visit(layout.row_offset(table, *row as usize), change, values);
                    }
                }
            }
        }
    }

    /// The changes to each table, in the layout's order.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &TableDeltas)> {
        self.0.tables.iter().enumerate().map(|(index, deltas)| (TableId(index as u16), deltas))
    }

    /// Whether the deltas have an entry for each table, with strictly ascending rows of this shard and `width` values
    /// for each row.
    pub fn fits(&self, layout: &ShardLayout) -> bool {
        self.0.tables.len() == layout.model().tables().len()
            && self.tables().all(|(table, changes)| {
                let rows = changes.rows.len(layout.rows_of(table));
                changes.values.len() == rows * layout.width_of(table)
                    && has_rows(layout, table, &changes.rows)
            })
    }

    /// The L2 norm of the changes to each table, in the layout's order.
    pub fn norms(&self) -> impl Iterator<Item = f64> {
        let squared = |change: &f32| f64::from(*change).powi(2);
        self.0.tables.iter().map(move |table| table.values.iter().map(squared).sum::<f64>().sqrt())
    }

    /// The same rows, with the changes to each table multiplied by a factor of its own, in the layout's order.
    #[must_use]
    pub fn scaled(&self, factors: impl IntoIterator<Item = f32>) -> Self {
        let mut scaled = self.clone();
        for (changes, factor) in scaled.0.tables.iter_mut().zip(factors) {
            changes.values.iter_mut().for_each(|change| *change *= factor);
        }
        scaled
    }

    /// The size of the deltas on the LAN in bytes: a header, and 4 bytes for each row and each parameter. The rows of a
    /// table that changed as a whole are not listed.
    pub fn lan_bytes(&self, layout: &ShardLayout) -> u64 {
        let bytes: usize = self
            .tables()
            .map(|(table, deltas)| {
                let rows = layout.rows_of(table);
                let listed = match deltas.rows.len(rows) {
                    all if all == rows => 0,
                    listed => listed,
                };
                4 * (listed + deltas.values.len())
            })
            .sum();
        LAN_HEADER_BYTES + bytes as u64
    }
}

/// Whether rows strictly ascend and belong to the shard.
fn has_rows(layout: &ShardLayout, table: TableId, rows: &TableRows) -> bool {
    let TableRows::Listed(listed) = rows else { return true };
    let within = |row: &u32| {
        (*row as usize) < layout.model().table(table).rows && layout.owns(*row as usize)
    };
    listed.is_sorted_by(|a, b| a < b) && listed.iter().all(within)
}

fn part(deltas: &Deltas, layout: &ShardLayout) -> Deltas {
    let tables = layout.model().tables().iter().zip(&deltas.tables).enumerate();
    let tables = tables.map(|(index, (table, changes))| {
        let rows =
            changes.rows.iter(table.rows).zip(changes.values.chunks_exact(table.width.max(1)));
        let owned = rows.filter(|(row, _)| layout.owns(*row as usize));
        let own = layout.rows_of(TableId(index as u16)) * table.width;
        let mut values = Vec::with_capacity(own.min(changes.values.len()));
        match &changes.rows {
            TableRows::All => {
                owned.for_each(|(_, change)| values.extend_from_slice(change));
                TableDeltas::all(values)
            }
            TableRows::Listed(_) => {
                let mut rows = Vec::new();
                for (row, change) in owned {
                    rows.push(row);
                    values.extend_from_slice(change);
                }
                TableDeltas::listed(rows, values)
            }
        }
    });
    Deltas { tables: tables.collect() }
}

/// The most parameters of one range of changes: 32 KiB of them, of the values and of a sum fit into a core's cache.
const RANGE_MAX: usize = 8 << 10;

/// The assumed size of a LAN message without rows and values, in bytes.
pub(crate) const LAN_HEADER_BYTES: u64 = 64;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::types::{ModelLayout, TableLayout};

    fn layouts(shards: usize) -> (Model, Vec<ShardLayout>) {
        let model = Arc::new(ModelLayout::new(vec![
            TableLayout { name: "a".into(), rows: 5, width: 2 },
            TableLayout { name: "b".into(), rows: 3, width: 1 },
        ]));
        let mut initial = Model::zeros(model.clone());
        for (index, value) in initial.values.iter_mut().enumerate() {
            *value = index as f32;
        }
        (initial, ShardLayout::all(&model, shards))
    }

    #[test]
    fn rows_read_from_all_shards_make_the_model_again() {
        for shards in 1..4 {
            let (initial, layouts) = layouts(shards);
            let mut model = Model::zeros(initial.layout().clone());
            let rows = RowSet { tables: vec![TableRows::listed((0..5).collect()), TableRows::All] };
            for layout in &layouts {
                let mut store = ShardStore::new(layout.clone(), &initial);
                let part = ShardRows::of(&rows, layout);
                part.scatter(&store.read(&part), layout, &mut model);
            }
            assert_eq!(model.values, initial.values);
        }
    }

    /// The changes of a worker that has read everything, as deltas of two tables.
    fn changes(tables: [TableDeltas; 2], layout: &ShardLayout) -> ShardDeltas {
        ShardDeltas::checked(Deltas { tables: tables.into() }, layout).unwrap()
    }

    #[test]
    fn an_answer_with_all_values_holds_them_as_they_were() {
        let (initial, layouts) = layouts(1);
        let layout = &layouts[0];
        let mut store = ShardStore::new(layout.clone(), &initial);
        let all = ShardRows::of(&RowSet::all(layout.model()), layout);
        let first = store.read(&all);
        assert_eq!(first.as_ptr(), store.values().as_ptr());
        assert_eq!(first, initial.values);

        // Each of the ways in which values change while an answer holds them.
        let dense =
            changes([TableDeltas::all(vec![1.0; 10]), TableDeltas::all(vec![2.0; 3])], layout);
        let rows = changes(
            [TableDeltas::listed(vec![3], vec![5.0, 6.0]), TableDeltas::all(vec![4.0; 3])],
            layout,
        );
        let mut expected = initial.values.to_vec();
        let mut held = vec![(first, expected.clone())];
        for change in [Some(&dense), Some(&rows), None] {
            let mut seen = vec![0.0; expected.len()];
            match change {
                Some(deltas) => store.add(deltas, |place, change, values| {
                    seen[place.clone()].copy_from_slice(change);
                    assert_eq!(values.len(), place.len());
                    values[0] += 0.0;
                }),
                None => {
                    seen[4] = 7.0;
                    store.values_mut()[4] += 7.0;
                }
            }
            expected.iter_mut().zip(seen).for_each(|(value, change)| *value += change);
            assert_eq!(store.values(), expected);
            held.push((store.read(&all), expected.clone()));
            assert!(held.iter().all(|(answer, then)| answer[..] == then[..]));
        }
    }

    #[test]
    fn memory_of_answers_is_used_again_once_nobody_holds_them() {
        let (initial, layouts) = layouts(1);
        let layout = &layouts[0];
        let mut store = ShardStore::new(layout.clone(), &initial);
        let all = ShardRows::of(&RowSet::all(layout.model()), layout);
        let dense =
            changes([TableDeltas::all(vec![1.0; 10]), TableDeltas::all(vec![1.0; 3])], layout);

        let mut places = std::collections::BTreeSet::new();
        let mut last = None;
        for clock in 0..9 {
            // A worker holds the answer before until it has the next one.
            last = Some(store.read(&all));
            assert_eq!(store.values()[0], clock as f32);
            places.insert(store.values().as_ptr());
            store.add(&dense, |_, _, _| {});
        }
        drop(last);
        assert_eq!(places.len(), 2);
        let address = store.values().as_ptr();
        store.add(&dense, |_, _, _| {});
        assert_eq!(store.values().as_ptr(), address, "nobody holds the values");
    }

    #[test]
    fn split_deltas_change_every_parameter_once() {
        let (initial, layouts) = layouts(2);
        let mut deltas = Deltas::dense(initial.layout());
        for table in &mut deltas.tables {
            table.values.fill(1.0);
        }
        let mut model = Model::zeros(initial.layout().clone());
        for (layout, part) in layouts.iter().zip(ShardDeltas::split(deltas, &layouts)) {
            let mut store = ShardStore::new(layout.clone(), &initial);
            store.add(&part, |_, _, _| {});
            layout.copy_into(store.values(), &mut model);
        }
        let expected: Vec<f32> = initial.values.iter().map(|value| value + 1.0).collect();
        assert_eq!(model.values, expected);
    }
}
