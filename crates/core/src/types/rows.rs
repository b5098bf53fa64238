//! Rows as workers use them: which rows are read, their values, and the changes to them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ModelLayout, SharedValues, TableId};

/// A copy of the model, or of the part of it that was read: every table's rows in one flat vector.
#[derive(Clone, Debug)]
pub struct Model {
    layout: Arc<ModelLayout>,
    /// All parameters: table after table, row after row, as the layout places them.
    pub values: SharedValues,
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
        Self { layout, values }
    }

    /// The tables of the model.
    #[inline]
    pub fn layout(&self) -> &Arc<ModelLayout> {
        &self.layout
    }

    /// One row, as many values as its table is wide.
    ///
    /// # Panics
    /// If the layout has no such row.
    #[inline]
    pub fn row(&self, table: TableId, row: usize) -> &[f32] {
        let start = self.layout.row_offset(table, row);
        &self.values[start..start + self.layout.table(table).width]
    }

    /// As [`Self::row`], mutable.
    ///
    /// # Panics
    /// As [`Self::row`].
    #[inline]
    pub fn row_mut(&mut self, table: TableId, row: usize) -> &mut [f32] {
        let start = self.layout.row_offset(table, row);
        let width = self.layout.table(table).width;
        &mut self.values[start..start + width]
    }

    /// All rows of a table, `rows × width` values.
    ///
    /// # Panics
    /// If the layout has no such table.
    #[inline]
    pub fn table(&self, table: TableId) -> &[f32] {
        let start = self.layout.table_offset(table);
        let shape = self.layout.table(table);
        &self.values[start..start + shape.rows * shape.width]
    }

    /// As [`Self::table`], mutable.
    ///
    /// # Panics
    /// As [`Self::table`].
    #[inline]
    pub fn table_mut(&mut self, table: TableId) -> &mut [f32] {
        let start = self.layout.table_offset(table);
        let shape = self.layout.table(table);
        let size = shape.rows * shape.width;
        &mut self.values[start..start + size]
    }
}

impl RowSet {
    /// Every row of every table.
    pub fn all(layout: &ModelLayout) -> Self {
        Self { tables: vec![TableRows::All; layout.tables().len()] }
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
