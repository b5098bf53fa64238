//! Where a final model is right and where it is wrong, over held-out examples.

use std::collections::BTreeMap;

use crate::kernels::vector::largest;
use crate::pieces::Piece;
use gaia_core::application::{ApplicationError, Breakdown, Classes, Names, RatingError};

/// The breakdown of examples with classes. `probabilities` gives those of each class, for each of some examples: examples ×
/// classes. `None` where there is no example, or more figures than a process should hold.
///
/// # Errors
/// Where stored examples cannot be read.
pub(crate) fn of_classes<E>(
    pieces: &[Piece<'_, E>],
    (classes, names): (usize, Option<&Names>),
    class: impl Fn(&E, usize) -> usize,
    probabilities: impl Fn(&E, &[u32]) -> Vec<f32>,
) -> Result<Option<Breakdown>, ApplicationError> {
    let examples: usize = pieces.iter().map(Piece::len).sum();
    if examples == 0 || examples.saturating_mul(classes) > FIGURES_MAX {
        return Ok(None);
    }

    let (mut labels, mut all) = (Vec::new(), Vec::new());
    for piece in pieces {
        let found = piece.visit(|examples, positions| {
            labels.extend(positions.iter().map(|at| class(examples, *at as usize)));
            probabilities(examples, positions)
        })?;
        all.extend(found);
    }

    let name = |class: usize| {
        let name = names.and_then(|names| names.get(class));
        name.map_or_else(|| class.to_string(), |name| name.to_string())
    };
    Ok(Some(Breakdown::Classes(Classes {
        names: (0..classes).map(name).collect(),
        counts: if classes <= COUNTED_MAX { counts(&labels, &all, classes) } else { Vec::new() },
        log_loss: log_loss(&labels, &all, classes),
        auc: auc(&labels, &all, classes),
    })))
}

/// The breakdown of ratings, given with their predictions: in groups around whole steps, at most about twenty. `None` where
/// there is none.
pub(crate) fn of_ratings(predicted: &[(f64, f64)]) -> Option<Breakdown> {
    let ratings = || predicted.iter().map(|(rating, _)| *rating);
    let low = ratings().reduce(f64::min)?;
    let range = ratings().fold(low, f64::max) - low;
    let steps = (0..).map(|power| 0.5 * f64::from(1_u32 << power.min(31)));
    let step = steps.take(32).find(|step| range / step <= GROUPS).unwrap_or_else(|| range.max(1.0));

    let mut groups: BTreeMap<i64, (u64, f64, f64)> = BTreeMap::new();
    for (rating, prediction) in predicted {
        let (count, squares, sum) = groups.entry((rating / step).round() as i64).or_default();
        let error = prediction - rating;
        *count += 1;
        *squares += error * error;
        *sum += error;
    }

    let of_group = |(place, (count, squares, sum)): (i64, (u64, f64, f64))| RatingError {
        rating: place as f64 * step,
        count,
        rmse: (squares / count as f64).sqrt(),
        bias: sum / count as f64,
    };
    Some(Breakdown::Ratings(groups.into_iter().map(of_group).collect()))
}

fn counts(labels: &[usize], probabilities: &[f32], classes: usize) -> Vec<Vec<u64>> {
    let mut counts = vec![vec![0; classes]; classes];
    for (label, row) in labels.iter().zip(probabilities.chunks_exact(classes)) {
        counts[*label][largest(row)] += 1;
    }
    counts
}

fn log_loss(labels: &[usize], probabilities: &[f32], classes: usize) -> f64 {
    let rows = labels.iter().zip(probabilities.chunks_exact(classes));
    let losses = rows.map(|(label, row)| -f64::from(row[*label]).max(PROBABILITY_MIN).ln());
    losses.sum::<f64>() / labels.len() as f64
}

/// The area of the second of two classes, or the mean over those that some examples have and some have not.
fn auc(labels: &[usize], probabilities: &[f32], classes: usize) -> Option<f64> {
    let judged = if classes == 2 { 1..2 } else { 0..classes };
    let areas = judged.filter_map(|class| {
        let scores = probabilities.chunks_exact(classes).map(|row| row[class]);
        area(scores.zip(labels).map(|(score, label)| (score, *label == class)).collect())
    });
    let areas: Vec<f64> = areas.collect();
    (!areas.is_empty()).then(|| areas.iter().sum::<f64>() / areas.len() as f64)
}

/// The share of pairs of a positive and a negative example in which the positive one has the higher score; pairs of equal
/// scores count half. That is the sum of the ranks of the positive ones (Mann and Whitney 1947), less its least.
fn area(mut scored: Vec<(f32, bool)>) -> Option<f64> {
    let positives = scored.iter().filter(|(_, positive)| *positive).count() as f64;
    let negatives = scored.len() as f64 - positives;
    if positives == 0.0 || negatives == 0.0 || scored.iter().any(|(score, _)| score.is_nan()) {
        return None;
    }

    scored.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut below, mut ranks) = (0.0, 0.0);
    for equal in scored.chunk_by(|one, other| one.0 == other.0) {
        let own = equal.iter().filter(|(_, positive)| *positive).count() as f64;
        ranks += own * (below + (equal.len() as f64 + 1.0) / 2.0);
        below += equal.len() as f64;
    }
    Some((ranks - positives * (positives + 1.0) / 2.0) / (positives * negatives))
}

