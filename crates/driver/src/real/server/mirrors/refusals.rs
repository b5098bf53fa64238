//! Measures how long a mirror has been refused, over any number of connections.

use std::time::Duration;

use tokio::time;

use crate::real::SILENCE_MAX;

/// The refused messages on the latest connections of a mirror.
///
/// A mirror that is refused reconnects at once, so it never counts as disconnected. A link on which this continues is
/// as good as lost.
#[derive(Default)]
pub(in crate::real) struct Refusals {
    latest: Option<Refusal>,
    /// When the next refusal is logged. A mirror that sends valid frames in between does not change it.
    complain_at: Option<time::Instant>,
}

struct Refusal {
    /// When the first message was refused since the last accepted one.
    since: time::Instant,
    at: time::Instant,
    reason: String,
}

impl Refusals {
    /// Records a refused message. Returns whether to log it, which is limited in rate.
    pub(in crate::real) fn on_refused(&mut self, reason: String) -> bool {
        let at = time::Instant::now();
        let before = self.latest.take().filter(|before| before.goes_on(at));
        let since = before.map_or(at, |before| before.since);
        self.latest = Some(Refusal { since, at, reason });

        let complains = self.complain_at.is_none_or(|due| due <= at);
        if complains {
            self.complain_at = Some(at + COMPLAIN_EVERY);
        }
        complains
    }

    /// Records an accepted frame.
    pub(in crate::real) fn on_message(&mut self) {
        self.latest = None;
    }

    /// The reason of the latest refusal, if the mirror has been refused for longer than this.
    pub(in crate::real) fn lasting(&self, longer_than: Duration) -> Option<&str> {
        let latest = self.latest.as_ref().filter(|latest| latest.goes_on(time::Instant::now()))?;
        (latest.at - latest.since > longer_than).then_some(latest.reason.as_str())
    }
}

impl Refusal {
    /// Whether the mirror may be about to reconnect. A mirror that is refused does so within a few seconds.
    fn goes_on(&self, now: time::Instant) -> bool {
        now - self.at < SILENCE_MAX
    }
}

const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_mirror_is_refused_for_as_long_as_it_calls_again_and_is_not_heard() {
        let mut refusals = Refusals::default();
        let longer_than = Duration::from_secs(30);
        let mut reported = 0;
        for _ in 0..31 {
            assert_eq!(refusals.lasting(longer_than), None);
            reported += u32::from(refusals.on_refused("stale".into()));
            advance(Duration::from_secs(1)).await;
        }
        refusals.on_refused("still stale".into());
        assert_eq!(refusals.lasting(longer_than), Some("still stale"));
        assert_eq!(reported, 4, "once in ten seconds");

        refusals.on_message();
        refusals.on_refused("once".into());
        assert_eq!(refusals.lasting(longer_than), None, "a message was received in between");
    }

    #[tokio::test(start_paused = true)]
    async fn valid_frames_between_refusals_cause_no_further_lines() {
        let mut refusals = Refusals::default();
        let mut reported = 0;
        for _ in 0..100 {
            reported += u32::from(refusals.on_refused("forged".into()));
            refusals.on_message();
        }
        assert_eq!(reported, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_that_are_far_apart_do_not_add_up() {
        let mut refusals = Refusals::default();
        for _ in 0..5 {
            assert!(refusals.on_refused("damage".into()));
            assert_eq!(refusals.lasting(Duration::from_secs(30)), None);
            advance(Duration::from_secs(20)).await;
        }
        assert_eq!(refusals.lasting(Duration::ZERO), None, "it does not call any more");
    }
}
