//! Where each row of the model lives, in the whole and in its shard.
//!
//! Rows are dealt to shards in turn (row `r` goes to shard `r mod shards`), so that every data center
//! partitions the model in the same way and popular neighbours do not end up on one server.

use std::sync::Arc;

use super::{Model, ShardId, TableId};

/// One table of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLayout {
    /// As checkpoints and logs call it.
    pub name: String,
    /// How many rows it has.
    pub rows: usize,
    /// Parameters in each row.
    pub width: usize,
}

/// The tables of a model and the place of each row in one flat vector of parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelLayout {
    tables: Vec<TableLayout>,
    /// Where each table begins; one more than there are tables, the last being the size.
    offsets: Vec<usize>,
}

/// The rows of one shard, and the place of each in the shard's own flat vector.
#[derive(Clone, Debug)]
pub struct ShardLayout {
    model: Arc<ModelLayout>,
    shard: ShardId,
    shards: usize,
    offsets: Vec<usize>,
    /// Shard-wide row numbers: where each table's rows begin, and the total.
    row_offsets: Vec<usize>,
}

impl ModelLayout {
    /// A model of these tables, in this order.
    pub fn new(tables: Vec<TableLayout>) -> Self {
        let mut offsets = vec![0];
        for table in &tables {
            offsets.push(offsets[offsets.len() - 1] + table.rows * table.width);
        }
        Self { tables, offsets }
    }

    /// The tables, in order; [`TableId`] is a position in it.
    pub fn tables(&self) -> &[TableLayout] {
        &self.tables
    }

    /// One of them.
    ///
    /// # Panics
    /// Where there is no such table.
    pub fn table(&self, table: TableId) -> &TableLayout {
        &self.tables[table.index()]
    }

    /// Parameters in the whole model.
    pub fn parameters(&self) -> usize {
        self.offsets[self.tables.len()]
    }

    /// Where a table begins in the flat vector.
    pub fn table_offset(&self, table: TableId) -> usize {
        self.offsets[table.index()]
    }

    /// Where a row begins in the flat vector.
    pub fn row_offset(&self, table: TableId, row: usize) -> usize {
        self.offsets[table.index()] + row * self.tables[table.index()].width
    }

    /// The numbers of all tables, in order.
    pub fn table_ids(&self) -> impl Iterator<Item = TableId> + use<> {
        (0..self.tables.len() as u16).map(TableId)
    }
}

impl ShardLayout {
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

    /// The layout of each shard of a model, in order.
    pub fn all(model: &Arc<ModelLayout>, shards: usize) -> Vec<Self> {
        (0..shards).map(|shard| Self::new(model.clone(), ShardId(shard as u16), shards)).collect()
    }

    pub fn model(&self) -> &Arc<ModelLayout> {
        &self.model
    }

    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Parameters in this shard.
    pub fn parameters(&self) -> usize {
        self.offsets[self.model.tables.len()]
    }

    /// Rows in this shard, over all tables.
    pub fn rows(&self) -> usize {
        self.row_offsets[self.model.tables.len()]
    }

    /// Rows of one table in this shard.
    pub fn rows_of(&self, table: TableId) -> usize {
        rows_in_shard(self.model.table(table).rows, self.shard, self.shards)
    }

    pub fn width_of(&self, table: TableId) -> usize {
        self.model.table(table).width
    }

    /// The part of the shard's flat vector that holds a table.
    pub fn table_range(&self, table: TableId) -> std::ops::Range<usize> {
        self.offsets[table.index()]..self.offsets[table.index() + 1]
    }

    /// The shard-wide number of the first row of a table.
    pub fn first_row_of(&self, table: TableId) -> usize {
        self.row_offsets[table.index()]
    }

    /// Whether this shard owns a row of the model.
    pub fn owns(&self, row: usize) -> bool {
        row % self.shards == self.shard.index()
    }

    /// The row's number within its table in this shard.
    pub fn local_row(&self, row: usize) -> usize {
        debug_assert!(self.owns(row));
        row / self.shards
    }

    /// The number in the whole table of a row of this shard.
    pub fn model_row(&self, local_row: usize) -> usize {
        local_row * self.shards + self.shard.index()
    }

    /// Where an owned row begins in the shard's flat vector.
    pub fn row_offset(&self, table: TableId, row: usize) -> usize {
        self.offsets[table.index()] + self.local_row(row) * self.width_of(table)
    }

    /// The shard-wide number of an owned row.
    pub fn shard_row(&self, table: TableId, row: usize) -> usize {
        self.row_offsets[table.index()] + self.local_row(row)
    }

    /// Copies the shard's values to their places in a whole model.
    pub fn copy_into(&self, values: &[f32], model: &mut Model) {
        for table in self.model.table_ids() {
            let width = self.width_of(table);
            let source = &values[self.table_range(table)];
            for (local, row) in source.chunks_exact(width).enumerate() {
                model.row_mut(table, self.model_row(local)).copy_from_slice(row);
            }
        }
    }

    /// The part of the shard's flat vector that a shard-wide row takes.
    pub fn parameters_of_row(&self, shard_row: usize) -> std::ops::Range<usize> {
        let table = self.row_offsets.partition_point(|&offset| offset <= shard_row) - 1;
        let width = self.model.tables[table].width;
        let start = self.offsets[table] + (shard_row - self.row_offsets[table]) * width;
        start..start + width
    }

    /// The table, and the shard-wide row, that hold a parameter of the shard's flat vector.
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
