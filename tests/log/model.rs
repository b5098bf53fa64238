//! A log beside a plain list of records: whatever happens, what was synced is read again, and nothing else but what was
//! written after it.

use std::path::Path;

use gaia_checkpoint::{CheckpointError, LogConfig, LogDirectory};
use gaia_core::log::Owner;
use gaia_core::types::Seed;
use proptest::prelude::*;
use rand::RngExt;

use super::disk::{Failure, Memory};

#[derive(Clone, Debug)]
enum Act {
    Append {
        bytes: usize,
    },
    Sync,
    /// Some of what was synced is needed no more.
    Forget {
        share: f64,
    },
    /// The process ends: what it wrote is there.
    Kill,
    /// The machine does: what was not synced is there or not.
    LosePower {
        seed: u64,
    },
    /// The disk fails after some steps.
    Fail {
        steps: usize,
        how: Failure,
    },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let how = prop::sample::select(FAILURES.to_vec());
    let act = prop_oneof![
        8 => (1_usize..200).prop_map(|bytes| Act::Append { bytes }),
        4 => Just(Act::Sync),
        1 => (0.0..1.0_f64).prop_map(|share| Act::Forget { share }),
        1 => Just(Act::Kill),
        2 => any::<u64>().prop_map(|seed| Act::LosePower { seed }),
        2 => (0_usize..6, how).prop_map(|(steps, how)| Act::Fail { steps, how }),
    ];
    prop::collection::vec(act, 1..80)
}

const FAILURES: [Failure; 4] =
    [Failure::Refused, Failure::Torn, Failure::Unheard, Failure::Passing];

/// A log, and what must be in it.
struct Model {
    disk: Memory,
    log: LogDirectory,
    /// All that was appended and may still be read.
    records: Vec<Vec<u8>>,
    /// How many of them had consequences.
    synced: usize,
    /// The first one that is needed.
    from: usize,
    /// Tells each body from all others.
    bodies: u64,
}

impl Model {
    fn new(disk: Memory) -> Self {
        let (log, read) = recover(&disk, 0).unwrap();
        assert_eq!(read, Vec::<Vec<u8>>::new());
        Self { disk, log, records: Vec::new(), synced: 0, from: 0, bodies: 0 }
    }

    fn act(&mut self, act: &Act) -> Result<(), String> {
        match *act {
            Act::Append { bytes } => {
                self.bodies += 1;
                let mut random = Seed(self.bodies).random();
                let body: Vec<u8> = (0..bytes).map(|_| random.random()).collect();
                self.records.push(body.clone());
                match self.log.append(&body) {
                    Ok(number) => assert_eq!(number + 1, self.records.len() as u64),
                    Err(error) => self.reopen_after(&error)?,
                }
            }
            Act::Sync => match self.log.sync() {
                Ok(()) => self.synced = self.records.len(),
                Err(error) => self.reopen_after(&error)?,
            },
            Act::Forget { share } => {
                self.from += ((self.synced - self.from) as f64 * share) as usize;
                self.log.drop_before(self.from as u64);
            }
            Act::Kill => self.reopen()?,
            Act::LosePower { seed } => {
                self.disk.lose_power(&mut Seed(seed).random());
                self.reopen()?;
            }
            Act::Fail { steps, how } => self.disk.fail_after(steps, how),
        }
        Ok(())
    }

    /// A log that has failed once takes nothing any more.
    fn reopen_after(&mut self, error: &CheckpointError) -> Result<(), String> {
        assert!(matches!(error, CheckpointError::Io { .. }), "{error}");
        assert!(self.disk.mend(), "{error}");
        let stopped = |answer| matches!(answer, Err(CheckpointError::LogStopped { .. }));
        assert!(stopped(self.log.append(b"more").map(drop)) && stopped(self.log.sync()));
        self.reopen()
    }

