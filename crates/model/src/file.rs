//! The files that a model is written to.

use std::fs::{self, File, FileType};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::error::ModelError;

/// A file of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFile {
    /// Its paths in a folder, at least one. The best model of a run has a path of its own beside that of the last.
    pub paths: Vec<PathBuf>,
    /// Its contents.
    pub bytes: Vec<u8>,
}

impl ModelFile {
    /// Writes the file to each of its paths in a folder, whole or not at all, and replaces what is there.
    ///
    /// # Errors
    /// [`ModelError::Unwritable`] with the first path that cannot be written.
    pub fn write_in(&self, folder: &Path) -> Result<(), ModelError> {
        self.paths.iter().try_for_each(|path| {
            let file = folder.join(path);
            let written = write_whole(&file, &self.bytes);
            written.map_err(|reason| ModelError::Unwritable { file, reason })
        })
    }
}

/// Writes a file under another name in its folder, which is created, and renames it.
fn write_whole(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = file.with_extension("part");
    fs::create_dir_all(file.parent().unwrap_or_else(|| Path::new("")))?;
    new_file(&draft)?.write_all(bytes)?;
    fs::rename(&draft, file)
}

/// Makes an empty file, and removes the file or symbolic link of this name that is there. Unlike [`File::create`] it
/// writes nothing where a link leads to.
///
/// # Errors
/// Those of the operating system.
pub fn new_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => File::create_new(path),
    }
}

/// What has the name of a file, for an error.
pub fn kind_name(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_file() => "a file",
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_dir() => "a folder",
        _ => "a pipe, socket or device",
    }
}

/// The file of a model, in the directory of the run that has trained it.
pub const MODEL: &str = "model.safetensors";

/// The file of the best model of a run.
pub const BEST_MODEL: &str = "model-best.safetensors";

/// The folder of the models that data centers keep, in the directory of a run on one machine.
pub const KEPT_MODELS: &str = "home";

/// The folder of the shards of the best model, in that of the last.
pub const BEST_SHARDS: &str = "best";
