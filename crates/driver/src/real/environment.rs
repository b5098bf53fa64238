//! The environment of a process: sockets, files of logs, time and random numbers.
//!
//! The default is the machine. Whole clusters also run in one thread, with a paused clock, and with streams,
//! datagrams and disks in memory. There the behaviour of nodes depends only on their inputs, so that a run is
//! reproducible.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use quinn::{AsyncUdpSocket, EndpointConfig, Runtime, TokioRuntime};
use ring::rand::{SecureRandom, SystemRandom};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use crate::real::SILENCE_MAX;
use gaia_checkpoint::{CheckpointError, LogDisk, LogFolder};

/// A reliable, ordered byte stream in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Accepts streams.
pub trait Listener: Send + Sync {
    /// Polls for the next stream, with the address of its peer.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Box<dyn Stream>, SocketAddr)>>;

    /// The local address.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

/// A UDP socket, and the settings of its QUIC endpoint if the environment sets them.
pub struct Datagrams {
    /// The socket.
    pub socket: Arc<dyn AsyncUdpSocket>,
    /// The settings of the QUIC endpoint. `None` for the defaults.
    pub config: Option<EndpointConfig>,
}

/// The result of an asynchronous operation.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// The operations that a process needs from its surroundings.
pub trait Environment: fmt::Debug + Send + Sync {
    /// Listens for streams. Port 0 is any free one.
    fn listen(&self, at: SocketAddr) -> Later<'_, Box<dyn Listener>>;

    /// Opens a stream to an address.
    fn connect(&self, to: SocketAddr) -> Later<'_, Box<dyn Stream>>;

    /// Binds a UDP socket to an address.
    fn datagrams(&self, at: SocketAddr) -> io::Result<Datagrams>;

    /// Opens the files of the log in a directory.
    ///
    /// # Errors
    /// If another process has opened them, or the disk fails.
    fn log(&self, path: &Path) -> Result<Box<dyn LogDisk>, CheckpointError>;

    /// The time since 1970 by the machine's calendar clock, which may be wrong and may step back.
    fn since_epoch(&self) -> Duration;

    /// An unpredictable random number, which differs between processes.
    fn random(&self) -> io::Result<u64>;
}

/// The machine that the process runs on.
#[derive(Debug)]
pub struct Machine;

impl Environment for Machine {
    fn listen(&self, at: SocketAddr) -> Later<'_, Box<dyn Listener>> {
        Box::pin(async move { Ok(Box::new(TcpListener::bind(at).await?) as Box<dyn Listener>) })
    }

    fn connect(&self, to: SocketAddr) -> Later<'_, Box<dyn Stream>> {
        Box::pin(async move {
            let stream = TcpStream::connect(to).await?;
            set_up(&stream)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }

    fn datagrams(&self, at: SocketAddr) -> io::Result<Datagrams> {
        let socket = TokioRuntime.wrap_udp_socket(UdpSocket::bind(at)?)?;
        Ok(Datagrams { socket, config: None })
    }

    fn log(&self, path: &Path) -> Result<Box<dyn LogDisk>, CheckpointError> {
        Ok(Box::new(LogFolder::open(path)?))
    }

    fn since_epoch(&self) -> Duration {
        SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
    }

    fn random(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| io::Error::other("the machine gives no random numbers"))?;
        Ok(u64::from_le_bytes(bytes))
    }
}

impl Listener for TcpListener {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Box<dyn Stream>, SocketAddr)>> {
        let (stream, from) = ready!(Self::poll_accept(self, cx))?;
        set_up(&stream)?;
        Poll::Ready(Ok((Box::new(stream), from)))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Self::local_addr(self)
    }
}

/// Enables TCP keep-alive, so that a dead peer is detected on an idle connection too. Connections to the coordinator
/// have a heartbeat, but those between workers and servers are idle while a read is held back.
fn set_up(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let probes = TcpKeepalive::new()
        .with_time(SILENCE_MAX / 2)
        .with_interval(SILENCE_MAX / 10)
        .with_retries(5);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&probes)?;
    // TCP sends no probes while bytes are unacknowledged. This timeout covers that case.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(SILENCE_MAX))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_machine_that_is_gone_is_noticed_though_nothing_is_said() {
        let listener = Machine.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        assert!(!SockRef::from(&stream).keepalive().unwrap());
        set_up(&stream).unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(SILENCE_MAX));
        #[cfg(target_os = "linux")]
        assert!(socket.tcp_keepalive_time().unwrap() < SILENCE_MAX);
    }
}
