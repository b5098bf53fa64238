//! Fault schedules: without a planted bug no schedule violates an invariant, and with each planted bug some schedule does.
//!
//! Schedules that have failed, by the seeds that drew them then, and their regression tests below:
//!
//! | seed or test | found by | symptom | fix |
//! |---|---|---|---|
//! | 10, 44, 67 | conservation | with `drain.method = "residuals"`, the drain over hubs lost the updates that links behind a hub had not carried | each link on the way drains its own residuals (`server/remote/mirrors/draining.rs`) |
//! | [`a_worker_computes_an_iteration_once`] | panic | a worker that was polled twice for its next iteration returned it twice | an iteration is returned once (`recovery/worker.rs`) |
//! | [`updates_that_come_to_nothing_are_not_asked_for_twice`], seed 548 | durability | a restarted server reported a clock with another sequence number: it had removed updates that cancelled out from its outbox, and this was not logged | a cut is logged even if it yields no frame (`recovery/durable_server.rs`) |
//! | 468, 869, 2622, 12055 | conservation | a server that had taken a mirror's copy received the updates of a later joiner twice: from the joiner, and from that mirror, which forwarded them as part of its backlog | a backlog contains only updates of data centers that were active when the copy was taken (`server/remote/mirrors/mirror_client/rebuilding.rs`) |
//! | 11111, [`a_worker_that_is_reset_where_it_is_over_is_known_to_a_server_that_has_lost_it`] | liveness | a worker whose state was older than its servers' was reset at the clock where it had to stop, and read nothing. A server that had lost its disk and estimated the worker's clock waited for it forever | a worker that is reset reads, even if it has to stop (`worker/mod.rs`) |
//! | 204870, [`a_worker_that_is_reset_twice_is_not_behind_its_servers`] | liveness | a worker restarted with a checkpoint that was written after a reset and before any reply of a server. It took what the servers had received since for what they had received before, and repeated a read forever | only the process that resumed the work counts servers as ahead (`recovery/worker.rs`) |
//! | 700008577, [`a_late_joiner_that_loses_its_disk_before_it_connects_to_its_source_receives_each_update_once`] | conservation | a late joiner lost its disk before it was ever connected to its source. A mirror had notified the source of the joiner's first incarnation, and the source had taken a copy for it. When the joiner requested a copy in its second incarnation, the source counted the contents of the first copy as sent, and made the joiner subtract them | the first hello of a server resets its link if other mirrors have reported an earlier incarnation of it (`server/remote/mirrors/rebuild.rs`) |
//! | 931028167, 931069069, `a_word_of_an_incarnation_before_the_first_one_met_takes_no_copy` in `tests/cores/` | conservation | a mirror's message about an incarnation arrived after the next incarnation had connected to the source. The source took a copy for the incarnation that had ended, and then counted it as sent to the next one | messages about incarnations before the first connected one are out of date (`server/remote/mirrors/mirror_client/rebuilding.rs`) |
//! | `nothing_is_sent_to_an_incarnation_that_has_not_requested_its_copy` in `tests/cores/` | reading | a source that was still connected to the previous incarnation sent updates to it after it had taken a copy for the next incarnation: they were lost | no update is sent before the incarnation for which it is counted has requested its copy (`server/remote/mirrors/mirror_client/peer.rs`) |
//! | 820006196, [`frames_between_mirrors_before_the_first_read_are_counted`] | panic | the conservation checker initialised its sums at the first read of a worker, and two mirrors had exchanged frames before | it initialises them at the first event (`checkers/conservation.rs`) |
//! | 930063933, [`a_worker_that_is_reset_after_a_restart_may_read_other_rows`] | durability | a worker had resumed its work at a clock that one server had not reached, and restarted before any server had answered. It was reset, and read other rows at that clock. The checker took that for a contradiction | a worker that is reset may send other requests than before, unless one of its servers waits for them (`checkers/durability.rs`) |
//! | 37298223958270, [`a_server_waits_for_a_copy_that_arrived_while_the_coordinator_was_down`] | durability | the copy of a late joiner arrived while the coordinator was down, and the source of that copy lost its disk. The restarted coordinator took the copy for one that was still in transfer, and had no source for the server without a copy | a server without a copy waits until the coordinator knows that no other of its shard receives one (`coordinator/cluster.rs`) |
//! | 990070634, [`a_joiner_behind_a_dead_link_is_missed_in_the_drain_too`] | partition | a data center that had never met a late joiner, because the link between the two was dead, paused. The order to drain told it that the joiner takes part, and from then on it took the link for restored: its workers made their last iterations on a copy that missed the joiner's updates | a mirror that only the coordinator names is behind a failed link until a frame of it arrives (`server/remote/mirrors/members.rs`) |
//! | 3000013862, [`nobody_waits_for_a_joiner_that_was_never_met`] | pause | a data center joined at the start behind a dead link, and the other one, which had not met it, continued. The checker excused servers only from data centers that it had seen inactive at an earlier event, and there was none | a server must wait for a late joiner once it was told that the joiner takes a copy (`checkers/pause.rs`) |
//! | 10619394217250, [`a_data_center_that_hears_of_announcements_without_end_goes_on_reading`] | liveness | two data centers without a mirror clock announced parameters to a third one at each of their clocks. Each announcement had a deadline, but a read of all rows had none: when an announced parameter arrived or expired, another one was announced | a read waits for announced parameters no longer than the deadline in total (`server/remote/mirrors/mirror_server/mod.rs`) |
//! | [`a_rejected_update_is_reported_whatever_crashes_meanwhile`] | rejection | a server crashed after it had rejected a diverged update and before it had told the coordinator. Replay repeats no output, so the run went on without that part of the update | a server keeps the first rejection in its state, and a restarted one reports it again (`server/mod.rs`) |
//! | 4444, [`a_server_that_lost_its_copy_is_not_drained_before_it_has_one`] | conservation | workers that were stopped in their first iteration were at their last clock before their server had received a copy in place of its lost one, so the drain averaged the lost copy with the others | the drain begins once the copy is received (`server/mod.rs`) |
//! | seed 7 of [`an_iteration_that_one_server_has_received_is_repeated_for_the_other`] | liveness | with a quorum of workers, a worker that was reset read at a clock that one of its servers had already counted. That server let it skip to a clock that waited for the other data center, which waited for the update that the other server lacked | a worker skips clocks where it is behind its data center only (`server/local_server.rs`) |
//! | 661581549026 | conservation | updates were clipped, so that sums were not exact: a parameter fell from 156 to 0.18, and the checker allowed of 0.18 what single precision had rounded of 156 | the tolerance follows the largest sum (`checkers/conservation.rs`) |
//! | 900002621, [`reports_of_clocks_leave_the_copy_of_a_lost_server_room`] | liveness | no brake held the source of a copy back, and its clocks were shorter than a report of one took on the slow link. Reports have precedence, so the copy was never sent | a mirror that takes its copy receives no report before the whole copy (`server/remote/mirrors/mirror_client/peer.rs`) |
//! | 900044842, [`a_pause_that_a_hello_begins_excuses_a_mirror`] | clock bound | the hello of a mirror began a pause, which the next frame ended. The checker looked for pauses only after frames, so it bound reads by clocks that the pause excuses | a server pauses when it reports it (`checkers/clock_bound.rs`) |
//! | 661581559310 | orders | a worker that had lost its state repeated the iteration of its last clock, whose update one of its servers lacked. The checker took it for one that did not stop | an iteration whose update a server has may be repeated (`checkers/orders.rs`) |
//! | 19977372729160, [`a_copy_of_a_guard_that_arrives_last_begins_the_drain`] | liveness | schedules drew no guard before. The last frame of a link was a part of a guard's copy, and arrived after the message that names the last one. The server counted it and did not look whether its drain could begin | each frame that a mirror was still to send can begin the drain (`server/remote/mirrors/mod.rs`) |
//! | 40305638301559 | clock bound | a guard had divided the clocks between rounds and multiplied them again, so that later rounds began at other clocks than the multiples of `steps` with which the checker compared | under a guard a round may begin at any clock (`checkers/clock_bound.rs`) |
//! | 4000598344, 4000625144, [`what_a_mirror_has_missed_is_counted_when_a_frame_is_cut`] | durability | a server that was asked for a data frame and had none noted how many updates a mirror had missed. No entry of the log says so. After a crash it did not have the note, or could not replay a message that had followed from it | only a frame changes what is noted (`server/remote/mirrors/mirror_client/mod.rs`) |
//! | 4000453783, [`a_server_that_loses_its_copy_twice_learns_where_its_workers_are`] | liveness | workers of a late joiner had a guess of their next request from a server that then lost its disk. They started by it before its next process, whose copy and guess were later, had met them. It took their reads for repeated ones | a guess gives way to any read (`recovery/worker_session.rs`) |
//! | 4000387316, 4000427192, [`a_dead_link_is_noticed_though_nothing_is_sent`] | partition | no update had to be sent over a dead link for seconds, so that no connection stalled and no data center paused. A transport asks idle peers whether they are there | the simulated one does, too (`schedule/mod.rs`) |
//! | 4000479981, [`a_dead_link_counts_from_the_end_of_a_silence`] | partition | a link was silent while one direction of it was dead. Its connection was closed only after the silence, and the checker counted from the cut | it counts from the end of the silence (`checkers/partition.rs`) |
//! | 4000416125, [`residuals_of_clipped_updates_are_rounded`] | conservation | updates were clipped, and the residual of a link had fallen to a small number from one whose rounding the checker did not allow | the tolerance follows the largest residual (`checkers/conservation.rs`) |
//! | 23458255888498, [`a_worker_that_comes_back_at_the_drain_waits_for_no_round`] | liveness | in rounds with a quorum a worker restarted without its state while all data centers drained, and had to repeat an iteration that one of its servers lacked. Its read waited for a round that no home closed any more | a read waits for no home that closes no further round (`server/remote/local_steps/mod.rs`) |
//! | 13249611247004, 7100005 with deferred logs, [`a_worker_whose_last_entries_were_not_written_asks_where_it_is`] | liveness | a worker came back without the last entries of its log, and waited for an answer that a server had heard it had, or for that to a read of other rows | where entries are deferred, a worker that comes back is reset (`recovery/worker.rs`) |
//! | 7011829 of faults that were set, [`a_worker_stops_where_it_has_said_though_a_quorum_is_further`] | liveness | a worker that had said at which clock it stopped went back to one before, and its data center was further. It stopped at the data center's clock, which a server that drains does not accept | it stops at its own clock (`worker/mod.rs`) |
//! | 5970383808206, [`a_server_asks_for_a_copy_as_the_process_that_began_its_state`] | conservation | a server without a state crashed before it asked for a copy, and its next process asked in its own incarnation. To mirrors that had heard so from others, its hello was of an earlier one, so that a copy which it never had counted as sent | it asks in the incarnation of its hello (`recovery/durable_server.rs`) |
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use assert_cmd::Command;
use gaia_config::ErrorLocation;
use gaia_core::sync::RemoteSync;
use gaia_faults::{Bug, Campaign, Counts, FaultKind, Scenario, run, shrink};
use rayon::prelude::*;

