//! Topologies by themselves, without a run.

use std::path::Path;

use super::Override;
use super::layers::{add_flag, mount_topology};
use crate::document::{ConfigError, Entry, Home, Node, SourceKind, Sources, Span};
use crate::topology;
use gaia_core::topology::Topology;

/// Reads and checks a topology, by the name of a shipped one or the path of a file.
///
/// # Errors
/// The first mistake found in the file, or in a matrix that it names.
pub fn load_topology(name: &str) -> Result<Topology, ConfigError> {
    let mut sources = Sources::default();
    let flag = Override::flag("topology", "topology.file", name);
    let source = add_flag(&mut sources, &flag);
    let mut root = Node::table(Span { source, start: 0, end: 0 });
    let read = flag
        .apply(source, &mut root)
        .and_then(|()| mount_topology(&mut sources, &mut root))
        .and_then(|()| topology::read(&mut sources, &root));
    read.map_err(|problem| sources.error(problem))
}

/// Reads and checks the text of a topology file. Messages call it `name`, and its relative paths start at that path's
/// folder.
///
/// # Errors
/// As [`load_topology`].
pub fn topology_from_text(name: &str, text: &str) -> Result<Topology, ConfigError> {
    let mut sources = Sources::default();
    let home = Path::new(name).parent().unwrap_or_else(|| Path::new("")).to_owned();
    let kind = SourceKind::TopologyFile;
    let source = sources.add(name.to_owned(), text.to_owned(), Home::Directory(home), kind);
    let read = sources.parse(source).and_then(|node| {
        let key = Span { source, start: 0, end: 0 };
        let mut root = Node::table(key);
        if let Some(table) = root.as_table_mut() {
            table.insert("topology".into(), Entry { key, node });
        }
        topology::read(&mut sources, &root)
    });
    read.map_err(|problem| sources.error(problem))
}
