//! A mirror with a certificate that means harm: it takes part as the others do, and sends frames that none may send, and
//! permitted ones without end. The others train on as without it.

use std::time::Duration;

use bytes::Bytes;
use gaia_core::codec::{Changes, ValueFormat, encode_indexes};
use gaia_core::node::Lane;
use gaia_core::sync::{AspConfig, Brake, RemoteSync};
use gaia_core::types::{Clock, DcId, DurationSetting, ShardId, Staleness, WorkerId};
use gaia_core::wire::{BulkHeader, BulkKind, ControlMessage, LinkReport, encode_control};

use crate::cluster::{Cluster, ROOM, Setup};
use crate::peers::{bulk, header};
use crate::{POLICIES, asp, bsp, local_steps, ssp, tap};

const HOSTILE: u16 = 2;
const TURNS: u64 = 120;
const TURN: Duration = Duration::from_millis(100);

/// How often each permitted message is said in each turn.
const TIMES: usize = 25;

/// Both brakes, so that what the hostile one says of its clocks and its updates matters.
fn braked() -> RemoteSync {
    RemoteSync::Asp(AspConfig {
        selective_barrier: Brake::On,
        mirror_clock: Brake::On,
        data_center_staleness: Some(Staleness(2)),
        barrier_deadline: DurationSetting(DEADLINE),
        ..asp(POLICIES[1], ValueFormat::F32)
    })
}

/// Frames that a server must refuse. `sent` is the last one that it has taken, if there was one.
fn forbidden(sent: Option<&Bytes>) -> Vec<(Lane, Bytes)> {
    let of_hostile =
        |kind, sequence| BulkHeader { origin: DcId(HOSTILE), ..header(kind, sequence) };
    let value = Changes::Dense { start: 0, values: &[1.0] };
    let update = of_hostile(BulkKind::Update, 1);
    let good = bulk(&update, value);

    let mut frames = vec![
        // Lengths.
        Bytes::new(),
        good.slice(..good.len() - 1),
        good.slice(..20),
        [&good[..], &[0; 3]].concat().into(),
        // A checksum.
        [&good[..good.len() - 1], &[good[good.len() - 1] ^ 1]].concat().into(),
        // Sequence numbers, an origin, a shard and parameters of others.
        bulk(&of_hostile(BulkKind::Update, u64::MAX), value),
        bulk(&of_hostile(BulkKind::Partial, 0), value),
        bulk(&BulkHeader { origin: DcId(1), ..update }, value),
        bulk(&BulkHeader { shard: ShardId(7), ..update }, value),
        bulk(&update, Changes::Dense { start: 1 << 20, values: &[1.0] }),
        bulk(&update, Changes::Dense { start: 0, values: &[1.0; 1 << 10] }),
    ];
    // A replay.
    frames.extend(sent.cloned());

    let control = good.slice(..good.len() / 2);
    frames.into_iter().map(|frame| (Lane::Data, frame)).chain([(Lane::Control, control)]).collect()
}

/// What a mirror may say, however often it does, and what makes nobody wait: announcements of updates and clocks that it
/// never sends do, up to a deadline.
fn permitted() -> Vec<Bytes> {
    let messages = [
        ControlMessage::MirrorClock { clock: Clock(0), sequence: 0 },
        ControlMessage::Announce {
            announcement: u64::MAX,
            clock: Clock(1),
            sequence: u64::MAX,
            indexes: packed(&[]),
        },
        ControlMessage::LinkReport(LinkReport::default()),
        ControlMessage::CaughtUp { version: u64::MAX, sequence: u64::MAX },
        ControlMessage::Tightness { steps: 0 },
    ];
    messages.iter().map(control).collect()
}

fn packed(indexes: &[u32]) -> Bytes {
    let mut packed = Vec::new();
    encode_indexes(indexes, &mut packed);
    packed.into()
}

fn control(message: &ControlMessage) -> Bytes {
    let mut frame = Vec::new();
    encode_control(message, &mut frame);
    frame.into()
}

/// What became of a run: the clocks of the honest data centers, their copies, and how many frames the hostile one has
/// sent besides and how many of them were refused.
struct Outcome {
    clocks: [u64; 2],
    copies: [Vec<f32>; 2],
    sent: u64,
    refused: u64,
}

