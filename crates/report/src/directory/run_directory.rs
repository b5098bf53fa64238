//! The directory of one run, one comparison or one run of the paper's evaluation.

#![allow(clippy::disallowed_types, reason = "a run directory is named after the time of day")]

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::files::{
    CHECKPOINTS, COMPARE, COMPARE_PAGE, ENDED_RUNS, EVENTS, HIGHLIGHTS, NODE_LOGS, NODE_STATES,
    PAGE, PAPER, PAPER_ELSEWHERE_PAGE, PAPER_MARKDOWN, PAPER_PAGE, PICTURE, PROGRESS, RUN_FILES,
    RUN_TOML, SUMMARY,
};
use super::json::read_json;
use super::name::{file_name, utc};
use super::own::{check_is_directory, check_is_file};
use super::progress::{line_of, read_progress};
use super::{EndedRuns, ProgressLog, ReportError};
use crate::slowdown::Slowdown;
use crate::tensorboard::EventLog;
use gaia_model::{KEPT_MODELS, MODEL, ModelFile, new_file};
use gaia_telemetry::{InitialRecord, Progress, Summary};

/// A directory that holds, or will hold, one run, one comparison or one run of the paper's evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDirectory {
    path: PathBuf,
}

/// The files of a finished run, read back.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The resolved settings as TOML; empty where the file is missing.
    pub run_toml: String,
    /// Every evaluation, in the order of the file.
    pub progress: Vec<Progress>,
    /// What the run came to.
    pub summary: Summary,
    /// What the application has learnt, one entry a line; empty where the file is missing.
    pub highlights: Vec<String>,
}

impl RunDirectory {
    /// Makes the directory of a new run: `out` where given, else `runs/<name>-<UTC time>` under the working directory.
    ///
    /// The directory is empty when this returns.
    ///
    /// # Errors
    /// [`ReportError::NotEmpty`] or [`ReportError::NotADirectory`] where `out` is in use, [`ReportError::Io`] where
    /// the directory cannot be made.
    pub fn create(out: Option<&Path>, name: &str) -> Result<Self, ReportError> {
        match out {
            Some(out) => Self::create_at(out),
            None => Self::create_under(Path::new("runs"), name, SystemTime::now()),
        }
    }

    /// Checks that results can be written in a directory, before it is known of which run, and makes it where there is none.
    /// With `resumes` it may have what a run, or several, have left there.
    ///
    /// # Errors
    /// As [`RunDirectory::create`]; [`ReportError::Io`] where no file can be written in the directory.
    pub fn claim(path: &Path, resumes: bool) -> Result<(), ReportError> {
        let directory = Self { path: path.to_owned() };
        if resumes && directory.holds_results() {
            // They can be shown again where nothing can be written.
            return Ok(());
        }
        let has_settings = directory.settings().exists() || directory.settings_draft().exists();
        if !(resumes && (has_settings || directory.checkpoints().is_dir())) {
            Self::create_at(path)?;
        }

        let probe = path.join(PROBE);
        let written = new_file(&probe).and_then(|_| fs::remove_file(&probe));
        written.map_err(ReportError::io(path, "cannot be written"))
    }

    /// Opens the directory of a run that is to be resumed, or makes it where there is none.
    ///
    /// An existing directory must be empty, hold nothing but checkpoints, hold a run with checkpoints, or one without a summary.
    ///
    /// # Errors
    /// As [`RunDirectory::create`].
    pub fn reopen(path: &Path) -> Result<Self, ReportError> {
        let directory = Self { path: path.to_owned() };
        let has_checkpoints = directory.checkpoints().is_dir();
        let is_resumable = if path.join(RUN_TOML).is_file() {
            has_checkpoints || !(directory.is_run() || directory.is_comparison())
        } else {
            has_checkpoints && directory.entries()?.len() == 1
        };
        if is_resumable { Ok(directory) } else { Self::create_at(path) }
    }

    /// Opens the directory of a run or of several runs that are to go on, or makes it where there is none. `run_toml` is
    /// their settings.
    ///
    /// # Errors
    /// [`ReportError::OtherSettings`] where the directory has others; as [`RunDirectory::create`] where it has none.
    pub fn reopen_with(path: &Path, run_toml: &str) -> Result<Self, ReportError> {
        if !path.is_dir() {
            return Self::create_at(path);
        }
        let directory = Self { path: path.to_owned() };
        match directory.read_run_toml()? {
            found if found == run_toml => Ok(directory),
            found if found.is_empty() => {
                // That of a run that was killed before it had written its settings.
                let draft = directory.settings_draft();
                if draft.exists() {
                    fs::remove_file(&draft)
                        .map_err(ReportError::io(&draft, "cannot be deleted"))?;
                }
                Self::create_at(path)
            }
            _ => Err(ReportError::OtherSettings { path: directory.path.join(RUN_TOML) }),
        }
    }

