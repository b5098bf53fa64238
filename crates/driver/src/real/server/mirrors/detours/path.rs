//! The path to one mirror: whether datagrams pass directly in each direction, and how they are sent.
//!
//! Times are since any fixed moment.

use std::time::Duration;

use super::datagram::PathReport;
use gaia_core::types::DcId;

/// What this end knows of the path to a mirror.
#[derive(Clone, Debug)]
pub(super) struct Path {
    own: DcId,
    /// The token that this process has for the mirror, which it does not tell others.
    token: u64,
    /// The round trip: that of the topology, or the measured one if that is longer.
    rtt: Duration,
    rtt_min: Duration,
    /// The time in which some datagrams leave, so that an answer may have to wait for it.
    serialisation: Duration,
    /// When the last datagram of the mirror arrived directly.
    received_at: Duration,
    /// When the path last carried datagrams again after a break.
    recovered_at: Option<Duration>,
    /// From when on direct datagrams count, after a break.
    counts_from: Duration,
    /// The third data center over which the mirror's reports arrive, and when the last one did.
    received_over: Option<(DcId, Duration)>,
    /// The last report of the mirror that counts, and when it arrived.
    peer_report: Option<(PathReport, Duration)>,
    /// Since when reports are due.
    due_since: Option<Duration>,
    /// The number of this end's last report, and when it was sent.
    number: u16,
    reported_at: Duration,
    /// The number of a report whose answer is timed, and when it was sent.
    timed: Option<(u16, Duration)>,
    /// When a report of the mirror was last answered.
    answered_at: Option<Duration>,
}

/// How datagrams are sent to a mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Direct,
    /// Over another data center, over which the mirror receives reports, since it receives nothing directly.
    Over(DcId),
    /// Both ways, since it is not known where the mirror receives datagrams.
    DirectAndOver(DcId),
}

impl Path {
    /// A path that counts as alive for a while, to a mirror for which this process has a token. `serialisation` is the time in which some
    /// datagrams leave.
    pub(super) fn new(
        own: DcId,
        token: u64,
        rtt: Duration,
        serialisation: Duration,
        now: Duration,
    ) -> Self {
        Self {
            own,
            token,
            rtt,
            rtt_min: rtt,
            serialisation,
            received_at: now,
            recovered_at: None,
            counts_from: now,
            received_over: None,
            peer_report: None,
            due_since: None,
            number: 0,
            reported_at: now,
            timed: None,
            answered_at: None,
        }
    }

    /// Handles a datagram that has arrived directly.
    pub(super) fn on_received(&mut self, now: Duration) {
        if now >= self.received_at + self.detection_time() {
            let fails_again = self.recovered_at.is_some_and(|at| now < at + STABLE_AFTER);
            self.counts_from = if fails_again { now + HOLD_DOWN } else { now };
            self.recovered_at = Some(now);
            // The mirror goes on sending around the path until it is told.
            self.due_since = None;
        }
        self.received_at = now;
    }

    /// Handles a time in which this process did not run, so that nothing could arrive.
    pub(super) fn on_stalled(&mut self, now: Duration, time: Duration) {
        let later = |at: Duration| (at + time).min(now);
        self.received_at = later(self.received_at);
        self.received_over = self.received_over.map(|(over, at)| (over, later(at)));
        self.peer_report = self.peer_report.map(|(report, at)| (report, later(at)));
        // The time of an answer would not be that of a round trip.
        self.timed = None;
    }

    /// Handles a report of the mirror that has arrived directly, or over a data center. Returns whether it is answered.
    ///
    /// A report that was not written for this process does not count: its sender cannot know its token yet, or has forged
    /// the address. It is answered, and the answer reaches whoever has the address.
    pub(super) fn on_report(
        &mut self,
        now: Duration,
        report: PathReport,
        over: Option<DcId>,
    ) -> bool {
        let counts = self.counts(&report);
        let is_late = counts
            && self.valid_report(now).is_some_and(|(last, _)| {
                last.token == report.token && (report.number.wrapping_sub(last.number) as i16) < 0
            });
        if is_late {
            return false;
        }
        let is_due = self.answered_at.is_none_or(|at| now >= at + ANSWER_EVERY);
        let is_answered = report.wants_answer && is_due;
        if is_answered {
            self.answered_at = Some(now);
        }
        if !counts {
            return is_answered;
        }

        if let Some((number, at)) = self.timed
            && (report.answers.wrapping_sub(number) as i16) >= 0
        {
            self.timed = None;
            let measured = now.saturating_sub(at);
            if report.answers == number && over.is_none() && measured <= RTT_MAX {
                self.rtt = ((7 * self.rtt + measured) / 8).max(self.rtt_min);
            }
        }
        self.peer_report = Some((report, now));
        if let Some(over) = over {
            // The detour that is in use stays in use.
            let is_kept = self.receives_over(now).is_some_and(|current| current != over);
            if !is_kept {
                self.received_over = Some((over, now));
            }
        }
        is_answered
    }

