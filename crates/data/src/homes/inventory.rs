//! The files that a path of the run file stands for, by the format of the data.

use std::path::{Path, PathBuf};

use crate::error::DataError;
use crate::formats::files::{files_of, folders_of};
use crate::formats::{cifar, idx, libsvm};
use crate::homes::home::Home;
use gaia_ml::apps::{DocumentSource, ImageSource, RatingSource, SparseSource};
use gaia_ml::columns::DataSource;

/// A source of data, which may be files.
pub(crate) trait Inventory: DataSource {
    /// The files that a reader of this source opens. None of generated data.
    fn files(self, path: &Path) -> Result<Vec<PathBuf>, DataError>;

    /// Whether files may have any name. Otherwise a folder has files of fixed names.
    fn reads_any_name(self) -> bool {
        true
    }
}

/// The files of a home.
pub(crate) fn files_in<S: Inventory, G: Default>(
    home: &Home<S, G>,
) -> Result<Vec<PathBuf>, DataError> {
    let mut files = Vec::new();
    for path in home.data.path.iter().chain(&home.validation) {
        files.extend(home.data.source.files(path)?);
    }
    Ok(files)
}

impl Inventory for RatingSource {
    fn files(self, path: &Path) -> Result<Vec<PathBuf>, DataError> {
        match self {
            Self::Synthetic => Ok(Vec::new()),
            Self::MovieLens | Self::Csv | Self::Parquet => files_of(path),
        }
    }
}

impl Inventory for SparseSource {
    fn files(self, path: &Path) -> Result<Vec<PathBuf>, DataError> {
        match self {
            Self::Synthetic => Ok(Vec::new()),
            Self::Libsvm => {
                let (train, test) = libsvm::files(path)?;
                Ok([train, test].concat())
            }
            Self::Csv | Self::Parquet => files_of(path),
        }
    }
}

impl Inventory for DocumentSource {
    fn files(self, path: &Path) -> Result<Vec<PathBuf>, DataError> {
        match self {
            Self::Synthetic => Ok(Vec::new()),
            Self::Docword => files_of(path),
        }
    }
}

impl Inventory for ImageSource {
    fn files(self, path: &Path) -> Result<Vec<PathBuf>, DataError> {
        let in_folder = match self {
            Self::Synthetic => return Ok(Vec::new()),
            Self::Csv | Self::Parquet => return files_of(path),
            Self::Idx => idx::files,
            Self::Cifar => cifar::files,
        };
        let mut files = Vec::new();
        for folder in folders_of(path)? {
            files.extend(in_folder(&folder)?);
        }
        Ok(files)
    }

    fn reads_any_name(self) -> bool {
        matches!(self, Self::Csv | Self::Parquet)
    }
}
