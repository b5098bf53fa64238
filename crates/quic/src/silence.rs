//! Detects that a peer is silent, and tells it.
//!
//! QUIC's own idle timeout ends a connection without a word. On a link that is dead in one direction only, the end that
//! still receives would learn that the other has given the connection up only once its own timeout has passed. So a silent
//! connection is closed before that, and the peer is told. The owner hears of the silence earlier still, so that nobody has to
//! wait for what may not come.

use std::time::Duration;

use quinn::Connection;
use tokio::time::sleep;

use super::SILENT;

/// Waits until no packet has arrived for [`SILENCE_MAX`]: no data, no acknowledgement, and none of the packets that an idle
/// peer sends every [`KEEP_ALIVE`]. Calls `suspect` before that, after [`SUSPECTED_AFTER`] and at every look from then on, for
/// as long as nothing arrives.
///
/// Silence is counted in intervals in which this process has looked, so that one that was stopped for a while does not take
/// its own pause for the peer's. On a link with a long round trip it has to last for several of them: QUIC probes a silent
/// link after one to three.
pub(super) async fn silence(connection: &Connection, suspect: impl Fn()) {
    let (mut received, mut silent) = (0, Duration::ZERO);
    while silent < SILENCE_MAX.max(connection.rtt() * 6) {
        sleep(KEEP_ALIVE).await;
        let datagrams = connection.stats().udp_rx.datagrams;
        silent = if datagrams > received { Duration::ZERO } else { silent + KEEP_ALIVE };
        received = datagrams;
        if silent >= SUSPECTED_AFTER.max(connection.rtt() * 3) {
            suspect();
        }
    }
}

/// Closes a connection whose peer is silent.
pub(super) fn close_silent(connection: &Connection) {
    connection.close(SILENT, b"no packet of this node has arrived");
}

/// What is said of a silent peer at this end.
pub(super) const SILENT_REASON: &str = "no packet has arrived";

/// The time after which a silent peer may be dead. Its link may as well lose many packets, or have queued them for seconds.
const SUSPECTED_AFTER: Duration = Duration::from_secs(1);

/// The time within which a dead peer is detected.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// The interval of keep-alive packets. Several fit into [`SILENCE_MAX`], so that some may be lost.
pub(super) const KEEP_ALIVE: Duration = Duration::from_millis(500);