    /// As [`RunDirectory::reopen_with`], for a directory that [`RunDirectory::create_child`] makes.
    ///
    /// # Errors
    /// As [`RunDirectory::reopen_with`].
    pub fn reopen_child(&self, name: &str, run_toml: &str) -> Result<Self, ReportError> {
        let path = self.path.join(file_name(name));
        check_is_directory(&path)?;
        Self::reopen_with(&path, run_toml)
    }

    /// Opens the directory of an evaluation of the paper that is to go on, or makes it where there is none.
    ///
    /// # Errors
    /// [`ReportError::NotEmpty`] where it holds something else; as [`RunDirectory::create`] where it has none.
    pub fn reopen_evaluation(path: &Path) -> Result<Self, ReportError> {
        let directory = Self { path: path.to_owned() };
        if path.join(ENDED_RUNS).is_file() { Ok(directory) } else { Self::create_at(path) }
    }

    /// The runs of an evaluation that have ended. The file is created where there is none.
    ///
    /// # Errors
    /// [`ReportError::Io`] where it cannot be read or created, [`ReportError::Broken`] where a line is not one run.
    pub fn ended_runs(&self) -> Result<EndedRuns, ReportError> {
        EndedRuns::open(self.path.join(ENDED_RUNS))
    }

    /// The directory of an evaluation's run files, which is made where there is none.
    ///
    /// # Errors
    /// [`ReportError::Io`] where it cannot be made.
    pub fn run_files(&self) -> Result<Self, ReportError> {
        let path = self.path.join(RUN_FILES);
        check_is_directory(&path)?;
        fs::create_dir_all(&path).map_err(ReportError::io(&path, "cannot be created"))?;
        Ok(Self { path })
    }

