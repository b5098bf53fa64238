//! The position of each row in the whole model and in its shard.
//!
//! Rows are assigned to shards round-robin: row `r` of a table belongs to shard `r mod shards`. So every data center
//! partitions the model in the same way, and frequently used neighbours are spread over the servers.
//!
//! A row has three numbers. The *model row* counts within the whole table. The *local row* counts within the part of
//! the table that the shard owns. The *shard-wide row* counts over all tables of the shard.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{InitialRows, Model, ShardId, TableId};

/// One table of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLayout {
    /// The table's name in checkpoints and logs.
    pub name: String,
    /// The number of rows.
    pub rows: usize,
    /// Parameters in each row.
    pub width: usize,
}

/// The tables of a model, and the position of each row in one flat vector of all parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelLayout {
    tables: Vec<TableLayout>,
    /// The parameter at which each table begins. The last entry, one more than there are tables, is the model's size.
    offsets: Vec<usize>,
    /// Tables that hold statistics instead of weights.
    statistics: BTreeSet<TableId>,
    /// Tables whose rows have scales of their own.
    unlike_rows: BTreeSet<TableId>,
    /// Tables to which workers add their initial values.
    initialized_by_workers: BTreeSet<TableId>,
    /// The shape of the tensor that each table is outside of a run. Empty where tables are no tensors of other shapes.
    shapes: Vec<Vec<usize>>,
    /// Tables of which workers hold the rows in hand alone, and the rules of their initial values.
    sparse: BTreeMap<TableId, InitialRows>,
}

/// The rows of one shard, and the position of each in the shard's own flat vector of parameters.
#[derive(Clone, Debug)]
pub struct ShardLayout {
    model: Arc<ModelLayout>,
    shard: ShardId,
    shards: usize,
    offsets: Vec<usize>,
    /// The shard-wide row at which each table begins. The last entry is the number of rows.
    row_offsets: Vec<usize>,
}

impl ModelLayout {
    /// A model of these tables, in this order.
    pub fn new(tables: Vec<TableLayout>) -> Self {
        let mut offsets = vec![0];
        for table in &tables {
            offsets.push(offsets[offsets.len() - 1] + table.rows * table.width);
        }
        Self {
            tables,
            offsets,
            statistics: BTreeSet::new(),
            unlike_rows: BTreeSet::new(),
            initialized_by_workers: BTreeSet::new(),
            shapes: Vec::new(),
            sparse: BTreeMap::new(),
        }
    }

    /// The same model, whose tables are tensors of these shapes outside of a run, in the same order: in its file, and in the
    /// program that has declared them.
    ///
    /// # Panics
    /// If a shape has another number of values than its table, or there is not one for each table.
    #[must_use]
    pub fn with_shapes(self, shapes: Vec<Vec<usize>>) -> Self {
        assert_eq!(shapes.len(), self.tables.len(), "one shape for each table");
        for (table, shape) in self.tables.iter().zip(&shapes) {
            assert_eq!(shape.iter().product::<usize>(), table.rows * table.width, "{}", table.name);
        }
        Self { shapes, ..self }
    }

    /// Whether the tables are tensors of shapes of their own outside of a run.
    pub fn has_shapes(&self) -> bool {
        !self.shapes.is_empty()
    }

