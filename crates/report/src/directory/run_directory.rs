//! The directory that a run leaves behind.
//!
//! Whole files are written beside their place and renamed into it, so that a reader never sees half of one;
//! `progress.jsonl` alone grows, a line at a time.

#![allow(clippy::disallowed_types, reason = "a run directory is named after the time of day")]

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;

use super::ReportError;
use crate::paper::{self, PaperFile};
use gaia_telemetry::{Progress, Summary};

/// A directory that holds, or will hold, one run, one comparison or one run of the paper's evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDirectory {
    path: PathBuf,
}

/// What a finished run left behind.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The settings as the run resolved them; empty where the file is missing.
    pub run_toml: String,
    pub progress: Vec<Progress>,
    pub summary: Summary,
    /// What the application said it had learnt, a line each; empty where the file is missing.
    pub highlights: Vec<String>,
}

/// Appends to `progress.jsonl`. Each line is on its way to the disk before the call returns.
#[derive(Debug)]
pub struct ProgressLog {
    path: PathBuf,
    file: File,
}

impl RunDirectory {
    /// Makes the directory for a new run: `out` where given, which must be new or empty, else
    /// `runs/<name>-<UTC time>` under the working directory.
    pub fn create(out: Option<&Path>, name: &str) -> Result<Self, ReportError> {
        match out {
            Some(out) => Self::create_at(out),
            None => Self::create_under(Path::new("runs"), name, SystemTime::now()),
        }
    }

    /// Opens the directory of a run that goes on, or makes it. It must be new or empty, hold checkpoints, or be what a
    /// run left that has not come to its end.
    pub fn reopen(path: &Path) -> Result<Self, ReportError> {
        let directory = Self { path: path.to_owned() };
        let unfinished = path.join(RUN_TOML).is_file() && !directory.is_run();
        if unfinished || directory.checkpoints().is_dir() {
            Ok(directory)
        } else {
            Self::create_at(path)
        }
    }

    /// Makes a directory for one run of a comparison, inside this one.
    pub fn create_child(&self, name: &str) -> Result<Self, ReportError> {
        Self::create_at(&self.path.join(file_name(name)))
    }

