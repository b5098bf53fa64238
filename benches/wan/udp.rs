//! The processor time of a gigabyte over UDP on this machine, both ends together: through lanes as nodes use them, and on one
//! stream of quinn with the same certificates and datagrams.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use gaia_certificates::{
    Authority, Credentials, Identity, SERVER_NAME, Validity, accepting, connecting,
};
use gaia_core::link::{LinkConfig, quantum};
use gaia_core::types::{Bandwidth, ByteSize, DcId, Lane};
use gaia_quic::{
    Carriers, Chosen, DcTransport, End, Ends, Event, GOODBYE, TrackedFactory, Windows,
    datagram_discovery,
};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};
use rustix::time::ClockId;
use rustls::pki_types::UnixTime;
use tokio::runtime::Builder;

use super::links::{SHARD, frame};
use super::rows::{Rows, seconds_of};

const BYTES: usize = 200_000_000;

pub(super) fn measure(rows: &mut Rows) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let certificates = Certificates::new();
    let [mut lanes, mut streams] = [const { Vec::new() }; 2];
    for _ in 0..rows.runs() {
        lanes.push(runtime.block_on(through_lanes(&certificates)));
        streams.push(runtime.block_on(through_quinn(&certificates)));
    }
    rows.print("a GB over UDP, processor time", "s", &lanes, ("one stream of quinn", &streams));
}

/// Two data centers with a certificate each.
struct Certificates([Credentials; 2]);

impl Certificates {
    fn new() -> Self {
        let now = UnixTime::now();
        let mut authority = Authority::create("bench", now).unwrap();
        let validity = Validity::starting(now, Duration::from_secs(86_400));
        Self([0, 1].map(|at| authority.issue(&identity(at), validity).unwrap()))
    }

    /// The two ends of a connection, and the sockets that carry it.
    async fn connect(&self, transports: [TransportConfig; 2]) -> ([Connection; 2], [Endpoint; 2]) {
        let [sending, receiving] = transports.map(Arc::new);
        let server = accepting(&self.0[1], Some(identity(0)));
        let mut server =
            ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(server).unwrap()));
        server.transport_config(receiving);
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let acceptor = Endpoint::server(server, here).unwrap();

        let client = connecting(&self.0[0], &identity(1));
        let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(client).unwrap()));
        client.transport_config(sending);
        let caller = Endpoint::client(here).unwrap();
        let address = acceptor.local_addr().unwrap();
        let called = caller.connect_with(client, address, SERVER_NAME).unwrap();
        let accepted = async { acceptor.accept().await.unwrap().await };
        let (called, accepted) = tokio::join!(called, accepted);
        ([called.unwrap(), accepted.unwrap()], [caller, acceptor])
    }
}

fn identity(at: usize) -> Identity {
    Identity::server("bench", ["north", "south"][at], 0)
}

/// The seconds of a GB through the data lane of a server.
async fn through_lanes(certificates: &Certificates) -> f64 {
    let link = link();
    let windows = Windows::new(&link, &link, false);
    let factories = [0, 1].map(|_| Arc::new(TrackedFactory::default()));
    let transports = factories.clone().map(|factory| {
        let mut config = with_datagrams(windows.transport(1));
        config.congestion_controller_factory(factory);
        config
    });
    let (connections, endpoints) = certificates.connect(transports).await;
    let mut joined = Vec::new();
    for (at, (connection, factory)) in connections.into_iter().zip(factories).enumerate() {
        factory.chosen.set(Chosen::new(&link, &link, false)).ok().unwrap();
        let (own, peer) = (DcId(at as u16), DcId(1 - at as u16));
        let ends = Ends {
            at: own,
            end: End { peer, shards: 0..1, at_name: own.to_string(), peer_name: peer.to_string() },
            connection,
            flight: factory.flight.clone(),
            bandwidth: link.bandwidth,
            received: windows,
            sent: windows,
            patience: Duration::from_secs(2),
            counters: Arc::default(),
        };
        let mut transport = DcTransport::new(own, 0..1);
        let Carriers { pump, listener, .. } = transport.join(ends.open().await.unwrap());
        tokio::spawn(pump.run());
        tokio::spawn(listener.run());
        joined.push(transport);
    }

    let [mut from, mut to] = joined.try_into().ok().unwrap();
    let frame = frame(quantum(link.bandwidth).0 as usize);
    let sending = tokio::spawn(async move {
        loop {
            while from.has_room(DcId(1), SHARD, Lane::Data) {
                from.send(DcId(1), SHARD, Lane::Data, frame.clone()).unwrap();
            }
            if matches!(from.event().await, Event::Lost { .. } | Event::Left { .. }) {
                return;
            }
        }
    });
    let began = processor_seconds();
    let mut received = 0;
    while received < BYTES {
        if let Event::Frame(incoming) = to.event().await {
            received += incoming.frame.len();
        }
    }
    let spent = processor_seconds() - began;
    endpoints.iter().for_each(|endpoint| endpoint.close(GOODBYE, b""));
    sending.await.unwrap();
    spent * 1e9 / received as f64
}

/// The seconds of a GB on a stream.
async fn through_quinn(certificates: &Certificates) -> f64 {
    let transports = [0, 1].map(|_| with_datagrams(TransportConfig::default()));
    let ([from, to], endpoints) = certificates.connect(transports).await;
    let chunk = frame(quantum(link().bandwidth).0 as usize);
    let sending = tokio::spawn(async move {
        let mut stream = from.open_uni().await.unwrap();
        while stream.write_chunk(chunk.clone()).await.is_ok() {}
    });
    let began = processor_seconds();
    let mut stream = to.accept_uni().await.unwrap();
    let mut received = 0;
    while received < BYTES {
        received += stream.read_chunk(usize::MAX, true).await.unwrap().unwrap().bytes.len();
    }
    let spent = processor_seconds() - began;
    endpoints.iter().for_each(|endpoint| endpoint.close(GOODBYE, b""));
    sending.await.unwrap();
    spent * 1e9 / received as f64
}

/// With the datagrams that nodes discover.
fn with_datagrams(mut config: TransportConfig) -> TransportConfig {
    config.mtu_discovery_config(Some(datagram_discovery(link().bandwidth, 0)));
    config
}

fn processor_seconds() -> f64 {
    seconds_of(ClockId::ProcessCPUTime)
}

/// A link that is faster than the machine, so that nothing waits for its rate.
fn link() -> LinkConfig {
    let (delay, queue) = (Duration::from_micros(500), ByteSize(16 << 20));
    LinkConfig { bandwidth: Bandwidth::from_mbit(10_000.0), delay, queue, loss: 0.0 }
}