/// The number of schedules that a commit runs and others do not, from where its hash says, so that in time the gate sees many.
const SCHEDULES: u64 = 20_000;

/// The number of schedules that every commit runs: seeds from 0.
const FIXED_SCHEDULES: u64 = 2_000;

/// The number of schedules within which a checker must catch a planted bug.
const CAUGHT_WITHIN: u64 = 1_000;

#[test]
fn no_schedule_breaks_a_promise() {
    let first = first_seed_of(&commit());
    println!("seeds: 0 to {}, {first} to {}", FIXED_SCHEDULES - 1, first + SCHEDULES - 1);
    let mut campaign = Campaign::default();
    let seeds = (0..FIXED_SCHEDULES).chain(first..first + SCHEDULES);
    let drawn: Vec<Scenario> = seeds.map(Scenario::draw).collect();
    campaign.run_all(&drawn);
    let report = campaign.report();
    let lines = report.lines("scripts/faults").join("\n");
    println!("{lines}");
    assert!(report.failures.is_empty(), "{lines}");
    let Counts { packet, structural, recovery, refused, reconnects, .. } = report.faults;
    let named = packet.named().into_iter().chain(structural.named());
    for (count, what) in named.chain([
        (refused, "refused"),
        (reconnects, "reconnects"),
        (recovery.restarts, "restarts"),
        (recovery.blank, "restarts without state"),
        (recovery.torn, "torn logs"),
        (recovery.checkpoints, "checkpoints"),
    ]) {
        assert!(count > SCHEDULES / 40, "{count} {what}\n{lines}");
    }
}

/// The hash of the commit that is checked out, or the checksum of the sources if this is not a checkout.
fn commit() -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    let git = std::process::Command::new("git").args(["-C", root, "rev-parse", "HEAD"]).output();
    let hash = git.ok().filter(|output| output.status.success());
    let hash = hash.map(|output| String::from_utf8_lossy(&output.stdout).into());
    hash.unwrap_or_else(|| checksum_of_sources(&Path::new(root).join("..")))
}

/// The checksum of all Rust sources in a directory, with their order by path.
fn checksum_of_sources(root: &Path) -> String {
    let (mut folders, mut sources) = (vec![root.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(path);
            }
        }
    }

    sources.sort();
    let mut checksum = crc32fast::Hasher::new();
    for source in sources {
        checksum.update(&std::fs::read(source).unwrap());
    }
    format!("{:08x}", checksum.finalize())
}

/// The first of the seeds that a commit runs and others do not: its hash decides which of 4 billion ranges they are.
fn first_seed_of(commit: &str) -> u64 {
    let range = u64::from_str_radix(&commit[..8], 16).expect("a hash is hexadecimal");
    (range + 1) * SCHEDULES
}

#[test]
fn each_commit_has_seeds_of_its_own() {
    let firsts = ["00000000", "00000001", "ffffffff"].map(first_seed_of);
    assert_eq!(firsts, [SCHEDULES, 2 * SCHEDULES, (1 << 32) * SCHEDULES]);
}

#[test]
fn each_tree_outside_git_has_seeds_of_its_own() {
    let tree = |text: &str| {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("src")).unwrap();
        std::fs::write(root.path().join("src/lib.rs"), text).unwrap();
        std::fs::write(root.path().join("notes.txt"), text.repeat(2)).unwrap();
        first_seed_of(&checksum_of_sources(root.path()))
    };
    assert_eq!(tree("one"), tree("one"));
    assert_ne!(tree("one"), tree("two"));
}

