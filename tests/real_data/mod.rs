//! Where tests find data that the repository does not hold.

use std::path::PathBuf;

/// A file or folder of real data, where this machine has it.
#[allow(clippy::disallowed_methods, clippy::print_stdout)]
pub(crate) fn real_data(name: &str) -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let folder = std::env::var("GAIA_DATA_DIR").map_or(beside, PathBuf::from);
    let path = folder.join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {name} is not here; GAIA_DATA_DIR names the folder that holds it");
    None
}
