//! The topics of tokens.

use serde::{Deserialize, Serialize};

/// The topic of each token of a worker, in one byte where the topics are at most 256 and in two otherwise.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum TokenTopics {
    Narrow(Vec<u8>),
    Wide(Vec<u16>),
}

impl TokenTopics {
    /// No tokens, of a model with so many topics, at most 65,536.
    pub(super) fn new(topics: usize) -> Self {
        if topics <= 1 << 8 { Self::Narrow(Vec::new()) } else { Self::Wide(Vec::new()) }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Narrow(topics) => topics.len(),
            Self::Wide(topics) => topics.len(),
        }
    }

    /// Makes room for so many more tokens, and for no others.
    pub(super) fn reserve_exact(&mut self, tokens: usize) {
        match self {
            Self::Narrow(topics) => topics.reserve_exact(tokens),
            Self::Wide(topics) => topics.reserve_exact(tokens),
        }
    }

    pub(super) fn push(&mut self, topic: u32) {
        match self {
            Self::Narrow(topics) => topics.push(topic as u8),
            Self::Wide(topics) => topics.push(topic as u16),
        }
    }

    pub(super) fn get(&self, place: usize) -> u32 {
        match self {
            Self::Narrow(topics) => u32::from(topics[place]),
            Self::Wide(topics) => u32::from(topics[place]),
        }
    }

    pub(super) fn set(&mut self, place: usize, topic: u32) {
        match self {
            Self::Narrow(topics) => topics[place] = topic as u8,
            Self::Wide(topics) => topics[place] = topic as u16,
        }
    }

    /// Whether these can stand for others, in a model with so many topics.
    pub(super) fn fits(&self, others: &Self, topics: usize) -> bool {
        let is_topic = |topic: u32| (topic as usize) < topics;
        match (self, others) {
            (Self::Narrow(own), Self::Narrow(others)) => {
                own.len() == others.len() && own.iter().all(|topic| is_topic(u32::from(*topic)))
            }
            (Self::Wide(own), Self::Wide(others)) => {
                own.len() == others.len() && own.iter().all(|topic| is_topic(u32::from(*topic)))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_is_kept_and_states_of_other_topics_do_not_fit() {
        for topics in [1, 2, 256, 257, 1 << 16] {
            let mut own = TokenTopics::new(topics);
            own.push(0);
            own.push(topics as u32 - 1);
            assert_eq!((own.len(), own.get(0), own.get(1)), (2, 0, topics as u32 - 1));
            own.set(0, topics as u32 - 1);
            assert_eq!(own.get(0), topics as u32 - 1);
            assert!(own.fits(&own, topics));
            assert!(topics == 1 || !own.fits(&own, topics - 1));
            assert!(!own.fits(&TokenTopics::new(topics), topics));
        }
        assert!(!TokenTopics::new(2).fits(&TokenTopics::new(300), 300));
    }
}