    /// Whether reports are due at a tick: this end waits for an answer, or one of both receives nothing.
    pub(super) fn is_report_due(&mut self, now: Duration) -> bool {
        if self.is_alive(now) && !self.is_probe_due(now) {
            self.due_since = None;
            return false;
        }
        let since = *self.due_since.get_or_insert(now);
        let every = match now.saturating_sub(since) {
            _ if self.is_unreachable(now) => REPORT_UNREACHABLE_EVERY,
            // As often as a link can carry beside other datagrams.
            time if time < REPORT_FAST_FOR => self.serialisation / 8,
            _ => REPORT_EVERY,
        };
        now >= self.reported_at + every
    }

    /// The report to send now: at its time, or as an answer to the process with a token.
    pub(super) fn report(&mut self, now: Duration, answered_token: Option<u64>) -> PathReport {
        // An answer asks only a process that this one does not know, so that reports do not answer each other for ever.
        let wants_answer = answered_token.is_none_or(|token| self.peer_token() != Some(token));
        self.number = self.number.wrapping_add(1);
        self.reported_at = now;
        if wants_answer && self.timed.is_none_or(|(_, at)| now > at + RTT_MAX) {
            self.timed = Some((self.number, now));
        }
        let last = self.peer_report.map(|(last, _)| last);
        PathReport {
            from: self.own,
            receives: self.receives(now),
            wants_answer,
            receives_over: self.receives_over(now),
            number: self.number,
            answers: last.map_or(0, |last| last.number),
            token: self.token,
            to_token: answered_token.or_else(|| self.peer_token()).unwrap_or(0),
        }
    }

    /// The token that this process has for the mirror.
    pub(super) fn token(&self) -> u64 {
        self.token
    }

    /// Whether a report was written for this process.
    pub(super) fn counts(&self, report: &PathReport) -> bool {
        report.to_token == self.token
    }

    /// Whether both ends have exchanged reports, and datagrams pass directly in both directions.
    pub(super) fn is_alive(&self, now: Duration) -> bool {
        self.peer_report.is_some() && self.receives(now) && self.is_received(now)
    }

    /// Whether nothing has arrived on any way for long.
    pub(super) fn is_unreachable(&self, now: Duration) -> bool {
        let reported = self.peer_report.map_or(Duration::ZERO, |(_, at)| at);
        now >= self.received_at.max(reported) + UNREACHABLE_AFTER
    }

    /// The token of the mirror's process. `None` if no report of it has counted.
    pub(super) fn peer_token(&self) -> Option<u64> {
        self.peer_report.map(|(report, _)| report.token)
    }

    /// The data center over which reports of the mirror arrive.
    pub(super) fn receives_over(&self, now: Duration) -> Option<DcId> {
        self.received_over.filter(|(_, at)| now < *at + self.valid_for()).map(|(over, _)| over)
    }

    /// How to send datagrams, if these data centers exchange datagrams directly with this one, the best first.
    pub(super) fn route(&self, now: Duration, intermediates: &[DcId]) -> Route {
        let both = intermediates.first().map_or(Route::Direct, |best| Route::DirectAndOver(*best));
        let is_silent = now >= self.received_at + self.detection_time();
        match self.valid_report(now) {
            // One from before the silence says nothing of it.
            Some((report, at)) if report.receives && (at > self.received_at || !is_silent) => {
                Route::Direct
            }
            Some((report, _)) if !report.receives => {
                let over = report.receives_over.filter(|over| intermediates.contains(over));
                over.map_or(both, Route::Over)
            }
            // A mirror that has never reported takes no detours.
            _ if !is_silent || self.peer_report.is_none() => Route::Direct,
            _ => both,
        }
    }

    /// Whether datagrams of the mirror arrive directly.
    fn receives(&self, now: Duration) -> bool {
        now < self.received_at + self.detection_time() && now >= self.counts_from
    }

