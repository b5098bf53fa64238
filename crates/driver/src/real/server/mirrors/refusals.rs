//! How long a mirror has been refused, over however many connections.

use std::time::Duration;

use tokio::time;

use crate::real::SILENCE_MAX;
use crate::real::node::context::COMPLAIN_EVERY;

/// What became of the latest connections of a mirror whose messages were refused.
///
/// A mirror that is refused calls again at once, and nothing says that it is away, since it answers. A link on which
/// that goes on is as good as none.
#[derive(Default)]
pub(in crate::real) struct Refusals {
    latest: Option<Refusal>,
}

struct Refusal {
    /// When the first was refused since the mirror was last heard.
    since: time::Instant,
    at: time::Instant,
    complain_at: time::Instant,
    reason: String,
}

impl Refusals {
    /// A message of the mirror was refused. Answers whether people should be told: now and then.
    pub(in crate::real) fn on_refused(&mut self, reason: String) -> bool {
        let at = time::Instant::now();
        let before = self.latest.take().filter(|before| before.goes_on(at));
        let (since, due) = before.map_or((at, at), |before| (before.since, before.complain_at));

        let complains = due <= at;
        let complain_at = if complains { at + COMPLAIN_EVERY } else { due };
        self.latest = Some(Refusal { since, at, complain_at, reason });
        complains
    }

    /// A frame of the mirror was taken.
    pub(in crate::real) fn on_heard(&mut self) {
        self.latest = None;
    }

    /// Why the mirror is refused, where that has gone on for longer than this.
    pub(in crate::real) fn lasting(&self, longer_than: Duration) -> Option<&str> {
        let latest = self.latest.as_ref().filter(|latest| latest.goes_on(time::Instant::now()))?;
        (latest.at - latest.since > longer_than).then_some(latest.reason.as_str())
    }
}

impl Refusal {
    /// Whether the mirror may be about to call again: one that is refused does so in a few seconds at most.
    fn goes_on(&self, now: time::Instant) -> bool {
        now - self.at < SILENCE_MAX
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_mirror_is_refused_for_as_long_as_it_calls_again_and_is_not_heard() {
        let mut refusals = Refusals::default();
        let longer_than = Duration::from_secs(30);
        let mut told = 0;
        for _ in 0..31 {
            assert_eq!(refusals.lasting(longer_than), None);
            told += u32::from(refusals.on_refused("stale".into()));
            advance(Duration::from_secs(1)).await;
        }
        refusals.on_refused("still stale".into());
        assert_eq!(refusals.lasting(longer_than), Some("still stale"));
        assert_eq!(told, 4, "once in ten seconds");

        refusals.on_heard();
        refusals.on_refused("once".into());
        assert_eq!(refusals.lasting(longer_than), None, "it was heard in between");
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
