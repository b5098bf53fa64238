//! This program under Valgrind: which of its calls are counted, and how their counts are read.

use std::any::type_name_of_val;
use std::env::current_exe;
use std::fs;
use std::process::Command;

use crate::cases::for_each_case;
use crate::counts::Counts;

/// Runs this program again under Callgrind and returns what it has counted.
///
/// # Errors
/// If Valgrind is not installed, or has not counted every case.
pub(crate) fn run() -> Result<Counts, String> {
    let (printed, profile) = profile()?;
    let mut lines = printed.lines();
    let instruction_set = lines.next().unwrap_or_default();
    let names: Vec<&str> = lines.collect();

    let mut totals = totals(&profile);
    // The last part is what was collected between the last case and the end.
    totals.pop();
    if names.is_empty() || names.len() != totals.len() {
        return Err(format!("valgrind has counted {} of {} cases", totals.len(), names.len()));
    }

    Ok(Counts {
        made_with: format!("{}, {instruction_set}", compiler()?),
        rows: names.into_iter().map(String::from).zip(totals).collect(),
    })
}

/// What this program prints under Callgrind, and the profile. Each call of [`counted`] is a part of the profile, which has
/// nothing of what is around the call.
fn profile() -> Result<(String, String), String> {
    let this = current_exe().map_err(|error| format!("this program: {error}"))?;
    let path = this.with_extension("callgrind");
    let counted = type_name_of_val(&counted);
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--combine-dumps=yes"])
        .arg(format!("--toggle-collect={counted}"))
        .arg(format!("--dump-after={counted}"))
        .arg(format!("--callgrind-out-file={}", path.display()))
        .arg(&this)
        .arg("--count")
        // The C library would copy with `rep movsb`, of which Valgrind counts each byte as an instruction.
        .env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-ERMS")
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;

    if !output.status.success() {
        return Err(format!("valgrind: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let profile = fs::read_to_string(&path);
    let profile = profile.map_err(|error| format!("{}: {error}", path.display()))?;
    let _ = fs::remove_file(&path);
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), profile))
}

/// What runs under Valgrind: prints the instruction set, then the name of each case once it was counted.
pub(crate) fn count_all() {
    println!("{}", if has_avx2() { "AVX2" } else { "without AVX2" });
    for_each_case(&mut |name, work| {
        counted(work);
        println!("{name}");
    });
}

/// The one function whose calls are counted, with all that they call.
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    work();
}

/// The instructions of each part of a profile.
fn totals(profile: &str) -> Vec<u64> {
    let totals = profile.lines().filter_map(|line| line.strip_prefix("totals: "));
    totals.filter_map(|total| total.trim().parse().ok()).collect()
}

/// The compiler and the system that it compiles for, in the words of `rustc`.
fn compiler() -> Result<String, String> {
    let output = Command::new("rustc").args(["--version", "--verbose"]).output();
    let output = output.map_err(|error| format!("rustc: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let version = said.lines().next().ok_or("rustc: found no version")?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(format!("{version} for {}", host.ok_or("rustc: found no host")?))
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx2() -> bool {
    false
}
