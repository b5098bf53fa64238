//! What a batch reads of the model, and what it changes.

/// The model's counts as read, and how a batch changes them.
#[derive(Clone, Debug)]
pub struct Counts<'m> {
    /// The row of each word of the batch: its tokens by topic.
    pub words: Vec<&'m [f32]>,
    /// All tokens by topic.
    pub totals: &'m [f32],
    /// What to add to the words' rows, row by row: whole numbers.
    pub word_changes: Vec<f32>,
    /// What to add to the totals: whole numbers.
    pub total_changes: Vec<f32>,
}

impl<'m> Counts<'m> {
    /// Counts as read, and no change yet. Every row is as long as `totals`.
    pub fn new(words: Vec<&'m [f32]>, totals: &'m [f32]) -> Self {
        assert!(words.iter().all(|row| row.len() == totals.len()));
        let word_changes = vec![0.0; words.len() * totals.len()];
        Self { words, totals, word_changes, total_changes: vec![0.0; totals.len()] }
    }
}
