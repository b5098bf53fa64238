//! The certificates, the TLS settings and the sockets of endpoints in tests.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{
    AsyncUdpSocket, ClientConfig, Runtime as _, ServerConfig, TokioRuntime, TransportConfig,
    UdpPoller,
};
use rustls::pki_types::UnixTime;

use gaia_certificates::{Authority, Credentials, Identity, Validity, accepting, connecting};

/// The credentials of a server in each of these data centers, of one authority.
pub(super) fn credentials(data_centers: &[&str]) -> Vec<Credentials> {
    let now = UnixTime::now();
    let mut authority = Authority::create("demo", now).unwrap();
    let validity = Validity::starting(now, Duration::from_secs(86_400));
    let mut issue =
        |dc: &&str| authority.issue(&Identity::server("demo", dc, 0), validity).unwrap();
    data_centers.iter().map(&mut issue).collect()
}

/// The settings of a server that others connect to.
pub(super) fn server_config(own: &Credentials, others: &[Credentials]) -> ServerConfig {
    let others = others.iter().map(|other| other.identity().clone());
    let tls = QuicServerConfig::try_from(accepting(own, others)).unwrap();
    ServerConfig::with_crypto(Arc::new(tls))
}

/// The settings of a server that connects to another one.
pub(super) fn client_config(
    own: &Credentials,
    to: &Credentials,
    transport: TransportConfig,
) -> ClientConfig {
    let tls = QuicClientConfig::try_from(connecting(own, to.identity())).unwrap();
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport));
    config
}

/// A UDP socket on the loopback interface whose path loses what a test chooses.
pub(super) struct LossySocket<F> {
    inner: Arc<dyn AsyncUdpSocket>,
    loses: F,
}

impl<F: Fn(&Transmit<'_>) -> bool> LossySocket<F> {
    pub(super) fn new(loses: F) -> Self {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        Self { inner: TokioRuntime.wrap_udp_socket(socket).unwrap(), loses }
    }
}

impl<F: Fn(&Transmit<'_>) -> bool + Send + Sync + 'static> AsyncUdpSocket for LossySocket<F> {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.inner.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        if (self.loses)(transmit) { Ok(()) } else { self.inner.try_send(transmit) }
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, buffers, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

impl<F> fmt::Debug for LossySocket<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LossySocket").field("inner", &self.inner).finish_non_exhaustive()
    }
}
