//! Workers that connect to a server, which admits them once it has a copy.

use std::collections::BTreeSet;

use tracing::{debug, info};

use super::ServerNode;
use crate::real::connections::acceptor::ProvenCaller;
use crate::real::error::RealError;
use gaia_core::coordinator::StandIns;
use gaia_core::types::{DcId, NodeId, WorkerId};

impl ServerNode {
    /// Handles an authenticated caller.
    pub(super) async fn on_proven_caller(
        &mut self,
        proven_caller: ProvenCaller,
    ) -> Result<(), RealError> {
        let NodeId::Worker(worker) = proven_caller.hello.node else { return Ok(()) };
        let (calls, due) = (proven_caller.hello.stand_in, self.stand_ins.of(worker));
        if calls != due {
            let name = |who: Option<WorkerId>| {
                self.context.run_context.name(NodeId::Worker(who.unwrap_or(worker)))
            };
            let reason = format!(
                "expected {} to connect for {}, found {}",
                name(due),
                name(None),
                name(calls)
            );
            debug!("{} defers a connection: {reason}", self.context.name());
            self.context.meter.on_caller_refused();
            proven_caller.channel.put_off(reason).await;
            return Ok(());
        }

        if calls.is_none() && self.workers.near() == Some(worker) {
            proven_caller
                .channel
                .refuse("this worker runs in the process of the server and does not connect".into())
                .await;
            return Ok(());
        }

        self.let_in(worker, Some(proven_caller))
    }

    /// Sets the stand-ins that the coordinator has appointed. Connections of workers and stand-ins that were replaced
    /// are closed.
    pub(super) fn accept_stand_ins(&mut self, stand_ins: StandIns) -> Result<(), RealError> {
        let known = std::mem::replace(&mut self.stand_ins, stand_ins);
        let lost = known.iter().chain(self.stand_ins.iter()).map(|(lost, _)| lost);
        let lost: BTreeSet<WorkerId> = lost.collect();
        let dc = self.server.server().id().dc;
        for worker in lost.into_iter().filter(|worker| worker.dc == dc) {
            if known.of(worker) != self.stand_ins.of(worker) {
                self.parked.remove(&worker);
                self.set_right(worker)?;
            }
        }
        Ok(())
    }

    /// Closes the connection for a worker. The worker or stand-in that reconnects receives the due request again.
    pub(super) fn set_right(&mut self, worker: WorkerId) -> Result<(), RealError> {
        self.workers.part(worker);
        if self.workers.near() == Some(worker) && self.stand_ins.of(worker).is_none() {
            self.let_in(worker, None)?;
        }
        Ok(())
    }

    /// Admits a worker. Without a caller it is the one in this process. While the copy is in transfer the worker
    /// waits.
    pub(super) fn let_in(
        &mut self,
        worker: WorkerId,
        proven_caller: Option<ProvenCaller>,
    ) -> Result<(), RealError> {
        let next_requests = match &proven_caller {
            Some(proven_caller) => proven_caller.hello.next_requests,
            None => self.workers.near_next_request(self.server.server().id().shard),
        };
        let due = self.server.handle_worker_joined(self.now(), worker, next_requests);
        let Some(due) = due else {
            self.parked.insert(worker, proven_caller);
            return Ok(());
        };

        // The due request implies that all requests before it are answered, so they must be in the log, as far as answers
        // wait for it.
        if self.server.delays_answers() {
            self.write()?;
        }
        match proven_caller {
            Some(proven_caller) => self.workers.join(worker, proven_caller.channel, due),
            None => self.workers.join_near(due),
        }

        Ok(())
    }

    /// Admits the workers that waited for the copy, once it is complete.
    pub(super) fn let_in_parked(&mut self) -> Result<(), RealError> {
        if self.parked.is_empty() || self.server.is_rebuilding() {
            return Ok(());
        }
        let clock = self.server.server().rebuilt_at();
        info!("{} has rebuilt its copy, at clock {clock}", self.context.name());
        let mut parked = std::mem::take(&mut self.parked).into_iter();
        parked.try_for_each(|(worker, proven_caller)| self.let_in(worker, proven_caller))
    }

