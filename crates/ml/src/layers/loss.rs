//! Softmax and cross-entropy: the loss of the logits of some examples.

use crate::kernels::vector::{largest, softmax};

/// The loss and the accuracy of logits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// The sum of all examples' cross-entropy.
    pub loss: f64,
    /// Examples whose largest logit is the right one.
    pub hits: u64,
}

/// Adds to `score` what the logits of some examples are worth, and turns them into probabilities.
///
/// `logits` has one row per label, a value for each class.
pub fn score(logits: &mut [f32], labels: impl ExactSizeIterator<Item = u32>, score: &mut Score) {
    let classes = logits.len() / labels.len().max(1);
    for (logits, label) in logits.chunks_exact_mut(classes.max(1)).zip(labels) {
        let label = label as usize;
        let logit = f64::from(logits[label]);
        score.hits += u64::from(largest(logits) == label);
        score.loss += softmax(logits) - logit;
    }
}

/// Turns the logits of a batch into the gradient of its mean cross-entropy with respect to them.
pub fn slope_of_loss(logits: &mut [f32], labels: impl ExactSizeIterator<Item = u32>) {
    let examples = labels.len().max(1);
    let classes = logits.len() / examples;
    let scale = 1.0 / examples as f32;
    for (logits, label) in logits.chunks_exact_mut(classes.max(1)).zip(labels) {
        softmax(logits);
        logits[label as usize] -= 1.0;
        for slope in logits {
            *slope *= scale;
        }
    }
}
