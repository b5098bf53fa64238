//! The names of the files in a directory.

pub(crate) const RUN_TOML: &str = "run.toml";
pub(super) const PROGRESS: &str = "progress.jsonl";
/// The file of a run that TensorBoard reads.
pub const EVENTS: &str = "events.out.tfevents.gaia";
pub(crate) const SUMMARY: &str = "summary.json";
pub(crate) const HIGHLIGHTS: &str = "highlights.txt";
pub(crate) const PICTURE: &str = "convergence.svg";
pub(crate) const PAGE: &str = "report.html";

pub(super) const NODE_STATES: &str = "nodes";
pub(super) const NODE_LOGS: &str = "logs";
pub(super) const CHECKPOINTS: &str = "checkpoints";

pub(crate) const COMPARE: &str = "compare.json";
pub(crate) const COMPARE_PAGE: &str = "compare.html";

pub(crate) const PAPER: &str = "paper.json";
pub(crate) const PAPER_PAGE: &str = "paper.html";
pub(crate) const PAPER_ELSEWHERE_PAGE: &str = "paper-elsewhere.html";
pub(crate) const PAPER_MARKDOWN: &str = "paper.md";
pub(super) const ENDED_RUNS: &str = "ended-runs.jsonl";
pub(super) const RUN_FILES: &str = "run-files";