    /// Starts the transfer of a mirror's copy, unless it was started before.
    pub(super) fn rebuild(
        &mut self,
        from: DcId,
        inactive: &BTreeSet<DcId>,
    ) -> Result<(), RealError> {
        if !self.server.is_new() {
            return Ok(());
        }
        let (own, mirror) = (self.context.name(), self.mirrors.name(from));
        info!("{own} has no copy and rebuilds it from {mirror}");
        let begun = self.server.handle_rebuild(self.now(), from, inactive);
        begun.map_err(|error| self.refused(error))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::*;
    use crate::cluster::Blueprint;
    use crate::real::conductor::membership::Membership;
    use crate::real::connections::channel::{Channel, Parcel, Reader};
    use crate::real::connections::message::{Answer, Hello, Order, Purpose, pack, unpack};
    use crate::real::error::{ChannelError, LinkFault};
    use crate::real::node::context::NodeContext;
    use crate::real::server::serve;
    use crate::real::test_run::{self, Stage};
    use gaia_core::coordinator::{ClusterCoordinator, FailureRules, TakeOver};
    use gaia_core::recovery::RequestSeq;
    use gaia_core::session::Incarnation;
    use gaia_core::topology::Address;
    use gaia_core::types::limits::CLOCK_MAX;
    use gaia_core::types::{Clock, Instant, ServerId, ShardId};
    use gaia_core::wire::LanKind;

    const SERVER: ServerId = ServerId { dc: DcId(0), shard: ShardId(0) };
    const LOST: WorkerId = WorkerId { dc: DcId(0), index: 0 };
    const OWN: WorkerId = WorkerId { dc: DcId(0), index: 1 };

    /// Connects once. `forge` changes the hello.
    async fn call(
        context: &NodeContext,
        to: NodeId,
        at: &Address,
        forge: impl Fn(Hello) -> Hello,
    ) -> Result<Channel, LinkFault> {
        context.dial(to, at, &forge(context.hello(Purpose::Join))).await
    }

    fn is_put_off(called: &Result<Channel, LinkFault>, expected: &str) -> bool {
        matches!(called, Err(LinkFault::Later(reason)) if reason.contains(expected))
    }

    /// The due request that a server sends to an admitted worker, and the connection to the server.
    async fn receive_due(channel: Channel) -> (RequestSeq, Reader, mpsc::Sender<Parcel>) {
        let (mut reader, parcels, _) = channel.start(1);
        let (kind, body) = reader.next(|_| 1024, None).await.unwrap();
        assert_eq!(kind, LanKind::Hello);
        (unpack(&body).unwrap(), reader, parcels)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_hears_one_for_a_worker_and_takes_that_of_the_coordinator_alone() {
        let mut stage = Stage::new(test_run::plan()).await;
        let machine = Blueprint::new(&stage.plan, &stage.application).server(SERVER);
        let node_config = stage.node_config();
        let context = stage.run_context.node_context(NodeId::Server(SERVER)).unwrap();
        let listens = ([127, 0, 0, 1], 0).into();
        let serving = serve(context, SERVER, machine, &node_config, listens, None);
        tokio::select! {
            served = serving => panic!("{:?}", served.err()),
            () = receives_one(&mut stage) => {}
        }
    }

    async fn receives_one(stage: &mut Stage) {
        let mut proven_caller = stage.acceptor.as_mut().unwrap().proven_caller().await;
        assert!(proven_caller.hello.begins, "it has no state to continue from");
        let answer = Answer::Begin { incarnation: Incarnation::FIRST };
        proven_caller.channel.answer(&answer).await.unwrap();
        let at: Address = proven_caller.hello.listens.unwrap().to_string().parse().unwrap();
        let (_reader, parcels, _) = proven_caller.channel.start(8);
        let send_order = async |stand_ins: &StandIns| {
            let servers = vec![(SERVER, at.to_string())];
            let order = pack(&Order::Begin { servers, stand_ins: stand_ins.clone() });
            parcels.send((LanKind::Order, order.into())).await.unwrap();
        };
        let (server, lost, own) = (NodeId::Server(SERVER), stage.worker(LOST), stage.worker(OWN));
        let stand_in = own.in_place_of(LOST);

        let mut stand_ins = StandIns::default();
        send_order(&stand_ins).await;
        let called = call(&stand_in, server, &at, |hello| hello).await;
        assert!(is_put_off(&called, "expected worker 0 of a to connect"), "{:?}", called.err());
        // A caller that claims to be the lost worker itself must authenticate as that.
        let called = call(&own, server, &at, |hello| Hello { node: NodeId::Worker(LOST), ..hello });
        let refused = called.await.map(drop).unwrap_err();
        assert!(
            matches!(&refused, LinkFault::Refused(said) if said.contains("as in the hello")),
            "{refused}"
        );
        let itself = |hello| Hello { stand_in: Some(LOST), ..hello };
        let refused = call(&lost, server, &at, itself).await.map(drop).unwrap_err();
        assert!(matches!(refused, LinkFault::Refused(_)), "{refused}");
        let next = RequestSeq { clock: Clock(CLOCK_MAX + 1), updates: true };
        let ahead = |hello| Hello { next_requests: Some(next), ..hello };
        let refused = call(&lost, server, &at, ahead).await.map(drop).unwrap_err();
        assert!(
            matches!(&refused, LinkFault::Refused(said) if said.contains("the update of clock")),
            "{refused}"
        );
        let far = WorkerId { dc: DcId(7), index: 0 };
        let afar = |hello| Hello { stand_in: Some(far), ..hello };
        let refused = call(&lost, server, &at, afar).await.map(drop).unwrap_err();
        assert!(matches!(refused, LinkFault::Refused(_)), "{refused}");
        let (_, mut first, _open) =
            receive_due(call(&lost, server, &at, |hello| hello).await.unwrap()).await;

        // The coordinator's order closes the one connection, and allows the other.
        stand_ins.appoint(LOST, [OWN].into_iter());
        send_order(&stand_ins).await;
        assert!(matches!(first.next(|_| 1024, None).await, Err(ChannelError::Closed)));
        let joined = stand_in.join(server, &at, &stand_in.hello(Purpose::Join)).await.unwrap();
        let (due, mut second, _open) = receive_due(joined).await;
        assert_eq!(due, RequestSeq::default());
        let called = call(&lost, server, &at, |hello| hello).await;
        assert!(is_put_off(&called, "expected worker 1 of a to connect"), "{:?}", called.err());

        stand_ins.dismiss(LOST);
        send_order(&stand_ins).await;
        assert!(matches!(second.next(|_| 1024, None).await, Err(ChannelError::Closed)));
        lost.join(server, &at, &lost.hello(Purpose::Join)).await.unwrap();
        let called = call(&stand_in, server, &at, |hello| hello).await;
        assert!(is_put_off(&called, "expected worker 0 of a to connect"), "{:?}", called.err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_coordinator_hears_those_alone_that_it_has_told_to_stand_in() {
        let mut stage = Stage::new(test_run::plan()).await;
        let blueprint = Blueprint::new(&stage.plan, &stage.application);
        let layouts = blueprint.layouts().to_vec();
        let rules = FailureRules {
            give_up_after: Duration::MAX,
            may_leave: false,
            take_over_after: Some(Duration::ZERO),
            deltas_are_counts: false,
        };
        let mut coordinator = ClusterCoordinator::new(blueprint.coordinator(), rules);
        let mut membership =
            Membership::new(stage.run_context.clone(), layouts, stage.acceptor.take().unwrap());
        let (lost, own, at) = (stage.worker(LOST), stage.worker(OWN), stage.coordinator.clone());
        let stand_in = own.in_place_of(LOST);
        let joined = async |membership: &mut Membership,
                            coordinator: &mut ClusterCoordinator,
                            context: &NodeContext| {
            let hello = context.hello(Purpose::Join);
            let calling = context.dial(NodeId::Coordinator, &at, &hello);
            tokio::pin!(calling);
            loop {
                tokio::select! {
                    called = &mut calling => return called.map(|_| ()),
                    _ = membership.next_event(coordinator) => {}
                }
            }
        };

        joined(&mut membership, &mut coordinator, &own).await.unwrap();
        let called = joined(&mut membership, &mut coordinator, &stand_in).await;
        assert!(matches!(called, Err(LinkFault::Later(_))), "{called:?}");

        // No worker is left to stand in for the other.
        let take_over = |coordinator: &mut ClusterCoordinator, lost| {
            coordinator.handle_lost(Instant::ZERO, NodeId::Worker(lost));
            coordinator.take_over(Instant::ZERO, &membership.workers())
        };
        assert_eq!(take_over(&mut coordinator, OWN), [TakeOver::ByNobody { lost: OWN }]);
        let taken = TakeOver::By { lost: LOST, own: OWN, before: None };
        assert_eq!(take_over(&mut coordinator, LOST), [taken]);
        joined(&mut membership, &mut coordinator, &stand_in).await.unwrap();
        let node = NodeId::Worker(LOST);
        assert!(membership.has(node) && !membership.has_itself(node));
        joined(&mut membership, &mut coordinator, &lost).await.unwrap();

        assert!(membership.has_itself(node));
    }
}
