//! The step of stochastic gradient descent on one rating, over a private copy of the rows.
//!
//! A step is about 10 operations per factor on two rows that sit in the first or second cache: at rank 16
//! the rows are 136 bytes, and a batch of 1,000 ratings touches at most 272 kB.

use super::vector::dot_lanes;
use super::{Kernel, vectorized};

/// One rating of a batch; rows are counted within the private copies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rating {
    /// The user's row within the private copy.
    pub user: u32,
    /// The item's row within the private copy.
    pub item: u32,
    /// The rating minus the mean of all ratings.
    pub value: f32,
}

/// What a user's row and an item's row together predict: factors, then (if `rank` is one less than the
/// width) a bias each.
#[inline(always)]
pub fn predict(user: &[f32], item: &[f32], rank: usize) -> f32 {
    let mut sum = dot_lanes(&user[..rank], &item[..rank]);
    if rank < user.len() {
        sum += user[rank] + item[rank];
    }
    sum
}

/// Learning rates of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowRates {
    /// Of the factors.
    pub factors: f32,
    /// Of the bias.
    pub bias: f32,
    /// What the rate of the factors times the squared norm of the other row's, the curvature of a rating's error, does not
    /// exceed: beside a row that is longer than others, the whole way to the optimum.
    pub way_max: f32,
}

impl RowRates {
    /// These rates beside a row with these factors.
    #[inline(always)]
    fn beside(self, others: &[f32], unit: f32) -> Self {
        let curvature = dot_lanes(others, others) / unit;
        Self { factors: self.factors.min(self.way_max / curvature), ..self }
    }
}

/// Runs over `ratings` in order, moving both rows of each down the gradient of
/// `½ (value − prediction)² + ½ regularization (unit ‖factors‖² + bias²)`, the latter of both rows. Steps are those of ratings
/// that are divided by `unit`, whose factors are shorter by its root and whose biases are shorter by `unit` itself.
///
/// `users` and `items` hold whole rows of `width` values: `rank` factors and, where `width` is `rank + 1`, a bias.
/// `user_rates` and `item_rates` are those of each row.
///
/// # Panics
///
/// Where a rating names a row that is not there.
#[allow(clippy::too_many_arguments)]
pub fn descend(
    ratings: &[Rating],
    rank: usize,
    width: usize,
    regularization: f32,
    unit: f32,
    users: &mut [f32],
    user_rates: &[RowRates],
    items: &mut [f32],
    item_rates: &[RowRates],
) {
    assert!(rank == width || rank + 1 == width);
    let shape = Shape { rank, width, regularization, unit };
    vectorized(DescendEach, (shape, ratings, (users, user_rates), (items, item_rates)));
}

/// What all steps share.
struct Shape {
    rank: usize,
    width: usize,
    regularization: f32,
    unit: f32,
}

/// Rows of one side, and their rates.
type Side<'a> = (&'a mut [f32], &'a [RowRates]);

struct DescendEach;

impl<'a> Kernel<(Shape, &'a [Rating], Side<'a>, Side<'a>)> for DescendEach {
    type Output = ();

