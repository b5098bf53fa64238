//! A table of which a worker holds the rows that it has named, and no others.

use std::sync::Arc;

use gaia_core::application::{ApplicationError, Task, Work};
use gaia_core::node::{RowsRead, WorkerMessage};
use gaia_core::store::{ShardRows, ShardStore};
use gaia_core::types::{
    Clock, DcId, Deltas, InitialRows, Model, ModelLayout, Persist, RowSet, ShardId, ShardLayout,
    State, TableDeltas, TableId, TableLayout, TableRows, WorkerId,
};
use gaia_core::worker::{Worker, WorkerOutput};

const DENSE: TableId = TableId(0);
const SPARSE: TableId = TableId(1);

fn rule() -> InitialRows {
    InitialRows::new(5, 1.0, 0.5).unwrap()
}

/// Of 1,000 rows of a sparse table.
fn layout() -> Arc<ModelLayout> {
    let table = |name: &str, rows| TableLayout { name: name.into(), rows, width: 3 };
    let layout = ModelLayout::new(vec![table("dense", 2), table("sparse", 1_000)]);
    Arc::new(layout.with_sparse_tables([(SPARSE, rule())]))
}

/// Reads two rows in each clock, and doubles them.
struct Doubling;

fn rows_at(clock: Clock) -> Vec<u32> {
    vec![clock.0 as u32, 999 - 7 * clock.0 as u32]
}

impl Task for Doubling {
    fn rows(&mut self, clock: Clock) -> RowSet {
        RowSet { tables: vec![TableRows::All, TableRows::listed(rows_at(clock))] }
    }

    fn iterate(&mut self, clock: Clock, model: &Model) -> Result<(Deltas, Work), ApplicationError> {
        assert_eq!(model.values.len(), 6 + 6, "it holds what it reads");
        let mut changes = Vec::new();
        for row in rows_at(clock) {
            let mut initial = [0.0; 3];
            rule().write(row as usize, &mut initial);
            assert_eq!(model.row(SPARSE, row as usize), initial, "row {row}");
            changes.extend(initial);
        }
        assert_eq!(model.table(DENSE), [0.0; 6]);
        let sparse = TableDeltas::listed(rows_at(clock), changes);
        Ok((Deltas { tables: vec![TableDeltas::none(), sparse] }, Work::default()))
    }
}

fn worker(shards: usize) -> Worker {
    let layout = layout();
    let id = WorkerId { dc: DcId(0), index: 0 };
    let task = Box::new(Doubling);
    Worker::new(id, layout.clone(), ShardLayout::all(&layout, shards), task, None)
}

/// The reads that a worker has sent, by shard, and the updates are added to stores.
fn reads(worker: &mut Worker, stores: &mut [ShardStore]) -> Vec<(ShardId, ShardRows)> {
    let mut reads = Vec::new();
    while let Some(output) = worker.poll_output() {
        let WorkerOutput::ToServer { shard, message } = output else { continue };
        match message {
            WorkerMessage::Read { rows, .. } => reads.push((shard, rows)),
            WorkerMessage::Update { deltas, .. } => {
                stores[shard.index()].add(&deltas, |_, _, _| {});
            }
            WorkerMessage::HandOver { .. } => panic!("it keeps no changes"),
            WorkerMessage::Reset => panic!("it has not lost its state"),
        }
    }
    reads
}

fn reply(worker: &mut Worker, stores: &mut [ShardStore], (shard, rows): &(ShardId, ShardRows)) {
    let (clock, values) = (worker.clock(), stores[shard.index()].read(rows));
    let (at, held, probes) = (clock, Vec::new(), Vec::new());
    let message = RowsRead { clock, at, values, held, probes, keeps: false, stretch: None };
    worker.handle_rows(*shard, message);
}

#[test]
fn a_worker_holds_what_it_reads_also_where_it_was_saved_between_two_replies() {
    for shards in 1..4 {
        let initial = Model::without_sparse_rows(layout());
        let store = |layout| ShardStore::new(layout, &initial);
        let mut stores: Vec<ShardStore> =
            ShardLayout::all(&layout(), shards).into_iter().map(store).collect();
        let mut running = worker(shards);
        running.handle_start();

        for _ in 0..5 {
            let reads = reads(&mut running, &mut stores);
            assert_eq!(reads.len(), shards);
            for (answered, read) in reads.iter().enumerate() {
                if answered == 1 {
                    let state = State::of(|walk| running.save(walk, ()));
                    running = worker(shards);
                    state.restore(|walk| running.restore(walk, ())).unwrap();
                }
                reply(&mut running, &mut stores, read);
            }
            running.compute().unwrap();
            running.handle_computed();
        }

        reads(&mut running, &mut stores);
        let mut model = Model::zeros(layout());
        for store in &stores {
            store.layout().copy_into(store.values(), &mut model);
        }
        for row in 0..1_000 {
            let mut expected = [0.0; 3];
            rule().write(row, &mut expected);
            let is_doubled = (0..5).any(|clock| rows_at(Clock(clock)).contains(&(row as u32)));
            let factor = if is_doubled { 2.0 } else { 1.0 };
            let expected = expected.map(|value| factor * value);
            assert_eq!(model.row(SPARSE, row), expected, "{shards} shards, row {row}");
        }
    }
}
