//! Which columns of a file are the features of examples.

use std::path::{Path, PathBuf};

use crate::error::{DataError, FilePosition, shown};
use crate::formats::name_index::NAME_BYTES_MAX;
use crate::formats::table::{Content, Request, Table};

/// The features of the files of a data set. They are the same in all files.
#[derive(Clone, Debug)]
pub(crate) struct FeatureColumns {
    /// The columns, in the order of the features.
    names: Vec<String>,
    /// Whether the only column holds lists of features.
    is_list: bool,
    /// The file that they were found in first.
    file: PathBuf,
    is_configured: bool,
}

impl FeatureColumns {
    /// The features of a file: those of the run file, or all columns but the label. Those of files before must be the same.
    pub(crate) fn of_file(
        table: &Table,
        file: &Path,
        (configured, label): (Option<&[String]>, &str),
        before: Option<Self>,
    ) -> Result<Self, DataError> {
        let others =
            || table.columns().iter().map(|column| &column.name).filter(|name| *name != label);
        let names: Vec<String> = match configured {
            Some(names) => names.to_vec(),
            None => others().cloned().collect(),
        };
        let broken = |found: String, expected: String| {
            Err(DataError::broken(file, FilePosition::Whole, found, expected))
        };
        if names.is_empty() {
            return broken("no column but the label".into(), "columns of features".into());
        }
        if let Some(name) = names.iter().find(|name| name.len() > NAME_BYTES_MAX) {
            let expected = format!("names of columns of at most {NAME_BYTES_MAX} bytes");
            return broken(shown(name.as_bytes()), expected);
        }

        let is_list = matches!(names.as_slice(), [only] if table.is_list(only));
        let Some(before) = before else {
            let is_configured = configured.is_some();
            return Ok(Self { names, is_list, file: file.into(), is_configured });
        };
        if (&names, is_list) == (&before.names, before.is_list) {
            return Ok(before);
        }
        let (found, expected) = difference(&names, &before.names);
        broken(found, format!("{expected}, as in {}", before.file.display()))
    }

    /// What is asked of a file for the features.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let content = if self.is_list { Content::NumberLists } else { Content::Numbers };
        let key = self.is_configured.then_some("app.data.columns.features");
        self.names.iter().map(|name| Request::new(name, content, key)).collect()
    }

    /// The names of the features. None where one column has all of them.
    pub(crate) fn into_names(self) -> Option<Vec<String>> {
        (!self.is_list).then_some(self.names)
    }
}

/// The first difference between two lists of features that are not the same: what the one has and what the other has.
pub(crate) fn difference(found: &[String], expected: &[String]) -> (String, String) {
    let words = |names: &[String], place: usize| match names.get(place) {
        Some(name) => format!("the feature {} {}", place + 1, shown(name.as_bytes())),
        None => format!("{} features", names.len()),
    };
    let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
    let place = differs.unwrap_or_else(|| found.len().min(expected.len()));
    (words(found, place), words(expected, place))
}