/// Probabilities that a process holds at one time.
const FIGURES_MAX: usize = 1 << 26;
/// More classes are not counted against each other.
const COUNTED_MAX: usize = 32;
const GROUPS: f64 = 20.0;
const PROBABILITY_MIN: f64 = 1e-15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_is_the_share_of_pairs_in_the_right_order() {
        let check = |scored: &[(f32, bool)], expect: Option<f64>| {
            assert_eq!(area(scored.to_vec()), expect, "{scored:?}");
        };
        check(&[(0.1, false), (0.9, true)], Some(1.0));
        check(&[(0.9, false), (0.1, true)], Some(0.0));
        check(&[(0.5, false), (0.5, true), (0.5, false)], Some(0.5));
        // Of six pairs four are in order and one is even.
        check(
            &[(0.2, false), (0.4, true), (0.4, false), (0.6, false), (0.8, true)],
            Some(4.5 / 6.0),
        );
        check(&[(0.5, true)], None);
        check(&[(f32::NAN, true), (0.5, false)], None);
    }

    #[test]
    fn classes_are_counted_and_their_losses_averaged() {
        let examples = [0_usize, 1, 1, 0];
        let positions = [0, 1, 2, 3];
        let pieces = [Piece::InMemory(&examples, &positions)];
        let positive = [0.25_f32, 0.75, 0.25, 0.5];
        let probabilities = |_: &[usize; 4], at: &[u32]| {
            at.iter()
                .flat_map(|at| [1.0 - positive[*at as usize], positive[*at as usize]])
                .collect()
        };
        let found = of_classes(&pieces, (2, None), |all, at| all[at], probabilities).unwrap();
        let Some(Breakdown::Classes(classes)) = found else { panic!("{found:?}") };
        assert_eq!(classes.counts, [[2, 0], [1, 1]], "of equal scores the first class");
        assert_eq!(classes.names, ["0", "1"]);
        assert_eq!(classes.auc, Some(2.5 / 4.0));
        let loss = -(2.0 * 0.75_f64.ln() + 0.25_f64.ln() + 0.5_f64.ln()) / 4.0;
        assert!((classes.log_loss - loss).abs() < 1e-9);

        let none: [Piece<'_, [usize; 4]>; 0] = [];
        let found = of_classes(&none, (2, None), |all, at| all[at], |_, _| Vec::new());
        assert_eq!(found.unwrap(), None);
    }

    #[test]
    fn ratings_are_grouped_by_their_values() {
        let found = of_ratings(&[(4.0, 3.0), (1.0, 2.0), (4.0, 5.0), (4.5, 4.0)]);
        let group = |rating, count, rmse, bias| RatingError { rating, count, rmse, bias };
        let expect = [group(1.0, 1, 1.0, 1.0), group(4.0, 2, 1.0, 0.0), group(4.5, 1, 0.5, -0.5)];
        assert_eq!(found, Some(Breakdown::Ratings(expect.into())));
        assert_eq!(of_ratings(&[]), None);

        let many: Vec<(f64, f64)> = (0..1000).map(|at| (f64::from(at), 0.0)).collect();
        let Some(Breakdown::Ratings(groups)) = of_ratings(&many) else { panic!() };
        assert!(groups.len() < 25, "{}", groups.len());
    }
}