    /// Opens a directory that a finished run, comparison or evaluation has written.
    pub fn open(path: &Path) -> Result<Self, ReportError> {
        let directory = Self { path: path.to_owned() };
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(ReportError::NoSuchDirectory { path: path.to_owned() })
            }
            Err(source) => Err(ReportError::io(path, "cannot be opened")(source)),
            Ok(found) if !found.is_dir() => {
                Err(ReportError::NotADirectory { path: path.to_owned() })
            }
            Ok(_) if directory.is_run() || directory.is_comparison() || directory.is_paper() => {
                Ok(directory)
            }
            Ok(_) => Err(ReportError::NotFinished { path: path.to_owned() }),
        }
    }

    /// Writes one of the directory's files whole, replacing what was there.
    pub fn write(&self, file: &str, text: &str) -> Result<(), ReportError> {
        let path = self.path.join(file);
        let draft = self.path.join(format!(".{file}.part"));
        fs::write(&draft, text)
            .and_then(|()| fs::rename(&draft, &path))
            .map_err(ReportError::io(&path, "cannot be written"))
    }

    /// Starts `progress.jsonl` anew.
    pub fn progress_log(&self) -> Result<ProgressLog, ReportError> {
        let path = self.path.join(PROGRESS);
        let file = File::create(&path).map_err(ReportError::io(&path, "cannot be created"))?;
        Ok(ProgressLog { path, file })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the run's checkpoints are, if it has any.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join(CHECKPOINTS)
    }

    /// Where the nodes of a run over processes keep what they need to go on, in a folder each, until the run is over.
    pub fn node_states(&self) -> PathBuf {
        self.path.join(NODE_STATES)
    }

    /// Where the nodes of a run over processes log to, in a file each.
    pub fn node_logs(&self) -> PathBuf {
        self.path.join(NODE_LOGS)
    }

    /// Where `report.html`, or `compare.html` for a comparison, or `paper.html`, is or will be.
    pub fn page(&self) -> PathBuf {
        self.path.join(match () {
            () if self.is_paper() => paper::FIRST_PAGE,
            () if self.is_comparison() => COMPARE_PAGE,
            () => PAGE,
        })
    }

    pub fn is_run(&self) -> bool {
        self.path.join(SUMMARY).is_file()
    }

    pub fn is_comparison(&self) -> bool {
        self.path.join(COMPARE).is_file()
    }

    /// Whether a run of the paper's evaluation left its records here.
    pub fn is_paper(&self) -> bool {
        self.path.join(paper::FILE).is_file()
    }

    /// Reads the records of the paper's evaluation back.
    pub fn read_paper(&self) -> Result<PaperFile, ReportError> {
        read_json(&self.path.join(paper::FILE), "the records of the paper's evaluation")
    }

    /// Reads a run back.
    pub fn read(&self) -> Result<RunRecord, ReportError> {
        let summary = read_json(&self.path.join(SUMMARY), "a run's summary")?;
        let progress = read_progress(&self.path.join(PROGRESS))?;
        let highlights = self.read_text(HIGHLIGHTS)?.lines().map(str::to_owned).collect();
        Ok(RunRecord { run_toml: self.read_run_toml()?, progress, summary, highlights })
    }

    /// The settings as resolved; empty where the file is missing.
    pub fn read_run_toml(&self) -> Result<String, ReportError> {
        self.read_text(RUN_TOML)
    }

    /// The runs of a comparison, in the order of their directories' names.
    pub fn children(&self) -> Result<Vec<Self>, ReportError> {
        let entries =
            fs::read_dir(&self.path).map_err(ReportError::io(&self.path, "cannot be listed"))?;
        let mut children = Vec::new();
        for entry in entries {
            let entry = entry.map_err(ReportError::io(&self.path, "cannot be listed"))?;
            let child = Self { path: entry.path() };
            if child.is_run() {
                children.push(child);
            }
        }
        children.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(children)
    }

    /// One of the directory's files whole; empty where it is missing.
    fn read_text(&self, file: &str) -> Result<String, ReportError> {
        let path = self.path.join(file);
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            other => other.map_err(ReportError::io(&path, "cannot be read")),
        }
    }

    fn create_at(path: &Path) -> Result<Self, ReportError> {
        if path.exists() && !path.is_dir() {
            return Err(ReportError::NotADirectory { path: path.to_owned() });
        }
        fs::create_dir_all(path).map_err(ReportError::io(path, "cannot be created"))?;
        let mut entries = fs::read_dir(path).map_err(ReportError::io(path, "cannot be listed"))?;
        if entries.next().is_some() {
            return Err(ReportError::NotEmpty { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Two runs may start within one second: the later ones get a number.
    fn create_under(runs: &Path, name: &str, now: SystemTime) -> Result<Self, ReportError> {
        fs::create_dir_all(runs).map_err(ReportError::io(runs, "cannot be created"))?;
        let stem = format!("{}-{}", file_name(name), utc(now));
        for number in 1_u32.. {
            let suffix = if number == 1 { String::new() } else { format!("-{number}") };
            let path = runs.join(format!("{stem}{suffix}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(ReportError::io(&path, "cannot be created")(source)),
            }
        }
        unreachable!("fewer than 2³² runs start in one second")
    }
}

impl ProgressLog {
    pub fn append(&mut self, progress: &Progress) -> Result<(), ReportError> {
        let mut line = serde_json::to_string(progress).expect("a progress record is plain data");
        line.push('\n');
        self.file
            .write_all(line.as_bytes())
            .map_err(ReportError::io(&self.path, "cannot be written"))
    }
}

/// Reads `progress.jsonl`; an error names the line.
pub(crate) fn read_progress(path: &Path) -> Result<Vec<Progress>, ReportError> {
    let file = File::open(path).map_err(ReportError::io(path, "cannot be opened"))?;
    let mut records = Vec::new();
    let mut line = Vec::new();
    let mut reader = BufReader::new(file);
    for number in 1.. {
        line.clear();
        let read =
            reader.read_until(b'\n', &mut line).map_err(ReportError::io(path, "cannot be read"))?;
        if read == 0 {
            break;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let record = serde_json::from_slice(&line).map_err(|error| ReportError::Broken {
            path: path.to_owned(),
            line: number,
            column: error.column(),
            problem: without_place(&error),
            expected: "one progress record (JSON) on each line",
        })?;
        records.push(record);
    }
    Ok(records)
}

fn read_json<T: DeserializeOwned>(path: &Path, expected: &'static str) -> Result<T, ReportError> {
    let text = fs::read(path).map_err(ReportError::io(path, "cannot be read"))?;
    serde_json::from_slice(&text).map_err(|error| ReportError::Broken {
        path: path.to_owned(),
        line: error.line(),
        column: error.column(),
        problem: without_place(&error),
        expected,
    })
}

/// The error's text without the place that it repeats at its end.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

/// A name that is one plain component of a path on any system.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let text: String = name.chars().take(64).map(plain).collect();
    match text.trim_matches(['.', '-']) {
        "" => "run".into(),
        text => text.to_owned(),
    }
}

/// `20261030T142530Z`.
fn utc(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (year, month, day) = civil(since / 86_400);
    let second = since % 86_400;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// The Gregorian date of a day counted from 1970-01-01.
///
/// Years are counted from March, so that the leap day ends one; 400 of them have 146,097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

pub(crate) const RUN_TOML: &str = "run.toml";
pub(crate) const PROGRESS: &str = "progress.jsonl";
const NODE_STATES: &str = "nodes";
const NODE_LOGS: &str = "logs";
const CHECKPOINTS: &str = "checkpoints";
pub(crate) const SUMMARY: &str = "summary.json";
pub(crate) const PICTURE: &str = "convergence.svg";
pub(crate) const HIGHLIGHTS: &str = "highlights.txt";
pub(crate) const PAGE: &str = "report.html";
pub(crate) const COMPARE: &str = "compare.json";
pub(crate) const COMPARE_PAGE: &str = "compare.html";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dated() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_756), (2026, 10, 30));
        assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(1_793_370_330)), "20261030T142530Z");
    }

    #[test]
    fn a_run_name_becomes_one_plain_path_component() {
        for (name, expect) in [
            ("quickstart", "quickstart"),
            ("../../etc/passwd", "etc-passwd"),
            ("a b\u{1b}[2J", "a-b--2J"),
            ("..", "run"),
            ("", "run"),
            ("São Paulo", "São-Paulo"),
        ] {
            assert_eq!(file_name(name), expect);
        }
    }

    #[test]
    fn runs_of_one_second_do_not_share_a_directory() {
        let parent = tempfile::tempdir().unwrap();
        let runs = parent.path().join("runs");
        let first = RunDirectory::create_under(&runs, "quick", UNIX_EPOCH).unwrap();
        let second = RunDirectory::create_under(&runs, "quick", UNIX_EPOCH).unwrap();
        assert_eq!(first.path(), runs.join("quick-19700101T000000Z"));
        assert_eq!(second.path(), runs.join("quick-19700101T000000Z-2"));
    }
}