    /// The shape of a table outside of a run: that of its tensor, or its rows and their width.
    ///
    /// # Panics
    /// If there is no such table.
    pub fn shape(&self, table: TableId) -> Cow<'_, [usize]> {
        let TableLayout { rows, width, .. } = self.tables[table.index()];
        let own = self.shapes.get(table.index());
        own.map_or_else(|| Cow::Owned(vec![rows, width]), |shape| Cow::Borrowed(shape.as_slice()))
    }

    /// The same model, of which these tables hold statistics: values that are measured and not descended to, such as the
    /// running variance of a normalisation. Data centers agree on their mean, and nothing extrapolates their changes.
    #[must_use]
    pub fn with_statistics(self, statistics: impl IntoIterator<Item = TableId>) -> Self {
        Self { statistics: statistics.into_iter().collect(), ..self }
    }

    /// Whether a table holds statistics.
    pub fn is_statistics(&self, table: TableId) -> bool {
        self.statistics.contains(&table)
    }

    /// The same model, of which these tables have rows of different scales, such as the weights of features in
    /// different units. How large the values of such a table are on the whole says nothing of one of them.
    #[must_use]
    pub fn with_unlike_rows(self, unlike_rows: impl IntoIterator<Item = TableId>) -> Self {
        Self { unlike_rows: unlike_rows.into_iter().collect(), ..self }
    }

    /// Whether the rows of a table have different scales.
    pub fn has_unlike_rows_in(&self, table: TableId) -> bool {
        self.unlike_rows.contains(&table)
    }

    /// Whether some table has rows of different scales.
    pub fn has_unlike_rows(&self) -> bool {
        !self.unlike_rows.is_empty()
    }

    /// Whether the values of a table may be measured against each other: the rows have one scale, and they are no
    /// statistics.
    pub fn has_one_scale(&self, table: TableId) -> bool {
        !self.unlike_rows.contains(&table) && !self.is_statistics(table)
    }

    /// The same model, of which these tables begin at 0 and get their initial values from what workers add in the first
    /// clock, since these values follow from data. No momentum of rounds carries them on.
    #[must_use]
    pub fn with_initialized_by_workers(self, tables: impl IntoIterator<Item = TableId>) -> Self {
        Self { initialized_by_workers: tables.into_iter().collect(), ..self }
    }

    /// Whether workers add the initial values of a table.
    pub fn is_initialized_by_workers(&self, table: TableId) -> bool {
        self.initialized_by_workers.contains(&table)
    }

    /// The same model, of which these tables are sparse: a worker holds those of their rows that it reads, and no others, so
    /// that they may be larger than its memory. Their initial values follow from rules, row by row.
    #[must_use]
    pub fn with_sparse_tables(
        self,
        sparse: impl IntoIterator<Item = (TableId, InitialRows)>,
    ) -> Self {
        Self { sparse: sparse.into_iter().collect(), ..self }
    }

    /// The rule of the initial values of a sparse table. `None` of other tables.
    pub fn sparse(&self, table: TableId) -> Option<InitialRows> {
        self.sparse.get(&table).copied()
    }

    /// The number of parameters in tables that are not sparse.
    pub fn dense_parameters(&self) -> usize {
        let sparse = self.sparse.keys().map(|table| self.table(*table));
        self.parameters() - sparse.map(|table| table.rows * table.width).sum::<usize>()
    }

    /// Whether there are sparse tables.
    pub fn has_sparse_tables(&self) -> bool {
        !self.sparse.is_empty()
    }

    /// The tables, in order. A [`TableId`] is a position in the slice.
    #[inline]
    pub fn tables(&self) -> &[TableLayout] {
        &self.tables
    }

    /// The layout of one table.
    ///
    /// # Panics
    /// If there is no such table.
    #[inline]
    pub fn table(&self, table: TableId) -> &TableLayout {
        &self.tables[table.index()]
    }

    /// The number of parameters in the whole model.
    #[inline]
    pub fn parameters(&self) -> usize {
        self.offsets[self.tables.len()]
    }

    /// The position of a table's first parameter in the flat vector.
    ///
    /// # Panics
    /// If there is no such table.
    #[inline]
    pub fn table_offset(&self, table: TableId) -> usize {
        self.offsets[table.index()]
    }

    /// The position of a row's first parameter in the flat vector. The row itself is not checked.
    ///
    /// # Panics
    /// If there is no such table.
    #[inline]
    pub fn row_offset(&self, table: TableId, row: usize) -> usize {
        self.offsets[table.index()] + row * self.tables[table.index()].width
    }

    /// The identifiers of all tables, in order.
    pub fn table_ids(&self) -> impl Iterator<Item = TableId> + use<> {
        (0..self.tables.len() as u16).map(TableId)
    }
}

impl ShardLayout {
    /// The layout of one of `shards` shards.
    ///
    /// # Panics
    /// If `shard` is not below `shards`.
    pub fn new(model: Arc<ModelLayout>, shard: ShardId, shards: usize) -> Self {
        assert!(shard.index() < shards);
        let mut offsets = vec![0];
        let mut row_offsets = vec![0];
        for (index, table) in model.tables.iter().enumerate() {
            let rows = rows_in_shard(table.rows, shard, shards);
            offsets.push(offsets[index] + rows * table.width);
            row_offsets.push(row_offsets[index] + rows);
        }
        Self { model, shard, shards, offsets, row_offsets }
    }

    /// The layouts of all shards of a model, in order.
    pub fn all(model: &Arc<ModelLayout>, shards: usize) -> Vec<Self> {
        (0..shards).map(|shard| Self::new(model.clone(), ShardId(shard as u16), shards)).collect()
    }

    /// The layout of the whole model.
    pub fn model(&self) -> &Arc<ModelLayout> {
        &self.model
    }

    /// The shard's identifier.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// The number of parameters in this shard.
    #[inline]
    pub fn parameters(&self) -> usize {
        self.offsets[self.model.tables.len()]
    }

    /// The number of rows in this shard, over all tables.
    #[inline]
    pub fn rows(&self) -> usize {
        self.row_offsets[self.model.tables.len()]
    }

    /// The number of rows of one table in this shard.
    #[inline]
    pub fn rows_of(&self, table: TableId) -> usize {
        rows_in_shard(self.model.table(table).rows, self.shard, self.shards)
    }

    /// The number of parameters in each row of a table.
    #[inline]
    pub fn width_of(&self, table: TableId) -> usize {
        self.model.table(table).width
    }

    /// The range of the shard's flat vector that holds a table.
    pub fn table_range(&self, table: TableId) -> std::ops::Range<usize> {
        self.offsets[table.index()]..self.offsets[table.index() + 1]
    }

    /// The shard-wide row at which a table begins.
    #[inline]
    pub fn first_row_of(&self, table: TableId) -> usize {
        self.row_offsets[table.index()]
    }

