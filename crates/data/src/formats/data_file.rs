//! Data files wherever they are: on this machine, or in object storage.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use gaia_storage::{ObjectFile, is_url, objects};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use crate::error::{DataError, FilePosition};
use gaia_model::kind_name;

/// A file that is open for reading.
pub(crate) struct DataFile {
    place: Place,
    /// Why it could not be read, for readers whose errors do not say it.
    failure: Arc<Mutex<Option<io::Error>>>,
}

enum Place {
    Local { file: File, size: u64 },
    Object(ObjectFile),
}

impl DataFile {
    /// Opens a file. It is checked before that the path names one: a pipe without a writer would block.
    ///
    /// # Errors
    /// [`DataError::Unreadable`] where it cannot be read, [`DataError::Broken`] where the path names something else.
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        let unreadable = |reason| DataError::Unreadable { file: path.into(), reason };
        if is_url(path) {
            let object = ObjectFile::open(path).map_err(unreadable)?;
            return Ok(Self { place: Place::Object(object), failure: Arc::default() });
        }
        let metadata = fs::metadata(path).map_err(unreadable)?;
        if !metadata.is_file() {
            let found = kind_name(metadata.file_type());
            return Err(DataError::broken(path, FilePosition::Whole, found, "a file"));
        }
        let file = File::open(path).map_err(unreadable)?;
        let size = file.metadata().map_err(unreadable)?.len();
        Ok(Self { place: Place::Local { file, size }, failure: Arc::default() })
    }

    /// The number of bytes.
    pub(crate) fn size(&self) -> u64 {
        match &self.place {
            Place::Local { size, .. } => *size,
            Place::Object(object) => object.size(),
        }
    }

    /// Why it could not be read, if it was not, by this or by what [`Self::starting_at`] has returned.
    pub(crate) fn take_failure(&self) -> Option<io::Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The same file from a place on.
    pub(crate) fn starting_at(&self, start: u64) -> io::Result<Self> {
        let start = SeekFrom::Start(start);
        let place = match &self.place {
            Place::Local { file, size } => {
                let mut file = file.try_clone()?;
                file.seek(start)?;
                Place::Local { file, size: *size }
            }
            Place::Object(object) => {
                let mut object = object.clone();
                object.seek(start)?;
                Place::Object(object)
            }
        };
        Ok(Self { place, failure: self.failure.clone() })
    }
}

impl Read for DataFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.place {
            Place::Local { file, .. } => file.read(into),
            Place::Object(object) => object.read(into),
        };
        if let Err(error) = &read {
            let reason = io::Error::new(error.kind(), error.to_string());
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        }
        read
    }
}

impl Length for DataFile {
    fn len(&self) -> u64 {
        self.size()
    }
}

impl ChunkReader for DataFile {
    type T = BufReader<Self>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(self.starting_at(start)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // No more room is made than there are bytes.
        let rest = self.size().saturating_sub(start).min(length as u64);
        let mut bytes = Vec::with_capacity(rest as usize);
        self.starting_at(start)?.take(length as u64).read_to_end(&mut bytes)?;
        if bytes.len() < length {
            let cut = format!("{} of {length} bytes from byte {start}", bytes.len());
            return Err(ParquetError::EOF(cut));
        }
        Ok(bytes.into())
    }
}

/// Whether a path can name a folder. In object storage every name can be the start of others.
pub(crate) fn is_folder(path: &Path) -> bool {
    is_url(path) || path.is_dir()
}

/// Whether there is such a file.
///
/// # Errors
/// [`DataError::Unreadable`] where object storage does not tell.
pub(crate) fn is_file(path: &Path) -> Result<bool, DataError> {
    match is_url(path) {
        true => gaia_storage::exists(path)
            .map_err(|reason| DataError::Unreadable { file: path.into(), reason }),
        false => Ok(path.is_file()),
    }
}

/// What is in a folder, by name: files, and on this machine folders.
///
/// # Errors
/// [`DataError::Unreadable`] where it cannot be listed.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let unreadable = |reason| DataError::Unreadable { file: folder.into(), reason };
    if is_url(folder) {
        // With nothing joined to it, a name ends as that of a folder does.
        return objects(&folder.join("")).map_err(unreadable);
    }
    let read = fs::read_dir(folder).map_err(unreadable)?;
    let paths = read.map(|entry| entry.map(|entry| entry.path()).map_err(unreadable));
    let mut entries: Vec<PathBuf> = paths.collect::<Result<_, _>>()?;
    entries.sort_unstable();
    Ok(entries)
}
