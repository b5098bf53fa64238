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

/// The counts of one word, and all tokens by topic.
pub(super) struct WordCounts<'c> {
    /// The row of the word, without changes.
    pub(super) row: &'c [f32],
    changes: &'c mut [f32],
    totals: &'c [f32],
    total_changes: &'c mut [f32],
}

impl<'m> Counts<'m> {
    /// Counts as read, and no change yet. Every row is as long as `totals`.
    pub fn new(words: Vec<&'m [f32]>, totals: &'m [f32]) -> Self {
        assert!(words.iter().all(|row| row.len() == totals.len()));
        let word_changes = vec![0.0; words.len() * totals.len()];
        Self { words, totals, word_changes, total_changes: vec![0.0; totals.len()] }
    }

    #[inline(always)]
    pub(super) fn of_word(&mut self, word: usize) -> WordCounts<'_> {
        let Self { words, totals, word_changes, total_changes } = self;
        let changes = &mut word_changes[word * totals.len()..][..totals.len()];
        WordCounts { row: words[word], changes, totals, total_changes }
    }
}

impl WordCounts<'_> {
    #[inline(always)]
    pub(super) fn change(&mut self, topic: usize, by: f32) {
        self.changes[topic] += by;
        self.total_changes[topic] += by;
    }

    /// The tokens of the word in a topic after another change.
    #[inline(always)]
    pub(super) fn count_after(&self, topic: usize, change: f32) -> f32 {
        self.row[topic] + (self.changes[topic] + change)
    }

    /// All tokens in a topic after another change.
    #[inline(always)]
    pub(super) fn total_after(&self, topic: usize, change: f32) -> f32 {
        self.totals[topic] + (self.total_changes[topic] + change)
    }
}
