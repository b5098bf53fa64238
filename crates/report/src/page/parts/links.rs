//! The table of links.

use serde::Serialize;

use crate::text::numbers;
use gaia_core::types::limits::LINKS_LISTED_MAX;
use gaia_telemetry::LinkRecord;

/// Links by bytes, the busiest first: the first are shown, the rest unfolds, up to what a browser shows at once.
#[derive(Serialize)]
pub(in crate::page) struct LinkTable {
    top: Vec<LinkRow>,
    rest: Vec<LinkRow>,
    /// The number of those that are not on the page.
    left_out: usize,
    /// Whether a partial partition has held back reads, which has a column then.
    partitioned: bool,
}

#[derive(Serialize)]
struct LinkRow {
    from: String,
    to: String,
    bandwidth: String,
    rtt: String,
    bytes: String,
    control: String,
    updates: String,
    held_back: String,
    busy: String,
    barrier: String,
    mirror_clock: String,
    waited: String,
    partition: String,
    cost: String,
}

impl LinkTable {
    /// `live` is of a run under way, of whose links some figures are known at its end.
    pub(in crate::page) fn new(links: &[LinkRecord], live: bool) -> Self {
        let mut links: Vec<&LinkRecord> = links.iter().collect();
        links.sort_by_key(|link| std::cmp::Reverse(link.bytes));
        let left_out = links.len().saturating_sub(LINKS_LISTED_MAX);
        let partitioned = links.iter().any(|link| link.blocked_s.partial_partition > 0.0);
        let mut top: Vec<LinkRow> =
            links.into_iter().take(LINKS_LISTED_MAX).map(|link| LinkRow::new(link, live)).collect();
        let rest = if top.len() > TOP + 2 { top.split_off(TOP) } else { Vec::new() };
        Self { top, rest, left_out, partitioned }
    }
}

impl LinkRow {
    fn new(link: &LinkRecord, live: bool) -> Self {
        let at_the_end = |figure: String| if live { numbers::NONE.into() } else { figure };
        Self {
            from: link.from.clone(),
            to: link.to.clone(),
            bandwidth: numbers::bandwidth(link.bandwidth_bits_per_second),
            rtt: numbers::seconds(link.rtt_ms / 1e3),
            bytes: numbers::bytes(link.bytes),
            control: at_the_end(numbers::bytes(link.control_bytes)),
            updates: at_the_end(numbers::count(link.updates)),
            held_back: at_the_end(numbers::percent(link.held_back_fraction)),
            busy: numbers::percent(link.utilisation),
            barrier: numbers::seconds(link.blocked_s.barrier),
            mirror_clock: numbers::seconds(link.blocked_s.mirror_clock),
            waited: numbers::seconds(link.blocked_s.bandwidth),
            partition: numbers::seconds(link.blocked_s.partial_partition),
            cost: at_the_end(numbers::dollars(link.cost_usd)),
        }
    }
}

const TOP: usize = 10;
