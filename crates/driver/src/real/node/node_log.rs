//! The log that a node writes before it sends, and the recovery of a node from it in another process.

use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Notify;
use tracing::info;

use crate::blocking::{Background, in_place};
use crate::real::error::RealError;
use crate::real::node::context::NodeContext;
use crate::trained::identity_with_data;
use gaia_checkpoint::{LogConfig, NodeStore, NodeStoreConfig, Recovered, WrittenCheckpoint};
use gaia_config::{LogSync, Plan};
use gaia_core::application::Application;
use gaia_core::log::Owner;
use gaia_core::recovery::{
    ENTRY_BYTES_MAX, Logging, RecoveringServer, RecoveringWorker, RecoveryError,
};
use gaia_core::types::{Clock, Seed, State};
use gaia_telemetry::NodeMeter;

/// The directory with the state of the nodes of a process, with one folder for each.
#[derive(Clone, Debug)]
pub(in crate::real) struct StateDir {
    folder: PathBuf,
    /// A hash of the settings that must be equal in the process that continues.
    hash: u64,
}

/// The log of a running node.
pub(in crate::real) struct NodeLog {
    /// The checkpoint that is being written. It is dropped, and thus waited for, before the store unlocks the directory.
    writing: Option<Writing>,
    /// The state of the last checkpoint, for its memory.
    spare: State,
    store: NodeStore,
    sync: LogSync,
    /// The size from which on inputs may wait, if any may.
    bulky: Option<u64>,
    /// Clocks between checkpoints, if the run file sets it.
    every: Option<u64>,
    /// The clock of the last checkpoint.
    clock: Clock,
    /// Bytes of the log since the last checkpoint, and the limit of that.
    bytes: u64,
    bytes_max: u64,
    /// The time that the last checkpoint took.
    took: Duration,
    meter: NodeMeter,
}

/// A checkpoint that is being written.
struct Writing {
    written: Background<WrittenCheckpoint>,
    /// Told at the end.
    ended: Arc<Notify>,
    began: Instant,
    /// Whether it takes the place of entries.
    replaces: bool,
}

/// A node that is being recovered.
pub(in crate::real) trait Recovering {
    fn restore(&mut self, state: State) -> Result<(), RecoveryError>;
    fn replay(&mut self, body: &[u8]) -> Result<(), RecoveryError>;
}

impl StateDir {
    /// `agreed` is the hash of the settings that all nodes must have resolved alike.
    pub(in crate::real) fn new(
        folder: PathBuf,
        agreed: u64,
        plan: &Plan,
        application: &dyn Application,
    ) -> Self {
        let app = plan.app.as_ref().map_or_else(String::new, |app| format!("{app:?}"));
        Self { folder, hash: identity_with_data(Seed(agreed).child(&app), application) }
    }

    /// Whether a node has a state to continue from. If so, its initial state is not used.
    pub(in crate::real) fn has_state(&self, context: &NodeContext) -> bool {
        let path = self.folder.join(context.run_context.identity(context.node).folder());
        NodeStore::has_checkpoint(&path)
    }