/// The checker that must catch each planted bug. Others may catch it, too.
const CAUGHT_BY: [(Bug, &str); 64] = [
    (Bug::AcceptsRepeats, "delivery"),
    (Bug::WatermarkOffByOne, "liveness"),
    (Bug::AcknowledgesBeforeDelivery, "liveness"),
    (Bug::ResendsFromWrongNumber, "liveness"),
    (Bug::NeverAcknowledges, "quiescence"),
    (Bug::AcceptsDamage, "delivery"),
    (Bug::NeverReconnects, "liveness"),
    (Bug::IgnoresWindow, "memory"),
    (Bug::IgnoresLinkRate, "bandwidth"),
    (Bug::SwapsControl, "delivery"),
    (Bug::ForgetsResidual, "conservation"),
    (Bug::ReportsClockEarly, "clock bound"),
    (Bug::ReportsClockEarlyAfterPause, "clock bound"),
    (Bug::MirrorClockRunsBackwards, "clock bound"),
    (Bug::CountsClockOneFrameEarly, "mirror clock"),
    (Bug::CountsClockOneFrameEarlyAfterCopy, "mirror clock"),
    (Bug::IgnoresMirrorClock, "clock bound"),
    (Bug::IgnoresAnnouncements, "barrier"),
    (Bug::DrainEndsEarly, "peer"),
    (Bug::DrainDiffers, "divergence"),
    (Bug::AddsElsewhere, "conservation"),
    (Bug::SkipsLog, "durability"),
    (Bug::SendsBeforeSync, "durability"),
    (Bug::AcknowledgesBeforeSync, "durability"),
    (Bug::AnswersBeforeSync, "durability"),
    (Bug::ReportsBeforeSync, "durability"),
    (Bug::TakesFailedWriteForDone, "durability"),
    (Bug::ForgetsResidualsAtRecovery, "durability"),
    (Bug::ReplaysOneTooMany, "durability"),
    (Bug::ReplaysOneTooFew, "durability"),
    (Bug::CutsTailTooFar, "durability"),
    (Bug::KeepsIncarnation, "server_processes"),
    (Bug::AcceptsStaleIncarnation, "server_processes"),
    (Bug::KeepsEarlyFrames, "delivery"),
    (Bug::ForgetsLastAnswer, "liveness"),
    (Bug::AddsUpdateTwice, "conservation"),
    (Bug::ForgetsFork, "conservation"),
    (Bug::ForgetsBacklog, "conservation"),
    (Bug::DrainsWithTheAbsent, "liveness"),
    (Bug::BeginsWithoutCopy, "durability"),
    (Bug::ReportsStopEarly, "orders"),
    (Bug::OrdersBeforeWriting, "orders"),
    (Bug::RepeatsNoOrder, "liveness"),
    (Bug::SaysNothingAgain, "liveness"),
    (Bug::MissesLostConnections, "partition"),
    (Bug::IgnoresPause, "pause"),
    (Bug::CatchesUpEarly, "catch up"),
    (Bug::DropsErrorFeedback, "durability"),
    (Bug::DrainsWithoutOwed, "conservation"),
    (Bug::SendsMoreThanCut, "conservation"),
    (Bug::AddsChunkTwice, "conservation"),
    (Bug::ForgetsChunk, "conservation"),
    (Bug::AppliesTotalBeforeItIsWhole, "conservation"),
    (Bug::BlocksDisagree, "peer"),
    (Bug::CountsLatePartTwice, "conservation"),
    (Bug::ForgetsLatePart, "conservation"),
    (Bug::CountsLateUpdateTwice, "conservation"),
    (Bug::ForgetsLateUpdate, "conservation"),
    (Bug::AcceptsDiverged, "rejection"),
    (Bug::ForgetsRejection, "rejection"),
    (Bug::StopsLate, "orders"),
    (Bug::LeavesTornTail, "durability"),
    (Bug::LeavesSegmentUnsynced, "durability"),
    (Bug::DropsLogTooFar, "durability"),
];

