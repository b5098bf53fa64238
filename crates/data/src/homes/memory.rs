//! Whether examples can fit in memory at all.

use std::fs;
use std::path::{Path, PathBuf};

use crate::formats::data_file::DataFile;
use gaia_core::types::ByteSize;
use gaia_ml::ConfigError;
use gaia_ml::columns::DataSource;
use gaia_ml::config::{DataConfig, ExamplesOn};

/// Checks that examples that are to be in memory are not plainly too many: reading would end with the process killed.
///
/// # Errors
/// Where the files are more than [`BYTES_PER_BYTE`] times the memory that this process may take.
pub(crate) fn check_memory<S: DataSource, G: Default>(
    data: &DataConfig<S, G>,
    files: &[PathBuf],
) -> Result<(), ConfigError> {
    let Some(free) = free_memory().filter(|_| data.examples == ExamplesOn::Memory) else {
        return Ok(());
    };
    let sizes = files.iter().map(|file| DataFile::open(file).map_or(0, |file| file.size()));
    let bytes = sizes.sum::<u64>();
    if bytes / BYTES_PER_BYTE <= free {
        return Ok(());
    }
    let (bytes, free) = (ByteSize(bytes), ByteSize(free));
    let expected = format!("\"disk\", for files of {bytes} where {free} of memory are free");
    Err(ConfigError::new("data.examples", "\"memory\"", expected))
}

/// The memory that this process may take: of the machine, or of its control group. `None` where the system does not say.
pub fn free_memory() -> Option<u64> {
    free_memory_in(Path::new("/"))
}

/// The same, as the system whose files are in `root` says.
fn free_memory_in(root: &Path) -> Option<u64> {
    let number = |file: &Path| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let of_machine = || bytes_of(&root.join("proc/meminfo"), "MemAvailable:");
    let of_group = || {
        let text = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
        let limits = text.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, group) = (fields.next()?, fields.next()?.trim_start_matches('/'));
            let mount = root.join("sys/fs/cgroup");
            match controllers {
                "" => number(&mount.join(group).join("memory.max")),
                "memory" => number(&mount.join("memory").join(group).join("memory.limit_in_bytes")),
                _ => None,
            }
        });
        limits.min()
    };
    of_machine().into_iter().chain(of_group()).min()
}

/// The most memory that this process has had so far. `None` where the system does not say.
pub fn peak_memory() -> Option<u64> {
    bytes_of(Path::new("/proc/self/status"), "VmHWM:")
}

/// The figure of a line that begins with `name`, which is in kilobytes.
fn bytes_of(file: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// The most bytes of a file that one byte in memory stands for: numbers written with all their digits, as text.
const BYTES_PER_BYTE: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_the_machine_and_the_groups_counts() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(free_memory_in(root.path()), None);

        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:    5000 kB\n");
        assert_eq!(free_memory_in(root.path()), Some(5000 << 10));
        write("proc/self/cgroup", "4:memory:/job\n2:cpu:/\n0::/slice/run\n");
        assert_eq!(free_memory_in(root.path()), Some(5000 << 10));
        write("sys/fs/cgroup/slice/run/memory.max", "max\n");
        assert_eq!(free_memory_in(root.path()), Some(5000 << 10));
        write("sys/fs/cgroup/slice/run/memory.max", "3000000\n");
        assert_eq!(free_memory_in(root.path()), Some(3_000_000));
        write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2000000\n");
        assert_eq!(free_memory_in(root.path()), Some(2_000_000));
    }
}
