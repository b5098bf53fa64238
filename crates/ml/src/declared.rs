//! What a run file declares of the data of all data centers: the `[app.data.declared]` table of each kind of data.
//!
//! What is declared decides the shape of the model, whatever data there is. The rest is agreed at the start of a run.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::columns::FEATURES_MAX;
use crate::config::{ConfigError, count};
use gaia_core::application::Names;

/// What a run file declares of data.
pub trait Declared: Clone + Debug + Default + PartialEq + Serialize + DeserializeOwned {
    /// Checks the range of every key.
    ///
    /// # Errors
    /// The first key that is not allowed.
    fn validate(&self) -> Result<(), ConfigError>;
}

/// What is declared of ratings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeclaredRatings {
    /// The first and the last of the users, which are whole numbers. Each number between them has a row in the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<[u64; 2]>,
    /// The first and the last of the items, which are whole numbers. Each number between them has a row in the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<[u64; 2]>,
}

/// What is declared of dense or sparse examples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeclaredExamples {
    /// The features of an example. Indices of sparse examples are below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<usize>,
    /// The classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<DeclaredClasses>,
}

/// The classes of examples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "the number of the classes, or a list of their names")]
pub enum DeclaredClasses {
    /// How many there are. They are the whole numbers from 0.
    Count(usize),
    /// Their names.
    Names(Vec<ClassName>),
}

/// The name of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a whole number or text")]
pub enum ClassName {
    /// A whole number.
    Number(i64),
    /// Text.
    Text(String),
}

/// What is declared of documents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeclaredDocuments {
    /// The words of the vocabulary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<usize>,
}

impl Declared for DeclaredRatings {
    fn validate(&self) -> Result<(), ConfigError> {
        for (key, range) in [("users", self.users), ("items", self.items)] {
            let Some([first, last]) = range else { continue };
            if first > last || last - first >= ROWS_MAX {
                let key = format!("data.declared.{key}");
                let expected = format!("the first and the last number of at most {ROWS_MAX}");
                return Err(ConfigError::new(&key, format!("[{first}, {last}]"), expected));
            }
        }
        Ok(())
    }
}

impl Declared for DeclaredExamples {
    fn validate(&self) -> Result<(), ConfigError> {
        if let Some(features) = self.features {
            count("data.declared.features", features, 1, FEATURES_MAX)?;
        }
        match &self.classes {
            None => Ok(()),
            Some(DeclaredClasses::Count(classes)) => {
                count("data.declared.classes", *classes, 2, CLASSES_MAX)
            }
            Some(DeclaredClasses::Names(names)) => {
                let all = DeclaredClasses::names(names);
                if all.is_ascending() && (2..=CLASSES_MAX).contains(&all.len()) {
                    return Ok(());
                }
                let found = format!("a list of {}", names.len());
                let expected = "at least 2 different names of classes";
                Err(ConfigError::new("data.declared.classes", found, expected))
            }
        }
    }
}

impl Declared for DeclaredDocuments {
    fn validate(&self) -> Result<(), ConfigError> {
        self.words.map_or(Ok(()), |words| count("data.declared.words", words, 1, WORDS_MAX))
    }
}

impl DeclaredClasses {
    /// All names in the order of the classes: ascending, as numbers where all are.
    pub fn in_order(&self) -> Names {
        match self {
            Self::Count(classes) => Names::Numbers((0..*classes as u64).collect()),
            Self::Names(names) => Self::names(names),
        }
    }

    fn names(names: &[ClassName]) -> Names {
        let number = |name: &ClassName| match name {
            ClassName::Number(number) => u64::try_from(*number).ok(),
            ClassName::Text(_) => None,
        };
        let text = |name: &ClassName| match name {
            ClassName::Number(number) => number.to_string(),
            ClassName::Text(text) => text.clone(),
        };
        match names.iter().map(number).collect::<Option<Vec<u64>>>() {
            Some(mut numbers) => {
                numbers.sort_unstable();
                Names::Numbers(numbers)
            }
            None => {
                let mut texts: Vec<String> = names.iter().map(text).collect();
                texts.sort_unstable();
                Names::Text(texts)
            }
        }
    }
}

/// Rows of a table.
const ROWS_MAX: u64 = 1 << 31;

/// Classes of a data set: the model has parameters for each.
pub const CLASSES_MAX: usize = 1 << 20;

const WORDS_MAX: usize = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_in_the_order_that_data_gives_them() {
        let read = |text: &str| {
            let declared: DeclaredExamples = toml::from_str(text).unwrap();
            declared.validate().map(|()| declared.classes.unwrap().in_order())
        };
        assert_eq!(read("classes = 3"), Ok(Names::Numbers(vec![0, 1, 2])));
        assert_eq!(read("classes = [10, 2]"), Ok(Names::Numbers(vec![2, 10])));
        let texts = |names: &[&str]| Names::Text(names.iter().map(|&name| name.into()).collect());
        assert_eq!(read("classes = [1, -1]"), Ok(texts(&["-1", "1"])));
        assert_eq!(read("classes = [\"b\", \"a\"]"), Ok(texts(&["a", "b"])));
        for refused in ["classes = 1", "classes = [3]", "classes = [\"a\", \"a\"]"] {
            assert!(read(refused).unwrap_err().expected.contains('2'), "{refused}");
        }
    }
}
