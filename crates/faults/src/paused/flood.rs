//! Unauthenticated peers that connect to listening nodes, and then send nothing or an incomplete TLS record.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use super::environment::{LAN_DELAY, World};
use gaia_driver::emulated::Network;

/// Connects to an address repeatedly and keeps the connections open: many idle ones at once, and then some more each
/// second. They come from the data center of the listener, so from an address that correct nodes have, too.
pub(super) async fn flood(world: Arc<World>, at: SocketAddr) {
    let dc = world.network.dc_at(at).expect("nodes listen in data centers");
    let from = Network::address(dc, STRANGER);
    let mut held = VecDeque::new();
    for number in 0.. {
        let calling = world.streams.connect(&world.network, from, at, LAN_DELAY);
        match calling.await {
            Ok((mut pipe, _)) => {
                // Every second one begins a TLS record that never ends.
                if number % 2 == 0 {
                    let _hung_up = pipe.write_all(&[22, 3, 1]).await;
                }
                held.push_back(pipe);
            }
            Err(_) => sleep(CALL_EVERY).await,
        }
        if held.len() >= HELD_MAX {
            held.pop_front();
            sleep(CALL_EVERY).await;
        }
    }
}

const STRANGER: u16 = 1;
const HELD_MAX: usize = 400;
const CALL_EVERY: Duration = Duration::from_millis(10);
