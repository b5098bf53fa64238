//! The dispatch of mirrors' frames to the faces of the server.

use super::Server;
use super::divergence::check_frame;
use super::error::PeerError;
use crate::codec::Changes;
use crate::node::Lane;
use crate::types::{DcId, Instant};
use crate::wire::{BulkKind, ControlMessage, decode_bulk, decode_control, is_control};

impl Server {
    /// Handles a frame of a mirror.
    ///
    /// # Errors
    /// If the frame is invalid. No part of it was applied.
    pub(super) fn handle_frame(
        &mut self,
        now: Instant,
        from: DcId,
        lane: Lane,
        frame: &[u8],
    ) -> Result<(), PeerError> {
        self.remote.on_received(now, from)?;
        match lane {
            Lane::Control => {
                let message = decode_control(frame)
                    .map_err(|error| PeerError::PeerSentBadFrame { from, error })?;
                match message {
                    ControlMessage::Hello(hello) => self.handshake.check(from, hello),
                    message => self.remote.on_control(now, from, message, &mut self.store),
                }
            }
            Lane::Data if is_control(frame) => self.handle_word(from, frame),
            Lane::Data => self.handle_bulk(now, from, frame),
        }
    }

    /// Handles a control message in the data lane. Its position among the data frames is its meaning.
    fn handle_word(&mut self, from: DcId, frame: &[u8]) -> Result<(), PeerError> {
        let message =
            decode_control(frame).map_err(|error| PeerError::PeerSentBadFrame { from, error })?;
        match message {
            ControlMessage::Fork { to, incarnation } => {
                self.remote.on_fork(from, to, incarnation, &self.store)
            }
            other => {
                let (found, sync) = (other.name(), "the data lane");
                Err(PeerError::PeerSentUnexpectedKind { from, found, sync })
            }
        }
    }

    fn handle_bulk(&mut self, now: Instant, from: DcId, frame: &[u8]) -> Result<(), PeerError> {
        let parameters = self.store.values().len();
        let (header, changes) = decode_bulk(frame, parameters, &mut self.buffers)
            .map_err(|error| PeerError::PeerSentBadFrame { from, error })?;
        if header.origin != from {
            return Err(PeerError::PeerSentForeignOrigin { from, origin: header.origin });
        }

        if header.shard != self.id.shard {
            let (found, expected) = (header.shard, self.id.shard);
            return Err(PeerError::PeerSentForeignShard { from, found, expected });
        }

        let parameter = |place| match changes {
            Changes::Dense { start, .. } => start as usize + place,
            Changes::Sparse { indexes, .. } => indexes[place] as usize,
        };
        check_frame(from, changes.values(), parameter, self.store.layout())?;
        if header.kind == BulkKind::Probe
            && let Some(traveling) = &mut self.traveling
        {
            self.remote.on_probe(from, &header, &mut self.store)?;
            traveling.on_frame(from, &header, changes, parameters);
            return Ok(());
        }

        self.remote.on_bulk(now, from, &header, changes, &mut self.store)
    }
}
