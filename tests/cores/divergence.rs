//! Changes that are not finite, or too large to be added up: whoever sends them is named, and nobody else has them.

use gaia_core::codec::{Changes, ValueFormat};
use gaia_core::node::Lane;
use gaia_core::server::PeerError;
use gaia_core::sync::RemoteSync;
use gaia_core::types::{Clock, DcId, TableId, WorkerId};
use gaia_core::wire::BulkKind;

use crate::cluster::{Cluster, Setup};
use crate::peers::{bulk, header};
use crate::{POLICIES, asp, bsp, local_steps, ssp, tap};

fn models() -> [RemoteSync; 5] {
    [
        bsp(ValueFormat::F32),
        ssp(2),
        tap(ValueFormat::F32),
        RemoteSync::Asp(asp(POLICIES[1], ValueFormat::F32)),
        RemoteSync::LocalSteps(local_steps(1, ValueFormat::F32)),
    ]
}

const DIVERGED: [f32; 5] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e38, -1e38];

/// One worker poisons nobody: its update is refused as a whole, its clock is finished all the same, and what others have
/// learnt crosses as before.
#[test]
fn a_workers_diverged_update_is_named_and_reaches_nobody() {
    for remote in models() {
        for value in DIVERGED {
            let mut cluster = Cluster::new(&Setup { workers: 2, ..Setup::new(remote.clone()) });
            let [honest, hostile] = [0, 1].map(|index| WorkerId { dc: DcId(0), index });
            assert!(cluster.step_as(honest, &[(0, 1.0)]));
            assert!(cluster.step_as(hostile, &[(1, 1.0), (5, value), (6, value)]));
            for dc in [1, 2] {
                for index in [0, 1] {
                    assert!(cluster.step_as(WorkerId { dc: DcId(dc), index }, &[]));
                }
            }
            cluster.settle();

            let [found] = cluster.diverged[..] else { panic!("{:?}", cluster.diverged) };
            let place = (found.worker, found.clock, found.table, found.row);
            assert_eq!(place, (hostile, Clock(0), TableId(0), 5));
            assert_eq!(found.value.to_bits(), value.to_bits());
            for server in &cluster.servers {
                assert_eq!(server.clock(), Clock(1), "nobody waits for it");
                assert_eq!(server.values()[1..], [0.0; 7]);
                assert_eq!(server.values()[0], 1.0, "what is sound has crossed");
            }
        }
    }
}

#[test]
fn a_mirrors_diverged_frame_is_refused_and_names_it() {
    let kinds: [BulkKind; 5] = [
        BulkKind::Partial,
        BulkKind::Partial,
        BulkKind::Update,
        BulkKind::Update,
        BulkKind::Partial,
    ];
    for (remote, kind) in models().into_iter().zip(kinds) {
        for value in DIVERGED {
            let mut cluster = Cluster::new(&Setup::new(remote.clone()));
            let (indexes, values) = ([0, 2], [1.0, value]);
            let changes = Changes::Sparse { indexes: &indexes, values: &values };
            let given = cluster.give(1, 0, Lane::Data, bulk(&header(kind, 1), changes));
            let refused = given.unwrap_err();
            assert!(refused.to_string().starts_with("diverged: dc1 sent"), "{refused}");
            assert!(
                matches!(refused, PeerError::PeerSentDivergedChange { from: DcId(1), row: 2, .. }),
                "{refused}"
            );
            assert_eq!(cluster.servers[0].values(), [0.0; 8]);
        }
    }
}
