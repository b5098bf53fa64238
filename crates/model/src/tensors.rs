//! The tensors of a script, and the tables that they are trained as.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use gaia_core::types::{InitialRows, ModelLayout, TableId, TableLayout};

/// The name and the shape of a tensor of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Its name, which no other tensor of the script has.
    pub name: String,
    /// The length of each dimension.
    pub shape: Vec<usize>,
    /// Whether it holds statistics: values that are measured and not trained.
    pub is_statistics: bool,
    /// Of a table of which workers hold the rows in hand alone: the rule of its initial values.
    pub sparse: Option<InitialRows>,
}

impl TensorSpec {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of the first dimension: of a vector the number of values. 1 of a single value.
    pub fn first_dimension(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// The number of values at these indexes of the first dimension.
    pub fn len_of(&self, indexes: &Range<usize>) -> usize {
        indexes.len() * self.shape.iter().skip(1).product::<usize>()
    }

    /// The table of the tensor. Of two dimensions and more, a row is what lies at one index of the first. Values of a vector
    /// are no rows by themselves: it is cut into the longest rows of equal length of up to 1,024. Where the workers of a
    /// data center share the model among them, a part may end at any value, and so each is a row.
    pub fn table(&self, sharded: bool) -> TableLayout {
        let (rows, width) = match self.shape[..] {
            // A row has at least one value.
            _ if self.is_empty() => (0, 1),
            [] => (1, 1),
            [length] if sharded && !self.is_statistics => (length, 1),
            [length] => {
                let width = (1..=length.min(ROW_MAX)).rev().find(|width| length % width == 0);
                let width = width.unwrap_or(1);
                (length / width, width)
            }
            [rows, ..] => (rows, self.len() / rows),
        };
        TableLayout { name: self.name.clone(), rows, width }
    }
}

impl fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.is_statistics { " of statistics" } else { "" };
        write!(f, "{} {:?}{role}", self.name.escape_debug(), self.shape)?;
        match self.sparse {
            Some(rule) => write!(f, " of rows in hand, {rule}"),
            None => Ok(()),
        }
    }
}

/// The tables of tensors, in their order. Their shapes are those of the tensors. `sharded`: the workers of a data center share
/// the model among them.
pub fn tensor_layout(tensors: &[TensorSpec], sharded: bool) -> Arc<ModelLayout> {
    let layout = ModelLayout::new(tensors.iter().map(|tensor| tensor.table(sharded)).collect());
    let statistics = layout.table_ids().zip(tensors);
    let statistics: Vec<TableId> =
        statistics.filter_map(|(table, tensor)| tensor.is_statistics.then_some(table)).collect();
    let sparse = layout.table_ids().zip(tensors);
    let sparse: Vec<(TableId, InitialRows)> =
        sparse.filter_map(|(table, tensor)| Some((table, tensor.sparse?))).collect();
    let shapes = tensors.iter().map(|tensor| tensor.shape.clone()).collect();
    let layout = layout.with_statistics(statistics).with_shapes(shapes);
    Arc::new(layout.with_sparse_tables(sparse))
}

/// The number of this rule, which a file has beside tensors that others have to cut in the same way.
pub(super) const LAYOUT_RULE: u32 = 1;

/// The largest number of tensors: a table has a number of 16 bits.
pub(super) const TABLES_MAX: usize = 1 << 16;

/// The longest row of a vector, in values: the rows of a table are dealt to the servers of a data center.
const ROW_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_cut_into_rows() {
        let check = |shape: &[usize], rows: usize, width: usize| {
            let (is_statistics, sparse) = (false, None);
            let spec = TensorSpec { name: "t".into(), shape: shape.into(), is_statistics, sparse };
            let table = spec.table(false);
            assert_eq!((table.rows, table.width), (rows, width), "{shape:?}");
            assert_eq!(spec.len(), rows * width, "{shape:?}");
        };
        check(&[], 1, 1);
        check(&[7], 1, 7);
        check(&[2048], 2, 1024);
        check(&[1031], 1031, 1);
        check(&[0], 0, 1);
        check(&[3, 5], 3, 5);
        check(&[8, 3, 2, 2], 8, 12);
        check(&[0, 4], 0, 1);
        check(&[4, 0], 0, 1);
    }

    #[test]
    fn each_value_of_a_vector_that_workers_share_is_a_row() {
        let spec = |shape: &[usize], is_statistics| TensorSpec {
            name: "t".into(),
            shape: shape.into(),
            is_statistics,
            sparse: None,
        };
        let of = |spec: TensorSpec| (spec.table(true).rows, spec.table(true).width);
        assert_eq!(of(spec(&[8], false)), (8, 1));
        assert_eq!(of(spec(&[8], true)), (1, 8), "all workers hold all statistics");
        assert_eq!(of(spec(&[8, 3], false)), (8, 3));
    }

    #[test]
    fn tables_have_the_order_and_the_roles_of_their_tensors() {
        let spec = |name: &str, is_statistics| TensorSpec {
            name: name.into(),
            shape: vec![2, 2, 1],
            is_statistics,
            sparse: None,
        };
        let rule = InitialRows::new(1, 0.0, 1.0);
        let sparse = TensorSpec { sparse: rule, ..spec("c", false) };
        let layout = tensor_layout(&[spec("b", false), spec("a", true), sparse], false);
        assert_eq!(
            layout.table_ids().map(|table| layout.sparse(table)).collect::<Vec<_>>(),
            [None, None, rule]
        );
        let names: Vec<&str> = layout.tables().iter().map(|table| table.name.as_str()).collect();
        assert_eq!(names, ["b", "a", "c"]);
        assert_eq!(*layout.shape(TableId(1)), [2, 2, 1]);
        assert!(!layout.is_statistics(TableId(0)) && layout.is_statistics(TableId(1)));
    }
}
