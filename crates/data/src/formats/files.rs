//! Which files or folders a path of the run file names.
//!
//! A URL names objects by the rules of [`gaia_storage`]. Another path that exists is meant as it is. Otherwise it may
//! be a pattern: `*` and `?` stand for any characters of a name and for one, `[…]` for one of several, `**` for folders
//! at any depth. Names that begin with `.` or `_` are not data: hidden files, and the markers and temporary files that
//! other programs leave in folders of parts.
//!
//! Files come in the order of their names, so that the same files give the same examples at every start.

use std::path::{Path, PathBuf};

use crate::error::{DataError, FilePosition};
use crate::formats::data_file::entries;
use gaia_storage::{is_url, objects};

/// The data files that a path names: itself, the files in it if it is a folder (not those of its subfolders), or the files
/// that match it as a pattern. At least one.
///
/// # Errors
/// [`DataError::Unreadable`] where a folder cannot be read, [`DataError::Broken`] where there is no file.
pub(crate) fn files_of(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    if is_url(path) {
        return objects_of(path);
    }
    if path.is_dir() {
        let files = data_in(path)?.into_iter().filter(|entry| !entry.is_dir()).collect();
        return at_least_one(path, files, "a folder without files", "at least one data file in it");
    }
    match pattern(path)? {
        None => Ok(vec![path.to_owned()]),
        Some(matching) => {
            let files = matching.into_iter().filter(|entry| !entry.is_dir()).collect();
            at_least_one(path, files, "no file that matches", "a pattern of at least one file")
        }
    }
}

/// Whether a path names the files of a folder or of a pattern, and a file would be one of them.
pub(crate) fn would_name(path: &Path, file: &Path) -> bool {
    let folder = |of: &Path| {
        let parent = of.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or_else(|| Path::new(".")).canonicalize().ok()
    };
    if !can_be_data(file) {
        return false;
    }
    if path.is_dir() {
        return folder(file).is_some() && folder(file) == path.canonicalize().ok();
    }
    // Its folder is one that has such files already, and its name matches.
    let name = |of: &Path| of.file_name()?.to_str().map(str::to_owned);
    let (Some(pattern), Some(name)) = (name(path), name(file)) else { return false };
    let matches = glob::Pattern::new(&pattern).is_ok_and(|pattern| pattern.matches(&name));
    let files = if path.exists() { Vec::new() } else { files_of(path).unwrap_or_default() };
    matches && files.iter().any(|other| folder(other) == folder(file))
}

/// The folders that a path names: itself, or those that match it as a pattern. At least one.
///
/// # Errors
/// As [`files_of`], of folders.
pub(crate) fn folders_of(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    if is_url(path) {
        let is_pattern = path.to_str().is_some_and(|text| text.contains(['*', '?', '[']));
        let (found, expected) = ("a pattern of folders", "one folder in object storage");
        return match is_pattern {
            true => Err(DataError::broken(path, FilePosition::Whole, found, expected)),
            false => Ok(vec![path.to_owned()]),
        };
    }
    match pattern(path)? {
        None => Ok(vec![path.to_owned()]),
        Some(matching) => {
            let folders = matching.into_iter().filter(|entry| entry.is_dir()).collect();
            at_least_one(
                path,
                folders,
                "no folder that matches",
                "a pattern of at least one folder",
            )
        }
    }
}

/// The objects that a URL names. At least one.
fn objects_of(url: &Path) -> Result<Vec<PathBuf>, DataError> {
    let found =
        objects(url).map_err(|reason| DataError::Unreadable { file: url.into(), reason })?;
    if found == [url] {
        return Ok(found);
    }
    let found = found.into_iter().filter(|object| can_be_data(object)).collect();
    at_least_one(url, found, "no object there", "a folder or a pattern of at least one object")
}

/// What is in a folder and can be data, by name.
fn data_in(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut found = entries(folder)?;
    found.retain(|path| can_be_data(path));
    Ok(found)
}

/// What matches a path as a pattern and can be data, by name. `None` where the path exists or is no pattern.
fn pattern(path: &Path) -> Result<Option<Vec<PathBuf>>, DataError> {
    let Some(text) = path.to_str().filter(|text| text.contains(['*', '?', '['])) else {
        return Ok(None);
    };
    if path.exists() {
        return Ok(None);
    }

    let matching = glob::glob(text).map_err(|error| {
        let found = format!("a pattern with a mistake ({})", error.msg);
        DataError::broken(path, FilePosition::Whole, found, "a file, a folder or a pattern")
    })?;

    let mut found = Vec::new();
    for entry in matching {
        let entry = entry.map_err(|error| DataError::Unreadable {
            file: error.path().into(),
            reason: error.into(),
        })?;
        if can_be_data(&entry) {
            found.push(entry);
        }
    }
    found.sort_unstable();
    Ok(Some(found))
}

fn can_be_data(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    !name.starts_with(b".") && !name.starts_with(b"_")
}

fn at_least_one(
    path: &Path,
    found: Vec<PathBuf>,
    none: &str,
    expected: &str,
) -> Result<Vec<PathBuf>, DataError> {
    if found.is_empty() {
        return Err(DataError::broken(path, FilePosition::Whole, none, expected));
    }
    Ok(found)
}
