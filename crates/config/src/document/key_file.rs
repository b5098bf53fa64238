//! A TOML file whose keys another crate defines. Its errors are shown as those of run files.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::error::{ConfigError, ErrorLocation, Fault};
use super::sources::{Home, SourceKind, Sources};
use super::tree::Node;

/// A TOML file that has been parsed.
#[derive(Clone, Debug)]
pub struct KeyFile {
    sources: Sources,
    root: Node,
}

impl KeyFile {
    /// Reads and parses a file.
    ///
    /// # Errors
    /// Where it cannot be read, or is not TOML.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let mut sources = Sources::default();
        let name = path.to_string_lossy();
        let home = Home::Directory(PathBuf::new());
        let source = sources.read(&home, &name, SourceKind::RunFile).map_err(|fault| {
            ConfigError::new(ErrorLocation::Flag(name.to_string()), String::new(), fault)
        })?;
        Self::parse(sources, source)
    }

    /// Parses a text. Messages call it `name`.
    ///
    /// # Errors
    /// Where it is not TOML.
    pub fn from_text(name: &str, text: &str) -> Result<Self, ConfigError> {
        let mut sources = Sources::default();
        let home = Home::Directory(PathBuf::new());
        let source = sources.add(name.into(), text.into(), home, SourceKind::RunFile);
        Self::parse(sources, source)
    }

    fn parse(sources: Sources, source: usize) -> Result<Self, ConfigError> {
        let root = sources.parse(source).map_err(|problem| sources.error(problem))?;
        Ok(Self { sources, root })
    }

    /// Reads all keys into a type.
    ///
    /// # Errors
    /// Where a key is unknown, missing or of another kind.
    pub fn keys<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        self.root.read().map_err(|problem| self.sources.error(problem))
    }

    /// The error that the value of a dotted key is not allowed.
    pub fn wrong(
        &self,
        key: &str,
        found: impl Display,
        expected: impl Into<String>,
    ) -> ConfigError {
        let (found, expected) = (found.to_string(), expected.into());
        self.sources.error(self.root.problem(key, Fault::Wrong { found, expected, help: None }))
    }
}
