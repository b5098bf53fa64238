//! Chunks of objects on disk, up to a bound: those that were used last stay.
//!
//! A chunk is a file whose name is a digest of the object's version, and the number of the chunk. It ends with a checksum:
//! a broken one is fetched again. Processes may share a cache, since files are written under another name and renamed. A
//! cache that cannot be written costs time alone, so its errors are ignored.
#![allow(clippy::disallowed_types, reason = "what was used last is decided by the clock of files")]
#![allow(clippy::disallowed_methods, reason = "a cache belongs to a machine, not to a run")]

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use ring::digest::{SHA256, digest};

use crate::error::StorageError;
use gaia_core::types::ByteSize;

/// The chunks of one version of an object.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    /// `None` where nothing is kept.
    folder: Option<&'static Folder>,
    name: String,
}

/// A folder of chunks.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// The most bytes that stay.
    bound: u64,
    /// The bytes in the folder, as far as this process knows. Unknown before it has looked.
    bytes: Mutex<Option<u64>>,
}

impl Cache {
    /// The chunks of an object in the cache of this machine.
    ///
    /// # Errors
    /// [`StorageError::CacheBytes`] where `GAIA_CACHE_BYTES` is no amount of bytes.
    pub(crate) fn of(version: &str) -> Result<Self, StorageError> {
        static FOLDER: OnceLock<Option<Folder>> = OnceLock::new();
        let bound = bound(env::var_os("GAIA_CACHE_BYTES"))?;
        let folder = FOLDER.get_or_init(|| {
            let path = folder().filter(|_| bound > 0)?;
            Some(Folder { path, bound, bytes: Mutex::new(None) })
        });
        Ok(Self::in_folder(folder.as_ref(), version))
    }

    fn in_folder(folder: Option<&'static Folder>, version: &str) -> Self {
        let digest = digest(&SHA256, version.as_bytes());
        let name = digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Self { folder, name }
    }

    /// Whether a chunk is there, whole or not.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.path(number).is_some_and(|(_, path)| is_own_file(&path))
    }

    /// A chunk of a known length, if it is there and whole.
    pub(crate) fn read(&self, number: u64, length: usize) -> Option<Bytes> {
        let (_, path) = self.path(number)?;
        if !is_own_file(&path) {
            return None;
        }
        let mut bytes = fs::read(&path).ok()?;
        let is_whole = bytes.len() == length + CHECKSUM_BYTES
            && bytes[length..] == crc32fast::hash(&bytes[..length]).to_le_bytes();
        if !is_whole {
            let _gone = fs::remove_file(&path);
            return None;
        }
        let _used = File::options()
            .append(true)
            .open(&path)
            .and_then(|file| file.set_modified(SystemTime::now()));
        bytes.truncate(length);
        Some(bytes.into())
    }

    /// Keeps a chunk.
    pub(crate) fn write(&self, number: u64, bytes: &Bytes) {
        let Some((folder, path)) = self.path(number) else { return };
        let length = (bytes.len() + CHECKSUM_BYTES) as u64;
        let mut known = folder.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let held = known.unwrap_or(u64::MAX).saturating_add(length);
        let held = if held > folder.bound { folder.make_room(length) + length } else { held };
        *known = Some(held);
        drop(known);
        if held <= folder.bound {
            let _unwritten = folder.write(&path, bytes);
        }
    }

    fn path(&self, number: u64) -> Option<(&'static Folder, PathBuf)> {
        let folder = self.folder?;
        Some((folder, folder.path.join(format!("{}-{number}", self.name))))
    }
}

impl Folder {
    fn write(&self, path: &Path, bytes: &Bytes) -> std::io::Result<()> {
        static DRAFTS: AtomicU64 = AtomicU64::new(0);
        fs::create_dir_all(&self.path)?;
        let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
        let draft = self.path.join(format!("{DRAFT}{}-{number}", std::process::id()));
        // What a process with this number has left, or a link that somebody else has made.
        let _gone = fs::remove_file(&draft);
        let mut file = File::create_new(&draft)?;
        let written = file
            .write_all(bytes)
            .and_then(|()| file.write_all(&crc32fast::hash(bytes).to_le_bytes()))
            .and_then(|()| fs::rename(&draft, path));
        if written.is_err() {
            let _gone = fs::remove_file(&draft);
        }
        written
    }

    /// Deletes the chunks that were not used for longest, until so many bytes more fit, and some beyond them so that the
    /// folder is not looked through for each. Returns the bytes that stay.
    fn make_room(&self, length: u64) -> u64 {
        let mut chunks = Vec::new();
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if let (true, Ok(used)) = (metadata.is_file(), metadata.modified()) {
                chunks.push((used, metadata.len(), entry.path()));
            }
        }
        chunks.sort_unstable();

        let mut held: u64 = chunks.iter().map(|(_, length, _)| length).sum();
        let target = match held.saturating_add(length) > self.bound {
            true => (self.bound - self.bound / SPARE).saturating_sub(length),
            false => held,
        };
        for (_, length, path) in chunks {
            if held <= target {
                break;
            }
            if fs::remove_file(path).is_ok() {
                held -= length;
            }
        }
        held
    }
}

