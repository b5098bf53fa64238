//! Accepting connections over TCP: peers are authenticated, their hello is read, and the owner decides about them.
//!
//! Any host that reaches the port can connect, so an unauthenticated peer must not delay others: connections are always
//! accepted, and the number of unauthenticated ones is limited ([`IncomingConnections`]). An authenticated peer waits
//! for the owner in a slot of its own.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::real::agreement::Agreement;
use crate::real::connections::channel::Channel;
use crate::real::connections::incoming::{IncomingConnection, IncomingConnections};
use crate::real::connections::message::{Answer, Hello, Purpose};
use crate::real::connections::throttle::LogThrottle;
use crate::real::environment::{Environment, Listener, Stream};
use crate::real::error::RealError;
use crate::real::node::context::NodeContext;
use gaia_certificates::accepting;
use gaia_core::types::NodeId;
use gaia_core::types::limits::CLOCK_MAX;

/// An authenticated peer of this run that may connect to this node.
pub(in crate::real) struct ProvenCaller {
    pub(in crate::real) hello: Hello,
    /// Its address.
    pub(in crate::real) from: SocketAddr,
    pub(in crate::real) channel: Channel,
}

/// Accepts connections until it is dropped.
pub(in crate::real) struct Acceptor {
    proven: Arc<ProvenCallers>,
    /// Ends with the acceptor.
    _taking: JoinSet<()>,
}

/// Authenticated peers that wait for the owner, in the order of arrival.
///
/// Each node has at most one slot: a new connection of a node replaces the one before.
#[derive(Default)]
struct ProvenCallers {
    waiting: Mutex<VecDeque<ProvenCaller>>,
    arrived: Notify,
}

/// What the connections of an acceptor share.
struct Admission {
    context: NodeContext,
    tls: Option<Arc<ServerConfig>>,
    callers: BTreeSet<NodeId>,
    incoming: IncomingConnections,
    proven: Arc<ProvenCallers>,
    /// Serves nodes that report their data.
    agreement: Option<Arc<Agreement>>,
    /// Limits of log lines about peers that sent no hello, and about those that did.
    strangers: LogThrottle,
    refusals: LogThrottle,
}

impl Acceptor {
    /// Opens an acceptor for these nodes, which report their data to `agreement` if there is one.
    pub(in crate::real) fn open(
        context: &NodeContext,
        listener: Box<dyn Listener>,
        callers: BTreeSet<NodeId>,
        agreement: Option<Arc<Agreement>>,
    ) -> Self {
        let tls =
            callers.iter().any(|caller| context.run_context.speaks_tls(context.node, *caller));
        let identities = callers.iter().map(|caller| context.run_context.identity(*caller));
        let tls = tls.then(|| Arc::new(accepting(&context.credentials, identities)));

        let proven = Arc::<ProvenCallers>::default();
        let acceptor = Admission {
            context: context.clone(),
            tls,
            incoming: IncomingConnections::new(2 * callers.len() + UNPROVEN_SPARE),
            callers,
            proven: proven.clone(),
            agreement,
            strangers: LogThrottle::default(),
            refusals: LogThrottle::default(),
        };

        let mut taking = JoinSet::new();
        taking.spawn(Arc::new(acceptor).run(listener));
        Self { proven, _taking: taking }
    }

    /// The next authenticated peer. Cancel safe.
    pub(in crate::real) async fn proven_caller(&mut self) -> ProvenCaller {
        self.proven.next().await
    }
}

/// Listens on an address. Waits for one that is in use ([`once_free`]).
pub(in crate::real) async fn listen(
    environment: &dyn Environment,
    address: SocketAddr,
) -> Result<Box<dyn Listener>, RealError> {
    let listener = once_free(address, async || environment.listen(address).await).await;
    listener.map_err(|error| RealError::Listen {
        address: address.to_string(),
        reason: error.to_string(),
    })
}

