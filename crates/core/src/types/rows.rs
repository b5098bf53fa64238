//! Rows as workers use them: which rows are read, their values, and the changes to them.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ModelLayout, SharedValues, TableId};

/// A copy of the model, or of the part of it that was read: every table's rows in one flat vector.
///
/// Of sparse tables ([`ModelLayout::with_sparse_tables`]) it may lack rows.
#[derive(Clone, Debug)]
pub struct Model {
    layout: Arc<ModelLayout>,
    /// Which rows it holds. `None`: all.
    held: Option<HeldRows>,
    /// All parameters of the rows that it holds: table after table, row after row. Of a model with all rows, as the layout
    /// places them.
    pub values: SharedValues,
}

/// The rows that a model holds: all of tables that are not sparse, and some of sparse ones.
#[derive(Clone, Debug)]
struct HeldRows {
    /// Of each table: its rows, and the place of the first in the flat vector.
    tables: Vec<(TableRows, usize)>,
    /// The length of the flat vector.
    len: usize,
}

/// The rows that one iteration reads, per table in the layout's order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowSet {
    /// One for each table.
    pub tables: Vec<TableRows>,
}

/// The rows of one table that one iteration reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TableRows {
    /// Every row.
    All,
    /// Strictly ascending row numbers; empty for none.
    Listed(Arc<[u32]>),
}

/// Additive changes to rows, per table in the layout's order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deltas {
    /// One for each table.
    pub tables: Vec<TableDeltas>,
}

/// Additive changes to rows of one table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableDeltas {
    /// The rows that change.
    pub rows: TableRows,
    /// The change of each row in turn: as many values as the rows have.
    pub values: SharedValues,
}

impl Model {
    /// A model whose parameters are all 0.
    pub fn zeros(layout: Arc<ModelLayout>) -> Self {
        let values = vec![0.0; layout.parameters()].into();
        Self { layout, held: None, values }
    }

    /// A model whose parameters are all 0, with no row of sparse tables: what initial values are written into, since those of
    /// sparse tables follow from rules.
    pub fn without_sparse_rows(layout: Arc<ModelLayout>) -> Self {
        let none = RowSet::without_sparse_rows(&layout);
        let mut model = Self { layout, held: None, values: SharedValues::default() };
        model.hold(&none);
        model
    }

    /// Makes all parameters 0, and of sparse tables holds these rows alone.
    ///
    /// # Panics
    /// If there is not an entry for each table.
    pub fn hold(&mut self, rows: &RowSet) {
        self.held = self.layout.has_sparse_tables().then(|| HeldRows::new(&self.layout, rows));
        let len = self.held.as_ref().map_or_else(|| self.layout.parameters(), |held| held.len);
        let reclaimed = self.values.reclaim().filter(|values| values.capacity() >= len);
        let values = match reclaimed {
            Some(mut values) => {
                values.clear();
                values.resize(len, 0.0);
                values
            }
            // Pages that nobody writes take no memory.
            None => vec![0.0; len],
        };
        self.values = values.into();
    }

    /// Whether it holds all rows.
    pub fn is_whole(&self) -> bool {
        self.held.is_none()
    }

    /// The tables of the model.
    #[inline]
    pub fn layout(&self) -> &Arc<ModelLayout> {
        &self.layout
    }

    /// One row, as many values as its table is wide.
    ///
    /// # Panics
    /// If the layout has no such row, or the model does not hold it.
    #[inline]
    pub fn row(&self, table: TableId, row: usize) -> &[f32] {
        let start = self.row_offset(table, row);
        &self.values[start..start + self.layout.table(table).width]
    }

    /// As [`Self::row`], mutable.
    ///
    /// # Panics
    /// As [`Self::row`].
    #[inline]
    pub fn row_mut(&mut self, table: TableId, row: usize) -> &mut [f32] {
        let start = self.row_offset(table, row);
        let width = self.layout.table(table).width;
        &mut self.values[start..start + width]
    }

    /// All rows of a table that the model holds, in order: of one that is not sparse `rows × width` values.
    ///
    /// # Panics
    /// If the layout has no such table.
    #[inline]
    pub fn table(&self, table: TableId) -> &[f32] {
        &self.values[self.table_range(table)]
    }

    /// As [`Self::table`], mutable.
    ///
    /// # Panics
    /// As [`Self::table`].
    #[inline]
    pub fn table_mut(&mut self, table: TableId) -> &mut [f32] {
        let range = self.table_range(table);
        &mut self.values[range]
    }

    #[inline]
    fn row_offset(&self, table: TableId, row: usize) -> usize {
        match &self.held {
            None => self.layout.row_offset(table, row),
            Some(held) => held.row_offset(table, row, self.layout.table(table).width),
        }
    }

    #[inline]
    fn table_range(&self, table: TableId) -> Range<usize> {
        let shape = self.layout.table(table);
        let (start, rows) = match &self.held {
            None => (self.layout.table_offset(table), shape.rows),
            Some(held) => {
                let (rows, start) = &held.tables[table.index()];
                (*start, rows.len(shape.rows))
            }
        };
        start..start + rows * shape.width
    }
}

