//! The page of a run under way: that of a finished run, from what is known so far.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::page::{live_page, waiting_page};
use crate::text::phrases::UNDER_WAY;
use gaia_telemetry::{BlockedSeconds, DcProgress, LinkRecord, Progress, Summary};

/// A page that shows the run of the moment. Its copies show the same.
///
/// Whoever serves it draws it: a run only leaves its records here, and does not wait for that.
#[derive(Clone)]
pub struct LivePage {
    arrived: Arc<Mutex<Arrived>>,
    kept: Arc<Mutex<Kept>>,
    on_change: Arc<dyn Fn() + Send + Sync>,
}

/// What the page has not drawn.
#[derive(Default)]
struct Arrived {
    /// A run that has begun, which replaces the one before it.
    begun: Option<(String, Summary)>,
    progress: Vec<Progress>,
}

/// What was drawn last, and of what.
#[derive(Default)]
struct Kept {
    run: Option<(String, Summary)>,
    progress: Vec<Progress>,
    drawn: Option<Arc<str>>,
}

impl LivePage {
    /// A page without a run. `on_change` is called where there is something new to show, and must not wait.
    pub fn new(on_change: impl Fn() + Send + Sync + 'static) -> Self {
        Self { arrived: Arc::default(), kept: Arc::default(), on_change: Arc::new(on_change) }
    }

    /// Shows a run that begins, in place of the one before it. `about` has what is known of it beforehand; its figures are
    /// those of no evaluation.
    pub fn begin(&self, run_toml: &str, about: Summary) {
        let about = Summary { stopped_by: UNDER_WAY.into(), ..about };
        let begun = Some((run_toml.into(), about));
        *lock(&self.arrived) = Arrived { begun, progress: Vec::new() };
        (self.on_change)();
    }

    /// Shows an evaluation more.
    pub fn on_progress(&self, progress: &Progress) {
        lock(&self.arrived).progress.push(progress.clone());
        (self.on_change)();
    }

    /// The page as text. It is drawn once for each evaluation, however many ask for it.
    pub fn draw(&self) -> Arc<str> {
        let mut kept = lock(&self.kept);
        let Arrived { begun, progress } = mem::take(&mut *lock(&self.arrived));
        if begun.is_some() {
            *kept = Kept { run: begun, ..Kept::default() };
        }
        if !progress.is_empty() {
            kept.drawn = None;
        }
        kept.progress.extend(progress);

        let Kept { run, progress, drawn } = &mut *kept;
        let draw = || match run {
            Some((run_toml, summary)) => {
                if let Some(last) = progress.last() {
                    show(last, summary);
                }
                live_page(run_toml, progress, summary).into()
            }
            None => waiting_page().into(),
        };
        drawn.get_or_insert_with(draw).clone()
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts the figures of an evaluation into the summary of a run.
fn show(progress: &Progress, summary: &mut Summary) {
    summary.time_s = progress.time_s;
    summary.clocks = progress.clock;
    summary.objective = progress.objective;
    summary.metric.value = progress.metric;
    summary.wan_bytes = progress.wan_bytes;

    summary.blocked_s = BlockedSeconds::default();
    for link in &mut summary.links {
        link.blocked_s = BlockedSeconds::default();
    }
    for dc in &progress.data_centers {
        show_data_center(dc, summary);
    }

    let clocks = progress.data_centers.iter().map(|dc| dc.clock);
    let (least, most) = (clocks.clone().min().unwrap_or(0), clocks.max().unwrap_or(0));
    summary.clock_lag_max = summary.clock_lag_max.max(most - least);
}

fn show_data_center(dc: &DcProgress, summary: &mut Summary) {
    for waited in &dc.waited {
        *summary.blocked_s.cause_mut(&waited.cause) += waited.seconds;
        let between =
            |link: &&mut LinkRecord| link.to == dc.name && Some(&link.from) == waited.from.as_ref();
        if let Some(link) = summary.links.iter_mut().find(between) {
            *link.blocked_s.cause_mut(&waited.cause) += waited.seconds;
        }
    }
    for link in summary.links.iter_mut().filter(|link| link.from == dc.name) {
        link.bytes = dc.sent_bytes.get(&link.to).copied().unwrap_or(0);
        let capacity = link.bandwidth_bits_per_second / 8.0 * summary.time_s;
        link.utilisation =
            if capacity > 0.0 { (link.bytes as f64 / capacity).min(1.0) } else { 0.0 };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_page_without_a_run_waits_for_one_and_calls_for_nobody() {
        let changes = Arc::new(AtomicUsize::new(0));
        let counted = changes.clone();
        let page = LivePage::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        assert!(page.draw().contains("No run has begun"));
        assert!(Arc::ptr_eq(&page.draw(), &page.clone().draw()), "drawn once");
        assert_eq!(changes.load(Ordering::Relaxed), 0);
    }
}
