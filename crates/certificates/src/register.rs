//! The register of signed certificates: an authority needs it to revoke a certificate of which it has no copy.

use rustls::pki_types::UnixTime;
use serde::{Deserialize, Serialize};

use super::Identity;

/// The certificates of a run in the order in which they were signed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Register {
    pub(super) run: String,
    pub(super) issued: Vec<Entry>,
}

/// One certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// In hexadecimal digits.
    pub(super) serial: String,
    pub(super) identity: String,
    /// When it was revoked, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) removed_s: Option<u64>,
}

impl Register {
    pub(super) fn new(run: &str) -> Self {
        Self { run: run.into(), issued: Vec::new() }
    }

    pub(super) fn add(&mut self, serial: &[u8], identity: &Identity) {
        let serial = hex(serial);
        self.issued.push(Entry { serial, identity: identity.to_string(), removed_s: None });
    }

    /// Marks every certificate that a node has been given so far as revoked. Returns whether one was not marked before.
    pub(super) fn remove(&mut self, identity: &Identity, now: UnixTime) -> bool {
        let name = identity.to_string();
        let marked = self
            .issued
            .iter_mut()
            .filter(|entry| entry.identity == name && entry.removed_s.is_none())
            .map(|entry| entry.removed_s = Some(now.as_secs()));
        marked.count() > 0
    }

    /// Whether every certificate that a node was given is revoked. False for a node that was given none.
    pub(super) fn is_removed(&self, identity: &Identity) -> bool {
        let name = identity.to_string();
        let mut own = self.issued.iter().filter(|entry| entry.identity == name).peekable();
        own.peek().is_some() && own.all(|entry| entry.removed_s.is_some())
    }

    /// Every node that was ever given a certificate, each once, sorted.
    pub(super) fn nodes(&self) -> Vec<Identity> {
        let mut nodes: Vec<Identity> =
            self.issued.iter().filter_map(|entry| entry.identity.parse().ok()).collect();
        nodes.sort();
        nodes.dedup();
        nodes
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits?;
    (digits.len().is_multiple_of(2) && !digits.is_empty())
        .then(|| digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
