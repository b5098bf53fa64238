//! When a node says what it waits for.

use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use gaia_telemetry::TOLD;

/// Says what is waited for: after some seconds, when that has changed, and rarely otherwise.
pub(in crate::real) struct Reminder {
    due: Instant,
    said: Option<(String, Instant)>,
}

impl Reminder {
    /// The wait begins.
    pub(in crate::real) fn new() -> Self {
        Self { due: Instant::now() + SAID_AFTER, said: None }
    }

    /// When to call [`Self::remind`] next.
    pub(in crate::real) fn due(&self) -> Instant {
        self.due
    }

    /// Says what is waited for, if it is due and news. Returns whether it was said.
    pub(in crate::real) fn remind(&mut self, text: &str) -> bool {
        let now = Instant::now();
        if now < self.due {
            return false;
        }
        self.due = now + ASKED_EVERY;
        let is_known =
            self.said.as_ref().is_some_and(|(said, at)| said == text && now - *at < REPEATED_AFTER);
        if !is_known {
            warn!(target: TOLD, "{text}");
            self.said = Some((text.to_owned(), now));
        }
        !is_known
    }
}

const SAID_AFTER: Duration = Duration::from_secs(3);
const ASKED_EVERY: Duration = Duration::from_secs(10);
const REPEATED_AFTER: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_waited_for_is_said_once_and_again_when_it_changes() {
        let mut reminder = Reminder::new();
        let mut said = Vec::new();
        for second in 0..700_u64 {
            let text = if second < 40 { "waiting for two" } else { "waiting for one" };
            if reminder.remind(text) {
                said.push(second);
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(said, [3, 43, 343, 643]);
    }
}
