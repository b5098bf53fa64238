//! Which objects a URL stands for.

use std::io;
use std::path::{Path, PathBuf};

use futures_util::TryStreamExt;
use glob::{MatchOptions, Pattern};
use object_store::path::Path as Key;

use crate::error::StorageError;
use crate::location::{Kind, Location};
use crate::object_file::head;
use crate::requests::wait;
use crate::stores::store;

/// The URLs of the objects that a URL stands for, in the order of their names: itself, those below it if it ends with `/`
/// (not those of folders in it), or those that match it as a pattern. Empty objects below it are left out: consoles make one
/// for each folder.
///
/// # Errors
/// Where the storage cannot be listed, or a pattern is wrong.
pub fn objects(url: &Path) -> io::Result<Vec<PathBuf>> {
    let location = Location::parse(url)?;
    let key = location.key.as_str();
    let is_folder = key.is_empty() || key.ends_with('/');
    let wildcard = key.find(['*', '?', '[']);
    if location.kind == Kind::Web || !is_folder && wildcard.is_none() {
        return Ok(vec![url.to_owned()]);
    }

    let pattern = match wildcard {
        Some(_) => key.to_owned(),
        None => format!("{}*", Pattern::escape(key)),
    };
    let pattern = Pattern::new(&pattern).map_err(|error| StorageError::Url {
        found: format!("a pattern with a mistake ({})", error.msg),
        expected: "an object, a folder or a pattern",
    })?;
    let fixed = &key[..wildcard.unwrap_or(key.len())];
    let folder = fixed.rfind('/').map_or("", |end| &fixed[..end]);
    let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
    let mut found = listed(&location, folder)?;
    found.retain(|key| pattern.matches_with(key, options));
    found.sort_unstable();
    Ok(found.iter().map(|key| location.of_key(key).into()).collect())
}

/// Whether there is such an object. One that may not be read is taken for absent: storage that may not be listed does not
/// tell the two apart.
///
/// # Errors
/// Where the storage does not tell.
pub fn exists(url: &Path) -> io::Result<bool> {
    match head(&Location::parse(url)?) {
        Ok(_) => Ok(true),
        Err(StorageError::NotFound | StorageError::Refused { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The keys of what is below a folder and in folders in it, unless it is empty.
fn listed(location: &Location, folder: &str) -> Result<Vec<String>, StorageError> {
    let (store, kind) = (store(location)?, location.kind);
    let prefix = Key::parse(folder).map_err(|_| StorageError::Url {
        found: folder.into(),
        expected: "a folder without empty names",
    })?;
    wait(async move {
        let objects = store.list(Some(&prefix)).try_filter_map(|object| async move {
            Ok((object.size > 0).then(|| object.location.to_string()))
        });
        objects.try_collect().await.map_err(|error| StorageError::of(&error, kind))
    })
}
