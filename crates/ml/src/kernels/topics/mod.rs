//! Collapsed Gibbs sampling of topics (Griffiths and Steyvers, PNAS 101, 2004), word by word over a tree of sums:
//! F+LDA (Yu, Hsieh, Yun, Vishwanathan and Dhillon, WWW 2015).
//!
//! Without the token itself, a token of word `w` in document `d` has topic `k` with a probability in proportion to
//!
//! `(n_dk + α) · q_k = α · q_k + n_dk · q_k`, where `q_k = (n_wk + β) / (n_k + V·β)`.
//!
//! Going over all `K` topics for every token is what makes the textbook's sampler slow. Here tokens come sorted by
//! word, and a tree holds `q` of the current word with its partial sums: a change of one topic, and a draw from the
//! first term, cost `log K`. The second term runs over the topics of the document alone, never more than it has
//! tokens. From one word to the next only the topics of either word change. So the draw is exact, and its cost does
//! not follow `K`. What does is one sweep a batch over each word's row of counts for those that are not 0: a few times
//! what reading the row takes, and most of the cost where a batch has few tokens of each word and topics are
//! thousands. Alias tables (Li, Ahmed, Ravi and Smola, KDD 2014; LightLDA, WWW 2015) would take `K` dearer steps to
//! build for every row of every batch, and their draws would have to be corrected by rejection.
//!
//! Counts come from a copy of the model that may be behind: a count below 0 is taken for 0, so that no weight is
//! ever negative and no sum 0.

mod counts;
mod documents;
mod tree;

pub use counts::Counts;
pub use documents::DocumentTopics;
pub use tree::TopicSampler;

/// One token of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The place of its word's row in the batch.
    pub word: u32,
    /// The place of its document in the batch.
    pub document: u32,
    /// The topic that it has, which sampling replaces.
    pub topic: u32,
}
