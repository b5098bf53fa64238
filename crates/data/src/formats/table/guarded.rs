//! Decoders of other crates that may panic on a broken file.

use std::cell::Cell;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// What a decoder finds, or why it gives up. If it panics, nothing is printed.
pub(super) fn guarded<T, E: Display>(decode: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let shown = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                shown(panic);
            }
        }));
    });

    IS_GUARDED.set(true);
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    IS_GUARDED.set(false);
    match decoded {
        Ok(decoded) => decoded.map_err(|error| error.to_string()),
        Err(_) => Err("the decoder gave up".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_that_panics_is_an_error() {
        let gives_up = || -> Result<(), String> { panic!("out of bounds") };
        assert_eq!(guarded(gives_up), Err("the decoder gave up".into()));
        assert_eq!(guarded(|| Err::<(), _>("short")), Err("short".into()));
        assert_eq!(guarded(|| Ok::<_, String>(3)), Ok(3));
    }
}
