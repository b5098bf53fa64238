//! Certificates of a run: who is let in, who is not and why, and the directory and verbs that keep them.
#![allow(clippy::unwrap_used)]

mod commands;
mod directory;
mod handshake;
mod refused;
mod running;

use std::time::Duration;

use gaia_certificates::{Authority, Credentials, Identity, Validity};
use rustls::pki_types::UnixTime;

const RUN: &str = "demo";

fn now() -> UnixTime {
    UnixTime::now()
}

fn days_from_now(days: i64) -> UnixTime {
    let seconds = now().as_secs().checked_add_signed(days * 86_400).unwrap();
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}

fn from_to(from: i64, to: i64) -> Validity {
    Validity { not_before: days_from_now(from), not_after: days_from_now(to) }
}

fn server(dc: &str) -> Identity {
    Identity::server(RUN, dc, 0)
}

/// An authority that is a year old.
fn authority() -> Authority {
    Authority::create(RUN, days_from_now(-365)).unwrap()
}

fn issue(authority: &mut Authority, identity: &Identity) -> Credentials {
    authority.issue(identity, from_to(-1, 90)).unwrap()
}
