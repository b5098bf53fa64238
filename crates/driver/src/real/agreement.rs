//! How nodes agree on what no process knows alone: data that each data center has for itself, and the remote model of a
//! run that leaves it to the program.
//!
//! The shape of the model and the weight of each example depend on the data of all data centers, and no node reads that of
//! another. So before a run begins, the workers of each data center send a summary of their data to the coordinator:
//! sizes and names, never examples. Once it has those of all data centers it checks that they go together, writes them to
//! its state, and sends them to every node that asks, now or later. This room does not know what is in a summary.
//!
//! The remote model is chosen by the coordinator alone, since each node would choose by its own part of the data. All nodes
//! get the choice with the summaries, before they derive anything from the remote model.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, sleep_until, timeout};
use tracing::warn;

use super::connections::acceptor::ProvenCaller;
use super::connections::channel::{Channel, Reader, Received};
use super::connections::message::{
    Answer, MESSAGE_BYTES_MAX, Order, Purpose, Report, pack, unpack,
};
use super::error::{ChannelError, RealError};
use super::node::context::{NodeContext, RunContext, nodes};
use super::node::reminder::Reminder;
use super::{HEARTBEAT, SILENCE_MAX};
use gaia_checkpoint::StateFile;
use gaia_config::{Decision, Plan};
use gaia_core::application::Application;
use gaia_core::topology::Address;
use gaia_core::types::{DcId, NodeId, State};
use gaia_core::wire::LanKind;

/// What the nodes of one process train on.
pub enum RunData {
    /// The application. All processes make the same one of the same data.
    Whole(Arc<dyn Application>),
    /// The data of the process, where each data center has its own.
    Own(Box<dyn OwnData>),
}

/// The data of the nodes of one process, of which others know a summary.
pub trait OwnData: Send + Sync {
    /// The summary of the data. `None` if this process has none.
    fn summary(&self) -> Option<Summary>;

    /// The application of this data and of the summaries of all data centers, in the order of the topology.
    ///
    /// # Errors
    /// Why the data of data centers does not go together.
    fn into_application(
        self: Box<Self>,
        summaries: &[Vec<u8>],
    ) -> Result<Arc<dyn Application>, String>;
}

/// What others must know of the data of a data center.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The summary.
    pub bytes: Vec<u8>,
    /// The data in a few words. Differs where the data differs.
    pub description: String,
}

/// How the coordinator chooses the remote model of a run that leaves it to the program: of its plan, its application, and
/// the summaries of all data centers, where each has data of its own. Returns the plan with the model.
pub type Choose<'a> = dyn Fn(&Plan, &Arc<dyn Application>, &[Vec<u8>]) -> Result<Plan, String> + 'a;

/// The remote model that the coordinator has chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Chosen {
    /// Its `[sync.remote]`, with all settings.
    pub(super) remote: String,
    /// Why, in a few sentences.
    pub(super) reason: String,
}

impl Chosen {
    /// The choice of a plan, if there is one.
    pub(super) fn of(plan: &Plan) -> Option<Self> {
        match &plan.decision {
            Decision::Made(reason) => {
                Some(Self { remote: plan.remote_toml(), reason: reason.clone() })
            }
            Decision::Given | Decision::Open => None,
        }
    }
}

/// What all nodes are told.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Agreed {
    /// The summaries in the order of the topology. None if all data is in one place.
    pub(super) summaries: Vec<Summary>,
    /// The remote model, if the run leaves it to the program.
    pub(super) chosen: Option<Chosen>,
}

/// What the coordinator gathers and decides.
pub(super) struct Agreement {
    run_context: RunContext,
    /// The summary of each data center, and who sent it.
    known: Mutex<BTreeMap<DcId, (NodeId, Summary)>>,
    /// Changes with every summary.
    arrived: watch::Sender<()>,
    /// What all nodes are told, or why there is no run.
    said: watch::Sender<Option<Said>>,
    /// The nodes that have been told.
    told: watch::Sender<BTreeSet<NodeId>>,
    /// Where another process of this coordinator finds what nodes were told.
    file: Option<StateFile>,
}

type Said = Result<Arc<Agreed>, String>;

impl Agreement {
    /// An agreement that is to be reached, or that an earlier process of this coordinator has reached. `folder` is that of
    /// its state.
    pub(super) fn open(run_context: &RunContext, folder: Option<&Path>) -> Result<Self, RealError> {
        let file = folder.map(|folder| StateFile::new(&folder.join(FILE), run_context.settings));
        let file = file.transpose()?;
        let state = file.as_ref().map(StateFile::read).transpose()?.flatten();
        let reached = state.map(restored).transpose()?;
        Ok(Self {
            run_context: run_context.clone(),
            known: Mutex::default(),
            arrived: watch::Sender::new(()),
            said: watch::Sender::new(reached.map(Ok)),
            told: watch::Sender::default(),
            file,
        })
    }

