//! What workers and servers say to each other across a LAN: a byte that chooses the message, then its body.

use std::sync::Arc;
use std::time::Duration;

use gaia_core::node::{
    ProbeRequest, Probed, RowsRead, WorkerMessage, decode_rows_read, decode_worker_message,
    encode_rows_read, encode_worker_message,
};
use gaia_core::store::{ShardDeltas, ShardRows};
use gaia_core::sync::WaitReason;
use gaia_core::types::{
    Clock, DcId, Deltas, ModelLayout, RowSet, ShardId, ShardLayout, TableDeltas, TableLayout,
    TableRows,
};
use gaia_core::wire::ReceivedBody;

use super::{Seed, Target};

pub const TARGET: Target = Target { name: "lan", check, seeds };

fn check(data: &[u8]) {
    let Some((kind, body)) = data.split_first() else { return };
    let (body, layout) = (ReceivedBody::from(body.to_vec()), layout());
    if *kind == FROM_WORKER {
        if let Ok(message) = decode_worker_message(&body, &layout) {
            let again = encode_worker_message(&message, &layout).to_vec();
            assert!(
                decode_worker_message(&again.into(), &layout).is_ok(),
                "it is understood again"
            );
        }
    } else if let Ok(message) = decode_rows_read(&body, &layout) {
        assert!(message.values.len() <= layout.parameters());
        let again = encode_rows_read(&message).to_vec();
        let message = decode_rows_read(&again.clone().into(), &layout).expect("understood again");
        assert_eq!(encode_rows_read(&message).to_vec(), again, "as what it was");
    }
}

/// The second of two shards, with rows that are not its own between those that are.
fn layout() -> ShardLayout {
    let table = |name: &str, rows, width| TableLayout { name: name.into(), rows, width };
    let model = ModelLayout::new(vec![table("users", 9, 2), table("items", 4, 1)]);
    ShardLayout::new(Arc::new(model), ShardId(1), 2)
}

fn seeds() -> Vec<Seed> {
    let layout = layout();
    let asked = RowSet { tables: vec![TableRows::All, TableRows::listed(vec![0, 1, 2, 3])] };
    let read = WorkerMessage::Read { clock: CLOCK, rows: ShardRows::of(&asked, &layout) };
    let deltas = |rows: Vec<u32>, width: usize| {
        let values = (0..rows.len() * width).map(|number| number as f32).collect();
        TableDeltas::listed(rows, values)
    };
    let all = Deltas { tables: vec![deltas((0..9).collect(), 2), deltas(vec![2, 3], 1)] };
    let layouts = ShardLayout::all(layout.model(), 2);
    let probed = Probed { of: DcId(2), clock: Clock(3), away: 0.5, home: 0.25, untrained: 2.0 };
    let update = WorkerMessage::Update {
        clock: CLOCK,
        at: CLOCK,
        deltas: ShardDeltas::split(all, &layouts).remove(1),
        probed: vec![probed],
        learning_rate_factor: Some(0.5),
        keeps: false,
    };
    let waited = (WaitReason::Announced { from: DcId(1), row: 7 }, Duration::from_millis(20));
    let copy = vec![1.0; layout.parameters()];
    let probe = ProbeRequest { of: DcId(2), clock: Clock(3), away: copy.clone(), home: copy };
    let rows = RowsRead {
        clock: CLOCK,
        at: CLOCK,
        values: vec![0.5; ASKED].into(),
        held: vec![waited],
        probes: vec![probe],
        keeps: false,
        stretch: None,
    };
    let from_worker =
        |message| [&[FROM_WORKER][..], &encode_worker_message(message, &layout).to_vec()].concat();
    vec![
        ("anew", from_worker(&WorkerMessage::Reset)),
        ("read", from_worker(&read)),
        ("rows", [&[FROM_SERVER][..], &encode_rows_read(&rows).to_vec()].concat()),
        ("update", from_worker(&update)),
    ]
}

const CLOCK: Clock = Clock(5);
/// Values that were asked for.
const ASKED: usize = 6;
const FROM_WORKER: u8 = 0;
const FROM_SERVER: u8 = 1;