    /// Deletes the summaries and pages in this directory itself, if there are any, before its training goes on: they are of
    /// an earlier part, and whoever comes after a failure must not take them for the result.
    ///
    /// # Errors
    /// [`ReportError::Io`] where one cannot be deleted.
    pub fn remove_results(&self) -> Result<(), ReportError> {
        let of_a_run = [SUMMARY, COMPARE, PAGE, COMPARE_PAGE, PICTURE, HIGHLIGHTS];
        let of_an_evaluation = [PAPER, PAPER_PAGE, PAPER_ELSEWHERE_PAGE, PAPER_MARKDOWN];
        for file in of_a_run.into_iter().chain(of_an_evaluation) {
            let path = self.path.join(file);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(ReportError::io(&path, "cannot be deleted")(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes a directory inside this one, for one run of a comparison.
    ///
    /// # Errors
    /// As [`RunDirectory::create`].
    pub fn create_child(&self, name: &str) -> Result<Self, ReportError> {
        Self::create_at(&self.path.join(file_name(name)))
    }

    /// Opens a directory that a finished run, comparison or evaluation has written.
    ///
    /// # Errors
    /// [`ReportError::NoSuchDirectory`], [`ReportError::NotADirectory`] or [`ReportError::NotFinished`] where `path` is
    /// none; [`ReportError::Io`] where that cannot be found out.
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
            Ok(_) if directory.is_comparison() || directory.holds_results() => Ok(directory),
            Ok(_) => Err(ReportError::NotFinished { path: path.to_owned() }),
        }
    }

    /// Writes one file of the directory, and replaces the one that is there.
    ///
    /// The file is written beside its place and renamed, so that no reader sees half of it.
    ///
    /// # Errors
    /// [`ReportError::Io`] where it cannot be written.
    pub fn write(&self, file: &str, contents: impl AsRef<[u8]>) -> Result<(), ReportError> {
        write_beside(&self.path.join(file), contents.as_ref())
    }

    /// Writes the files of a model, and replaces those that are there.
    ///
    /// # Errors
    /// [`ReportError::Model`] where one cannot be written.
    pub fn write_model(&self, files: &[ModelFile]) -> Result<(), ReportError> {
        Ok(files.iter().try_for_each(|file| file.write_in(&self.path))?)
    }

    /// The folder of the models that data centers keep.
    pub fn kept_models(&self) -> PathBuf {
        self.path.join(KEPT_MODELS)
    }

    /// Creates an empty `progress.jsonl`. Records of an earlier run are removed.
    ///
    /// # Errors
    /// [`ReportError::Io`] where it cannot be created.
    pub fn progress_log(&self) -> Result<ProgressLog, ReportError> {
        ProgressLog::create(self.path.join(PROGRESS))
    }

    /// Creates the file that TensorBoard reads, without evaluations but that of the initial model, if there is one. Those of
    /// an earlier run are removed. `metric` is the name of the held-out metric.
    ///
    /// # Errors
    /// [`ReportError::Io`] where it cannot be created.
    pub fn event_log(
        &self,
        metric: &str,
        initial: Option<&InitialRecord>,
    ) -> Result<EventLog, ReportError> {
        EventLog::create(&self.path.join(EVENTS), metric, initial)
    }

    /// Writes the whole of `progress.jsonl` and of the file that TensorBoard reads. `metric` and `initial` are as in
    /// [`RunDirectory::event_log`].
    ///
    /// # Errors
    /// [`ReportError::Io`] where one cannot be written.
    pub fn write_logs(
        &self,
        metric: &str,
        initial: Option<&InitialRecord>,
        progress: &[Progress],
    ) -> Result<(), ReportError> {
        self.write(PROGRESS, progress.iter().map(line_of).collect::<String>())?;
        let mut events = self.event_log(metric, initial)?;
        progress.iter().try_for_each(|evaluation| events.append(evaluation))
    }

    /// Reads a finished run.
    ///
    /// # Errors
    /// [`ReportError::Io`] where the summary or the progress is missing or cannot be read, [`ReportError::Broken`]
    /// where one of them is not what this program writes.
    pub fn read(&self) -> Result<RunRecord, ReportError> {
        let summary = self.read_record(SUMMARY, "a run's summary")?;
        let progress = read_progress(&self.path.join(PROGRESS))?;
        let highlights = self.read_text(HIGHLIGHTS)?.lines().map(str::to_owned).collect();
        Ok(RunRecord { run_toml: self.read_run_toml()?, progress, summary, highlights })
    }

    /// The resolved settings as TOML; empty where the file is missing.
    ///
    /// # Errors
    /// [`ReportError::Io`] where the file is there and cannot be read.
    pub fn read_run_toml(&self) -> Result<String, ReportError> {
        self.read_text(RUN_TOML)
    }

    /// The directories of a comparison's finished runs, in the order of their paths.
    ///
    /// # Errors
    /// [`ReportError::Io`] where this directory cannot be listed, [`ReportError::NotOwn`] where a symbolic link in it leads
    /// to a run.
    pub fn children(&self) -> Result<Vec<Self>, ReportError> {
        let mut children: Vec<Self> =
            self.entries()?.into_iter().map(|path| Self { path }).filter(Self::is_run).collect();
        children.iter().try_for_each(|child| check_is_directory(&child.path))?;
        children.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(children)
    }

    /// The paths in this directory, in no order.
    fn entries(&self) -> Result<Vec<PathBuf>, ReportError> {
        let listed = |error| ReportError::io(&self.path, "cannot be listed")(error);
        let entries = fs::read_dir(&self.path).map_err(listed)?;
        entries.map(|entry| Ok(entry.map_err(listed)?.path())).collect()
    }

    /// The runs in this directory: those of its comparison, or the one that it holds.
    ///
    /// # Errors
    /// As [`RunDirectory::children`].
    pub fn members(&self) -> Result<Vec<Self>, ReportError> {
        if self.is_run() { Ok(vec![self.clone()]) } else { self.children() }
    }

    /// The name of the directory of one seed in that of several seeds.
    pub fn name_of_seed(seed: u64) -> String {
        format!("{SEED}{seed}")
    }

    /// The directories of seeds that hold a finished run or comparison, each with its seed, in ascending order. Empty
    /// where the directory has none.
    ///
    /// # Errors
    /// As [`RunDirectory::children`].
    pub fn seeds(&self) -> Result<Vec<(u64, Self)>, ReportError> {
        let mut seeds = Vec::new();
        for path in self.entries()? {
            let name = path.file_name().and_then(|name| name.to_str());
            let seed = name.and_then(|name| name.strip_prefix(SEED)?.parse().ok());
            let child = Self { path };
            if let Some(seed) = seed
                && (child.is_run() || child.is_comparison())
            {
                check_is_directory(&child.path)?;
                seeds.push((seed, child));
            }
        }
        seeds.sort_by_key(|(seed, _)| *seed);
        Ok(seeds)
    }

    /// The slowdown that the records of a comparison name, and the WAN of each of its runs in their order. Nothing where there are
    /// no records.
    ///
    /// # Errors
    /// As [`RunDirectory::read`].
    pub(crate) fn noted(&self) -> Result<(Option<Slowdown>, Vec<String>), ReportError> {
        #[derive(Deserialize)]
        struct Noted {
            slowdown: Option<Slowdown>,
            #[serde(default)]
            rows: Vec<NotedRow>,
        }
        #[derive(Deserialize)]
        struct NotedRow {
            wan: String,
        }
        if !self.path.join(COMPARE).exists() {
            return Ok((None, Vec::new()));
        }
        let noted: Noted = self.read_record(COMPARE, "a comparison")?;
        Ok((noted.slowdown, noted.rows.into_iter().map(|row| row.wan).collect()))
    }

    fn settings(&self) -> PathBuf {
        self.path.join(RUN_TOML)
    }

    /// What is left of settings whose writer was killed.
    fn settings_draft(&self) -> PathBuf {
        draft(&self.settings())
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of the run's checkpoints. It need not exist.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join(CHECKPOINTS)
    }

    /// The folder of the node states of a run over processes, one folder in it for each node. It need not exist.
    pub fn node_states(&self) -> PathBuf {
        self.path.join(NODE_STATES)
    }

    /// Deletes [`Self::node_states`], if there are any.
    ///
    /// # Errors
    /// [`ReportError::Io`] where they cannot be deleted.
    pub fn remove_node_states(&self) -> Result<(), ReportError> {
        let path = self.node_states();
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(ReportError::io(&path, "cannot be deleted")(error))
            }
            _ => Ok(()),
        }
    }