    /// Whether this shard owns a model row.
    #[inline]
    pub fn owns(&self, row: usize) -> bool {
        row % self.shards == self.shard.index()
    }

    /// The local row of a model row that this shard owns. Ownership is asserted in debug builds.
    #[inline]
    pub fn local_row(&self, row: usize) -> usize {
        debug_assert!(self.owns(row));
        row / self.shards
    }

    /// The model row of a local row. The inverse of [`Self::local_row`].
    #[inline]
    pub fn model_row(&self, local_row: usize) -> usize {
        local_row * self.shards + self.shard.index()
    }

    /// The position of an owned model row's first parameter in the shard's flat vector.
    #[inline]
    pub fn row_offset(&self, table: TableId, row: usize) -> usize {
        self.offsets[table.index()] + self.local_row(row) * self.width_of(table)
    }

    /// The shard-wide row of an owned model row.
    #[inline]
    pub fn shard_row(&self, table: TableId, row: usize) -> usize {
        self.row_offsets[table.index()] + self.local_row(row)
    }

    /// Copies the shard's values to their positions in a whole model. Rows of other shards stay as they are.
    ///
    /// # Panics
    /// If `values` is shorter than the shard, or `model` has another layout.
    pub fn copy_into(&self, values: &[f32], model: &mut Model) {
        for table in self.model.table_ids() {
            let width = self.width_of(table);
            let source = &values[self.table_range(table)];
            for (local, row) in source.chunks_exact(width).enumerate() {
                model.row_mut(table, self.model_row(local)).copy_from_slice(row);
            }
        }
    }

    /// Copies the shard's values from their positions in a whole model. The inverse of [`Self::copy_into`].
    ///
    /// # Panics
    /// If `values` is not as long as the shard, or `model` has another layout.
    pub fn copy_from(&self, model: &Model, values: &mut [f32]) {
        assert_eq!(values.len(), self.parameters());
        for table in self.model.table_ids() {
            let width = self.width_of(table);
            let into = &mut values[self.table_range(table)];
            for (local, row) in into.chunks_exact_mut(width).enumerate() {
                row.copy_from_slice(model.row(table, self.model_row(local)));
            }
        }
    }

    /// The range of the shard's flat vector that holds a shard-wide row.
    ///
    /// # Panics
    /// If the shard has no such row.
    pub fn parameters_of_row(&self, shard_row: usize) -> std::ops::Range<usize> {
        let table = self.row_offsets.partition_point(|&offset| offset <= shard_row) - 1;
        let width = self.model.tables[table].width;
        let start = self.offsets[table] + (shard_row - self.row_offsets[table]) * width;
        start..start + width
    }

    /// The table and the shard-wide row that hold a parameter of the shard's flat vector.
    ///
    /// # Panics
    /// If the shard has no such parameter.
    pub fn row_of_parameter(&self, parameter: usize) -> (TableId, usize) {
        let table = self.offsets.partition_point(|&offset| offset <= parameter) - 1;
        let within = parameter - self.offsets[table];
        let row = within / self.model.tables[table].width;
        (TableId(table as u16), self.row_offsets[table] + row)
    }
}

fn rows_in_shard(rows: usize, shard: ShardId, shards: usize) -> usize {
    (rows + shards - 1 - shard.index()) / shards
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_without_shapes_of_their_own_are_rows() {
        let table = |name: &str, rows, width| TableLayout { name: name.into(), rows, width };
        let plain = ModelLayout::new(vec![table("a", 2, 6), table("b", 1, 1)]);
        assert!(!plain.has_shapes());
        assert_eq!(*plain.shape(TableId(0)), [2, 6]);
        let shaped = plain.with_shapes(vec![vec![2, 3, 2], vec![]]);
        assert!(shaped.has_shapes());
        assert_eq!(
            (&*shaped.shape(TableId(0)), &*shaped.shape(TableId(1))),
            (&[2, 3, 2][..], &[][..])
        );
    }

    #[test]
    fn shards_partition_every_row_exactly_once() {
        let tables = vec![
            TableLayout { name: "a".into(), rows: 7, width: 3 },
            TableLayout { name: "b".into(), rows: 2, width: 5 },
            TableLayout { name: "c".into(), rows: 1, width: 1 },
        ];
        let model = Arc::new(ModelLayout::new(tables));

        for shards in 1..5 {
            let mut parameters = 0;
            for shard in 0..shards {
                let layout = ShardLayout::new(model.clone(), ShardId(shard as u16), shards);
                parameters += layout.parameters();
                for table in model.table_ids() {
                    for local in 0..layout.rows_of(table) {
                        let row = layout.model_row(local);
                        assert!(layout.owns(row));
                        assert!(row < model.table(table).rows);
                        let offset = layout.row_offset(table, row);
                        assert_eq!(
                            layout.row_of_parameter(offset),
                            (table, layout.shard_row(table, row))
                        );
                        let shard_row = layout.shard_row(table, row);
                        assert_eq!(layout.parameters_of_row(shard_row).start, offset);
                    }
                }
            }
            assert_eq!(parameters, model.parameters());
        }
    }
}
