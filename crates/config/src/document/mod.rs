//! Parsed text with every value's place in it, and the errors that show that place.
//!
//! This room decides how a value is read and how a mistake is shown. It knows no key of a run.

mod deserialize;
mod error;
mod key_file;
pub(crate) mod shipped;
mod sources;
mod tree;

pub use error::{ConfigError, ErrorLocation, Excerpt, Fault};
pub(crate) use error::{nearest, one_of};
pub use key_file::KeyFile;
pub(crate) use sources::{Home, SourceKind, Sources, tidy};
pub(crate) use tree::{Entry, Node, Problem, Span, Table, Value};
