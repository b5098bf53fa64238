//! The end of a run: all copies become equal to the bit.

use gaia_core::codec::ValueFormat;
use gaia_core::node::Lane;
use gaia_core::server::DrainMethod;
use gaia_core::sync::{Combine, LocalStepsConfig, LocalSync, RemoteSync};
use gaia_core::types::Staleness;

use crate::cluster::{Cluster, ROOM, Setup};
use crate::{FORMATS, POLICIES, UNEVEN, asp, bsp, local_steps, ssp, tap};

fn every_model() -> Vec<RemoteSync> {
    let mut models = vec![ssp(2)];
    for format in FORMATS {
        models.extend([bsp(format), tap(format)]);
    }
    for format in ValueFormat::ALL {
        models.extend(POLICIES.map(|policy| RemoteSync::Asp(asp(policy, format))));
        for combine in [Combine::Sum, Combine::Mean] {
            let fragments = 2;
            let config = LocalStepsConfig { combine, fragments, ..local_steps(4, format) };
            models.push(RemoteSync::LocalSteps(config));
        }
        let (combine, drift_correction) = (Combine::Mean, 0.5);
        let config = LocalStepsConfig { combine, drift_correction, ..local_steps(4, format) };
        models.push(RemoteSync::LocalSteps(config));
    }
    models
}

/// Trains for some clocks with frames left lying about, then drains.
fn check(setup: &Setup, clocks: u64) -> Cluster {
    let mut cluster = Cluster::new(setup);
    for clock in 0..clocks {
        for dc in cluster.dcs() {
            let changes: Vec<(u32, f32)> = (0..setup.parameters as u32)
                .map(|at| {
                    (at, ((clock * 7 + u64::from(at) * 3 + u64::from(dc.0) * 5) % 11) as f32 - 5.0)
                })
                .collect();
            assert!(cluster.step(dc.0, &changes), "{setup:?}");
        }
        if matches!(setup.remote, RemoteSync::Bsp(_) | RemoteSync::Ssp(_)) {
            cluster.settle();
        } else if let [(from, to), ..] = cluster.pairs()[..] {
            cluster.send(from.0, to.0, Lane::Data, ROOM);
        }
    }
    cluster.drain();
    let first = bits(cluster.servers[0].copy());
    for server in &cluster.servers {
        assert_eq!(bits(server.copy()), first, "{setup:?}");
        assert_eq!(bits(server.values()), first, "{setup:?}");
    }
    cluster
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn a_drain_makes_all_copies_equal_whatever_was_on_its_way() {
    for remote in every_model() {
        for drain in [DrainMethod::Mean, DrainMethod::Residuals] {
            for data_centers in 1..5 {
                // With fewer parameters than data centers some are home to none.
                for (parameters, shares) in [0, 1, 3, 40].into_iter().flat_map(both) {
                    let remote = remote.clone();
                    let setup = Setup {
                        drain,
                        data_centers,
                        parameters,
                        shares,
                        initial: 7.0,
                        ..Setup::new(remote)
                    };
                    for clocks in [0, 1, 5] {
                        check(&setup, clocks);
                    }
                }
            }
        }
    }
}

/// With equal blocks and with blocks of very different sizes.
fn both(parameters: usize) -> [(usize, Vec<u64>); 2] {
    [(parameters, Vec::new()), (parameters, UNEVEN.to_vec())]
}

#[test]
fn draining_residuals_loses_no_update_of_anyone() {
    for format in ValueFormat::ALL {
        for remote in [tap(format)]
            .into_iter()
            .chain(POLICIES.map(|policy| RemoteSync::Asp(asp(policy, format))))
        {
            let drain = DrainMethod::Residuals;
            let cluster = check(&Setup { drain, initial: 100.0, ..Setup::new(remote) }, 9);
            assert_eq!(cluster.servers[0].copy(), cluster.everything());
        }
    }
}

#[test]
fn draining_to_the_mean_takes_the_mean_of_what_the_copies_had_become() {
    let remote = RemoteSync::Asp(asp(POLICIES[1], ValueFormat::F32));
    let mut cluster = Cluster::new(&Setup { initial: 100.0, ..Setup::new(remote) });
    for (dc, change) in [(0, 3.0), (1, 6.0), (2, -3.0)] {
        assert!(cluster.step(dc, &[(2, change)]));
    }
    cluster.drain();
    assert_eq!(cluster.servers[0].copy()[2], 102.0);
}

/// Servers are ordered to drain one after another: who is first waits for the last.
#[test]
fn nobody_drains_before_everybody_has_ended() {
    let mut cluster = Cluster::new(&Setup::new(tap(ValueFormat::F32)));
    for dc in 0..3 {
        assert!(cluster.step(dc, &[(4, 1.0)]));
    }
    let clocks = vec![gaia_core::types::Clock(1)];
    for dc in 0..2 {
        cluster.begin_drain(dc, clocks.clone());
    }
    cluster.settle();
    assert_eq!(cluster.drained, 0);
    cluster.begin_drain(2, clocks);
    cluster.settle();
    assert_eq!(cluster.drained, 3);
}

#[test]
fn a_drain_waits_for_the_clock_at_which_the_workers_stopped() {
    let remote = tap(ValueFormat::F32);
    let local = LocalSync::Ssp { staleness: Staleness(1) };
    let mut cluster = Cluster::new(&Setup { data_centers: 1, local, ..Setup::new(remote) });
    cluster.begin_drain(0, vec![gaia_core::types::Clock(1)]);
    assert_eq!(cluster.drained, 0, "the worker's last update is still on the LAN");
    assert!(cluster.step(0, &[(0, 1.0)]));
    assert_eq!(cluster.drained, 1);
}