#[test]
fn every_planted_bug_is_caught_by_its_checker() {
    assert_eq!(CAUGHT_BY.map(|(bug, _)| bug), Bug::ALL);
    let missed: Vec<String> =
        CAUGHT_BY.par_iter().filter_map(|(bug, by)| missed(*bug, by)).collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// A description of the result if a planted bug is not caught by its checker. `None` if it is.
fn missed(bug: Bug, by: &str) -> Option<String> {
    let mut caught: BTreeMap<&str, u64> = BTreeMap::new();
    let at = (0..CAUGHT_WITHIN).find(|seed| {
        let broken = run(&Scenario::draw(*seed), Some(bug)).broken;
        if let Some(violation) = &broken {
            *caught.entry(violation.checker).or_default() += 1;
        }
        broken.is_some_and(|violation| violation.checker == by)
    });
    println!("{bug:?}: {caught:?} by seed {at:?}");
    at.is_none().then(|| format!("{bug:?} is not caught by {by} but by {caught:?}"))
}

/// Runs a schedule from a file with many seeds. None may break an invariant.
fn holds(text: &str, seeds: u64) {
    for seed in 0..seeds {
        let scenario = Scenario::from_text("fixed.toml", text, Some(seed)).unwrap();
        let broken = run(&scenario, None).broken;
        assert_eq!(broken, None, "seed {seed} of\n{}", scenario.to_text());
    }
}

/// Runs a schedule from a file that fixes its seed. It must not break an invariant.
fn holds_as_it_is(text: &str) {
    let scenario = Scenario::from_text("fixed.toml", text, None).unwrap();
    assert_eq!(run(&scenario, None).broken, None);
}

/// Half an hour is the longest duration of a fault. The unsent updates are never larger than the model, and this bounds
/// the time for catching up. The seeds draw `on_partition = "continue"`: with `pause` a run has all its clocks left.
#[test]
fn a_data_center_that_is_cut_off_for_half_an_hour_catches_up_in_seconds() {
    let cut = |peer| {
        format!(
            "{{ kind = \"partition\", at = \"1 s\", lasts = \"1800 s\", dc = 0, peer = {peer} }}"
        )
    };
    let runs: Vec<(&str, u64)> =
        ["tap", "asp"].into_iter().flat_map(|model| [1, 2].map(|seed| (model, seed))).collect();
    runs.par_iter().for_each(|(model, seed)| {
        let text = format!(
            "data_centers = 3\nservers = 1\nworkers = 1\nremote = \"{model}\"\nclocks = 10000\n\
             fault = [{}, {}]\n[packets]\n",
            cut(1),
            cut(2)
        );
        let run = run(&Scenario::from_text("cut.toml", &text, Some(*seed)).unwrap(), None);
        assert_eq!(run.broken, None, "{model} {seed}");
        let after = run.lasted.as_secs_f64() - 1801.0;
        assert!((0.0..30.0).contains(&after), "{model} {seed}: {after} s after the heal");
    });
}

/// One of the two data centers pauses while the link is dead, and continues afterwards.
#[test]
fn a_link_that_is_dead_for_long_between_two_of_several_stops_no_data_center_permanently() {
    for kind in ["partition", "one-way-partition"] {
        for (remote, data_centers) in [("tap", 3), ("asp", 3), ("asp", 4)] {
            for (dc, peer) in [(0, 1), (1, 2), (2, 1)] {
                let text = format!(
                    "data_centers = {data_centers}\nservers = 2\nworkers = 1\nremote = \"{remote}\"\nclocks = 40\n\
                     fault = [{{ kind = \"{kind}\", at = \"300 ms\", lasts = \"6 s\", dc = {dc}, peer = {peer} }}]\n\
                     [packets]\n"
                );
                holds(&text, 5);
            }
        }
    }
}

const WITHOUT_FAULTS: &str = "data_centers = 2\nservers = 1\nworkers = 1\nclocks = 6\n[packets]\n";

#[test]
fn a_worker_computes_an_iteration_once() {
    holds(&format!("remote = \"ssp\"\n{WITHOUT_FAULTS}"), 20);
}

#[test]
fn a_worker_that_stopped_and_comes_back_has_stopped() {
    let crash = |at: u64| {
        format!(
            "[[fault]]\nkind = \"crash\"\nat = \"{at} ms\"\nlasts = \"60 ms\"\ndc = 0\nworker = 0\n"
        )
    };
    let crashes: String = (1..30).map(|number| crash(100 * number)).collect();
    holds(&format!("remote = \"tap\"\n{WITHOUT_FAULTS}{crashes}"), 20);
}

/// A server that crashes after it has rejected an update, and before it has told the coordinator, tells it when it is back.
#[test]
fn a_rejected_update_is_reported_whatever_crashes_meanwhile() {
    let diverged = "[[fault]]\nkind = \"diverged-update\"\nat = \"100 ms\"\ndc = 0\nworker = 0\n";
    for remote in ["bsp", "tap", "local-steps"] {
        let many = WITHOUT_FAULTS.replace("clocks = 6", "clocks = 400");
        let crashes: String = (1..12)
            .map(|number| {
                let write = "server = 0\nwrite = \"after\"";
                crash_at(100 + 17 * number, 5, write)
            })
            .collect();
        let text = format!("remote = \"{remote}\"\n{many}{diverged}{crashes}");
        holds(&text, 20);
        let scenario = Scenario::from_text("fixed.toml", &text, Some(1)).unwrap();
        let lasted = run(&scenario, None).lasted.as_secs_f64();
        assert!(lasted < 10.0, "the run ends once the update is reported, not after {lasted} s");
    }
}

/// Crashes of the first worker every `apart` milliseconds, each with its disk.
fn blanks(apart: u64) -> String {
    let crash = |number: u64| crash_at(apart * number, 3, "worker = 0\nblank = true");
    (1..40).map(crash).collect()
}

fn crash_at(at: u64, lasts: u64, node: &str) -> String {
    format!(
        "[[fault]]\nkind = \"crash\"\nat = \"{at} ms\"\nlasts = \"{lasts} ms\"\ndc = 0\n{node}\n"
    )
}

#[test]
fn a_worker_that_comes_back_without_its_state_is_counted_once_for_each_clock() {
    for remote in ["bsp", "tap", "asp", "local-steps"] {
        let many = WITHOUT_FAULTS
            .replace("servers = 1", "servers = 3")
            .replace("clocks = 6", "clocks = 12");
        let many = many.replace("workers = 1", "workers = 2");
        holds(&format!("remote = \"{remote}\"\n{many}{}", blanks(47)), 20);
    }
}

/// One server receives the worker's update while the other one is down. The worker crashes before the other one
/// restarts.
#[test]
fn an_iteration_that_one_server_has_received_is_repeated_for_the_other() {
    let two =
        WITHOUT_FAULTS.replace("servers = 1", "servers = 2").replace("clocks = 6", "clocks = 10");
    let crashes: String = (1..8)
        .map(|number| {
            let at = 250 * number;
            crash_at(at, 180, "server = 1") + &crash_at(at + 150, 5, "worker = 0\nblank = true")
        })
        .collect();
    let mut passed_over = 0;
    for remote in ["bsp", "ssp", "tap", "asp"] {
        let text = format!("remote = \"{remote}\"\n{two}{crashes}");
        holds(&text, 10);
        for seed in 0..10 {
            let scenario = Scenario::from_text("fixed.toml", &text, Some(seed)).unwrap();
            passed_over += run(&scenario, None).counts.recovery.passed_over;
        }
    }
    assert!(passed_over > 20, "{passed_over}");
}

#[test]
fn a_worker_without_a_log_comes_back_where_nobody_keeps_one() {
    let text = format!("remote = \"ssp\"\n{WITHOUT_FAULTS}{}", blanks(61));
    let mut back = 0;
    for seed in 0..20 {
        let scenario = Scenario::from_text("blank.toml", &text, Some(seed)).unwrap();
        let done = run(&scenario, None);
        assert_eq!(done.broken, None, "seed {seed}");
        assert!(done.counts.recovery.blank > 0);
        back += u64::from(done.counts.recovery.checkpoints == 0);
    }
    assert!(back > 4, "{back} runs without logs");
}

#[test]
fn data_centers_join_and_leave_while_the_others_continue() {
    let change = |kind: &str, at: u64, dc: u64| {
        format!("[[fault]]\nkind = \"{kind}\"\nat = \"{at} ms\"\ndc = {dc}\n")
    };
    // The second joins late and leaves twice. The third leaves while the second is absent, and again after it has
    // returned.
    let changes =
        [(1, "late-join", 100), (1, "leave", 350), (2, "leave", 420), (1, "late-join", 600)];
    let later =
        [(2, "late-join", 800), (1, "leave", 1_050), (2, "leave", 1_400), (1, "late-join", 1_500)];
    let faults: String =
        changes.into_iter().chain(later).map(|(dc, kind, at)| change(kind, at, dc)).collect();
    let many =
        WITHOUT_FAULTS.replace("clocks = 6", "clocks = 40").replace("workers = 1", "workers = 2");
    let many = many.replace("data_centers = 2", "data_centers = 3");
    for remote in ["tap", "asp"] {
        let text = format!("remote = \"{remote}\"\n{many}{faults}");
        holds(&text, 40);
        let (mut joined, mut left) = (0, 0);
        for seed in 0..40 {
            let scenario = Scenario::from_text("fixed.toml", &text, Some(seed)).unwrap();
            let counts = run(&scenario, None).counts.structural;
            joined += counts.late_joins;
            left += counts.leaves;
        }
        assert!(joined > 40 && left > 40, "{remote}: {joined} joined, {left} left");
    }
}

#[test]
fn a_coordinator_that_dies_again_and_again_ends_the_run() {
    let writes = ["", "write = \"before\"", "write = \"after\""];
    let crash = |number: usize| {
        let (at, write) = (50 * number, writes[number % 3]);
        format!(
            "[[fault]]\nkind = \"coordinator-crash\"\nat = \"{at} ms\"\nlasts = \"20 ms\"\ndc = 0\n{write}\n"
        )
    };
    let crashes: String = (1..40).map(crash).collect();
    for remote in RemoteSync::NAMES {
        let text = format!("remote = \"{remote}\"\n{WITHOUT_FAULTS}{crashes}");
        holds(&text, 20);
        let scenario = Scenario::from_text("dies.toml", &text, Some(0)).unwrap();
        assert!(run(&scenario, None).counts.structural.coordinator_crashes > 2, "{remote}");
    }
}

#[test]
fn updates_that_come_to_nothing_are_not_asked_for_twice() {
    let text = r#"
        seed = 548
        data_centers = 3
        servers = 2
        workers = 2
        rows = 4
        clocks = 3
        remote = "asp"
        packets = { loss = 0.0014457761982469021 }
        fault = [{ kind = "crash", at = "326 ms", dc = 2, server = 0 }]
    "#;
    holds_as_it_is(text);
}

/// The first server loses its disk before the stop, and restarts when all data centers drain. While its copy is in
/// flight, the worker restarts with the state of a checkpoint.
#[test]
fn a_worker_that_is_reset_where_it_is_over_is_known_to_a_server_that_has_lost_it() {
    let text = r#"
        seed = 11111
        data_centers = 2
        servers = 2
        workers = 1
        rows = 4
        clocks = 4
        remote = "tap"
        packets = { loss = 0.0016127469105128274, repetition = 0.0012582081041790873, reordering = 0.006539720596579002, damage = 0.002050507085565328, delay = 0.09562728572364004 }
        fault = [
            { kind = "partition", at = "490 ms", lasts = "243 ms", dc = 0, peer = 1 },
            { kind = "crash", at = "643 ms", lasts = "449 ms", dc = 1, server = 0, write = "before" },
            { kind = "lost-disk", at = "1.048 s", lasts = "242 ms", dc = 0, server = 0 },
            { kind = "crash", at = "1.498 s", lasts = "5 ms", dc = 0, worker = 0, blank = true },
        ]
    "#;
    holds_as_it_is(text);
}

#[test]
fn a_worker_that_is_reset_twice_is_not_behind_its_servers() {
    let text = r#"
        seed = 204870
        data_centers = 2
        servers = 2
        workers = 2
        rows = 7
        clocks = 1
        remote = "bsp"
        packets = {}
        fault = [
            { kind = "crash", at = "669 ms", lasts = "199 ms", dc = 0, worker = 1, blank = true },
            { kind = "crash", at = "1.088 s", dc = 0, worker = 1, blank = true },
        ]
    "#;
    holds_as_it_is(text);
}

/// The source has a full disk while the first data center joins, and is down when that data center loses its disk. So
/// only another mirror notifies it of the joiner's first incarnation, and the first hello that it receives is of the
/// second.
#[test]
fn a_late_joiner_that_loses_its_disk_before_it_connects_to_its_source_receives_each_update_once() {
    let text = r#"
        seed = 700008577
        data_centers = 4
        servers = 1
        workers = 1
        rows = 17
        clocks = 7
        remote = "tap"
        packets = { loss = 0.007597389726168267, repetition = 0.020096678093399555, reordering = 0.015202901133158107, delay = 0.0304554933931483 }
        fault = [
            { kind = "disk-full", at = "622 ms", lasts = "180 ms", dc = 1, server = 0 },
            { kind = "late-join", at = "720 ms", dc = 0 },
            { kind = "lost-disk", at = "944 ms", lasts = "1 ms", dc = 0, server = 0 },
        ]
    "#;
    holds_as_it_is(text);
}

/// Links are faster than disks, so servers exchange hellos while workers still log their first read.
#[test]
fn frames_between_mirrors_before_the_first_read_are_counted() {
    let text = r#"
        seed = 820006196
        data_centers = 3
        servers = 1
        workers = 1
        rows = 1
        clocks = 1
        remote = "asp"
        packets = {}
        fault = [{ kind = "crash", at = "427 ms", dc = 1, server = 0, write = "after" }]
    "#;
    holds_as_it_is(text);
}

/// The worker loses its disk while one server is down, and resumes its work once that server has restarted. The whole
/// data center crashes before the read is answered.
#[test]
fn a_worker_that_is_reset_after_a_restart_may_read_other_rows() {
    let text = r#"
        seed = 930063933
        data_centers = 4
        servers = 2
        workers = 2
        rows = 4
        clocks = 2
        remote = "bsp"
        packets = {}
        fault = [
            { kind = "lost-disk", at = "783 ms", lasts = "604 ms", dc = 2, server = 1 },
            { kind = "crash", at = "1.122 s", dc = 2, worker = 0, blank = true },
            { kind = "crash", at = "1.409 s", dc = 2 },
        ]
    "#;
    holds_as_it_is(text);
}

#[test]
fn a_server_waits_for_a_copy_that_arrived_while_the_coordinator_was_down() {
    let text = r#"
        data_centers = 2
        servers = 1
        workers = 1
        clocks = 3
        remote = "asp"
        packets = {}
        fault = [
            { kind = "late-join", at = "286 ms", dc = 0 },
            { kind = "coordinator-crash", at = "781 ms", lasts = "488 ms", dc = 0 },
            { kind = "crash", at = "1.136 s", lasts = "1 ms", dc = 0, server = 0 },
            { kind = "lost-disk", at = "1.14 s", lasts = "108 ms", dc = 1, server = 0 },
        ]
    "#;
    holds(text, 200);
}

/// The link between a joiner and one other data center is cut for a time, and a server of the joiner loses its disk
/// meanwhile.
#[test]
fn joiners_that_lose_their_disk_before_they_connect_to_all_mirrors_receive_each_update_once() {
    let fault = |at: &str, lasts: u64, rest: &str| {
        format!("[[fault]]\nat = \"{at}\"\nlasts = \"{lasts} ms\"\ndc = 0\n{rest}\n")
    };
    let faults: String = [
        fault("300 ms", 0, "kind = \"late-join\""),
        fault("300 ms", 700, "kind = \"partition\"\npeer = 1"),
        fault("550 ms", 50, "kind = \"lost-disk\"\nserver = 0"),
    ]
    .concat();
    let three = WITHOUT_FAULTS.replace("data_centers = 2", "data_centers = 3");
    let three = three.replace("clocks = 6", "clocks = 20");
    for remote in ["tap", "asp"] {
        holds(&format!("remote = \"{remote}\"\n{three}{faults}"), 60);
    }
}

/// The slowest data center lets the run end long after the two others have lost their link, one of which joins late.
#[test]
fn a_joiner_behind_a_dead_link_is_missed_in_the_drain_too() {
    let text = r#"
        data_centers = 3
        servers = 1
        workers = 1
        rows = 2
        clocks = 25
        remote = "tap"
        packets = {}
        fault = [
            { kind = "straggler", at = "0 s", lasts = "60 s", dc = 1, factor = 4.0 },
            { kind = "partition", at = "0 s", lasts = "60 s", dc = 2, peer = 0 },
            { kind = "late-join", at = "480 ms", dc = 0 },
        ]
    "#;
    holds(text, 100);
}

#[test]
fn nobody_waits_for_a_joiner_that_was_never_met() {
    let text = r#"
        seed = 3000013862
        data_centers = 2
        servers = 1
        workers = 1
        rows = 1
        clocks = 9
        remote = "asp"
        packets = {}
        fault = [
            { kind = "late-join", at = "0 s", dc = 1 },
            { kind = "partition", at = "0 s", lasts = "687 ms", dc = 1, peer = 0 },
            { kind = "lost-disk", at = "270 ms", lasts = "0 s", dc = 1, server = 0 },
        ]
    "#;
    holds_as_it_is(text);
}

#[test]
fn a_server_that_lost_its_copy_is_not_drained_before_it_has_one() {
    let text = r#"
        seed = 4444
        data_centers = 2
        servers = 1
        workers = 1
        rows = 3
        clocks = 1
        remote = "tap"
        packets = {}
        fault = [
            { kind = "lost-disk", at = "25 ms", lasts = "113 ms", dc = 0, server = 0 },
            { kind = "diverged-update", at = "212 ms", dc = 1, worker = 0 },
        ]
    "#;
    holds_as_it_is(text);
}

#[test]
fn a_data_center_that_hears_of_announcements_without_end_goes_on_reading() {
    let text = r#"
        seed = 10619394217250
        data_centers = 4
        servers = 2
        workers = 2
        rows = 40
        clocks = 23
        remote = "asp"
        packets = {}
        fault = []
    "#;
    holds_as_it_is(text);
}

/// Nothing that the workers change is significant, so that each clock is reported when it ends.
#[test]
fn reports_of_clocks_leave_the_copy_of_a_lost_server_room() {
    let text = r#"
        seed = 900002621
        data_centers = 2
        servers = 1
        workers = 2
        rows = 29
        clocks = 5
        remote = "asp"
        packets = {}
        fault = [{ kind = "lost-disk", at = "168 ms", lasts = "414 ms", dc = 0, server = 0 }]
    "#;
    holds_as_it_is(text);
}

#[test]
fn a_pause_that_a_hello_begins_excuses_a_mirror() {
    let text = r#"
        seed = 900044842
        data_centers = 4
        servers = 1
        workers = 2
        rows = 31
        clocks = 6
        remote = "asp"
        fault = [
            { kind = "late-join", at = "456 ms", dc = 2 },
            { kind = "partition", at = "456 ms", lasts = "1.089 s", dc = 2, peer = 0 },
            { kind = "lost-disk", at = "726 ms", lasts = "893 ms", dc = 3, server = 0 },
            { kind = "lost-disk", at = "896 ms", lasts = "87 ms", dc = 2, server = 0 },
        ]

        [packets]
        loss = 0.013635315932825002
        reordering = 0.003066980314394783
        damage = 0.09490884673363259
        delay = 0.007878263259344806
        repetition = 0.0
        stale = 0.0
    "#;
    holds_as_it_is(text);
}

#[test]
fn what_a_mirror_has_missed_is_counted_when_a_frame_is_cut() {
    let first = r#"
        seed = 4000598344
        data_centers = 2
        servers = 2
        workers = 1
        rows = 17
        clocks = 4
        remote = "asp"
        fault = [
            { kind = "slow-link", at = "256 ms", lasts = "457 ms", dc = 1, peer = 0, factor = 9.0 },
            { kind = "reset", at = "365 ms", lasts = "0 ns", dc = 1, peer = 0 },
            { kind = "lost-disk", at = "820 ms", lasts = "12 ms", dc = 1, server = 1 },
            { kind = "silent-link", at = "1.345 s", lasts = "1.019 s", dc = 1, peer = 0 },
        ]
        [packets]
        loss = 0.025329351369539444
        damage = 0.0021601009478856062
        delay = 0.01955480864696471
    "#;
    let second = r#"
        seed = 4000625144
        data_centers = 4
        servers = 2
        workers = 1
        rows = 27
        clocks = 9
        remote = "asp"
        fault = [
            { kind = "slow-link", at = "769 ms", lasts = "867 ms", dc = 3, peer = 0, factor = 9.0 },
            { kind = "one-way-partition", at = "1.108 s", lasts = "933 ms", dc = 1, peer = 3 },
            { kind = "slow-link", at = "1.165 s", lasts = "168 ms", dc = 0, peer = 2, factor = 6.0 },
        ]
        [packets]
        loss = 0.009379521798723702
        damage = 0.09278088574389215
        stale = 0.006256813585935172
    "#;
    holds_as_it_is(first);
    holds_as_it_is(second);
}

/// It had told a server that had lost its disk that its read was answered. And it had been reset, and had read other rows.
#[test]
fn a_worker_whose_last_entries_were_not_written_asks_where_it_is() {
    for text in [
        r#"
        seed = 13249611247004
        data_centers = 4
        servers = 1
        workers = 2
        rows = 15
        clocks = 4
        remote = "asp"
        deferred_log = true
        packets = {}
        fault = [
            { kind = "straggler", at = "250 ms", lasts = "195 ms", dc = 3, factor = 10.0 },
            { kind = "lost-disk", at = "382 ms", dc = 3, server = 0 },
            { kind = "crash", at = "952 ms", lasts = "16 ms", dc = 3 },
        ]
    "#,
        r#"
        seed = 7100005
        data_centers = 3
        servers = 1
        workers = 2
        rows = 31
        clocks = 1
        remote = "asp"
        deferred_log = true
        packets = { loss = 0.03086488258328501, damage = 0.020352047769974707, delay = 0.002613567863576506 }
        fault = [
            { kind = "crash", at = "173 ms", lasts = "10 ms", dc = 2, server = 0, write = "torn" },
            { kind = "crash", at = "291 ms", dc = 2 },
        ]
    "#,
    ] {
        holds_as_it_is(text);
    }
}

#[test]
fn a_worker_stops_where_it_has_said_though_a_quorum_is_further() {
    let text = r#"
        seed = 7011829
        data_centers = 3
        servers = 1
        workers = 2
        rows = 12
        clocks = 8
        remote = "asp"
        deferred_log = true
        packets = { loss = 0.0019429369371044302, repetition = 0.0320058076199706, damage = 0.0050261563016798655, stale = 0.1328078937816775 }
        fault = [
            { kind = "lost-disk", at = "382 ms", lasts = "25 ms", dc = 1, server = 0 },
            { kind = "crash", at = "700 ms", lasts = "8 ms", dc = 1, worker = 0 },
            { kind = "lost-disk", at = "782 ms", lasts = "25 ms", dc = 0, server = 0 },
            { kind = "crash", at = "900 ms", dc = 0 },
        ]
    "#;
    holds_as_it_is(text);
}

#[test]
fn a_server_asks_for_a_copy_as_the_process_that_began_its_state() {
    let text = r#"
        seed = 5970383808206
        data_centers = 4
        servers = 1
        workers = 1
        rows = 4
        clocks = 18
        remote = "asp"
        deferred_log = false
        packets = {}
        fault = [
            { kind = "partition", at = "288 ms", lasts = "552 ms", dc = 3, peer = 0 },
            { kind = "late-join", at = "603 ms", dc = 0 },
            { kind = "crash", at = "944 ms", lasts = "654 ms", dc = 0, server = 0, write = "torn" },
            { kind = "lost-disk", at = "964 ms", lasts = "25 ms", dc = 0, server = 0 },
            { kind = "crash", at = "1.333 s", lasts = "654 ms", dc = 0, server = 0, write = "torn" },
        ]
    "#;
    holds_as_it_is(text);
}

#[test]
fn a_server_that_loses_its_copy_twice_learns_where_its_workers_are() {
    let text = r#"
        seed = 4000453783
        data_centers = 4
        servers = 2
        workers = 2
        rows = 17
        clocks = 4
        remote = "tap"
        fault = [
            { kind = "straggler", at = "482 ms", lasts = "172 ms", dc = 0, factor = 4.0 },
            { kind = "disk-full", at = "595 ms", lasts = "102 ms", dc = 3, server = 0 },
            { kind = "late-join", at = "645 ms", lasts = "0 ns", dc = 1 },
            { kind = "partition", at = "645 ms", lasts = "445 ms", dc = 1, peer = 3 },
            { kind = "one-way-partition", at = "751 ms", lasts = "449 ms", dc = 1, peer = 0 },
            { kind = "lost-disk", at = "964 ms", lasts = "83 ms", dc = 1, server = 0 },
            { kind = "slow-link", at = "1.095 s", lasts = "186 ms", dc = 0, peer = 1, factor = 6.0 },
        ]
        [packets]
        loss = 0.01520790897329162
        repetition = 0.04044931485103058
        reordering = 0.022298950473930105
        damage = 0.0018389181169594549
        delay = 0.006541321298731405
        stale = 0.01281469165945497
    "#;
    holds_as_it_is(text);
}

#[test]
fn a_dead_link_is_noticed_though_nothing_is_sent() {
    let first = r#"
        seed = 4000387316
        data_centers = 4
        servers = 1
        workers = 1
        rows = 40
        clocks = 43
        remote = "tap"
        packets = {}
        fault = [
            { kind = "partition", at = "349 ms", lasts = "5.311 s", dc = 0, peer = 2 },
        ]
    "#;
    let second = r#"
        seed = 4000427192
        data_centers = 3
        servers = 1
        workers = 1
        rows = 40
        clocks = 35
        remote = "tap"
        packets = {}
        fault = [
            { kind = "partition", at = "280 ms", lasts = "7.761 s", dc = 0, peer = 1 },
        ]
    "#;
    holds_as_it_is(first);
    holds_as_it_is(second);
}

#[test]
fn a_dead_link_counts_from_the_end_of_a_silence() {
    let text = r#"
        seed = 4000479981
        data_centers = 3
        servers = 2
        workers = 2
        rows = 30
        clocks = 20
        remote = "tap"
        fault = [
            { kind = "crash", at = "898 ms", lasts = "972 ms", dc = 0, worker = 0, write = "before" },
            { kind = "one-way-partition", at = "922 ms", lasts = "479 ms", dc = 1, peer = 2 },
            { kind = "one-way-partition", at = "1.086 s", lasts = "4.967 s", dc = 2, peer = 1 },
            { kind = "silent-link", at = "1.154 s", lasts = "2.926 s", dc = 2, peer = 1 },
            { kind = "crash", at = "1.349 s", lasts = "972 ms", dc = 0, worker = 0, write = "before" },
        ]
        [packets]
        repetition = 0.0016186058417499895
        damage = 0.012914880954818034
        delay = 0.001893412413664514
        stale = 0.05658332115873442
    "#;
    holds_as_it_is(text);
}

#[test]
fn residuals_of_clipped_updates_are_rounded() {
    let text = r#"
        seed = 4000416125
        data_centers = 4
        servers = 2
        workers = 2
        rows = 37
        clocks = 57
        remote = "asp"
        packets = {}
        fault = []
    "#;
    holds_as_it_is(text);
}

/// Half of the data centers begin a round at one server, and the other half one at the other.
#[test]
fn halves_that_wait_for_each_other_at_two_servers_go_on() {
    let text = r#"
        seed = 4000687992
        data_centers = 4
        servers = 2
        workers = 2
        rows = 18
        clocks = 20
        remote = "local-steps"
        fault = [
            { kind = "one-way-partition", at = "1.114 s", lasts = "3.678 s", dc = 0, peer = 1 },
        ]
        [packets]
        repetition = 0.027555513434494153
        reordering = 0.0011240693640619612
        damage = 0.032755118758651385
        delay = 0.0012297933032892783
    "#;
    holds_as_it_is(text);
}

/// A server that was told of a data center's loss wrote a checkpoint that nothing could read, if the two share no clique of the
/// overlay.
#[test]
fn a_checkpoint_after_a_reset_of_a_data_center_outside_all_cliques_can_be_read() {
    let text = r#"
        seed = 17974746526104
        data_centers = 4
        servers = 1
        workers = 2
        rows = 12
        clocks = 2
        remote = "asp"
        deferred_log = true
        packets = { repetition = 0.004392291338865777, damage = 0.057073685978529944, delay = 0.08437065342416196 }
        fault = [
            { kind = "coordinator-crash", at = "39 ms", lasts = "619 ms", dc = 0, write = "after" },
            { kind = "crash", at = "155 ms", lasts = "18 ms", dc = 2, worker = 0, write = "before" },
            { kind = "lost-disk", at = "323 ms", lasts = "646 ms", dc = 3, server = 0 },
            { kind = "one-way-partition", at = "970 ms", lasts = "7.385 s", dc = 2, peer = 1 },
        ]
    "#;
    holds_as_it_is(text);
}

/// A frame of a round is written without the updates that come after the round began, and never without those before. The
/// server is down before a checkpoint takes the place of these.
#[test]
fn what_a_part_follows_from_is_on_disk_before_it_leaves() {
    let text = r#"
        seed = 5000003953
        data_centers = 2
        servers = 1
        workers = 1
        rows = 1
        clocks = 2
        remote = "local-steps"
        deferred_log = true
        packets = {}
        fault = [{ kind = "disk-full", at = "278 ms", lasts = "13 ms", dc = 0, server = 0 }]
    "#;
    holds_as_it_is(text);
    holds("remote = \"local-steps\"\ndeferred_log = true", 500);
}

/// The worker waits for another data center's home, or for that of its own data center, which drains.
#[test]
fn a_worker_that_comes_back_at_the_drain_waits_for_no_round() {
    for (rows, away) in [(10, 3), (20, 1)] {
        let text = format!(
            r#"
        seed = 23458255888498
        data_centers = 3
        servers = 2
        workers = 2
        rows = {rows}
        clocks = 5
        remote = "local-steps"
        deferred_log = false
        packets = {{ loss = 0.015895251449887803, repetition = 0.004330723789381829, delay = 0.009866931657981904 }}
        fault = [
            {{ kind = "disk-full", at = "1.02 s", lasts = "123 ms", dc = 2, server = 0 }},
            {{ kind = "crash", at = "1.129 s", lasts = "{away} ms", dc = 2, worker = 0, blank = true }},
        ]
    "#
        );
        holds_as_it_is(&text);
    }
}

/// Two data centers that share no clique of the overlay exchange nothing but copies before the drain.
#[test]
fn a_copy_of_a_guard_that_arrives_last_begins_the_drain() {
    let text = r#"
        seed = 19977372729160
        data_centers = 4
        servers = 1
        workers = 2
        rows = 1
        clocks = 6
        remote = "asp"
        packets = {}
        fault = [{ kind = "partition", at = "956 ms", lasts = "123 ms", dc = 2, peer = 0 }]
    "#;
    holds_as_it_is(text);
}

#[test]
fn a_seed_draws_the_same_schedule_and_gives_the_same_bytes() {
    for seed in 0..40 {
        let scenario = Scenario::draw(seed);
        assert_eq!(scenario, Scenario::draw(seed));
        assert_eq!(run(&scenario, None), run(&scenario, None));
    }
    let report = || {
        let mut campaign = Campaign::default();
        campaign.run_all(&(0..40).map(Scenario::draw).collect::<Vec<_>>());
        serde_json::to_string(&campaign.report()).unwrap()
    };
    assert_eq!(report(), report());
}

#[test]
fn every_remote_model_and_every_fault_is_drawn() {
    let drawn: Vec<Scenario> = (0..200).map(Scenario::draw).collect();
    let remotes: BTreeSet<&str> = drawn.iter().map(|scenario| &scenario.remote[..]).collect();
    assert_eq!(remotes, BTreeSet::from(RemoteSync::NAMES));
    let faults: Vec<FaultKind> =
        drawn.iter().flat_map(|scenario| &scenario.faults).map(|fault| fault.kind).collect();
    for kind in [
        FaultKind::Partition,
        FaultKind::OneWayPartition,
        FaultKind::SilentLink,
        FaultKind::Reset,
        FaultKind::Straggler,
        FaultKind::SlowLink,
        FaultKind::Crash,
        FaultKind::DiskFull,
        FaultKind::ClockStep,
        FaultKind::CoordinatorCrash,
    ] {
        assert!(faults.contains(&kind), "{kind:?}");
    }
}

#[test]
fn a_failing_schedule_shrinks_to_what_it_takes_to_fail() {
    let bug = Some(Bug::NeverReconnects);
    let (scenario, violation) = (0..)
        .map(Scenario::draw)
        .filter(|scenario| scenario.faults.len() > 2)
        .find_map(|scenario| Some((scenario.clone(), run(&scenario, bug).broken?)))
        .unwrap();
    let (shortest, again) = shrink(&scenario, &violation, bug, 200);
    assert_eq!(again.checker, violation.checker);
    assert_eq!(run(&shortest, bug).broken, Some(again));
    assert!(shortest.faults.len() <= 1, "{shortest:?}");
    assert!(shortest.clocks <= scenario.clocks);
    let file = shortest.to_text();
    assert_eq!(Scenario::from_text("shortest.toml", &file, None).unwrap(), shortest, "{file}");
}

#[test]
fn what_a_file_fixes_is_kept_and_the_rest_is_drawn() {
    let text = "seed = 3\nremote = \"tap\"\n[packets]\nloss = 0.25\n";
    let fixed = Scenario::from_text("fixed.toml", text, None).unwrap();
    let drawn = Scenario::draw(3);
    assert_eq!((fixed.seed, &fixed.remote[..], fixed.packets.loss), (3, "tap", 0.25));
    assert_eq!(
        (fixed.rows, fixed.clocks, &fixed.faults),
        (drawn.rows, drawn.clocks, &drawn.faults)
    );
    let other = Scenario::from_text("fixed.toml", text, Some(4)).unwrap();
    assert_eq!((other.seed, other.rows), (4, Scenario::draw(4).rows));
}

#[test]
fn scenario_files_are_refused_where_they_are_wrong() {
    let fault = "data_centers = 3\n[[fault]]\nkind = \"partition\"\nat = \"1 s\"\ndc = 0\n";
    let check = |text: String, line: usize, key: &str, expected: &str| {
        let error = Scenario::from_text("wrong.toml", &text, None).unwrap_err();
        let ErrorLocation::File { line: found, .. } = error.place() else { panic!("{error}") };
        assert_eq!((*found, error.key()), (line, key), "{text}: {error}");
        assert!(error.to_string().contains(expected), "{text}: {error}");
    };
    check("clocks = 1\nspeed = 2\n".into(), 2, "speed", "unknown key");
    check("clocks = 0\n".into(), 1, "clocks", "from 1 to 10000");
    check("data_centers = 9\n".into(), 1, "data_centers", "from 2 to 8");
    check("servers = 5\n".into(), 1, "servers", "from 1 to 4");
    check("workers = 0\n".into(), 1, "workers", "from 1 to 4");
    check("rows = 10001\n".into(), 1, "rows", "from 1 to 10000");
    check("remote = \"gossip\"\n".into(), 1, "remote", "bsp, ssp, tap, asp, local-steps");
    check("seed = -1\n".into(), 1, "seed", "");
    check("[packets]\nloss = 0.6\n".into(), 2, "packets.loss", "from 0 to 0.5");
    check("[packets]\nmood = 0.1\n".into(), 2, "packets.mood", "unknown key");
    check(format!("{fault}peer = 3\n"), 6, "fault.0.peer", "0 to 2, other than `dc`");
    check(format!("{fault}peer = 0\n"), 6, "fault.0.peer", "other than `dc`");
    check(fault.into(), 2, "fault.0.peer", "a data center");
    check(fault.replace("dc = 0", "dc = 7"), 5, "fault.0.dc", "from 0 to 2");
    check(format!("{fault}peer = 1\nfactor = 2.0\n"), 7, "fault.0.factor", "from 1 to 1");
    check(format!("{fault}peer = 1\nlasts = \"2000 s\"\n"), 7, "fault.0.lasts", "at most");
    check(fault.replace("1 s", "3000 s") + "peer = 1\n", 4, "fault.0.at", "at most");
    check(fault.replace("partition", "rain"), 3, "fault.0.kind", "");
    let reset = fault.replace("partition", "reset");
    check(format!("{reset}peer = 1\nlasts = \"1 s\"\n"), 7, "fault.0.lasts", "no duration");
    let straggler = fault.replace("partition", "straggler");
    check(format!("{straggler}peer = 1\n"), 6, "fault.0.peer", "no peer");
    check(format!("{straggler}factor = 101.0\n"), 6, "fault.0.factor", "from 1 to 100");
    let crash = "data_centers = 3\nservers = 2\nworkers = 1\n[[fault]]\nkind = \"crash\"\nat = \"1 s\"\ndc = 0\n";
    check(format!("{crash}server = 2\n"), 8, "fault.0.server", "a server from 0 to 1");
    check(format!("{crash}worker = 1\n"), 8, "fault.0.worker", "a worker from 0 to 0");
    check(format!("{crash}server = 0\nworker = 0\n"), 9, "fault.0.worker", "no worker");
    check(format!("{crash}peer = 1\n"), 8, "fault.0.peer", "no peer");
    check(format!("{crash}write = \"torn\"\n"), 8, "fault.0.write", "a single node");
    check(format!("{crash}blank = true\n"), 8, "fault.0.blank", "a single worker");
    check(format!("{crash}server = 0\nblank = true\n"), 9, "fault.0.blank", "a single worker");
    let worn = format!("{crash}worker = 0\nwrite = \"torn\"\nblank = true\n");
    check(worn, 10, "fault.0.blank", "without `write`");
    check(format!("{crash}step_s = 1.0\n"), 8, "fault.0.step_s", "from -0 to 0");
    let join = crash.replace("crash", "late-join");
    check(format!("{join}lasts = \"1 s\"\n"), 8, "fault.0.lasts", "no duration");
    check(format!("{join}server = 0\n"), 8, "fault.0.server", "no server");
    let leave = crash.replace("crash", "leave");
    check(format!("{leave}worker = 0\n"), 8, "fault.0.worker", "no worker");
    let late = |dc: u16| format!("[[fault]]\nkind = \"late-join\"\nat = \"1 s\"\ndc = {dc}\n");
    let all: String = (0..3).map(late).collect();
    check(format!("data_centers = 3\n{all}"), 2, "fault", "from the start");
    let full = crash.replace("crash", "disk-full");
    check(full.clone(), 4, "fault.0.server", "the affected node");
    check(format!("{full}server = 0\nwrite = \"torn\"\n"), 9, "fault.0.write", "a single node");
    let step = crash.replace("crash", "clock-step");
    check(format!("{step}worker = 0\n"), 8, "fault.0.worker", "no worker");
    check(format!("{step}server = 0\nstep_s = 61.0\n"), 9, "fault.0.step_s", "from -60 to 60");
    check(format!("{step}server = 0\nlasts = \"1 s\"\n"), 9, "fault.0.lasts", "no duration");
    let diverged = crash.replace("crash", "diverged-update");
    check(diverged.clone(), 4, "fault.0.worker", "the worker of the update");
    check(format!("{diverged}server = 0\n"), 8, "fault.0.server", "no server");
    check(format!("{diverged}worker = 0\nlasts = \"1 s\"\n"), 9, "fault.0.lasts", "no duration");
    let coordinator = crash.replace("crash", "coordinator-crash");
    check(coordinator.replace("dc = 0", "dc = 1"), 7, "fault.0.dc", "0, for the coordinator");
    check(format!("{coordinator}server = 0\n"), 8, "fault.0.server", "no server");
    check(format!("{coordinator}worker = 0\n"), 8, "fault.0.worker", "no worker");
    check(format!("{coordinator}blank = true\n"), 8, "fault.0.blank", "a single worker");
    check(format!("{coordinator}peer = 1\n"), 8, "fault.0.peer", "no peer");
    let at_write = format!("{coordinator}write = \"after\"\n");
    assert!(Scenario::from_text("right.toml", &at_write, None).is_ok());
    assert!(
        Scenario::from_text("right.toml", &format!("{crash}server = 1\nwrite = \"torn\"\n"), None)
            .is_ok()
    );
    assert!(Scenario::from_text("right.toml", &format!("{fault}peer = 1\n"), None).is_ok());
}

/// Runs the program with arguments. Returns its exit code, its standard output and its standard error.
fn simulate(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_gaia-faults"));
    let output = program.args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_program_reports_its_results_and_repeats_them() {
    let (code, output, _) = simulate(&["--seed", "5", "--seeds", "20"]);
    assert_eq!(code, Some(0));
    assert!(output.starts_with("20 schedules") && output.contains("structural faults"), "{output}");
    let json = || simulate(&["--seed", "5", "--seeds", "20", "--json"]);
    assert_eq!(json(), json());
    let report: serde_json::Value = serde_json::from_str(&json().1).unwrap();
    assert_eq!((&report["schedules"], &report["failures"]), (&20.into(), &serde_json::json!([])));
    assert!(report["faults"]["structural"]["resets"].is_u64());
}

#[test]
fn the_program_takes_a_scenario_file_and_shows_what_is_wrong_with_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cut.toml");
    let name = file.to_str().unwrap();
    let fault =
        "[[fault]]\nkind = \"partition\"\nat = \"100 ms\"\nlasts = \"1 s\"\ndc = 0\npeer = 1\n";
    std::fs::write(&file, format!("clocks = 8\n{fault}")).unwrap();
    let (code, output, _) = simulate(&["--scenario", name, "--seeds", "3"]);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("3 partitions"), "{output}");
    std::fs::write(&file, format!("clocks = 8\nclock = 9\n{fault}")).unwrap();
    let (code, _, complaint) = simulate(&["--scenario", name]);
    assert_eq!(code, Some(2), "{complaint}");
    assert!(complaint.contains("cut.toml:2:1") && complaint.contains("clock"), "{complaint}");
    assert_eq!(simulate(&["--scenario", "no-such-file.toml"]).0, Some(2));
    assert_eq!(simulate(&["--seeds", "0"]).0, Some(2));
}