    /// Waits until the summaries of all data centers are here.
    pub(super) async fn gathered(&self) -> Vec<Vec<u8>> {
        if let Some(Ok(reached)) = &*self.said.borrow() {
            return reached.summaries.iter().map(|summary| summary.bytes.clone()).collect();
        }
        let topology = &self.run_context.plan.topology;
        let mut reminder = Reminder::new();
        let mut arrived = self.arrived.subscribe();
        loop {
            let missing: Vec<&str> = {
                let known = self.known();
                let missing = topology.dc_ids().filter(|dc| !known.contains_key(dc));
                missing.map(|dc| topology.dc(dc).name.as_str()).collect()
            };
            if missing.is_empty() {
                return self.known().values().map(|(_, summary)| summary.bytes.clone()).collect();
            }
            tokio::select! {
                _ = arrived.changed() => {}
                () = sleep_until(reminder.due()) => {
                    let missing = missing.join(", ");
                    reminder.remind(&format!("waiting for a worker to report the data of {missing}"));
                }
            }
        }
    }

    /// The remote model that an earlier process of this coordinator has chosen.
    pub(super) fn chosen(&self) -> Option<Chosen> {
        match &*self.said.borrow() {
            Some(Ok(reached)) => reached.chosen.clone(),
            _ => None,
        }
    }

    /// Tells all nodes the summaries that were gathered and the remote model, once they are in the state of the
    /// coordinator.
    pub(super) fn conclude(&self, chosen: Option<Chosen>) -> Result<(), RealError> {
        if self.said.borrow().is_some() {
            return Ok(());
        }
        let summaries = self.known().values().map(|(_, summary)| summary.clone()).collect();
        let agreed = Agreed { summaries, chosen };
        if let Some(file) = &self.file {
            file.write(&saved(&agreed))?;
        }
        self.said.send_replace(Some(Ok(Arc::new(agreed))));
        Ok(())
    }

    /// Tells all nodes why there is no run. Those that have not started within [`RETURN_MAX`] are not waited for.
    pub(super) async fn fail(&self, reason: &str) {
        self.said.send_replace(Some(Err(reason.into())));
        let mut told = self.told.subscribe();
        let all = nodes(&self.run_context).count();
        let _late = timeout(RETURN_MAX, told.wait_for(|told| told.len() == all)).await;
    }

    /// Serves a node: receives its summary, if it has data, and sends it what all have agreed on.
    pub(in crate::real) async fn serve(&self, caller: ProvenCaller) {
        let ProvenCaller { hello, mut channel, .. } = caller;
        if channel.answer(&Answer::Welcome).await.is_err() {
            return;
        }
        let (reader, parcels, writing) = channel.start(PARCELS_MAX);
        let (mut received, _reading) = receiving(reader);
        let mut said = self.said.subscribe();
        let mut beat = interval(HEARTBEAT);
        let (mut description, mut has_said) = (String::new(), false);

        let told = loop {
            let known = said.borrow_and_update().clone();
            if let Some(known) = known.filter(|known| has_said || known.is_err()) {
                break known;
            }
            tokio::select! {
                biased;
                _ = beat.tick() => {
                    // The reader detects a lost connection.
                    let _lost = parcels.send((LanKind::Order, pack(&Order::Alive).into())).await;
                }
                changed = said.changed() => if changed.is_err() { return },
                Some(next) = received.recv() => match next {
                    Ok((LanKind::Summary, body)) => {
                        has_said = true;
                        let bytes = body.to_vec();
                        let summary = Summary { bytes, description: description.clone() };
                        if let Err(reason) = self.add(hello.node, summary) {
                            break Err(reason);
                        }
                    }
                    Ok((LanKind::Report, body)) => {
                        if let Ok(Report::Data { description: said }) = Report::read(&body) {
                            description = said;
                        }
                    }
                    // The node asks again.
                    Ok(_) | Err(_) => return,
                },
            }
        };

        match told {
            Ok(agreed) => {
                for summary in &agreed.summaries {
                    let _lost =
                        parcels.send((LanKind::Summary, summary.bytes.clone().into())).await;
                }
                if let Some(chosen) = agreed.chosen.clone() {
                    let _lost =
                        parcels.send((LanKind::Order, pack(&Order::Use(chosen)).into())).await;
                }
            }
            Err(reason) => {
                let _lost =
                    parcels.send((LanKind::Order, pack(&Order::Abort { reason }).into())).await;
            }
        }
        drop(parcels);
        let _late = timeout(SILENCE_MAX, writing).await;
        self.told.send_modify(|told| {
            told.insert(hello.node);
        });
    }

