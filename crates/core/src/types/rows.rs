//! Rows as workers see them: which are read, what they hold, how they change.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ModelLayout, TableId};

/// A copy of the model, or of the part of it that was read: every table's rows in one flat vector.
#[derive(Clone, Debug)]
pub struct Model {
    layout: Arc<ModelLayout>,
    pub values: Vec<f32>,
}

/// The rows that one iteration reads, per table in the layout's order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowSet {
    pub tables: Vec<TableRows>,
}

/// The rows of one table that one iteration reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TableRows {
    All,
    /// Strictly ascending row numbers; empty for none.
    Listed(Arc<[u32]>),
}

/// Additive changes to rows, per table in the layout's order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deltas {
    pub tables: Vec<TableDeltas>,
}

/// Additive changes to rows of one table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableDeltas {
    /// Strictly ascending row numbers.
    pub rows: Vec<u32>,
    /// The change of each row in turn: `rows.len() × width` values.
    #[serde(with = "super::packed")]
    pub values: Vec<f32>,
}

impl Model {
    pub fn zeros(layout: Arc<ModelLayout>) -> Self {
        let values = vec![0.0; layout.parameters()];
        Self { layout, values }
    }

    pub fn layout(&self) -> &Arc<ModelLayout> {
        &self.layout
    }

    pub fn row(&self, table: TableId, row: usize) -> &[f32] {
        let start = self.layout.row_offset(table, row);
        &self.values[start..start + self.layout.table(table).width]
    }

    pub fn row_mut(&mut self, table: TableId, row: usize) -> &mut [f32] {
        let start = self.layout.row_offset(table, row);
        let width = self.layout.table(table).width;
        &mut self.values[start..start + width]
    }

    /// All rows of a table, `rows × width` values.
    pub fn table(&self, table: TableId) -> &[f32] {
        let start = self.layout.table_offset(table);
        let shape = self.layout.table(table);
        &self.values[start..start + shape.rows * shape.width]
    }

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
    pub fn listed(rows: Vec<u32>) -> Self {
        debug_assert!(rows.windows(2).all(|pair| pair[0] < pair[1]));
        Self::Listed(rows.into())
    }

    /// How many rows are named, of a table that has `rows`.
    pub fn len(&self, rows: usize) -> usize {
        match self {
            Self::All => rows,
            Self::Listed(listed) => listed.len(),
        }
    }
}

impl Deltas {
    /// No change to any table.
    pub fn none(layout: &ModelLayout) -> Self {
        Self { tables: vec![TableDeltas::default(); layout.tables().len()] }
    }

    /// Whether these change rows that the model has, each as wide as it is.
    pub fn fits(&self, layout: &ModelLayout) -> bool {
        let tables = self.tables.iter().zip(layout.tables());
        self.tables.len() == layout.tables().len()
            && tables.clone().all(|(deltas, table)| {
                deltas.rows.is_sorted_by(|a, b| a < b)
                    && deltas.rows.last().is_none_or(|last| (*last as usize) < table.rows)
                    && deltas.values.len() == deltas.rows.len() * table.width
            })
    }

    /// A zero change to every row of every table, to be added into.
    pub fn dense(layout: &ModelLayout) -> Self {
        let tables = layout
            .tables()
            .iter()
            .map(|table| TableDeltas {
                rows: (0..table.rows as u32).collect(),
                values: vec![0.0; table.rows * table.width],
            })
            .collect();
        Self { tables }
    }
}
