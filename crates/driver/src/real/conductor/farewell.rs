//! The end of a run: waits until all nodes have received the last order.

use std::collections::BTreeSet;

use tokio::time::timeout;

use super::{Conductor, RETURN_MAX};
use crate::real::conductor::membership::MembershipEvent;
use crate::real::conductor::receiving::Received;
use crate::real::connections::message::Order;
use crate::real::error::{ChannelError, RealError};
use gaia_core::types::NodeId;

impl Conductor<'_> {
    /// Waits until all of these nodes have closed their connections, which they do after the last order. A node that
    /// was disconnected before it reconnects, and receives the order again.
    pub(super) async fn see_off(&mut self, mut here: BTreeSet<NodeId>) -> Result<(), RealError> {
        let leaving = async {
            while !here.is_empty() {
                match self.membership.next_event(&mut self.coordinator).await {
                    MembershipEvent::Joined(node) => {
                        self.on_joined(node).await?;
                        self.membership.send(node, &Order::End).await;
                        here.insert(node);
                    }
                    MembershipEvent::Received(Received {
                        node,
                        message: Err(ChannelError::Closed),
                        ..
                    }) => {
                        here.remove(&node);
                    }
                    MembershipEvent::Received(_) | MembershipEvent::CopyLost { .. } => {}
                }
            }
            Ok(())
        };
        // Late nodes are not waited for.
        timeout(RETURN_MAX, leaving).await.unwrap_or(Ok(()))
    }
}