/// Runs turns of the same length. In each of them every data center finishes a clock unless its read is held back.
fn run(
    remote: &RemoteSync,
    mut besides: impl FnMut(&mut Cluster, Option<&Bytes>) -> [u64; 2],
) -> Outcome {
    let mut cluster = Cluster::new(&Setup::new(remote.clone()));
    let (mut sent, mut refused) = (0, 0);
    for turn in 0..TURNS {
        for dc in 0..3 {
            cluster.step(dc, &[((turn % 7) as u32, 4.0), (7, 1.0 + f32::from(dc))]);
        }
        cluster.send(HOSTILE, 0, Lane::Data, ROOM);
        let of_link = cluster.lanes.get(&(DcId(HOSTILE), DcId(0), Lane::Data));
        let last = of_link.and_then(|frames| frames.back().cloned());
        cluster.settle();

        let [more, of_them] = besides(&mut cluster, last.as_ref());
        (sent, refused) = (sent + more, refused + of_them);

        cluster.pass(TURN);
        for dc in 0..3 {
            let due = cluster.servers[usize::from(dc)].poll_timeout();
            if due.is_some_and(|(at, _)| at <= cluster.now) {
                cluster.wake(dc);
            }
        }
    }

    let clock = |dc| cluster.clock_of(WorkerId { dc: DcId(dc), index: 0 }).0;
    let copy = |dc: usize| cluster.servers[dc].values().to_vec();
    Outcome { clocks: [clock(0), clock(1)], copies: [copy(0), copy(1)], sent, refused }
}

#[test]
fn others_train_on_while_a_mirror_sends_what_it_may_not_and_says_what_it_may_without_end() {
    let models = [
        bsp(ValueFormat::F32),
        ssp(2),
        tap(ValueFormat::F32),
        braked(),
        RemoteSync::LocalSteps(local_steps(2, ValueFormat::F32)),
    ];
    for remote in models {
        let alone = run(&remote, |_, _| [0; 2]);
        let flooded = run(&remote, |cluster, last| {
            let (mut sent, mut refused) = (0, 0);
            for to in [0, 1] {
                for (lane, frame) in forbidden(last.filter(|_| to == 0)) {
                    let error = cluster.give(HOSTILE, to, lane, frame);
                    assert!(error.is_err(), "{remote:?} takes a forbidden frame");
                    (sent, refused) = (sent + 1, refused + 1);
                }
                for frame in permitted().iter().cycle().take(TIMES * permitted().len()) {
                    // Models without this message refuse it.
                    let given = cluster.give(HOSTILE, to, Lane::Control, frame.clone());
                    (sent, refused) = (sent + 1, refused + u64::from(given.is_err()));
                }
            }
            [sent, refused]
        });

        assert!(flooded.sent > 100 * TURNS && flooded.refused > 20 * TURNS, "{}", flooded.sent);
        for (with, without) in flooded.clocks.iter().zip(alone.clocks) {
            assert!(without * 3 > TURNS, "{remote:?} trains: {without}");
            assert!(with * 20 >= without * 19, "{remote:?}: {with} clocks, {without} without it");
        }
        assert_eq!(flooded.copies, alone.copies, "{remote:?}: what is refused leaves no trace");
    }
}

/// An announcement that is not kept is the one message of a mirror that others must wait for: a read each, up to the
/// deadline of the barrier.
#[test]
fn announcements_that_are_not_kept_cost_others_no_more_than_the_deadline_of_each_read() {
    let mut number = 0;
    let flooded = run(&braked(), |cluster, _| {
        for to in [0, 1] {
            for _ in 0..TIMES {
                number += 1;
                let message = ControlMessage::Announce {
                    announcement: number,
                    clock: Clock(1),
                    sequence: u64::MAX,
                    indexes: packed(&[0, 1, 2, 3, 4, 5, 6, 7]),
                };
                cluster.give(HOSTILE, to, Lane::Control, control(&message)).unwrap();
            }
        }
        [2 * TIMES as u64, 0]
    });
    // A read is asked for in the turn after the answer to the one before.
    let most = DEADLINE + 2 * TURN;
    let least = (TURNS as u32 * TURN).as_millis() / most.as_millis();
    for clocks in flooded.clocks {
        assert!(u128::from(clocks) >= least, "{clocks} clocks, expected {least}");
    }
}

const DEADLINE: Duration = Duration::from_secs(1);
