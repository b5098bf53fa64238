//! A digest of values, by which copies and initial models are compared.

use gaia_core::types::{Model, ShardLayout};

/// A digest that depends on all values and their order.
pub(crate) fn digest(values: &[f32]) -> u64 {
    values.iter().fold(0, |digest: u64, value| {
        (digest.rotate_left(5) ^ u64::from(value.to_bits())).wrapping_mul(DIGEST_FACTOR)
    })
}

/// A digest of the tables of a model that are not sparse. Of those that are, a model may lack rows.
pub(crate) fn digest_of_dense(model: &Model) -> u64 {
    let layout = model.layout();
    let dense = layout.table_ids().filter(|table| layout.sparse(*table).is_none());
    dense.fold(0, |folded: u64, table| folded.rotate_left(5) ^ digest(model.table(table)))
}

/// A digest of the sparse tables of a shard.
pub(crate) fn digest_of_sparse(layout: &ShardLayout, values: &[f32]) -> u64 {
    let tables = layout.model().table_ids();
    let sparse = tables.filter(|table| layout.model().sparse(*table).is_some());
    sparse.fold(0, |folded: u64, table| {
        folded.rotate_left(5) ^ digest(&values[layout.table_range(table)])
    })
}

/// Odd, so that multiplication loses no information.
const DIGEST_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use gaia_core::types::{InitialRows, ModelLayout, ShardId, TableId, TableLayout};

    #[test]
    fn initial_values_that_differ_in_one_place_have_another_digest() {
        let values = [1.0, -2.0, 0.0, 4.0];
        let changed = [[1.0, -2.0, 0.0, 4.5], [-2.0, 1.0, 0.0, 4.0], [1.0, -2.0, -0.0, 4.0]];
        for other in changed {
            assert_ne!(digest(&values), digest(&other));
        }
    }
    #[test]
    fn sparse_tables_and_others_have_digests_of_their_own() {
        let table = |name: &str| TableLayout { name: name.into(), rows: 3, width: 1 };
        let rule = InitialRows::new(1, 0.0, 1.0).unwrap();
        let layout = ModelLayout::new(vec![table("dense"), table("sparse")]);
        let layout = Arc::new(layout.with_sparse_tables([(TableId(1), rule)]));
        let digests = |place: usize| {
            let mut model = Model::zeros(layout.clone());
            model.values[place] = 1.0;
            let shard = ShardLayout::new(layout.clone(), ShardId(0), 1);
            (digest_of_dense(&model), digest_of_sparse(&shard, &model.values))
        };
        assert!(digests(0).0 != digests(2).0 && digests(0).1 == digests(2).1);
        assert!(digests(3).0 == digests(5).0 && digests(3).1 != digests(5).1);
    }
}