    /// Whether the mirror receives datagrams directly, unless it has reported otherwise.
    fn is_received(&self, now: Duration) -> bool {
        self.valid_report(now).is_none_or(|(report, _)| report.receives)
    }

    fn is_probe_due(&self, now: Duration) -> bool {
        now >= self.received_at + PROBE_AFTER
    }

    fn valid_report(&self, now: Duration) -> Option<(PathReport, Duration)> {
        self.peer_report.filter(|(_, at)| now < *at + self.valid_for())
    }

    /// How long a report is valid: several follow each other in this time.
    fn valid_for(&self) -> Duration {
        self.detection_time().max(VALID_MIN)
    }

    /// The time without a datagram after which a path is dead. A mirror is asked several times before.
    fn detection_time(&self) -> Duration {
        PROBE_AFTER + 2 * TICK + (self.rtt * 5 / 4).max(ANSWERS_MIN) + self.serialisation
    }
}

/// How often it is looked whether reports are due.
pub(super) const TICK: Duration = Duration::from_millis(50);

/// The time without a datagram after which an end asks for a report. Shorter than the interval of QUIC's keep-alive packets, so
/// that a dead path is found before the silence of a connection matters (`gaia_quic`).
const PROBE_AFTER: Duration = Duration::from_millis(250);

/// The shortest time for answers. Several probes are sent in it, some of which may be lost.
const ANSWERS_MIN: Duration = Duration::from_millis(150);

/// The shortest time between two answers, so that forged reports cause few.
const ANSWER_EVERY: Duration = Duration::from_millis(20);

const VALID_MIN: Duration = Duration::from_secs(1);

/// How long datagrams have to arrive again before a path counts as alive that has failed twice in [`STABLE_AFTER`], so that one
/// that fails again and again stays dead. Else it counts at once: after a long cut all links of a data center are needed, and
/// those of others are not to be filled with what could go directly.
const HOLD_DOWN: Duration = Duration::from_secs(1);
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// For how long reports are sent at each tick, and how often after that.
const REPORT_FAST_FOR: Duration = Duration::from_secs(1);
const REPORT_EVERY: Duration = Duration::from_millis(250);

/// The time after which a mirror from which nothing arrives may be gone, so that few reports are sent.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(10);
const REPORT_UNREACHABLE_EVERY: Duration = Duration::from_secs(1);