/// Whether a file itself is there. A link could lead to a file of the user that is none of the cache, a pipe would block.
/// Either is replaced when the chunk is written.
fn is_own_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// Where chunks are kept: `GAIA_CACHE`, or the folder for caches of the user.
fn folder() -> Option<PathBuf> {
    let given = env::var_os("GAIA_CACHE").filter(|given| !given.is_empty());
    let of_user = || env::var_os("XDG_CACHE_HOME").filter(|given| !given.is_empty());
    let at_home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache"));
    let own = || Some(of_user().map(PathBuf::from).or_else(at_home)?.join("gaia"));
    Some(given.map(PathBuf::from).or_else(own)?.join("objects"))
}

/// The most bytes of the cache, from what `GAIA_CACHE_BYTES` is: a number of bytes, or an amount with its unit.
fn bound(given: Option<OsString>) -> Result<u64, StorageError> {
    let Some(given) = given.filter(|given| !given.is_empty()) else { return Ok(BOUND) };
    let text = given.to_string_lossy();
    let with_unit = || text.parse().ok().map(|ByteSize(bytes)| bytes);
    let bytes = text.trim().parse().ok().or_else(with_unit);
    bytes.ok_or_else(|| StorageError::CacheBytes { found: text.escape_debug().to_string() })
}

/// Bytes of a cache that nobody bounds otherwise.
const BOUND: u64 = 10_000_000_000;

/// When the bound is reached, this part of it is freed.
const SPARE: u64 = 16;

const CHECKSUM_BYTES: usize = 4;

/// The names of files that are being written begin with it.
const DRAFT: &str = ".part-";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn cache(path: &Path, bound: u64, version: &str) -> Cache {
        let folder = Folder { path: path.into(), bound, bytes: Mutex::new(None) };
        Cache::in_folder(Some(Box::leak(Box::new(folder))), version)
    }

    fn bytes_in(path: &Path) -> u64 {
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    }

    #[test]
    fn a_bound_is_a_number_of_bytes_or_an_amount() {
        let check = |text: &str, expect: Option<u64>| {
            assert_eq!(bound(Some(text.into())).ok(), expect, "{text}");
        };
        check("0", Some(0));
        check("8388708", Some(8_388_708));
        check("500 MB", Some(500_000_000));
        check("2GiB", Some(2 << 30));
        check("", Some(BOUND));
        for wrong in ["10G", "-1", "1.5", "many"] {
            check(wrong, None);
        }
        assert_eq!(bound(None).ok(), Some(BOUND));
    }

    #[test]
    fn a_chunk_is_there_until_it_is_broken() {
        let folder = tempfile::tempdir().unwrap();
        let own = cache(folder.path(), 1000, "a");
        assert_eq!(own.read(0, 3), None);
        own.write(0, &Bytes::from_static(b"abc"));
        assert!(own.has(0) && !own.has(1));
        assert_eq!(own.read(0, 3).unwrap(), "abc");
        assert_eq!(cache(folder.path(), 1000, "b").read(0, 3), None);

        let file = own.path(0).unwrap().1;
        for broken in [&b"abd\0\0\0\0"[..], b"abc", b""] {
            own.write(0, &Bytes::from_static(b"abc"));
            fs::write(&file, broken).unwrap();
            assert_eq!(own.read(0, 3), None);
            assert!(!file.exists());
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_the_place_of_a_chunk_is_neither_read_nor_written_through() {
        use std::os::unix::fs::symlink;

        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (own, other) = (cache(folder.path(), 1000, "a"), cache(elsewhere.path(), 1000, "a"));
        other.write(0, &Bytes::from_static(b"abc"));
        let (victim, file) = (other.path(0).unwrap().1, own.path(0).unwrap().1);
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(9);
        File::options().append(true).open(&victim).unwrap().set_modified(long_ago).unwrap();
        let kept = fs::read(&victim).unwrap();
        symlink(&victim, &file).unwrap();
        // The drafts of this process so far, and of those to come.
        for number in 0..1000 {
            let draft = format!("{DRAFT}{}-{number}", std::process::id());
            symlink(&victim, folder.path().join(draft)).unwrap();
        }

        assert!(!own.has(0));
        assert_eq!(own.read(0, 3), None);
        own.write(0, &Bytes::from_static(b"xyz"));
        assert!(!file.is_symlink());
        assert_eq!(own.read(0, 3).unwrap(), "xyz");
        assert_eq!(fs::read(&victim).unwrap(), kept);
        assert_eq!(fs::metadata(&victim).unwrap().modified().unwrap(), long_ago);
    }

    #[test]
    fn what_was_not_used_for_longest_makes_room() {
        let folder = tempfile::tempdir().unwrap();
        let own = cache(folder.path(), 1000, "a");
        let chunk = Bytes::from(vec![7; 96]);
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        for number in 0..10 {
            own.write(number, &chunk);
            let file = File::options().append(true).open(own.path(number).unwrap().1).unwrap();
            file.set_modified(at(number)).unwrap();
        }
        assert_eq!(bytes_in(folder.path()), 1000);
        assert!(own.read(0, 96).is_some());

        own.write(10, &chunk);
        assert!(bytes_in(folder.path()) <= 1000);
        assert!(own.has(0) && !own.has(1) && own.has(9) && own.has(10));
        // Another process does not know how much there is.
        let other = cache(folder.path(), 1000, "b");
        (0..30).for_each(|number| other.write(number, &chunk));
        assert!(bytes_in(folder.path()) <= 1000);
        other.write(99, &Bytes::from(vec![0; 2000]));
        assert!(!other.has(99));
    }
}
