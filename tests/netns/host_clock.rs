//! The wall clocks of hosts, which a test steps. Nodes are started with a library that answers in place of the system's.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

/// The wall clocks of some hosts.
pub(crate) struct HostClocks {
    folder: PathBuf,
}

impl HostClocks {
    /// Compiles the library into a folder, where the offsets of the clocks are kept as well.
    pub(crate) fn new(folder: &Path, hosts: usize) -> Self {
        fs::create_dir_all(folder).unwrap();
        let source = folder.join("clock.c");
        fs::write(&source, SOURCE).unwrap();
        let clocks = Self { folder: folder.into() };
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(clocks.library()).arg(source);
        let compiled = compile.output().expect("a C compiler, which Gaia needs anyway");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        for host in 0..hosts {
            fs::write(clocks.offset(host), 0_i64.to_ne_bytes()).unwrap();
        }
        clocks
    }

    /// Steps the wall clock of a host, for the processes that run there and for those that will. It stays within
    /// [`FAR`] of the system's.
    pub(crate) fn step(&self, host: usize, seconds: i64) {
        let file = fs::File::options().read(true).write(true).open(self.offset(host)).unwrap();
        let mut offset = [0; 8];
        file.read_exact_at(&mut offset, 0).unwrap();
        let offset = (i64::from_ne_bytes(offset) + seconds).clamp(-FAR, FAR);
        // In one write of eight bytes, so that no process reads half of it.
        file.write_all_at(&offset.to_ne_bytes(), 0).unwrap();

        let system = UNIX_EPOCH.elapsed().unwrap().as_secs().cast_signed();
        let shown = Command::new("date").arg("+%s").envs(self.environment(host)).output().unwrap();
        let shown: i64 = String::from_utf8_lossy(&shown.stdout).trim().parse().unwrap();
        assert!((shown - system - offset).abs() < 60, "{shown}, expected {system} and {offset}");
    }

    /// The environment of a process on a host.
    pub(crate) fn environment(&self, host: usize) -> [(&'static str, PathBuf); 2] {
        [("LD_PRELOAD", self.library()), (OFFSET, self.offset(host))]
    }

    fn library(&self) -> PathBuf {
        self.folder.join("libclock.so")
    }

    fn offset(&self, host: usize) -> PathBuf {
        self.folder.join(format!("offset-{host}"))
    }
}

/// Certificates are backdated by more seconds than this.
const FAR: i64 = 1800;

/// Names the environment variable that names the file with the offset of a host's clock.
const OFFSET: &str = "HOST_CLOCK_OFFSET";

/// Adds the number of seconds in a mapped file to the wall clock, and leaves the other clocks as they are.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile const long long *offset;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("HOST_CLOCK_OFFSET");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) offset = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, clock, at);
    if (!failed && clock == CLOCK_REALTIME && offset) at->tv_sec += *offset;
    return failed;
}
"#;