const RTT_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: DcId = DcId(0);
    const PEER: DcId = DcId(1);
    const OVER: DcId = DcId(7);
    const BEST: DcId = DcId(3);
    const TOKEN: u64 = 11;
    const PEER_TOKEN: u64 = 12;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// With this round trip, whose mirror has reported.
    fn path(rtt_ms: u64) -> Path {
        let mut path = new_path(rtt_ms);
        path.on_report(ms(0), report(1, true, None), None);
        path
    }

    fn new_path(rtt_ms: u64) -> Path {
        Path::new(OWN, TOKEN, ms(rtt_ms), Duration::ZERO, ms(0))
    }

    fn report(number: u16, receives: bool, receives_over: Option<DcId>) -> PathReport {
        let (wants_answer, answers, token, to_token) = (true, 0, PEER_TOKEN, TOKEN);
        PathReport {
            from: PEER,
            receives,
            wants_answer,
            receives_over,
            number,
            answers,
            token,
            to_token,
        }
    }

    #[test]
    fn a_path_that_carries_datagrams_costs_none() {
        let mut path = path(60);
        for now in (0..10_000).step_by(50) {
            path.on_received(ms(now));
            assert!(!path.is_report_due(ms(now)) && path.is_alive(ms(now)));
            assert_eq!(path.route(ms(now), &[BEST]), Route::Direct);
        }
    }

    #[test]
    fn a_dead_path_is_left_before_its_connection_counts_as_silent() {
        for rtt_ms in [0, 1, 20, 60, 150, 220, 300, 500, 1000] {
            let mut path = path(rtt_ms);
            let left = (0..).map(|tick| TICK * tick).find(|now| {
                path.is_report_due(*now);
                path.route(*now, &[BEST]) != Route::Direct
            });
            let (left, rtt) = (left.unwrap(), ms(rtt_ms));
            // The first datagrams on the detour take half a round trip.
            assert!(left + rtt / 2 < ms(1000).max(3 * rtt), "{rtt_ms} ms: {left:?}");
            assert_eq!(path.route(left, &[BEST]), Route::DirectAndOver(BEST));
            assert_eq!(path.route(left, &[]), Route::Direct, "there is no other way");
        }
    }

    /// Both ends of a link on which every packet arrives, or all but one in `loss`.
    struct Link {
        ends: [Path; 2],
        /// When a report arrives, where.
        under_way: Vec<(u64, usize, PathReport)>,
        delay: u64,
        loss: u64,
        sent: u64,
        reports: u64,
    }

    impl Link {
        fn new(rtt_ms: u64, real_ms: u64, loss: u64) -> Self {
            let tokens = [(OWN, TOKEN), (PEER, PEER_TOKEN)];
            let ends =
                tokens.map(|(own, token)| Path::new(own, token, ms(rtt_ms), Duration::ZERO, ms(0)));
            Self { ends, under_way: Vec::new(), delay: real_ms / 2, loss, sent: 0, reports: 0 }
        }

        fn arrives(&mut self) -> bool {
            // Scattered, and the same each time.
            self.sent += 1;
            self.loss == 0 || !(self.sent * 2_654_435_761 % 1_000_003).is_multiple_of(self.loss)
        }

        fn send(&mut self, now: u64, to: usize, report: PathReport) {
            self.reports += 1;
            if self.arrives() {
                self.under_way.push((now + self.delay, to, report));
            }
        }

        /// One millisecond. Packets leave every `packets` milliseconds.
        fn pass(&mut self, now: u64, packets: u64) {
            let (due, rest) = self.under_way.iter().partition(|(at, ..)| *at <= now);
            self.under_way = rest;
            let due: Vec<(u64, usize, PathReport)> = due;
            for (_, at, report) in due {
                self.ends[at].on_received(ms(now));
                if self.ends[at].on_report(ms(now), report, None) {
                    let answer = self.ends[at].report(ms(now), Some(report.token));
                    self.send(now, 1 - at, answer);
                }
            }
            for end in 0..2 {
                if now.is_multiple_of(packets) && self.arrives() {
                    self.ends[end].on_received(ms(now));
                }
                if now.is_multiple_of(50) && self.ends[end].is_report_due(ms(now)) {
                    let report = self.ends[end].report(ms(now), None);
                    self.send(now, 1 - end, report);
                }
            }
        }
    }

    #[test]
    fn an_idle_path_is_asked_and_never_left_over_any_round_trip_even_if_packets_are_lost() {
        for rtt_ms in [0, 2, 20, 60, 100, 150, 220, 300, 500] {
            for loss in [0, 100, 20] {
                let mut link = Link::new(rtt_ms, rtt_ms, loss);
                for now in 1..300_000 {
                    // Keep-alive packets, whose interval begins with the answer to the last.
                    link.pass(now, 500 + rtt_ms);
                    for end in &link.ends {
                        assert_eq!(
                            end.route(ms(now), &[BEST]),
                            Route::Direct,
                            "{rtt_ms} ms, {now}"
                        );
                    }
                }
                let [one, other] = &link.ends;
                for end in [one, other] {
                    let longest = ms(rtt_ms + 60);
                    assert!(end.rtt <= longest, "{rtt_ms} ms, 1 in {loss} lost: {:?}", end.rtt);
                }
                assert!(link.reports < 300 * 60, "{rtt_ms} ms: {} in 300 s", link.reports);
            }
        }
    }

    /// A lull now and then does not make a busy link slow to fail.
    #[test]
    fn the_round_trip_is_not_the_time_between_two_lulls() {
        let mut link = Link::new(60, 60, 0);
        for now in 1..600_000 {
            let packets = if now % 30_000 < 400 { 1_000_000 } else { 20 };
            link.pass(now, packets);
        }
        for end in &link.ends {
            assert!(end.rtt <= ms(120), "{:?}", end.rtt);
        }
    }

    #[test]
    fn a_longer_round_trip_than_that_of_the_topology_is_learnt() {
        let mut link = Link::new(20, 300, 0);
        for now in 1..60_000 {
            link.pass(now, 800);
        }
        for end in &link.ends {
            assert!(end.rtt > ms(250) && end.rtt < ms(400), "{:?}", end.rtt);
        }
    }

    #[test]
    fn datagrams_take_the_detour_on_which_reports_arrive() {
        let mut path = path(60);
        let all = [BEST, OVER];
        assert!(path.on_report(ms(700), report(2, false, Some(OVER)), Some(OVER)), "it asks");
        assert_eq!(path.route(ms(700), &all), Route::Over(OVER));
        assert_eq!(path.route(ms(700), &[BEST]), Route::DirectAndOver(BEST), "it is dead");
        assert_eq!(path.report(ms(700), None).receives_over, Some(OVER));
        path.on_report(ms(800), report(3, false, None), Some(BEST));
        assert_eq!(path.route(ms(800), &all), Route::DirectAndOver(BEST), "nobody knows of one");
        assert_eq!(path.report(ms(800), None).receives_over, Some(OVER), "it stays in use");
        path.on_report(ms(1750), report(4, false, None), Some(BEST));
        assert_eq!(path.report(ms(1750), None).receives_over, Some(BEST), "the other one is dead");
    }

    #[test]
    fn each_direction_has_its_own_route() {
        let mut path = path(60);
        path.on_report(ms(700), report(2, true, None), Some(OVER));
        assert_eq!(path.route(ms(700), &[OVER]), Route::Direct, "the mirror receives datagrams");
        assert!(!path.report(ms(700), None).receives, "this end does not");
        assert!(!path.is_alive(ms(700)));
    }

    #[test]
    fn a_path_that_was_dead_counts_at_once_and_after_a_while_if_it_fails_again() {
        let mut path = path(60);
        let mut counts_from = |from: u64| {
            let mut times = (from..from + 2_000).step_by(100);
            times.find(|now| {
                path.on_received(ms(*now));
                path.report(ms(*now), None).receives
            })
        };
        assert_eq!(counts_from(2_000), Some(2_000));
        assert_eq!(counts_from(4_000), Some(5_000), "two seconds after it had recovered");
        assert_eq!(counts_from(8_000), Some(9_000));
        assert_eq!(counts_from(18_000), Some(18_000));
    }

    #[test]
    fn a_process_that_was_stopped_takes_no_path_for_dead() {
        let mut path = path(60);
        path.on_received(ms(1_000));
        path.on_stalled(ms(21_000), ms(20_000));
        assert_eq!(path.route(ms(21_000), &[BEST]), Route::Direct);
        assert!(path.is_alive(ms(21_000)));
    }

    #[test]
    fn a_mirror_that_has_never_reported_takes_no_detour() {
        let path = new_path(60);
        assert_eq!(path.route(ms(5_000), &[BEST]), Route::Direct);
        assert!(!path.is_alive(ms(0)), "nor is one made over it");
    }

    #[test]
    fn reports_for_another_process_and_late_ones_do_not_count() {
        let mut path = path(60);
        let forged = PathReport { to_token: 0, token: 99, ..report(9, false, Some(OVER)) };
        assert!(path.on_report(ms(100), forged, None), "it is answered");
        assert_eq!(path.route(ms(100), &[OVER]), Route::Direct);
        assert_eq!(path.report(ms(100), Some(99)).to_token, 99);
        assert_eq!(path.report(ms(100), None).to_token, PEER_TOKEN);

        path.on_report(ms(200), report(5, true, None), None);
        assert!(!path.on_report(ms(300), report(4, false, Some(OVER)), Some(OVER)));
        assert_eq!(path.route(ms(300), &[OVER]), Route::Direct);
        path.on_report(ms(1_400), report(4, true, None), None);
        assert_eq!(
            path.report(ms(1_400), None).answers,
            4,
            "the last one is too old to compare with"
        );
        let restarted = PathReport { token: 13, ..report(1, false, Some(OVER)) };
        path.on_report(ms(400), restarted, None);
        assert_eq!(
            (path.route(ms(400), &[OVER]), path.peer_token()),
            (Route::Over(OVER), Some(13))
        );
    }

    #[test]
    fn a_mirror_that_is_gone_is_asked_once_a_second() {
        let mut path = path(60);
        let mut asked = |from: u64| {
            let ticks = (from..from + 10_000).step_by(50).map(ms);
            ticks
                .filter(|now| path.is_report_due(*now) && path.report(*now, None).wants_answer)
                .count()
        };
        assert_eq!(asked(0), 20 + 35, "every 50 ms for a second, then four times a second");
        assert_eq!(asked(10_000), 10);
    }

    #[test]
    fn answers_to_a_flood_of_reports_are_few() {
        let mut path = path(60);
        let mut answers = 0;
        for now in 1..=1000 {
            if path.on_report(ms(now), report(now as u16, true, None), None) {
                path.report(ms(now), None);
                answers += 1;
            }
        }
        assert_eq!(answers, 50);
    }
}
