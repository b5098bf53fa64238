//! What a process stands on: where it listens, whom it reaches, where its logs lie.
//!
//! That is the machine. Whole clusters also run in one thread, under a paused clock, over streams, datagrams and disks that
//! exist in memory: there what nodes do follows from nothing but what they are told, so that a run repeats.

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

/// Bytes in order, both ways.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Takes callers.
pub trait Listener: Send + Sync {
    /// The next caller, and where it called from.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Box<dyn Stream>, SocketAddr)>>;

    fn local_addr(&self) -> io::Result<SocketAddr>;
}

/// A socket for datagrams, and how QUIC uses it, where that is not left to whoever has the socket.
pub struct Datagrams {
    pub socket: Arc<dyn AsyncUdpSocket>,
    pub config: Option<EndpointConfig>,
}

/// What comes of something that waits.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// What a process asks of whatever it runs on.
pub trait Environment: fmt::Debug + Send + Sync {
    /// Listens for streams; port 0 is any free one.
    fn listen(&self, at: SocketAddr) -> Later<'_, Box<dyn Listener>>;

    /// Calls who listens for streams.
    fn connect(&self, to: SocketAddr) -> Later<'_, Box<dyn Stream>>;

    /// Takes datagrams at an address.
    fn datagrams(&self, at: SocketAddr) -> io::Result<Datagrams>;

    /// The files of the log in a directory.
    ///
    /// # Errors
    /// Where somebody else has them, or the disk fails.
    fn log(&self, path: &Path) -> Result<Box<dyn LogDisk>, CheckpointError>;

    /// The time since 1970 as the calendar of the machine has it, which may be wrong and may step back.
    fn since_epoch(&self) -> Duration;

    /// A number that nobody guesses, and that differs between processes.
    fn random(&self) -> io::Result<u64>;
}

/// This machine.
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

/// Has the machine notice where the peer's is gone, be there something to send or not. Lines to the coordinator have
/// their heartbeat; between workers and servers nothing may be said for as long as a read is held back.
fn set_up(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let probes = TcpKeepalive::new()
        .with_time(SILENCE_MAX / 2)
        .with_interval(SILENCE_MAX / 10)
        .with_retries(5);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&probes)?;
    // Where bytes wait for their acknowledgement nothing is probed.
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
