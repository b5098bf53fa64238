//! What changes of a server as time goes on, taken out of it and put back.

use super::Server;
use crate::types::{DcId, StateError, Walk};

/// How far the frames of one link have come, by their sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    pub peer: DcId,
    /// The last that was sent to the peer.
    pub sent: u64,
    /// The last of the peer's that was applied.
    pub received: u64,
}

impl Server {
    /// Walks over what changes as time goes on, once all outputs are polled.
    pub fn state(&mut self, walk: &mut Walk<'_>) -> Result<(), StateError> {
        assert!(self.outputs.is_empty(), "a state is whole once outputs are polled");
        self.store.state(walk)?;
        let layout = self.store.layout();
        self.local.state(&mut walk.at("local"), layout)?;
        self.handshake.state(walk)?;
        self.remote.state(&mut walk.at("remote"), layout)?;
        if let Some(guard) = &mut self.guard {
            guard.state(&mut walk.at("guard"), layout.parameters())?;
        }
        walk.record("draining", &mut self.draining)?;
        walk.record("read_fraction", &mut self.read_fraction)?;
        walk.record("copy_ready", &mut self.copy_ready)
    }

    /// How far the frames of each link have come.
    pub fn watermarks(&self) -> Vec<Watermark> {
        self.remote.watermarks()
    }
}
