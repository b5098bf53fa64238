//! Streams in memory: bytes arrive in order after the delay of the link, and not while the link is cut.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, Sleep, sleep};

use gaia_core::types::DcId;
use gaia_driver::emulated::Network;
use gaia_driver::real::environment::{Listener, Stream};

/// The listeners by address, and all streams.
#[derive(Debug, Default)]
pub(super) struct Switchboard {
    listeners: Mutex<BTreeMap<SocketAddr, UnboundedSender<(Pipe, SocketAddr)>>>,
    streams: Mutex<Vec<[Weak<Mutex<Way>>; 2]>>,
}

/// One end of a stream.
#[derive(Debug)]
pub(super) struct Pipe {
    network: Arc<Network>,
    reads: Arc<Mutex<Way>>,
    writes: Arc<Mutex<Way>>,
    timer: Pin<Box<Sleep>>,
}

/// One direction of a stream.
#[derive(Debug)]
pub(super) struct Way {
    from: DcId,
    to: DcId,
    delay: Duration,
    /// Bytes with the time of their arrival. Empty bytes are the end of the stream.
    under_way: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    ended: bool,
    broken: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// A listener at an address.
pub(super) struct StreamListener {
    address: SocketAddr,
    calls: Mutex<UnboundedReceiver<(Pipe, SocketAddr)>>,
}

impl Switchboard {
    pub(super) fn listen(&self, address: SocketAddr) -> io::Result<StreamListener> {
        let mut listeners = self.listeners.lock().unwrap();
        if listeners.get(&address).is_some_and(|listener| !listener.is_closed()) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let (sender, calls) = unbounded_channel();
        listeners.insert(address, sender);
        Ok(StreamListener { address, calls: Mutex::new(calls) })
    }

    pub(super) fn forget(&self, address: SocketAddr) {
        self.listeners.lock().unwrap().remove(&address);
    }

    /// Connects from an address. It takes a round trip, and waits while the link is cut. Returns the stream and both of
    /// its directions.
    pub(super) async fn connect(
        &self,
        network: &Arc<Network>,
        from: SocketAddr,
        to: SocketAddr,
        delay: Duration,
    ) -> io::Result<(Pipe, [Weak<Mutex<Way>>; 2])> {
        let ends = network.dc_at(from).zip(network.dc_at(to));
        let (near, far) = ends.ok_or(io::ErrorKind::HostUnreachable)?;
        sleep(2 * delay).await;
        while network.is_severed(near, far) || network.is_severed(far, near) {
            sleep(RETRY).await;
        }
        let listener = self.listeners.lock().unwrap().get(&to).cloned();
        let listener = listener.ok_or(io::ErrorKind::ConnectionRefused)?;

        let there = Arc::new(Mutex::new(Way::new(near, far, delay)));
        let back = Arc::new(Mutex::new(Way::new(far, near, delay)));
        let ways = [Arc::downgrade(&there), Arc::downgrade(&back)];
        let mut streams = self.streams.lock().unwrap();
        streams.retain(|ways| ways[0].strong_count() > 0);
        streams.push(ways.clone());
        drop(streams);
        let callee = Pipe::new(network.clone(), there.clone(), back.clone());
        listener.send((callee, from)).map_err(|_| io::ErrorKind::ConnectionRefused)?;

        Ok((Pipe::new(network.clone(), back, there), ways))
    }

    /// Fails all streams between two data centers.
    pub(super) fn reset(&self, one: DcId, other: DcId) {
        for ways in self.streams.lock().unwrap().iter() {
            let between = ways[0].upgrade().is_some_and(|way| {
                let way = lock(&way);
                [(way.from, way.to), (way.to, way.from)].contains(&(one, other))
            });
            if between {
                break_off(ways);
            }
        }
    }
}

/// Fails a stream at both ends, with all bytes in flight.
pub(super) fn break_off(ways: &[Weak<Mutex<Way>>; 2]) {
    for way in ways.iter().filter_map(Weak::upgrade) {
        lock(&way).break_off();
    }
}

fn lock(way: &Mutex<Way>) -> MutexGuard<'_, Way> {
    way.lock().unwrap()
}

impl Way {
    fn new(from: DcId, to: DcId, delay: Duration) -> Self {
        Self {
            from,
            to,
            delay,
            under_way: VecDeque::new(),
            bytes: 0,
            ended: false,
            broken: false,
            reader: None,
            writer: None,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.under_way.push_back((Instant::now() + self.delay, bytes.to_vec()));
        self.wake();
    }

    fn end(&mut self) {
        if !self.ended && !self.broken {
            self.ended = true;
            self.push(&[]);
        }
    }

    fn break_off(&mut self) {
        self.broken = true;
        self.under_way.clear();
        self.wake();
    }

    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}

impl Pipe {
    fn new(network: Arc<Network>, reads: Arc<Mutex<Way>>, writes: Arc<Mutex<Way>>) -> Self {
        Self { network, reads, writes, timer: Box::pin(sleep(Duration::ZERO)) }
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let due = {
                let mut way = lock(&self.reads);
                way.reader = Some(cx.waker().clone());
                let severed = self.network.is_severed(way.from, way.to);
                let broken = way.broken;
                match way.under_way.front_mut() {
                    _ if severed => Instant::now() + RETRY,
                    _ if broken => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                    None => return Poll::Pending,
                    Some((arrives, _)) if *arrives > Instant::now() => *arrives,
                    // The end of the stream stays in the queue.
                    Some((_, bytes)) if bytes.is_empty() => return Poll::Ready(Ok(())),
                    Some((_, bytes)) => {
                        let taken = bytes.len().min(buffer.remaining());
                        buffer.put_slice(&bytes[..taken]);
                        bytes.drain(..taken);
                        if bytes.is_empty() {
                            way.under_way.pop_front();
                        }
                        way.bytes -= taken;
                        way.writer.take().into_iter().for_each(Waker::wake);
                        return Poll::Ready(Ok(()));
                    }
                }
            };
            self.timer.as_mut().reset(due);
            ready!(self.timer.as_mut().poll(cx));
        }
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut way = lock(&self.writes);
        if way.broken || way.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if way.bytes >= BYTES_MAX {
            way.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if !bytes.is_empty() {
            way.push(bytes);
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.writes).end();
        Poll::Ready(Ok(()))
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        lock(&self.writes).end();
        lock(&self.reads).break_off();
    }
}

impl Listener for StreamListener {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Box<dyn Stream>, SocketAddr)>> {
        let call = ready!(self.calls.lock().unwrap().poll_recv(cx));
        // A listener whose address was taken over accepts no more streams.
        let Some((pipe, from)) = call else { return Poll::Pending };
        Poll::Ready(Ok((Box::new(pipe), from)))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

/// The interval at which a blocked stream is tried again.
const RETRY: Duration = Duration::from_millis(50);

/// The largest number of bytes in flight in one direction.
const BYTES_MAX: usize = 64 << 10;
