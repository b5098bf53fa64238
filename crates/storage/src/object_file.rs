//! An object as a file: read by ranges, a chunk at a time.

use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};

use crate::cache::Cache;
use crate::error::StorageError;
use crate::location::{Kind, Location};
use crate::requests::{begin, end, repeated, wait};
use crate::stores::store;

/// An object that is read as a file. Clones share what was fetched, and each reads at a place of its own.
///
/// A read fails where the object has changed since it was opened.
#[derive(Debug)]
pub struct ObjectFile {
    object: Arc<Object>,
    position: u64,
    /// The chunk that is on its way.
    ahead: Mutex<Option<Ahead>>,
}

/// A chunk that was asked for, and its number.
#[derive(Debug)]
struct Ahead {
    number: u64,
    bytes: Receiver<Result<Bytes, StorageError>>,
}

#[derive(Debug)]
struct Object {
    store: Arc<dyn ObjectStore>,
    kind: Kind,
    key: Key,
    size: u64,
    etag: Option<String>,
    cache: Cache,
    /// The chunks that were used last.
    recent: Mutex<VecDeque<(u64, Bytes)>>,
}

/// The size and the version of an object.
pub(crate) fn head(location: &Location) -> Result<ObjectMeta, StorageError> {
    let (store, kind, key) = (store(location)?, location.kind, key(location)?);
    wait(async move { store.head(&key).await.map_err(|error| StorageError::of(&error, kind)) })
}

fn key(location: &Location) -> Result<Key, StorageError> {
    Key::parse(&location.key).map_err(|_| StorageError::Url {
        found: location.key.clone(),
        expected: "a key without empty names",
    })
}

impl ObjectFile {
    /// Opens an object. Nothing but its size is fetched.
    ///
    /// # Errors
    /// Where the URL is wrong, or there is no such object, or it may not be read, or the bound of the cache is none.
    pub fn open(url: &Path) -> io::Result<Self> {
        let location = Location::parse(url)?;
        let ObjectMeta { size, e_tag, last_modified, .. } = head(&location)?;
        let version = format!("{} {size} {e_tag:?} {last_modified}", url.display());
        let object = Object {
            store: store(&location)?,
            kind: location.kind,
            key: key(&location)?,
            size,
            etag: e_tag,
            cache: Cache::of(&version)?,
            recent: Mutex::default(),
        };
        Ok(Self { object: Arc::new(object), position: 0, ahead: Mutex::default() })
    }

    /// The number of bytes.
    pub fn size(&self) -> u64 {
        self.object.size
    }

    /// The chunk of a number. The next one is asked for.
    fn chunk(&mut self, number: u64) -> Result<Bytes, StorageError> {
        if let Some(known) = self.object.known(number) {
            return Ok(known);
        }
        let ahead = self.ahead.get_mut().unwrap_or_else(PoisonError::into_inner);
        let bytes = match ahead.take().filter(|ahead| ahead.number == number) {
            Some(ahead) => end(&ahead.bytes)?,
            None => wait(self.object.clone().fetch(number))?,
        };
        self.object.keep(number, &bytes);

        let next = number + 1;
        if next * CHUNK_BYTES < self.object.size && !self.object.cache.has(next) {
            let bytes = begin(self.object.clone().fetch(next));
            *ahead = Some(Ahead { number: next, bytes });
        }
        Ok(bytes)
    }
}

impl Clone for ObjectFile {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), position: self.position, ahead: Mutex::default() }
    }
}

impl Object {
    /// A chunk that is in memory or in the cache.
    fn known(&self, number: u64) -> Option<Bytes> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let in_memory = recent.iter().find(|(known, _)| *known == number);
        let in_memory = in_memory.map(|(_, bytes)| bytes.clone());
        drop(recent);
        in_memory.or_else(|| {
            let bytes = self.cached(number)?;
            self.remember(number, &bytes);
            Some(bytes)
        })
    }

    fn cached(&self, number: u64) -> Option<Bytes> {
        self.cache.read(number, self.length(number))
    }

    fn keep(&self, number: u64, bytes: &Bytes) {
        self.cache.write(number, bytes);
        self.remember(number, bytes);
    }

    fn remember(&self, number: u64, bytes: &Bytes) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.push_back((number, bytes.clone()));
        if recent.len() > CHUNKS_IN_MEMORY {
            recent.pop_front();
        }
    }

    /// The bytes of a chunk: fewer in the last one.
    fn length(&self, number: u64) -> usize {
        (self.size - number * CHUNK_BYTES).min(CHUNK_BYTES) as usize
    }

    async fn fetch(self: Arc<Self>, number: u64) -> Result<Bytes, StorageError> {
        let start = number * CHUNK_BYTES;
        let range = start..start + self.length(number) as u64;
        let object = &*self;
        repeated(|| {
            let options = GetOptions {
                range: Some(GetRange::Bounded(range.clone())),
                // A weak tag matches nothing.
                if_match: object.etag.clone().filter(|tag| !tag.starts_with("W/")),
                ..GetOptions::default()
            };
            object.get(options, number)
        })
        .await
    }

    async fn get(&self, options: GetOptions, number: u64) -> Result<Bytes, StorageError> {
        let found = self.store.get_opts(&self.key, options).await;
        let found = found.map_err(|error| StorageError::of(&error, self.kind))?;
        // A server that knows no conditions says what it sent.
        if found.meta.size != self.size || found.meta.e_tag != self.etag {
            return Err(StorageError::Changed);
        }
        let bytes = found.bytes().await;
        let bytes = bytes.map_err(|error| StorageError::of_answer(&error, self.kind))?;
        match bytes.len() == self.length(number) {
            true => Ok(bytes),
            false => Err(StorageError::Cut { reason: format!("{} bytes", bytes.len()) }),
        }
    }
}

impl Read for ObjectFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.position >= self.object.size || into.is_empty() {
            return Ok(0);
        }
        let chunk = self.chunk(self.position / CHUNK_BYTES)?;
        let rest = &chunk[(self.position % CHUNK_BYTES) as usize..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for ObjectFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => self.object.size.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

/// Bytes of a request: large enough that its latency costs little.
const CHUNK_BYTES: u64 = 4 << 20;

/// Chunks of an object that stay in memory: readers of columns go back and forth.
const CHUNKS_IN_MEMORY: usize = 4;