impl HeldRows {
    fn new(layout: &ModelLayout, rows: &RowSet) -> Self {
        assert_eq!(rows.tables.len(), layout.tables().len(), "one entry for each table");
        let mut len = 0;
        let table = |(table, rows): (TableId, &TableRows)| {
            let rows = layout.sparse(table).map_or(TableRows::All, |_| rows.clone());
            let (shape, start) = (layout.table(table), len);
            len += rows.len(shape.rows) * shape.width;
            (rows, start)
        };
        let tables = layout.table_ids().zip(&rows.tables).map(table).collect();
        Self { tables, len }
    }

    fn row_offset(&self, table: TableId, row: usize, width: usize) -> usize {
        let (rows, start) = &self.tables[table.index()];
        let place = match rows {
            TableRows::All => row,
            TableRows::Listed(listed) => {
                let found = listed.binary_search(&(row as u32));
                found.expect("a row that is used is held")
            }
        };
        start + place * width
    }
}

impl RowSet {
    /// Every row of every table.
    pub fn all(layout: &ModelLayout) -> Self {
        Self { tables: vec![TableRows::All; layout.tables().len()] }
    }

    /// Every row of every table that is not sparse.
    pub fn without_sparse_rows(layout: &ModelLayout) -> Self {
        let rows = |table| match layout.sparse(table) {
            None => TableRows::All,
            Some(_) => TableRows::none(),
        };
        Self { tables: layout.table_ids().map(rows).collect() }
    }
}

impl TableRows {
    /// Some rows, by strictly ascending numbers. The order is asserted in debug builds.
    pub fn listed(rows: Vec<u32>) -> Self {
        debug_assert!(rows.windows(2).all(|pair| pair[0] < pair[1]));
        Self::Listed(rows.into())
    }

    /// No row.
    pub fn none() -> Self {
        Self::Listed(Arc::default())
    }

    /// The number of selected rows of a table that has `rows` rows.
    pub fn len(&self, rows: usize) -> usize {
        match self {
            Self::All => rows,
            Self::Listed(listed) => listed.len(),
        }
    }

    /// The selected rows of a table that has `rows` rows, ascending.
    pub fn iter(&self, rows: usize) -> impl Iterator<Item = u32> + '_ {
        let (all, listed) = match self {
            Self::All => (0..rows as u32, &[][..]),
            Self::Listed(listed) => (0..0, &listed[..]),
        };
        all.chain(listed.iter().copied())
    }
}

impl TableDeltas {
    /// No change.
    pub fn none() -> Self {
        Self { rows: TableRows::none(), values: SharedValues::default() }
    }

    /// Changes to some rows, by strictly ascending numbers, with the changes of each row in turn.
    pub fn listed(rows: Vec<u32>, values: Vec<f32>) -> Self {
        Self { rows: TableRows::listed(rows), values: values.into() }
    }

    /// Changes to every row, in order.
    pub fn all(values: Vec<f32>) -> Self {
        Self { rows: TableRows::All, values: values.into() }
    }
}

impl Deltas {
    /// No change to any table.
    pub fn none(layout: &ModelLayout) -> Self {
        Self { tables: vec![TableDeltas::none(); layout.tables().len()] }
    }

    /// Whether the changes fit the layout: one entry for each table, strictly ascending rows that the table has, and
    /// `width` values for each row.
    pub fn fits(&self, layout: &ModelLayout) -> bool {
        let tables = self.tables.iter().zip(layout.tables());
        self.tables.len() == layout.tables().len()
            && tables.clone().all(|(deltas, table)| {
                let in_order = match &deltas.rows {
                    TableRows::All => true,
                    TableRows::Listed(listed) => {
                        listed.is_sorted_by(|a, b| a < b)
                            && listed.last().is_none_or(|last| (*last as usize) < table.rows)
                    }
                };
                in_order && deltas.values.len() == deltas.rows.len(table.rows) * table.width
            })
    }

    /// A change of 0 to every row of every table, as the initial value of a sum.
    pub fn dense(layout: &ModelLayout) -> Self {
        let tables = layout
            .tables()
            .iter()
            .map(|table| TableDeltas::all(vec![0.0; table.rows * table.width]))
            .collect();
        Self { tables }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{InitialRows, TableLayout};

    #[test]
    fn a_model_holds_the_rows_of_sparse_tables_that_it_was_told() {
        let table = |name: &str| TableLayout { name: name.into(), rows: 5, width: 2 };
        let rule = InitialRows::new(1, 0.0, 1.0).unwrap();
        let layout = ModelLayout::new(vec![table("a"), table("b"), table("c")]);
        let layout = Arc::new(layout.with_sparse_tables([(TableId(1), rule)]));
        let mut model = Model::without_sparse_rows(layout.clone());
        assert_eq!((model.values.len(), model.table(TableId(1)).len()), (20, 0));

        let rows = TableRows::listed(vec![1, 4]);
        model.hold(&RowSet { tables: vec![TableRows::none(), rows, TableRows::All] });
        assert_eq!(model.values.len(), 24);
        model.row_mut(TableId(1), 4).fill(4.0);
        model.row_mut(TableId(2), 0).fill(7.0);
        assert_eq!(model.table(TableId(1)), [0.0, 0.0, 4.0, 4.0]);
        assert_eq!(model.row(TableId(2), 0), [7.0, 7.0]);

        model.hold(&RowSet::all(&layout));
        assert_eq!(model.values, Model::zeros(layout).values);
    }
}