    /// Recovers a node from the state of an earlier process, if there was one.
    ///
    /// # Errors
    /// If the node's directory belongs to another node, is damaged or in use, or the disk fails.
    pub(in crate::real) fn recover<M: Recovering>(
        &self,
        context: &NodeContext,
        mut machine: M,
    ) -> Result<(NodeLog, M), RealError> {
        let (plan, identity) =
            (&context.run_context.plan, context.run_context.identity(context.node));
        let path = self.folder.join(identity.folder());
        let owner = Owner { plan: self.hash, node: identity.to_string() };
        let log =
            LogConfig { owner, segment_bytes: SEGMENT_BYTES, record_bytes_max: RECORD_BYTES_MAX };
        let config = NodeStoreConfig { log, seed: plan.seed, keep: plan.checkpoint.keep };
        let unfit = |error| RealError::Recovery { path: path.clone(), error };

        let began = Instant::now();
        let (mut clock, mut bytes) = (Clock::ZERO, 0);
        let disk = context.run_context.environment.log(&NodeStore::log_path(&path))?;
        let recovered = NodeStore::recover_on(
            disk,
            &path,
            config,
            |resumed| {
                if let Some(resumed) = resumed {
                    clock = Clock(resumed.facts.clock);
                    machine.restore(resumed.state).map_err(unfit)?;
                }
                Ok::<_, RealError>(machine)
            },
            |machine, record| {
                bytes += record.body.len() as u64;
                machine.replay(record.body).map_err(unfit)
            },
        );

        let (store, machine, Recovered { records, .. }) = recovered?;
        let seconds = began.elapsed().as_secs_f64();
        info!(
            "{} resumes from {}: {records} log entries replayed in {seconds:.3} s",
            context.name(),
            path.display()
        );
        let node_log = NodeLog {
            store,
            sync: plan.log.sync,
            // What a worker counts cannot be repeated.
            bulky: Some(plan.log.bulky.0).filter(|_| !plan.deltas_are_counts()),
            every: plan.checkpoint.every,
            writing: None,
            spare: State::default(),
            clock,
            bytes,
            bytes_max: BYTES_MIN,
            took: Duration::ZERO,
            meter: context.meter.clone(),
        };

        Ok((node_log, machine))
    }
}

impl NodeLog {
    /// What a server is to keep of its inputs. A checkpoint of it has about `state_bytes`: where bulky inputs have more, it
    /// takes less time to write.
    pub(in crate::real) fn logging_of_server(&self, state_bytes: u64) -> Logging {
        self.logging(BYTES_MIN.max(state_bytes))
    }

    /// What a worker is to keep of its inputs. It repeats no read: with bulky ones it has checkpoints alone.
    pub(in crate::real) fn logging_of_worker(&self) -> Logging {
        self.logging(0)
    }

    fn logging(&self, bytes_max: u64) -> Logging {
        self.bulky.map_or(Logging::Each, |bulky| Logging::Deferred { bulky, bytes_max })
    }

    /// How long results may wait for bulky inputs that nothing else asks to be written. Checkpoints in their place take at
    /// most a twentieth of the time then.
    pub(in crate::real) fn patience(&self) -> Duration {
        PATIENCE_MIN.max(CHECKPOINTS_PER_PATIENCE * self.took)
    }

    /// As [`Self::patience`], where no worker sends anything: all compute, and a checkpoint takes less than an iteration, or all
    /// have stopped, and the coordinator waits to hear of it.
    pub(in crate::real) fn idle_patience(&self) -> Duration {
        PATIENCE_MIN.max(self.took)
    }

    /// A state for the next checkpoint to be taken into. Waits for the checkpoint before.
    ///
    /// # Errors
    /// If the disk fails.
    pub(in crate::real) fn spare(&mut self) -> Result<State, RealError> {
        self.wait()?;
        Ok(mem::take(&mut self.spare))
    }

    /// Begins to write a checkpoint in place of entries that were not written. Later ones wait for it: without it, the log
    /// would lack entries before them.
    ///
    /// # Errors
    /// If the disk fails.
    pub(in crate::real) fn replace(&mut self, clock: Clock, state: State) -> Result<(), RealError> {
        self.begin(clock, state, true)
    }

    /// Writes entries durably, as far as the run file demands.
    ///
    /// # Errors
    /// If the disk fails. The caller must then send nothing that follows from these entries.
    pub(in crate::real) fn write(&mut self, entries: &[Bytes]) -> Result<(), RealError> {
        if entries.is_empty() {
            return Ok(());
        }
        if self.writing.as_ref().is_some_and(|writing| writing.replaces) {
            self.wait()?;
        }
        let bytes = entries.iter().map(|entry| entry.len() as u64).sum();
        self.bytes += bytes;
        let began = Instant::now();
        in_place(|| {
            for entry in entries {
                self.store.append(entry)?;
            }
            match self.sync {
                LogSync::Always => self.store.sync(),
                LogSync::Never => self.store.flush(),
            }
        })?;
        self.meter.on_log_synced(bytes, began.elapsed());
        Ok(())
    }

