//! The end of a run, as far as everybody has heard of it.

use std::collections::BTreeSet;

use tokio::time::timeout;

use super::{Conductor, RETURN_MAX, nodes};
use crate::driver::real::error::{ChannelError, RealError};
use crate::driver::real::hearing::Heard;
use crate::driver::real::message::Order;
use crate::driver::real::roll::News;
use crate::types::NodeId;

impl Conductor<'_> {
    /// Waits until everybody has hung up, as who has heard the last order does. Who was cut off before calls again, and is
    /// told again.
    pub(super) async fn see_off(&mut self) -> Result<(), RealError> {
        let here = nodes(&self.seat.site).filter(|node| self.roll.has(*node));
        let mut here: BTreeSet<NodeId> = here.collect();
        let leaving = async {
            while !here.is_empty() {
                match self.roll.news().await {
                    News::Joined(node) => {
                        self.on_joined(node).await?;
                        self.roll.tell(node, &Order::End).await;
                        here.insert(node);
                    }
                    News::Heard(Heard { node, message: Err(ChannelError::Closed), .. }) => {
                        here.remove(&node);
                    }
                    News::Heard(_) => {}
                }
            }
            Ok(())
        };
        // Who is late is not waited for.
        timeout(RETURN_MAX, leaving).await.unwrap_or(Ok(()))
    }
}
