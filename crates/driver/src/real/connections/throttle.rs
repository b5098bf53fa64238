//! Limits the rate of log lines that peers can cause.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Admits a burst of lines, and then one each [`LINE_EVERY`]. The lines that are left out are counted.
#[derive(Debug, Default)]
pub(in crate::real) struct LogThrottle(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    /// When the cost of all admitted lines is paid, as in a token bucket.
    paid_at: Option<Instant>,
    left_out: u64,
}

/// The number of lines that were left out before an admitted one. It is displayed at the end of that line.
pub(in crate::real) struct LeftOut(u64);

impl LogThrottle {
    /// Whether a line may be written. If so, returns how many were left out before it.
    pub(in crate::real) fn pass(&self) -> Option<LeftOut> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let paid_at = lines.paid_at.unwrap_or(now).max(now);

        if paid_at.duration_since(now) >= LINE_EVERY * LINES_AT_ONCE {
            lines.left_out += 1;
            return None;
        }
        lines.paid_at = Some(paid_at + LINE_EVERY);
        Some(LeftOut(std::mem::take(&mut lines.left_out)))
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            count => write!(f, " ({count} similar lines were suppressed before)"),
        }
    }
}

const LINE_EVERY: Duration = Duration::from_secs(5);
const LINES_AT_ONCE: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_lines_is_cut_to_one_each_five_seconds_and_counted() {
        let throttle = LogThrottle::default();
        let written = || (0..1000).filter_map(|_| throttle.pass()).map(|line| line.to_string());
        assert_eq!(written().collect::<Vec<_>>(), vec![""; 10]);
        tokio::time::advance(LINE_EVERY).await;
        assert_eq!(written().collect::<Vec<_>>(), [" (990 similar lines were suppressed before)"]);
        tokio::time::advance(100 * LINE_EVERY).await;
        assert_eq!(written().count(), 10);
    }
}
