//! The tables of a model that a script declares.

use std::sync::Arc;

use gaia::{Deltas, Model, ModelLayout, TableDeltas, TableId, TableLayout};

/// The name and the shape of a tensor of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    /// Whether it holds statistics: values that are measured and not trained.
    pub(crate) is_statistics: bool,
}

impl Tensor {
    /// The number of values.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The table of the tensor. Of two dimensions and more, a row is what lies at one index of the first. Values of a vector
    /// are no rows by themselves: it is cut into the longest rows of equal length up to [`ROW_MAX`].
    fn table(&self) -> TableLayout {
        let (rows, width) = match self.shape[..] {
            [] => (1, 1),
            [length] => {
                let width = (1..=length.min(ROW_MAX)).rev().find(|width| length % width == 0);
                let width = width.unwrap_or(1);
                (length / width, width)
            }
            [rows, ..] => (rows, self.len() / rows.max(1)),
        };
        TableLayout { name: self.name.clone(), rows, width }
    }
}

/// The tables of tensors, in their order.
pub(crate) fn layout(tensors: &[Tensor]) -> Arc<ModelLayout> {
    let layout = ModelLayout::new(tensors.iter().map(Tensor::table).collect());
    let statistics = layout.table_ids().zip(tensors);
    let statistics: Vec<TableId> =
        statistics.filter_map(|(table, tensor)| tensor.is_statistics.then_some(table)).collect();
    Arc::new(layout.with_statistics(statistics))
}

/// `share` of the change of each row that has changed, from `before` to `after`. Both are whole models, as `layout` places
/// their parameters.
pub(crate) fn deltas(layout: &ModelLayout, before: &[f32], after: &[f32], share: f32) -> Deltas {
    let mut offset = 0;
    let table = |table: &TableLayout| {
        let end = offset + table.rows * table.width;
        let (before, after) = (&before[offset..end], &after[offset..end]);
        offset = end;
        changed_rows(before, after, table.width, share)
    };
    Deltas { tables: layout.tables().iter().map(table).collect() }
}

fn changed_rows(before: &[f32], after: &[f32], width: usize, share: f32) -> TableDeltas {
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    if width == 0 {
        return TableDeltas::none();
    }
    values.reserve(after.len());
    for (row, (before, after)) in
        before.chunks_exact(width).zip(after.chunks_exact(width)).enumerate()
    {
        let begun = values.len();
        values.extend(after.iter().zip(before).map(|(after, before)| share * (after - before)));
        if values[begun..].iter().all(|change| *change == 0.0) {
            values.truncate(begun);
        } else {
            rows.push(row as u32);
        }
    }
    TableDeltas::listed(rows, values)
}

/// A model of these values.
pub(crate) fn model(layout: &Arc<ModelLayout>, values: &[f32]) -> Model {
    let mut model = Model::zeros(layout.clone());
    model.values.copy_from_slice(values);
    model
}

/// The longest row of a vector, in values: the rows of a table are dealt to the servers of a data center.
const ROW_MAX: usize = 1024;
