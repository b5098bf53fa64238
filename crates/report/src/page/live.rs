//! What the page of a run under way has besides that of a finished one: a script that renews it.

/// The script of the page, for whoever serves it at `live.js`, beside the page at `/` and its events at `events`.
///
/// At each event it fetches the page again and keeps what its reader has chosen and unfolded.
pub const LIVE_SCRIPT: &str = include_str!("templates/live.js");
