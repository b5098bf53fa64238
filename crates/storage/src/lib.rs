//! Objects of object storage, read as files.
//!
//! A path of a run file may be a URL: `s3://bucket/key`, `gs://bucket/key`, `az://container/key` or `https://host/path`. A
//! URL that ends with `/` stands for the objects below it, and `*`, `?`, `[…]` and `**` match objects as they match files.
//! Credentials come from the environment, under the names that the tools of each provider use.
//!
//! [`ObjectFile`] reads an object by ranges of bytes, a chunk at a time, with the next one on its way. Chunks stay in a cache
//! on disk, which several processes may share. The API blocks; requests run on threads of their own, so that it can be
//! called from within another runtime.

#![warn(missing_docs)]

mod cache;
mod error;
mod listing;
mod location;
mod object_file;
mod requests;
mod stores;

pub use error::StorageError;
pub use listing::{exists, objects};
pub use location::is_url;
pub use object_file::ObjectFile;