    /// The folder of the node logs of a run over processes, one file in it for each node. It need not exist.
    pub fn node_logs(&self) -> PathBuf {
        self.path.join(NODE_LOGS)
    }

    /// The files of a run that people look for first, each with its label: the page, and the model if there is one.
    pub fn main_files(&self) -> Vec<(&'static str, PathBuf)> {
        let model = Some(self.path.join(MODEL)).filter(|path| path.exists());
        [("report", self.page())].into_iter().chain(model.map(|path| ("model", path))).collect()
    }

    /// The path of the page: `report.html` of a run, `compare.html` of a comparison, `paper.html` of an evaluation.
    pub fn page(&self) -> PathBuf {
        self.path.join(match () {
            () if self.is_paper() => PAPER_PAGE,
            () if self.is_comparison() => COMPARE_PAGE,
            () => PAGE,
        })
    }

    /// Whether the directory holds a finished run.
    pub fn is_run(&self) -> bool {
        self.path.join(SUMMARY).is_file()
    }

    /// Whether the directory holds a finished comparison, or runs of one that has no report.
    pub fn is_comparison(&self) -> bool {
        let has_one = self.path.join(COMPARE).is_file();
        has_one || !self.is_run() && !self.is_paper() && self.holds_results()
    }

    /// Whether `gaia report` can write the pages of this directory: it holds a finished run, or runs of a comparison.
    pub fn holds_results(&self) -> bool {
        // What is wrong with them is said when they are read.
        let has_runs = || {
            self.children().map_or(true, |runs| !runs.is_empty())
                || self.seeds().map_or(true, |seeds| !seeds.is_empty())
        };
        self.is_run() || self.is_paper() || self.path.join(RUN_TOML).is_file() && has_runs()
    }

    /// Whether the directory holds the records of the paper's evaluation.
    pub fn is_paper(&self) -> bool {
        self.path.join(PAPER).is_file()
    }

    /// Reads a file of one record; `expected` names the record in the error.
    pub(crate) fn read_record<T: DeserializeOwned>(
        &self,
        file: &str,
        expected: &'static str,
    ) -> Result<T, ReportError> {
        read_json(&self.path.join(file), expected)
    }

    /// The text of one file; empty where it is missing.
    fn read_text(&self, file: &str) -> Result<String, ReportError> {
        let path = self.path.join(file);
        check_is_file(&path)?;
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

    /// Makes a new directory below `runs`. Of runs that start within one second the later ones get a number.
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

/// What the names of the directories of seeds begin with.
const SEED: &str = "seed-";

/// A file that shows that others can be written beside it. It is deleted at once.
const PROBE: &str = ".gaia.part";

/// Where a file is written before it is renamed.
fn draft(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.part"))
}

/// Writes a file under another name in its folder, which is created, and renames it.
fn write_beside(path: &Path, contents: &[u8]) -> Result<(), ReportError> {
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let draft = draft(path);
    let written = fs::create_dir_all(folder)
        .and_then(|()| new_file(&draft)?.write_all(contents))
        .and_then(|()| fs::rename(&draft, path));
    written.map_err(|error| {
        // A part of a file is of no use, and on a full disk it takes the space.
        let _none_is_left = fs::remove_file(&draft);
        ReportError::io(path, "cannot be written")(error)
    })
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_leaves_no_part() {
        let place = tempfile::tempdir().unwrap();
        let directory = RunDirectory::create(Some(place.path()), "run").unwrap();
        fs::create_dir(place.path().join(PAGE)).unwrap();
        let error = directory.write(PAGE, "a page").unwrap_err();
        assert!(error.to_string().contains("report.html: cannot be written: "), "{error}");
        let entries = fs::read_dir(place.path()).unwrap();
        let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [PAGE]);
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
