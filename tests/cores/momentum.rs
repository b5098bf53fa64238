//! Under momentum every copy ends where all gradients lead, on whichever way they get there.

use std::time::Duration;

use gaia_core::node::Lane;
use gaia_core::server::DrainMethod;
use gaia_core::sync::{AspConfig, Correction, Policy, RemoteSync, ValueFormat};
use gaia_core::types::{DcId, WorkerId};

use crate::asp;
use crate::cluster::{Cluster, Setup};

/// A gradient of 8 under a momentum of one half, in clocks of a second over a way of a second: the mirror's copy when it
/// arrives and one clock later, and both copies in the end.
fn check(momentum: Correction, arrived: f32, a_clock_later: f32) {
    let strict = asp(Policy::Link, ValueFormat::F32);
    let remote = RemoteSync::Asp(AspConfig { momentum, threshold: 1e-6, ..strict });
    let rtt = Duration::from_secs(2);
    let mut cluster = Cluster::new(&Setup { momentum: 0.5, rtt, ..Setup::new(remote) });
    let mut step = 8.0;
    let mut clock = |cluster: &mut Cluster| {
        cluster.pass(Duration::from_secs(1));
        assert!(cluster.step(0, &[(0, step)]) && cluster.step(1, &[]));
        step /= 2.0;
    };
    let copy = |cluster: &Cluster, dc: usize| cluster.servers[dc].values()[0];

    clock(&mut cluster);
    cluster.carry(0, 1, Lane::Data);
    assert_eq!(copy(&cluster, 1), arrived, "{momentum:?}");
    clock(&mut cluster);
    assert_eq!(copy(&cluster, 1), a_clock_later, "{momentum:?}");
    for _ in 0..40 {
        clock(&mut cluster);
        cluster.carry(0, 1, Lane::Data);
    }
    for dc in 0..2 {
        let end = copy(&cluster, dc);
        assert!((end - 16.0).abs() < 1e-4, "{momentum:?} {dc}: {end}");
    }
}

#[test]
fn a_gradient_has_its_momentum_ahead_when_it_arrives() {
    check(Correction::On, 8.0, 12.0);
}

#[test]
fn a_masked_gradient_has_caught_up_when_it_arrives() {
    // A clock at home and one on the way: 8 + 4 + 2, and a step of 2 is left.
    check(Correction::Masked, 14.0, 15.0);
}

#[test]
fn without_correction_a_copy_has_the_steps_that_have_come() {
    check(Correction::Off, 8.0, 8.0);
}

/// A worker is a clock further than the other one of its data center when the run ends, so that no gradient is known of its last
/// step.
#[test]
fn a_drain_of_residuals_delivers_the_steps_of_an_unfinished_clock() {
    let strict = asp(Policy::Link, ValueFormat::F32);
    let momentum = Correction::On;
    let remote = RemoteSync::Asp(AspConfig { momentum, threshold: 1e-6, ..strict });
    let (data_centers, workers, drain) = (2, 2, DrainMethod::Residuals);
    let setup = Setup { data_centers, workers, drain, momentum: 0.5, ..Setup::new(remote) };
    let mut cluster = Cluster::new(&setup);
    let worker = |index| WorkerId { dc: DcId(0), index };
    assert!(cluster.step_as(worker(0), &[]) && cluster.step_as(worker(1), &[]));
    assert!(cluster.step_as(worker(0), &[(0, 3.0), (7, 8.0)]));
    cluster.drain();
    for server in &cluster.servers {
        assert_eq!(server.values(), [3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 8.0]);
    }
}