    fn reopen(&mut self) -> Result<(), String> {
        let from = self.from as u64;
        let recovered = recover(&self.disk, from).or_else(|error| {
            // It may fail while it is read; then the next one finds what there is.
            if self.disk.mend() { recover(&self.disk, from) } else { Err(error) }
        });
        let (log, read) = recovered.map_err(|error| error.to_string())?;
        let next = self.from + read.len();
        assert_eq!(log.next_number(), next as u64);
        if next < self.synced {
            return Err(format!("{} records were synced, {next} are left", self.synced));
        }
        if !self.records[self.from..].starts_with(&read) {
            return Err(format!("of {} records others were read", self.records.len()));
        }
        self.records.truncate(next);
        self.synced = next;
        self.log = log;
        Ok(())
    }
}

fn recover(disk: &Memory, from: u64) -> Result<(LogDirectory, Vec<Vec<u8>>), CheckpointError> {
    let owner = Owner { plan: 1, node: "virginia/server0".into() };
    let config = LogConfig { owner, segment_bytes: 600, record_bytes_max: 1 << 10 };
    let mut read = Vec::new();
    let disk = Box::new(disk.clone());
    let (log, recovered) =
        LogDirectory::recover_on(disk, Path::new("log"), config, from, |record| {
            assert_eq!(record.number, from + read.len() as u64);
            read.push(record.body.to_vec());
            Ok::<_, CheckpointError>(())
        })?;
    assert_eq!(recovered.records, read.len() as u64);
    Ok((log, read))
}

fn check(disk: Memory, acts: &[Act]) -> Result<(), String> {
    let mut model = Model::new(disk);
    acts.iter().try_for_each(|act| model.act(act))?;
    model.disk.mend();
    model.reopen()
}

proptest! {
    #[test]
    fn what_was_synced_is_read_again_whatever_happens(acts in acts()) {
        prop_assert_eq!(check(Memory::default(), &acts), Ok(()));
    }
}

/// The check is worth something: it notices a disk that does not sync.
#[test]
fn a_disk_that_breaks_its_word_is_noticed() {
    let noticed = (0..100).filter(|seed| {
        let group = [Act::Append { bytes: 50 }, Act::Append { bytes: 60 }, Act::Sync];
        check(Memory::lying(), &[&group[..], &[Act::LosePower { seed: *seed }]].concat()).is_err()
    });
    assert!(noticed.count() > 50);
}

/// Every step that a log takes may be the one that fails, in each way.
#[test]
fn a_disk_that_fails_at_any_step_leaves_what_was_synced() {
    let append = || Act::Append { bytes: 150 };
    for how in FAILURES {
        for steps in 0..24 {
            let before = [append(), Act::Sync, append(), append(), Act::Sync];
            let fail = [Act::Fail { steps, how }];
            let after = [append(), Act::Sync, Act::Forget { share: 0.9 }, append(), append()];
            let last = [Act::Sync, append(), append(), Act::Sync, append(), Act::Sync];
            for crash in [Act::Kill, Act::LosePower { seed: steps as u64 }] {
                let acts = [&before[..], &fail, &after, &last, &[crash]].concat();
                assert_eq!(check(Memory::default(), &acts), Ok(()), "{how:?} after {steps} steps");
            }
        }
    }
}

/// After a failed sync the machine may show what its disk does not have and will not be given, and say at the next sync
/// that all is well. Who goes on from that writes it again.
#[test]
fn what_a_failed_sync_has_let_go_is_written_again() {
    let append = || Act::Append { bytes: 50 };
    for how in [Failure::Torn, Failure::Passing] {
        // The first step writes the group, the second syncs it.
        let fails = [append(), Act::Sync, append(), Act::Fail { steps: 1, how }, Act::Sync];
        let mut model = Model::new(Memory::default());
        fails.iter().try_for_each(|act| model.act(act)).unwrap();
        assert_eq!(model.synced, 2, "it had come so far");
        for seed in 0..20 {
            let power = Act::LosePower { seed };
            let after = [power.clone(), append(), Act::Sync, power];
            assert_eq!(check(Memory::default(), &[&fails[..], &after].concat()), Ok(()));
        }
    }
}
