//! Workers that call a server, which lets them in once it has a copy.

use tracing::info;

use super::ServerNode;
use crate::driver::real::door::Guest;
use crate::driver::real::error::RealError;
use crate::types::{DcId, NodeId, WorkerId};

impl ServerNode {
    /// Somebody calls.
    pub(super) async fn on_guest(&mut self, guest: Guest) -> Result<(), RealError> {
        let NodeId::Worker(worker) = guest.hello.node else { return Ok(()) };
        if self.workers.near() == Some(worker) {
            guest.channel.refuse("this worker shares the server's process".into()).await;
            return Ok(());
        }
        self.let_in(worker, Some(guest))
    }

    /// Takes a worker in, the one in this process where there is no guest; it waits where the copy is on its way.
    pub(super) fn let_in(
        &mut self,
        worker: WorkerId,
        guest: Option<Guest>,
    ) -> Result<(), RealError> {
        let says_next = match &guest {
            Some(guest) => guest.hello.says_next,
            None => self.workers.near_says_next(self.server.server().id().shard),
        };
        let due = self.server.handle_worker_joined(self.now(), worker, says_next);
        let Some(due) = due else {
            self.parked.insert(worker, guest);
            return Ok(());
        };
        // What is due is as good as an answer: the worker forgets what came before.
        self.write()?;
        match guest {
            Some(guest) => self.workers.join(worker, guest.channel, due),
            None => self.workers.join_near(worker, due),
        }
        Ok(())
    }

    /// Takes in those who waited for the copy, once it is there.
    pub(super) fn let_in_parked(&mut self) -> Result<(), RealError> {
        if self.parked.is_empty() || self.server.is_rebuilding() {
            return Ok(());
        }
        let clock = self.server.server().rebuilt_at();
        info!("{} has a copy again, of clock {clock}", self.seat.name());
        let mut parked = std::mem::take(&mut self.parked).into_iter();
        parked.try_for_each(|(worker, guest)| self.let_in(worker, guest))
    }

    /// Takes the copy of a mirror, unless that was begun before.
    pub(super) fn rebuild(&mut self, from: DcId) -> Result<(), RealError> {
        if !self.server.is_new() {
            return Ok(());
        }
        info!(
            "{} has lost its copy, and takes that of {}",
            self.seat.name(),
            self.mirrors.name(from)
        );
        let begun = self.server.handle_rebuild(self.now(), from);
        begun.map_err(|error| self.refused(error))
    }
}
