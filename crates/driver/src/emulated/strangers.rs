//! Tests with more unauthenticated connections than there are handshakes.

use std::sync::Arc;
use std::time::Duration;

use quinn::{Connecting, ConnectionError, Incoming};
use tokio::time::{sleep, timeout};

use super::wire::{Like, TOKYO, Wire};
use gaia_quic::{Callers, TrackedFactory};

/// The number of handshakes of an endpoint without peers.
const PLACES: usize = 16;

/// An incoming connection, with Tokyo's side of it, unless it is refused.
async fn call(wire: &Wire) -> (Connecting, Incoming) {
    let connecting = wire.connecting(&Arc::<TrackedFactory>::default());
    let incoming = wire.endpoints[TOKYO.index()].accept().await.unwrap();
    (connecting, incoming)
}

#[tokio::test(start_paused = true)]
async fn callers_beyond_half_show_their_address_and_beyond_all_places_are_turned_away() {
    let wire = Wire::new(Like::default());
    let callers = Callers::new(0);
    let mut inside = Vec::new();
    let mut calls = Vec::new();

    for number in 0..PLACES {
        let (connecting, incoming) = call(&wire).await;
        calls.push(connecting);
        assert!(!incoming.remote_address_validated());
        let taken = callers.admit(incoming);
        if number < PLACES / 2 {
            inside.push(taken.expect("there is room for anyone"));
            continue;
        }
        assert!(taken.is_none(), "caller {number} must show its address");
        let again = wire.endpoints[TOKYO.index()].accept().await.unwrap();
        assert!(again.remote_address_validated());
        inside.push(callers.admit(again).expect("one that hears is let in"));
    }

    let (late, incoming) = call(&wire).await;
    assert!(callers.admit(incoming).is_none());
    let again = wire.endpoints[TOKYO.index()].accept().await.unwrap();
    assert!(callers.admit(again).is_none(), "every place is taken");
    let refused = late.await.unwrap_err();
    assert!(matches!(refused, ConnectionError::ConnectionClosed(_)), "{refused:?}");

    // A handshake that has ended or was given up frees its slot.
    inside.pop();
    let (_next, incoming) = call(&wire).await;
    assert!(callers.admit(incoming).is_none());
    let again = wire.endpoints[TOKYO.index()].accept().await.unwrap();

    assert!(callers.admit(again).is_some());
}

/// Peers at real addresses connect even if the half that is open to all is full.
#[tokio::test(start_paused = true)]
async fn an_honest_peer_gets_through_a_crowd_of_strangers() {
    let wire = Wire::new(Like::default());
    let callers = Callers::new(0);
    let mut strangers = Vec::new();
    for _ in 0..PLACES / 2 {
        let (connecting, incoming) = call(&wire).await;
        strangers.push((connecting, callers.admit(incoming).unwrap()));
    }

    let factories = [(); 2].map(|()| Arc::<TrackedFactory>::default());
    let connecting = wire.connecting(&factories[0]);
    let accepting = async {
        loop {
            let incoming = wire.endpoints[TOKYO.index()].accept().await.unwrap();
            if let Some((incoming, _handshake)) = callers.admit(incoming) {
                return wire.accept_with(incoming, &factories[1]).await;
            }
        }
    };

    let joined = timeout(Duration::from_secs(3), async { tokio::join!(connecting, accepting) });
    let (one, other) = joined.await.expect("it takes a round trip more");
    one.unwrap();
    other.unwrap();
    sleep(Duration::from_millis(1)).await;
}
