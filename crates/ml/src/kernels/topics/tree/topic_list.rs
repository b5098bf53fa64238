//! The topics of one document where topics are many.

/// How many tokens of one document have each topic that it has, in no order.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct TopicList(pub(super) Vec<(u32, u32)>);

impl TopicList {
    /// Counts one more token with a topic, and returns the topic.
    #[inline(always)]
    pub(in super::super) fn add(&mut self, topic: u32) -> u32 {
        match self.0.iter_mut().find(|(other, _)| *other == topic) {
            Some((_, count)) => *count += 1,
            None => self.0.push((topic, 1)),
        }
        topic
    }

    /// Counts one more token with the topic at a place, and returns the topic.
    #[inline(always)]
    pub(super) fn add_at(&mut self, at: usize) -> u32 {
        let (topic, count) = &mut self.0[at];
        *count += 1;
        *topic
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, topic: u32) {
        // Goes over all of them, because a search that stops where it finds one has a branch to guess.
        let places = self.0.iter().enumerate();
        let at = places
            .fold(usize::MAX, |at, (place, (other, _))| if *other == topic { place } else { at });
        assert!(at < self.0.len(), "a document has the topics of its tokens");
        self.0[at].1 -= 1;
        if self.0[at].1 == 0 {
            self.0.swap_remove(at);
        }
    }
}

#[cfg(test)]
impl TopicList {
    /// The tokens of the document with a topic.
    pub(in super::super) fn count(&self, topic: u32) -> u32 {
        self.0.iter().filter(|(other, _)| *other == topic).map(|(_, count)| count).sum()
    }
}
