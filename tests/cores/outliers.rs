//! Limits on the updates of workers: what is applied is what all data centers get.

use gaia_core::codec::ValueFormat;
use gaia_core::server::{DrainMethod, OutlierStats};
use gaia_core::sync::{OutlierAction, OutlierConfig, RemoteSync};
use gaia_core::types::{DcId, WorkerId};

use crate::cluster::{Cluster, Setup};
use crate::{POLICIES, asp, bsp, local_steps, rounds_of_scripts, tap};

fn limited(remote: RemoteSync, action: OutlierAction) -> Setup {
    let outliers = OutlierConfig { norm_max: Some(10.0), median_times: None, action };
    Setup { outliers: Some(outliers), ..Setup::new(remote) }
}

#[test]
fn of_an_update_above_the_limit_all_copies_get_what_was_applied() {
    let f32 = ValueFormat::F32;
    let remotes = [
        tap(f32),
        RemoteSync::Asp(asp(POLICIES[0], f32)),
        RemoteSync::Asp(asp(POLICIES[1], f32)),
        bsp(f32),
        RemoteSync::LocalSteps(local_steps(1, f32)),
    ];
    for remote in remotes {
        for (action, applied) in
            [(OutlierAction::Clip, [6.0, 8.0]), (OutlierAction::Refuse, [0.0, 0.0])]
        {
            let setup = limited(remote.clone(), action);
            let mut cluster = Cluster::new(&Setup { drain: DrainMethod::Residuals, ..setup });
            assert!(cluster.step(0, &[(0, 30.0), (1, 40.0)]));
            assert!(cluster.step(1, &[(2, 8.0)]));
            assert!(cluster.step(2, &[]));
            cluster.settle();
            cluster.drain();

            let [first, second] = applied;
            for server in &cluster.servers {
                assert_eq!(server.values()[..3], [first, second, 8.0], "{remote:?} {action:?}");
            }
            let found = OutlierStats { updates: 1, norm_max: 50.0 };
            assert_eq!(cluster.servers[0].outlier_stats(), [found]);
            assert_eq!(cluster.servers[1].outlier_stats(), [OutlierStats::default()]);
        }
    }
}

/// A worker that keeps changes has values that no server has limited.
#[test]
fn a_script_keeps_no_changes_where_updates_have_limits() {
    let remote = RemoteSync::LocalSteps(rounds_of_scripts());
    let setup = limited(remote, OutlierAction::Clip);
    let mut cluster = Cluster::new(&Setup { deltas_are_shares: true, ..setup });
    cluster.ask(0, &[]);
    let worker = WorkerId { dc: DcId(0), index: 0 };
    assert_eq!(cluster.answer_to(worker).unwrap().stretch, None);
}