    #[inline(always)]
    fn run((shape, ratings, users, items): (Shape, &'a [Rating], Side<'a>, Side<'a>)) {
        let Shape { rank, width, regularization, unit } = shape;
        let ((users, user_rates), (items, item_rates)) = (users, items);
        for rating in ratings {
            let (user, item) = (rating.user as usize, rating.item as usize);
            let user_row = &mut users[user * width..(user + 1) * width];
            let item_row = &mut items[item * width..(item + 1) * width];
            let error = rating.value - predict(user_row, item_row, rank);
            let user_rates = user_rates[user].beside(&item_row[..rank], unit);
            let item_rates = item_rates[item].beside(&user_row[..rank], unit);

            step(user_row, item_row, rank, error, regularization, unit, user_rates, item_rates);
        }
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn step(
    user: &mut [f32],
    item: &mut [f32],
    rank: usize,
    error: f32,
    regularization: f32,
    unit: f32,
    user_rates: RowRates,
    item_rates: RowRates,
) {
    let keep = |rate: f32| 1.0 - rate * regularization;
    let (user_factors, user_bias) = user.split_at_mut(rank);
    let (item_factors, item_bias) = item.split_at_mut(rank);

    let user_pull = user_rates.factors * error / unit;
    let item_pull = item_rates.factors * error / unit;
    let (user_keep, item_keep) = (keep(user_rates.factors), keep(item_rates.factors));
    for (user, item) in user_factors.iter_mut().zip(item_factors) {
        let (old_user, old_item) = (*user, *item);
        *user = user_keep * old_user + user_pull * old_item;
        *item = item_keep * old_item + item_pull * old_user;
    }

    for (user, item) in user_bias.iter_mut().zip(item_bias) {
        *user = keep(user_rates.bias) * *user + user_rates.bias * error;
        *item = keep(item_rates.bias) * *item + item_rates.bias * error;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_moves_both_rows_down_the_gradient() {
        let user_rates = RowRates { factors: 0.01, bias: 0.02, way_max: 1.0 };
        let item_rates = RowRates { factors: 0.03, bias: 0.04, way_max: 1.0 };
        for (rank, width) in [(1, 1), (16, 17), (37, 38), (32, 32)] {
            let start: Vec<f32> = (0..2 * width).map(|at| (at as f32 * 0.7).sin() * 0.3).collect();
            let (user, item) = start.split_at(width);
            let (mut users, mut items) = (user.to_vec(), item.to_vec());
            let ratings = [Rating { user: 0, item: 0, value: 1.25 }];
            let (rates, others) = ([user_rates], [item_rates]);
            descend(&ratings, rank, width, 0.1, 1.0, &mut users, &rates, &mut items, &others);

            let error = 1.25 - predict(user, item, rank);
            for at in 0..width {
                let (to_user, to_item, user_rate, item_rate) = if at < rank {
                    (item[at], user[at], user_rates.factors, item_rates.factors)
                } else {
                    (1.0, 1.0, user_rates.bias, item_rates.bias)
                };
                let user_step = user_rate * (error * to_user - 0.1 * user[at]);
                let item_step = item_rate * (error * to_item - 0.1 * item[at]);
                assert!((users[at] - user[at] - user_step).abs() < 1e-6);
                assert!((items[at] - item[at] - item_step).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn beside_a_row_of_large_norm_a_step_goes_its_share_of_the_way_and_not_beyond() {
        let ratings = [Rating { user: 0, item: 0, value: 50.0 }];
        let item_rates = [RowRates { factors: 0.0, bias: 0.0, way_max: 1.0 }];
        for way_max in [1.0, 0.5] {
            let (mut users, mut items) = (vec![1.0, 0.0], vec![0.0, 100.0]);
            let user_rates = [RowRates { factors: 0.5, bias: 0.0, way_max }];
            descend(&ratings, 2, 2, 0.0, 1.0, &mut users, &user_rates, &mut items, &item_rates);
            assert!((predict(&users, &items, 2) - 50.0 * way_max).abs() < 1e-3);
        }
    }

    #[test]
    fn ratings_that_are_larger_by_their_unit_take_the_same_steps() {
        let steps = |unit: f32| {
            let root = unit.sqrt();
            let row =
                |factors: [f32; 2], bias: f32| [root * factors[0], root * factors[1], unit * bias];
            let (mut users, mut items) = (row([0.5, -1.0], 0.25), row([2.0, 1.5], -0.75));
            let ratings =
                [1.25, -3.0].map(|value| Rating { user: 0, item: 0, value: unit * value });
            let rates =
                [0.125, 0.25].map(|rate| [RowRates { factors: rate, bias: rate, way_max: 1.0 }]);
            descend(&ratings, 2, 3, 0.1, unit, &mut users, &rates[0], &mut items, &rates[1]);
            [users, items].map(|[first, second, bias]| [first / root, second / root, bias / unit])
        };
        assert_eq!(steps(16.0), steps(1.0));
        assert_eq!(steps(0.25), steps(1.0));
    }
}