    /// Adds the summary of a node's data center. An empty one is that of a node without data.
    fn add(&self, node: NodeId, summary: Summary) -> Result<(), String> {
        let Some(dc) = node.dc().filter(|_| !summary.bytes.is_empty()) else { return Ok(()) };
        let reached = match &*self.said.borrow() {
            Some(Ok(reached)) => reached.summaries.get(dc.index()).cloned(),
            _ => None,
        };
        let mut known = self.known();
        let before = match (reached, known.get(&dc)) {
            (Some(reached), _) => Some(("the run has begun with".to_owned(), reached)),
            (None, Some((other, before))) => {
                Some((format!("{} has", self.run_context.name(*other)), before.clone()))
            }
            (None, None) => None,
        };
        if let Some((who, before)) = before.filter(|(_, before)| *before != summary) {
            let (node, found) = (self.run_context.name(node), summary.description);
            return Err(format!(
                "the data of {node} is {found}, expected what {who}: {}",
                before.description
            ));
        }
        known.insert(dc, (node, summary));
        drop(known);
        self.arrived.send_replace(());
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<DcId, (NodeId, Summary)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends the summary of a node's data to the coordinator, and waits for what all nodes agree on.
///
/// # Errors
/// If the data centers do not agree, or the coordinator refuses this node.
pub(super) async fn agree(
    context: &NodeContext,
    coordinator: &Address,
    summary: Option<&Summary>,
) -> Result<Told, RealError> {
    let hello = context.hello(Purpose::Agree);
    loop {
        let channel = context.join(NodeId::Coordinator, coordinator, &hello).await?;
        match exchange(context, channel, summary).await {
            Ok(told) => return told.map_err(|reason| RealError::Ended { reason }),
            Err(error) => {
                warn!("the connection to the coordinator is lost: {error}; this node reconnects");
                sleep(HEARTBEAT).await;
            }
        }
    }
}

/// What a node is told: the summaries of all data centers, where each has data of its own, and the remote model, where the
/// run leaves it to the program.
pub(super) type Told = (Vec<Vec<u8>>, Option<Chosen>);

/// Asks once. Returns what the node is told, or why there is no run.
async fn exchange(
    context: &NodeContext,
    channel: Channel,
    summary: Option<&Summary>,
) -> Result<Result<Told, String>, ChannelError> {
    let (reader, parcels, _) = channel.start(PARCELS_MAX);
    let (mut received, _reading) = receiving(reader);
    let mut beat = interval(HEARTBEAT);

    // The reader detects a lost connection.
    if let Some(Summary { description, .. }) = summary {
        let report = Report::Data { description: description.clone() };
        let _lost = parcels.send((LanKind::Report, pack(&report).into())).await;
    }
    let bytes = summary.map(|summary| summary.bytes.clone()).unwrap_or_default();
    let _lost = parcels.send((LanKind::Summary, bytes.into())).await;

    let plan = &context.run_context.plan;
    let expected = if plan.has_own_data() { plan.topology.data_centers.len() } else { 0 };
    let (mut all, mut chosen) = (Vec::new(), None);
    while all.len() < expected || (plan.decision == Decision::Open && chosen.is_none()) {
        tokio::select! {
            biased;
            _ = beat.tick() => {
                let alive = Report::Alive { links: Vec::new(), lan_bytes: 0 };
                let _lost = parcels.send((LanKind::Report, pack(&alive).into())).await;
            }
            next = received.recv() => match next.ok_or(ChannelError::Closed)?? {
                (LanKind::Summary, body) => all.push(body.to_vec()),
                (LanKind::Order, body) => match unpack(&body)? {
                    Order::Abort { reason } => return Ok(Err(reason)),
                    Order::Use(choice) => chosen = Some(choice),
                    _ => {}
                },
                (other, _) => {
                    let error = format!("received {other:?}, expected a summary of data");
                    return Err(ChannelError::Other(error));
                }
            },
        }
    }
    Ok(Ok((all, chosen)))
}

/// A message on a connection, or why it has ended.
type Message = Result<Received, ChannelError>;

/// Receives the messages of a connection, until it ends or the second value is dropped.
fn receiving(mut reader: Reader) -> (Receiver<Message>, JoinSet<()>) {
    let (sender, received) = channel(PARCELS_MAX);
    let mut reading = JoinSet::new();
    reading.spawn(async move {
        loop {
            let next = reader.next(|_| MESSAGE_BYTES_MAX, Some(SILENCE_MAX)).await;
            let last = next.is_err();
            if sender.send(next).await.is_err() || last {
                return;
            }
        }
    });
    (received, reading)
}

/// What was agreed on, in the state of the coordinator.
fn saved(agreed: &Agreed) -> State {
    let summaries: Vec<(&String, &Vec<u8>)> =
        agreed.summaries.iter().map(|summary| (&summary.description, &summary.bytes)).collect();
    State::of(|walk| walk.record(RECORD, &(summaries, &agreed.chosen)))
}

fn restored(state: State) -> Result<Arc<Agreed>, RealError> {
    let mut fields: (Vec<(String, Vec<u8>)>, Option<Chosen>) = Default::default();
    state.restore(|walk| walk.record(RECORD, &mut fields)).map_err(RealError::OtherState)?;
    let (summaries, chosen) = fields;
    let summary = |(description, bytes)| Summary { bytes, description };
    Ok(Arc::new(Agreed { summaries: summaries.into_iter().map(summary).collect(), chosen }))
}

const FILE: &str = "agreed";
const RECORD: &str = "agreed";
const PARCELS_MAX: usize = 16;

/// How long a run that cannot begin waits for nodes that have not started.
const RETURN_MAX: Duration = Duration::from_secs(10);
