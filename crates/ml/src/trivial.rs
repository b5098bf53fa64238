//! The predictor of classes that knows how frequent they are, and nothing of an example.

use crate::divided::{Divided, Examples};
use crate::pieces::Piece;
use gaia_core::application::{ApplicationError, Evaluation, TrivialPredictor};

/// Predicts each class with its share of the training examples: its log loss there is their entropy, and its accuracy the
/// share of held-out examples that are of the most frequent class. `None` where some examples are in other processes.
///
/// # Errors
/// Where stored examples cannot be read.
pub(crate) fn class_frequencies<E: Examples>(
    examples: &Divided<E>,
    classes: usize,
    class: impl Fn(&E, usize) -> usize,
) -> Result<Option<TrivialPredictor>, ApplicationError> {
    if !examples.is_whole() {
        return Ok(None);
    }
    let workers = 0..examples.workers();
    let train = counts(&examples.train_pieces(workers.clone(), usize::MAX), classes, &class)?;
    let test = counts(&examples.test_pieces(workers, usize::MAX), classes, &class)?;

    let all = train.iter().sum::<u64>() as f64;
    let entropy = |count: &u64| {
        let share = *count as f64 / all;
        if share > 0.0 { -share * share.ln() } else { 0.0 }
    };
    let majority = (0..classes).max_by_key(|class| train[*class]).unwrap_or(0);
    let held_out = test.iter().sum::<u64>().max(1) as f64;

    let evaluation = Evaluation {
        objective: train.iter().map(entropy).sum(),
        metric: test[majority] as f64 / held_out,
    };
    Ok(Some(TrivialPredictor { name: "majority class".into(), evaluation }))
}

/// How many examples are of each class.
fn counts<E>(
    pieces: &[Piece<'_, E>],
    classes: usize,
    class: &impl Fn(&E, usize) -> usize,
) -> Result<Vec<u64>, ApplicationError> {
    let mut counts = vec![0; classes];
    for piece in pieces {
        piece.visit(|examples, positions| {
            positions.iter().for_each(|&at| counts[class(examples, at as usize)] += 1);
        })?;
    }
    Ok(counts)
}
