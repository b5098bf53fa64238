//! What predictions need of an application beside the tables of its model.

use super::Names;

/// A value that is not learnt and that a trained model is of no use without, such as the mean of all ratings or the
/// names of users.
///
/// By convention `TABLE.names` has the names of the rows of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Attachment {
    /// Numbers.
    Floats(Vec<f32>),
    /// Whole numbers.
    Integers(Vec<u64>),
    /// Text.
    Texts(Vec<String>),
}

impl Attachment {
    /// The names that it holds, if it holds names.
    pub fn names(self) -> Option<Names> {
        match self {
            Self::Floats(_) => None,
            Self::Integers(numbers) => Some(Names::Numbers(numbers)),
            Self::Texts(texts) => Some(Names::Text(texts)),
        }
    }
}

impl From<Names> for Attachment {
    fn from(names: Names) -> Self {
        match names {
            Names::Numbers(numbers) => Self::Integers(numbers),
            Names::Text(texts) => Self::Texts(texts),
        }
    }
}
