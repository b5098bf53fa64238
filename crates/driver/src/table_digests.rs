//! Digests of the tables of a model: with them a node that is refused learns which table differs.

use gaia_core::types::{Model, ModelLayout, Seed};

use crate::digest::digest;

/// The tables of a model and their initial values, as a node has them.
#[derive(Clone, Debug)]
pub(crate) struct TableDigests {
    names: Vec<String>,
    /// One of each table; of models with many tables one of so many consecutive tables that they fit in a message.
    digests: Vec<u32>,
}

impl TableDigests {
    /// Digests of all tables, and of their values where those are known.
    pub(crate) fn new(layout: &ModelLayout, values: Option<&Model>) -> Self {
        let of_table = |id| {
            let table = layout.table(id);
            let (shape, is_statistics) = (layout.shape(id), layout.is_statistics(id));
            let values = values.map(|model| digest(model.table(id)));
            let rule = layout.sparse(id);
            Seed(0).child(&format!("{table:?} {shape:?} {is_statistics} {rule:?} {values:?}")).0
        };
        let tables: Vec<u64> = layout.table_ids().map(of_table).collect();
        let of_group = |group: &[u64]| {
            let folded = group.iter().fold(0, |folded: u64, one| folded.rotate_left(5) ^ one);
            (folded >> 32) as u32
        };
        Self {
            names: layout.tables().iter().map(|table| table.name.clone()).collect(),
            digests: tables.chunks(group_len(tables.len())).map(of_group).collect(),
        }
    }

    /// The digests for others, which are at most [`DIGESTS_MAX`].
    pub(crate) fn digests(&self) -> &[u32] {
        &self.digests
    }

    /// In words, the first table that has another digest at another node. `None` where all have the same.
    pub(crate) fn difference(&self, other: &[u32]) -> Option<String> {
        if self.digests == other {
            return None;
        }
        let differs = self.digests.iter().zip(other).position(|(own, other)| own != other);
        let Some(group) = differs else { return Some("the number of tables differs".into()) };
        let len = group_len(self.names.len());
        let group = &self.names[group * len..self.names.len().min((group + 1) * len)];
        let what = "differs in its initial values or its shape";
        Some(match group {
            [only] => format!("table `{}` {what}", only.escape_debug()),
            [first, .., last] => {
                format!(
                    "a table from `{}` to `{}` {what}",
                    first.escape_debug(),
                    last.escape_debug()
                )
            }
            [] => unreachable!("a group has tables"),
        })
    }
}

/// How many consecutive tables have one digest.
fn group_len(tables: usize) -> usize {
    tables.div_ceil(DIGESTS_MAX).max(1)
}

/// More need more bytes than a hello may have.
pub(crate) const DIGESTS_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use gaia_core::types::{InitialRows, TableLayout};

    fn model(tables: usize) -> Model {
        let table = |at| TableLayout { name: format!("t{at}"), rows: 2, width: 1 };
        Model::zeros(Arc::new(ModelLayout::new((0..tables).map(table).collect())))
    }

    #[test]
    fn the_first_table_that_differs_is_named() {
        let check = |tables: usize, value: usize, expect: &str| {
            let own = TableDigests::new(model(tables).layout(), Some(&model(tables)));
            let mut other = model(tables);
            other.values[value] = 1.0;
            let same = TableDigests::new(other.layout(), Some(&model(tables)));
            assert_eq!(own.difference(same.digests()), None);
            let other = TableDigests::new(other.layout(), Some(&other));
            assert!(other.digests().len() <= DIGESTS_MAX);
            let found = own.difference(other.digests()).unwrap();
            assert_eq!(found, format!("{expect} differs in its initial values or its shape"));
        };
        check(3, 2, "table `t1`");
        check(DIGESTS_MAX, 2 * DIGESTS_MAX - 1, "table `t511`");
        check(DIGESTS_MAX + 1, 0, "a table from `t0` to `t1`");
        check(DIGESTS_MAX + 1, 2 * DIGESTS_MAX, "table `t512`");
    }

    #[test]
    fn another_shape_role_rule_or_number_of_tables_differs() {
        let layout = || model(2).layout().as_ref().clone();
        let own = TableDigests::new(&layout(), None);
        let shaped = layout().with_shapes(vec![vec![2, 1], vec![2]]);
        let statistics = layout().with_statistics([gaia_core::types::TableId(1)]);
        let rule = InitialRows::new(1, 0.0, 1.0).unwrap();
        let sparse = layout().with_sparse_tables([(gaia_core::types::TableId(1), rule)]);
        for other in [shaped, statistics, sparse] {
            let found = own.difference(TableDigests::new(&other, None).digests());
            assert!(found.unwrap().starts_with("table `t1` differs"));
        }
        let fewer = TableDigests::new(model(1).layout(), None);
        assert_eq!(own.difference(fewer.digests()).unwrap(), "the number of tables differs");
    }
}
