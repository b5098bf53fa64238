//! Data files that exist only as long as a reader looks at them.

use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

thread_local! {
    static FOLDER: TempDir = tempfile::tempdir().expect("room for a temporary folder");
}

/// Gives `read` a folder of its own thread.
pub fn in_folder(read: impl FnOnce(&Path)) {
    FOLDER.with(|folder| read(folder.path()));
}

/// Writes a file, in place of the last of that name.
pub fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let file = folder.join(name);
    fs::write(&file, bytes).expect("room for a small file");
    file
}

/// Whatever is wrong, the error says it in words that fit a terminal, and names the file or the folder.
pub fn check_error(error: &dyn Display, named: &Path) {
    let said = error.to_string();
    let beside = named.parent().expect("files lie in folders").display().to_string();
    assert!(said.contains(&beside), "{said:?} names no file");
    assert!(said.len() < 1000 && !said.contains(char::is_control), "{said:?}");
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("writing to memory");
    encoder.finish().expect("writing to memory")
}
