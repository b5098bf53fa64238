//! The topics of a batch's documents.

use super::dense::DenseCounts;
use super::is_dense;
use super::tree::TopicList;

/// How many tokens of each document of a batch have each topic.
#[derive(Clone, Debug)]
pub struct DocumentTopics(pub(super) Form);

/// As the sampler of so many topics takes it.
#[derive(Clone, Debug)]
pub(super) enum Form {
    Dense(DenseCounts),
    Lists(Vec<TopicList>),
}

impl DocumentTopics {
    /// So many documents, of a model with so many topics, without tokens.
    pub fn new(topics: usize, documents: usize) -> Self {
        Self(if is_dense(topics) {
            Form::Dense(DenseCounts::new(topics, documents))
        } else {
            Form::Lists(vec![TopicList::default(); documents])
        })
    }

    /// Counts one more token of a document with a topic.
    #[inline]
    pub fn add(&mut self, document: usize, topic: u32) {
        match &mut self.0 {
            Form::Dense(counts) => counts.add(document, topic),
            Form::Lists(lists) => {
                lists[document].add(topic);
            }
        }
    }
}

#[cfg(test)]
impl DocumentTopics {
    /// The tokens of a document with a topic.
    pub(super) fn count(&self, document: usize, topic: u32) -> u32 {
        match &self.0 {
            Form::Dense(counts) => counts.count(document, topic),
            Form::Lists(lists) => lists[document].count(topic),
        }
    }
}