/// Opens a socket of an address, for which it waits some seconds while the address is in use: the processes that a node has
/// forked, such as those of a data loader, have its sockets for as long after its death as they take to notice that.
pub(in crate::real) async fn once_free<T>(
    address: SocketAddr,
    open: impl AsyncFn() -> io::Result<T>,
) -> io::Result<T> {
    for tried in 0..TRIES_WHILE_IN_USE {
        match open().await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if tried == 0 {
                    info!("waits for {address}, which is in use");
                }
                sleep(BETWEEN_TRIES).await;
            }
            opened => return opened,
        }
    }
    open().await
}

/// Ten seconds: twice what loaders of torch take.
const TRIES_WHILE_IN_USE: usize = 50;
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

impl ProvenCallers {
    fn push(&self, proven_caller: ProvenCaller) {
        let caller =
            |proven_caller: &ProvenCaller| (proven_caller.hello.node, proven_caller.hello.stand_in);
        let mut waiting = self.waiting();
        waiting.retain(|other| caller(other) != caller(&proven_caller));
        waiting.push_back(proven_caller);
        self.arrived.notify_one();
    }

    /// Must be awaited by one task at a time.
    async fn next(&self) -> ProvenCaller {
        loop {
            let first = self.waiting().pop_front();
            match first {
                Some(proven_caller) => return proven_caller,
                None => self.arrived.notified().await,
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<ProvenCaller>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admission {
    async fn run(self: Arc<Self>, listener: Box<dyn Listener>) {
        let mut taken = JoinSet::new();
        loop {
            while taken.try_join_next().is_some() {}
            match poll_fn(|cx| listener.poll_accept(cx)).await {
                Ok((stream, from)) => {
                    let connection = self.admit(from);
                    taken.spawn(self.clone().take(stream, from, connection));
                }
                Err(error) => {
                    if let Some(left_out) = self.strangers.pass() {
                        warn!(
                            "{} cannot accept a connection: {error}{left_out}",
                            self.context.name()
                        );
                    }
                    // Usually out of file descriptors: closing an unauthenticated connection frees one.
                    self.evict();
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn admit(&self, from: SocketAddr) -> IncomingConnection {
        let (connection, evicted) = self.incoming.admit(from);
        if let Some(evicted) = evicted {
            self.on_refused(evicted, CROWDED, &self.strangers);
        }
        connection
    }

    fn evict(&self) {
        if let Some(evicted) = self.incoming.evict() {
            self.on_refused(evicted, CROWDED, &self.strangers);
        }
    }

    /// Serves a connection until its peer is authenticated, refused or evicted.
    async fn take(
        self: Arc<Self>,
        stream: Box<dyn Stream>,
        from: SocketAddr,
        connection: IncomingConnection,
    ) {
        tokio::select! {
            biased;
            () = connection.evicted() => {}
            () = self.prove(stream, from, &connection) => {}
        }
    }

    async fn prove(&self, stream: Box<dyn Stream>, from: SocketAddr, caller: &IncomingConnection) {
        let taken = Channel::take(stream, self.tls.clone()).await;
        let (channel, hello) = match taken {
            Ok((channel, hello)) => (channel.held_to(&self.context.credentials), hello),
            Err(error) => {
                if caller.release() {
                    self.on_refused(from, error, &self.strangers);
                }
                return;
            }
        };

        let believed = may_call(&self.callers, &hello)
            .and_then(|()| self.context.believe(&hello, channel.chain()));
        let mut proven_caller = ProvenCaller { hello, from, channel };
        match (believed, proven_caller.hello.purpose) {
            (Err(reason), _) => {
                proven_caller.channel.refuse(reason.clone()).await;
                if caller.release() {
                    self.on_refused(from, reason, &self.refusals);
                }
            }
            (Ok(()), Purpose::Check) => {
                // A peer that only checks may close the connection before it receives the answer.
                let _gone = proven_caller.channel.answer(&Answer::Welcome).await;
            }
            (Ok(()), Purpose::Join) if !self.context.run_context.has_plan_hash() => {
                proven_caller.channel.put_off(NOT_AGREED.into()).await;
            }
            (Ok(()), Purpose::Join) => {
                if caller.release() {
                    self.proven.push(proven_caller);
                }
            }
            (Ok(()), Purpose::Agree) => {
                if !caller.release() {
                    return;
                }
                match &self.agreement {
                    Some(agreement) => agreement.serve(proven_caller).await,
                    None => proven_caller.channel.refuse(NO_AGREEMENT.into()).await,
                }
            }
        }
    }

    /// Counts and logs a refused peer.
    fn on_refused(&self, from: SocketAddr, reason: impl fmt::Display, lines: &LogThrottle) {
        self.context.meter.on_caller_refused();
        if let Some(left_out) = lines.pass() {
            warn!("{} refused a connection from {from}: {reason}{left_out}", self.context.name());
        }
    }
}

/// Checks that a node may connect here, and act for the worker that it names, and that its next request is one of a run.
fn may_call(callers: &BTreeSet<NodeId>, hello: &Hello) -> Result<(), String> {
    let Hello { node, stand_in, next_requests, .. } = hello;
    if let Some(next) = next_requests.filter(|next| next.clock.0 > CLOCK_MAX) {
        return Err(format!("its next request is {next}, expected a clock of at most {CLOCK_MAX}"));
    }
    for caller in std::iter::once(*node).chain(stand_in.map(NodeId::Worker)) {
        if !callers.contains(&caller) {
            return Err(format!("{caller} is not expected to connect to this node"));
        }
    }
    match (stand_in, node) {
        (None, _) => Ok(()),
        (Some(own), NodeId::Worker(lost)) if own.dc == lost.dc && own != lost => Ok(()),
        (Some(own), _) => Err(format!("{own} cannot stand in for {node}")),
    }
}

/// The number of unauthenticated connections in addition to those of the expected nodes. Each takes a socket and some
/// kilobytes.
const UNPROVEN_SPARE: usize = 256;
const NOT_AGREED: &str =
    "not all data centers have reported their data, or the remote model is not chosen";
const NO_AGREEMENT: &str = "all data centers have the same data here and the run file names the remote model, expected no \
                            question about them";
const CROWDED: &str = "too many connections were not authenticated yet";
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::path::Path;
    use std::task::{Context, Poll, ready};

    use rustls::ClientConnection;
    use rustls::pki_types::ServerName;
    use tempfile::TempDir;
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::real::connections::channel::{FIRST_FLIGHT_MAX, HANDSHAKE_MAX};
    use crate::real::connections::message::{HELLO_BYTES_MAX, pack};
    use crate::real::environment::Machine;
    use crate::real::environment::{Datagrams, Later};
    use crate::real::error::LinkFault;
    use crate::real::local::issue;
    use crate::real::node::context::{RunContext, nodes};
    use crate::real::test_run;
    use gaia_certificates::{SERVER_NAME, connecting};
    use gaia_checkpoint::{CheckpointError, LogDisk};
    use gaia_core::types::{DcId, WorkerId};
    use gaia_core::wire::{LanKind, encode_lan};

    const HONEST: [u8; 4] = [10, 0, 0, 1];
    const HOSTILE: [u8; 4] = [10, 0, 0, 2];
    const WORKER: NodeId = NodeId::Worker(WorkerId { dc: DcId(0), index: 0 });

    /// A listener whose connections arrive at once.
    #[derive(Clone, Debug)]
    struct Port(UnboundedSender<(DuplexStream, SocketAddr)>);

    struct Calls(Mutex<UnboundedReceiver<(DuplexStream, SocketAddr)>>);

    impl Port {
        fn call(&self, from: [u8; 4]) -> DuplexStream {
            let (near, far) = duplex(64 << 10);
            self.0.send((far, (from, 1).into())).unwrap();
            near
        }
    }

    impl Environment for Port {
        fn listen(&self, _: SocketAddr) -> Later<'_, Box<dyn Listener>> {
            unreachable!("there is one listener")
        }

        fn connect(&self, _: SocketAddr) -> Later<'_, Box<dyn Stream>> {
            Box::pin(async { Ok(Box::new(self.call(HONEST)) as Box<dyn Stream>) })
        }

        fn datagrams(&self, _: SocketAddr) -> io::Result<Datagrams> {
            unreachable!("nobody sends any")
        }

        fn log(&self, _: &Path) -> Result<Box<dyn LogDisk>, CheckpointError> {
            unreachable!("nobody keeps any")
        }

        fn since_epoch(&self) -> Duration {
            Duration::ZERO
        }

        fn random(&self) -> io::Result<u64> {
            Ok(0)
        }
    }

    impl Listener for Calls {
        fn poll_accept(
            &self,
            cx: &mut Context<'_>,
        ) -> Poll<io::Result<(Box<dyn Stream>, SocketAddr)>> {
            let call = ready!(self.0.lock().unwrap().poll_recv(cx));
            let (stream, from) = call.expect("somebody may call");
            Poll::Ready(Ok((Box::new(stream), from)))
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            Ok((Ipv4Addr::LOCALHOST, 1).into())
        }
    }

    /// The acceptor of a coordinator, and a worker that connects to it.
    struct Stage {
        port: Port,
        acceptor: Acceptor,
        worker: NodeContext,
        coordinator: NodeContext,
        _certificates: TempDir,
    }

    impl Stage {
        fn new() -> Self {
            let plan = test_run::plan();
            let folder = tempfile::tempdir().unwrap();
            let certificates = folder.path().join("certs");
            let (calls, called) = unbounded_channel();
            let port = Port(calls);
            let mut run_context = RunContext::new(&plan, &certificates);
            run_context.set_plan_hash(7);
            run_context.environment = Arc::new(port.clone());
            issue(&run_context, &certificates).unwrap();

            let coordinator = run_context.node_context(NodeId::Coordinator).unwrap();
            let worker = run_context.node_context(WORKER).unwrap();
            let listener = Box::new(Calls(Mutex::new(called)));
            let acceptor =
                Acceptor::open(&coordinator, listener, nodes(&run_context).collect(), None);
            Self { port, acceptor, worker, coordinator, _certificates: folder }
        }

        /// Connects as the worker, and admits any caller.
        async fn join(&mut self) -> Result<Channel, LinkFault> {
            let at = "10.0.0.9:1".parse().unwrap();
            let hello = self.worker.hello(Purpose::Join);
            let calling = self.worker.dial(NodeId::Coordinator, &at, &hello);
            tokio::pin!(calling);
            loop {
                tokio::select! {
                    called = &mut calling => return called,
                    mut proven_caller = self.acceptor.proven_caller() => {
                        proven_caller.channel.answer(&Answer::Welcome).await.unwrap();
                    }
                }
            }
        }

        /// The first message of a caller that uses TLS.
        fn opening(&self) -> Vec<u8> {
            let expected = self.worker.run_context.identity(NodeId::Coordinator);
            let config = Arc::new(connecting(&self.worker.credentials, &expected));
            let name = ServerName::try_from(SERVER_NAME).unwrap();
            let mut bytes = Vec::new();
            let mut connection = ClientConnection::new(config, name).unwrap();
            connection.write_tls(&mut bytes).unwrap();
            bytes
        }

        fn refused(&self) -> u64 {
            let page = self.worker.run_context.telemetry.metrics();
            let node = self.worker.run_context.label(self.coordinator.node);
            let series = format!("gaia_callers_refused_total{{node=\"{node}\"}} ");
            let line = page.lines().find_map(|line| line.strip_prefix(&series));
            line.unwrap().parse().unwrap()
        }
    }

    /// Connects a thousand times at once and then a hundred times a second, and closes no connection. Each connection
    /// sends its bytes one by one, with a pause between two.
    async fn flood(port: Port, from: [u8; 4], says: Vec<u8>, pause: Duration) {
        let mut callers = JoinSet::new();
        for number in 0.. {
            let mut stream = port.call(from);
            let says = says.clone();
            callers.spawn(async move {
                for byte in says {
                    if stream.write_all(&[byte]).await.is_err() {
                        return;
                    }
                    sleep(pause).await;
                }
                std::future::pending::<()>().await;
            });
            if number > 1000 {
                sleep(Duration::from_millis(10)).await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_comes_back_at_once_through_a_flood_of_idle_and_slow_callers() {
        for from in [HONEST, HOSTILE] {
            let mut stage = Stage::new();
            let opening = stage.opening();
            let idle = (Vec::new(), Duration::ZERO);
            let slow = (opening.clone(), Duration::from_millis(300));
            let halfway = (opening, Duration::ZERO);

            for (says, pause) in [idle, slow, halfway] {
                let flooding = tokio::spawn(flood(stage.port.clone(), from, says, pause));
                for _ in 0..20 {
                    sleep(Duration::from_millis(500)).await;
                    let joined = timeout(Duration::from_secs(1), stage.join()).await;
                    joined.expect("at once").unwrap();
                }
                flooding.abort();
            }
            assert!(stage.refused() > 3000, "{} of the flood are counted", stage.refused());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn callers_are_hung_up_on_in_time_and_counted_once() {
        let stage = Stage::new();
        let opening = stage.opening();
        let check = async |says: &[u8], limit: Duration| {
            let (began, refused) = (Instant::now(), stage.refused());
            let mut stream = stage.port.call(HOSTILE);
            stream.write_all(says).await.unwrap();
            tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.unwrap();
            assert_eq!(began.elapsed().as_secs(), limit.as_secs());
            assert_eq!(stage.refused(), refused + 1);
        };

        check(b"", FIRST_FLIGHT_MAX).await;
        check(&opening[..opening.len() - 1], FIRST_FLIGHT_MAX).await;
        check(&opening, HANDSHAKE_MAX).await;
        check(b"GET / HTTP/1.1\r\n\r\n", Duration::ZERO).await;
        let mut hello = Vec::new();
        encode_lan(LanKind::Hello, &pack(&stage.worker.hello(Purpose::Join)).into(), &mut hello);
        assert!(hello.len() < HELLO_BYTES_MAX);

        check(&hello, Duration::ZERO).await;
    }

    /// If the owner is busy, a node that reconnects repeatedly has one waiting connection.
    #[tokio::test(start_paused = true)]
    async fn the_latest_connection_of_a_node_takes_the_place_of_the_one_before() {
        let mut stage = Stage::new();
        let at = "10.0.0.9:1".parse().unwrap();
        for _ in 0..5 {
            let hello = stage.worker.hello(Purpose::Join);
            let calling = stage.worker.dial(NodeId::Coordinator, &at, &hello);
            let unanswered = timeout(Duration::from_secs(1), calling).await;
            assert!(unanswered.is_err(), "no connection was accepted");
        }
        assert_eq!(stage.acceptor.proven_caller().await.hello.node, WORKER);
        let next = timeout(Duration::from_secs(1), stage.acceptor.proven_caller()).await;
        assert!(next.is_err(), "none of them is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_is_in_use_for_some_seconds_is_waited_for() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = taken.local_addr().unwrap();
        let failed = listen(&Machine, address).await.err().unwrap();
        assert!(failed.to_string().contains("in use"), "{failed}");

        let freed = async {
            sleep(Duration::from_secs(5)).await;
            drop(taken);
        };
        let (listener, ()) = tokio::join!(listen(&Machine, address), freed);
        assert_eq!(listener.unwrap().local_addr().unwrap(), address);
    }
}