    /// Whether a checkpoint is due, if none is being written.
    pub(in crate::real) fn is_due(&self, clock: Clock) -> bool {
        let before = self.clock.0;
        self.bytes > self.bytes_max
            || self.every.is_some_and(|every| clock.0 / every > before / every)
    }

    /// The time that the last checkpoint took.
    pub(in crate::real) fn took(&self) -> Duration {
        self.took
    }

    /// Whether a checkpoint is being written. Handles the end of it.
    ///
    /// # Errors
    /// If the disk has failed.
    pub(in crate::real) fn is_writing(&mut self) -> Result<bool, RealError> {
        match &self.writing {
            Some(writing) if writing.written.is_done() => self.wait().map(|()| false),
            writing => Ok(writing.is_some()),
        }
    }

    /// Begins to write a checkpoint, while the node goes on. Once it is written, recovery replays only later entries. Waits
    /// for the checkpoint before.
    ///
    /// # Errors
    /// If the disk fails.
    pub(in crate::real) fn keep(&mut self, clock: Clock, state: State) -> Result<(), RealError> {
        self.begin(clock, state, false)?;
        self.is_writing().map(drop)
    }

    fn begin(&mut self, clock: Clock, state: State, replaces: bool) -> Result<(), RealError> {
        self.wait()?;
        let began = Instant::now();
        let tensors = state.tensors.values().map(|tensor| 4 * tensor.values.len());
        let records = state.records.values().map(Bytes::len);
        let state_bytes: usize = tensors.chain(records).sum();

        let begun = in_place(|| match replaces {
            true => self.store.begin_replacing(clock, state),
            false => self.store.begin_checkpoint(clock, state),
        })?;
        let ended = Arc::new(Notify::new());
        let tell = ended.clone();
        let written = Background::begin(move || {
            let written = begun.write();
            tell.notify_one();
            written
        });
        self.writing = Some(Writing { written, ended, began, replaces });
        (self.clock, self.bytes) = (clock, 0);
        self.bytes_max = BYTES_MIN.max(LOG_PER_STATE * state_bytes as u64);
        Ok(())
    }

    /// What is told once the checkpoint in place of entries is written that is being written, if one is.
    pub(in crate::real) fn replacing(&self) -> Option<Arc<Notify>> {
        let writing = self.writing.as_ref().filter(|writing| writing.replaces)?;
        Some(writing.ended.clone())
    }

    /// Waits for the checkpoint that is being written, if one is.
    ///
    /// # Errors
    /// If the disk has failed.
    pub(in crate::real) fn wait(&mut self) -> Result<(), RealError> {
        let Some(Writing { written, began, .. }) = self.writing.take() else { return Ok(()) };
        self.spare = self.store.end_checkpoint(written.wait())?;
        self.spare.records.clear();
        self.took = began.elapsed();
        Ok(())
    }
}

impl Recovering for RecoveringServer {
    fn restore(&mut self, state: State) -> Result<(), RecoveryError> {
        self.restore(state)
    }

    fn replay(&mut self, body: &[u8]) -> Result<(), RecoveryError> {
        self.replay(body)
    }
}

impl Recovering for RecoveringWorker {
    fn restore(&mut self, state: State) -> Result<(), RecoveryError> {
        self.restore(state)
    }

    fn replay(&mut self, body: &[u8]) -> Result<(), RecoveryError> {
        self.replay(body)
    }
}

/// A log may grow to this multiple of the size of a checkpoint. The disk then writes a third more than the log, and recovery
/// reads four times the size of the state. For a shard of 1 GB that takes some seconds. A longer log makes recovery slower, and
/// a shorter one makes checkpoints more frequent.
const LOG_PER_STATE: u64 = 3;

/// The smallest limit of a log.
const BYTES_MIN: u64 = 64 << 20;

/// The shortest time that results wait for bulky inputs.
const PATIENCE_MIN: Duration = Duration::from_secs(1);
const CHECKPOINTS_PER_PATIENCE: u32 = 20;

const SEGMENT_BYTES: u64 = 64 << 20;

/// It bounds the allocation for a damaged length.
const RECORD_BYTES_MAX: usize = ENTRY_BYTES_MAX as usize;
