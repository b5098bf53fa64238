//! Messages of mirrors, and their validation.

use bytes::Bytes;
use tokio::time;
use tracing::info;

use super::ServerNode;
use crate::real::connections::message::Report;
use crate::real::error::RealError;
use crate::real::node::coordinator_client::CoordinatorClient;
use gaia_core::recovery::MessageError;
use gaia_core::server::PeerError;
use gaia_core::session::{HelloKind, SessionError};
use gaia_core::types::{DcId, Lane};

impl ServerNode {
    /// Handles a message of a mirror. The server receives the messages that it completes, in order.
    pub(super) fn on_message(&mut self, from: DcId, message: &Bytes) -> Result<(), RealError> {
        let now = self.now();
        match self.server.handle_message(now, from, message) {
            Ok(Some(HelloKind::Reset { lost, .. })) => {
                let (name, peer) = (self.context.name(), self.mirrors.name(from));
                if let Some(left_out) = self.link(from).lines.pass() {
                    info!(
                        "{peer} has lost its copy: {name} resets the link and drops {lost} frames for it{left_out}"
                    );
                }
            }
            // Either end may be the one that has lost its state.
            Err(MessageError::Session(
                error @ (SessionError::PeerForgot { .. } | SessionError::PeerReceivedUnsent { .. }),
            )) => return Err(self.forgot(from, error.to_string())),
            Err(MessageError::Peer(error)) => return self.on_refused(error),
            Err(MessageError::Session(error)) => {
                self.refuse(from, error.to_string());
                return Ok(());
            }
            Ok(_) => {}
        }

        loop {
            let (lane, frame) = match self.server.deliver(now, from) {
                Ok(Some(delivered)) => delivered,
                Ok(None) => return Ok(()),
                Err(error) => return self.on_refused(error),
            };
            self.meters.on_frame(from, lane, frame.len());
            self.link(from).refusals.on_message();
            if lane == Lane::Data && self.link(from).resumption.is_some() {
                let (own, peer) = (self.context.name(), self.mirrors.name(from));
                self.link(from).resumption.iter_mut().for_each(|one| one.on_message(&own, &peer));
            }
            let link = self.link(from);
            link.ack_due.get_or_insert_with(|| time::Instant::now() + link.ack_delay);
        }
    }

    /// Handles a frame or a hello that the server has refused.
    ///
    /// # Errors
    /// If the run cannot continue with the mirror.
    fn on_refused(&mut self, error: PeerError) -> Result<(), RealError> {
        if error.ends_run() {
            return Err(self.refused(error));
        }
        self.refuse(error.peer(), self.named(&error));
        Ok(())
    }

    /// Closes the connection to a mirror that has sent what it may not. The mirror connects again.
    fn refuse(&mut self, from: DcId, reason: String) {
        self.meters.on_frame_refused(from);
        if self.link(from).refusals.on_refused(reason.clone()) {
            self.mirrors.part(from, &reason);
        } else {
            self.mirrors.part_again(from, &reason);
        }
    }

    pub(super) fn refused(&self, error: PeerError) -> RealError {
        self.meters.on_frame_refused(error.peer());
        RealError::Peer { at: self.context.name(), reason: self.named(&error) }
    }

    /// An error with the name of the mirror, which the core knows only by the number of its data center.
    fn named(&self, error: &PeerError) -> String {
        let peer = error.peer();
        error.to_string().replacen(&peer.to_string(), &self.mirrors.name(peer), 1)
    }

    fn forgot(&self, peer: DcId, reason: String) -> RealError {
        RealError::Forgot { node: self.context.name(), peer: self.mirrors.name(peer), reason }
    }

    /// Reports mirrors that have been refused for the longest absence of a node. They count as lost.
    pub(super) async fn report_refusals(&self, coordinator: &CoordinatorClient) {
        let after = self.context.run_context.plan.failures.give_up_after.0;
        for (peer, link) in &self.links {
            if let Some(reason) = link.refusals.lasting(after) {
                coordinator.report(&Report::Refuses { peer: *peer, reason: reason.into() }).await;
            }
        }
    }
}
