//! SIGTERM and Ctrl-C: a first one is a wish to stop, a second one an order.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// From here on a signal to end makes the flag true; one that comes after ends the process as it would have.
pub(super) fn interrupted() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal finds the flag false here, and sets it there.
        flag::register_conditional_default(signal, interrupted.clone())?;
        flag::register(signal, interrupted.clone())?;
    }
    Ok(interrupted)
}
