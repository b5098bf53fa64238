//! The tables of a model that a script declares.

use std::ops::Range;
use std::sync::Arc;

use gaia::{Model, ModelLayout, TableId, TableLayout};

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

    /// The length of the first dimension: of a vector the number of values. 1 of a single value.
    pub(crate) fn first_dimension(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// The number of values at these indexes of the first dimension.
    pub(crate) fn len_of(&self, indexes: &Range<usize>) -> usize {
        indexes.len() * self.shape.iter().skip(1).product::<usize>()
    }

    /// The table of the tensor. Of two dimensions and more, a row is what lies at one index of the first. Values of a vector
    /// are no rows by themselves: it is cut into the longest rows of equal length up to [`ROW_MAX`]. Where it is sharded,
    /// a shard may end at any value, and so each is a row.
    pub(crate) fn table(&self, sharded: bool) -> TableLayout {
        let (rows, width) = match self.shape[..] {
            [] => (1, 1),
            [length] if sharded && !self.is_statistics => (length, 1),
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

/// The tables of tensors, in their order. `sharded`: the workers of a data center share the model among them.
pub(crate) fn layout(tensors: &[Tensor], sharded: bool) -> Arc<ModelLayout> {
    let layout = ModelLayout::new(tensors.iter().map(|tensor| tensor.table(sharded)).collect());
    let statistics = layout.table_ids().zip(tensors);
    let statistics: Vec<TableId> =
        statistics.filter_map(|(table, tensor)| tensor.is_statistics.then_some(table)).collect();
    Arc::new(layout.with_statistics(statistics))
}

/// A model of these values.
pub(crate) fn model(layout: &Arc<ModelLayout>, values: &[f32]) -> Model {
    let mut model = Model::zeros(layout.clone());
    model.values.copy_from_slice(values);
    model
}

/// The longest row of a vector, in values: the rows of a table are dealt to the servers of a data center.
const ROW_MAX: usize = 1024;
