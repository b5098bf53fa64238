//! A network that exists only in memory, with a socket for each data center.
//!
//! A datagram asks the link of its directed pair what becomes of it. If it is delivered it waits at its
//! destination, ordered by its time of arrival, until the destination's socket is polled after that time; the
//! socket's own timer sees to it. There is no task, no thread and no real socket. A dropped datagram
//! vanishes silently, as it would anywhere, and the link counts it.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use tokio::time::Sleep;

use crate::driver::quic::link_config;
use crate::link::{Fate, IP_UDP_HEADER_BYTES, Link, LinkStats};
use crate::topology::Topology;
use crate::types::{Bandwidth, DcId, Instant, Seed};

/// Every directed link of a topology, and what is under way on it.
pub struct Network {
    started: tokio::time::Instant,
    data_centers: usize,
    /// By [`Self::number`].
    links: Vec<Mutex<Wire>>,
    hosts: Vec<Mutex<Host>>,
}

struct Wire {
    link: Link,
    severed: bool,
    severed_packets: u64,
}

#[derive(Default)]
struct Host {
    /// By arrival, then by order of sending.
    arriving: BTreeMap<(Instant, u64), Datagram>,
    sent: u64,
    waker: Option<Waker>,
}

struct Datagram {
    from: DcId,
    ecn: Option<EcnCodepoint>,
    contents: Box<[u8]>,
}

/// The socket of one data center.
pub(super) struct Socket {
    dc: DcId,
    network: Arc<Network>,
    timer: Mutex<Pin<Box<Sleep>>>,
}

impl Network {
    /// The links of a topology, all idle. Chance comes from `seed`.
    pub fn new(topology: &Topology, seed: Seed) -> Arc<Self> {
        let data_centers = topology.data_centers.len();
        let mut links = Vec::new();
        for from in topology.dc_ids() {
            for to in topology.dc_ids() {
                let config = link_config(topology, from, to);
                let seed = seed.nth(links.len());
                let link = Link::new(config, seed);
                links.push(Mutex::new(Wire { link, severed: false, severed_packets: 0 }));
            }
        }
        let hosts = topology.dc_ids().map(|_| Mutex::default()).collect();
        Arc::new(Self { started: tokio::time::Instant::now(), data_centers, links, hosts })
    }

    /// Cuts both directions between two data centers, or joins them again. What is under way still arrives.
    pub fn sever(&self, one: DcId, other: DcId, severed: bool) {
        self.wire(one, other).severed = severed;
        self.wire(other, one).severed = severed;
    }

    /// Changes the bandwidth of a directed link, of which QUIC is not told.
    pub fn set_bandwidth(&self, from: DcId, to: DcId, bandwidth: Bandwidth) {
        self.wire(from, to).link.set_bandwidth(self.now(), bandwidth);
    }

    /// Time since the network began.
    pub fn now(&self) -> Instant {
        let nanos = self.started.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Every ordered pair of different data centers, sorted.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (DcId, DcId)> + use<> {
        let ids = (0..self.data_centers as u16).map(DcId);
        let pairs = ids.clone().flat_map(move |from| ids.clone().map(move |to| (from, to)));
        pairs.filter(|(from, to)| from != to)
    }

    /// The place of a directed link in tables indexed by link.
    pub(super) fn number(&self, from: DcId, to: DcId) -> usize {
        from.index() * self.data_centers + to.index()
    }

    /// How many links are numbered.
    pub(super) fn links(&self) -> usize {
        self.links.len()
    }

    /// What a link has carried, and how many datagrams met it severed.
    pub(super) fn stats(&self, from: DcId, to: DcId) -> (LinkStats, u64) {
        let wire = self.wire(from, to);
        (*wire.link.stats(), wire.severed_packets)
    }

    /// Binds a data center's socket. Call within a tokio runtime.
    pub(super) fn socket(self: &Arc<Self>, dc: DcId) -> Arc<Socket> {
        let timer = Mutex::new(Box::pin(tokio::time::sleep_until(self.started)));
        Arc::new(Socket { dc, network: self.clone(), timer })
    }

    fn send(&self, from: DcId, to: DcId, contents: &[u8], ecn: Option<EcnCodepoint>) {
        let fate = {
            let mut wire = self.wire(from, to);
            if wire.severed {
                wire.severed_packets += 1;
                return;
            }
            wire.link.send(self.now(), contents.len() as u64 + IP_UDP_HEADER_BYTES)
        };
        let Fate::Delivered { arrives, .. } = fate else { return };
        let mut host = self.host(to);
        host.sent += 1;
        let key = (arrives, host.sent);
        host.arriving.insert(key, Datagram { from, ecn, contents: contents.into() });
        let is_next = host.arriving.first_key_value().is_some_and(|(first, _)| *first == key);
        let waker = if is_next { host.waker.take() } else { None };
        drop(host);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn wire(&self, from: DcId, to: DcId) -> MutexGuard<'_, Wire> {
        let wire = &self.links[self.number(from, to)];
        wire.lock().expect("a link is never left half changed")
    }

    fn host(&self, dc: DcId) -> MutexGuard<'_, Host> {
        self.hosts[dc.index()].lock().expect("a host is never left half changed")
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(AlwaysWritable)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let to = dc_at(transmit.destination)
            .filter(|to| to.index() < self.network.data_centers && *to != self.dc)
            .ok_or_else(|| io::Error::from(io::ErrorKind::HostUnreachable))?;
        let segment = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        for contents in transmit.contents.chunks(segment) {
            self.network.send(self.dc, to, contents, transmit.ecn);
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            let next = {
                let mut host = self.network.host(self.dc);
                let received = host.receive(self.network.now(), buffers, meta);
                if received > 0 {
                    return Poll::Ready(Ok(received));
                }
                host.waker = Some(cx.waker().clone());
                host.arriving.first_key_value().map(|((arrives, _), _)| *arrives)
            };
            let Some(next) = next else { return Poll::Pending };
            let due = self.network.started + next.since(Instant::ZERO);
            let mut timer = self.timer.lock().expect("a timer is never left half changed");
            timer.as_mut().reset(due);
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(address_of(self.dc))
    }

    fn max_transmit_segments(&self) -> usize {
        SEGMENTS_MAX
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

impl Host {
    /// Moves what has arrived into the buffers, oldest first, and says how many were filled.
    fn receive(
        &mut self,
        now: Instant,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> usize {
        let mut received = 0;
        for (buffer, meta) in buffers.iter_mut().zip(meta) {
            let Some(first) = self.arriving.first_entry() else { break };
            if first.key().0 > now {
                break;
            }
            let datagram = first.remove();
            let bytes = datagram.contents.len().min(buffer.len());
            buffer[..bytes].copy_from_slice(&datagram.contents[..bytes]);
            *meta = RecvMeta {
                addr: address_of(datagram.from),
                len: bytes,
                stride: bytes,
                ecn: datagram.ecn,
                dst_ip: None,
            };
            received += 1;
        }
        received
    }
}

/// A send never waits: what the link cannot take it drops.
#[derive(Debug)]
struct AlwaysWritable;

impl UdpPoller for AlwaysWritable {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A loopback address for a data center. It names an endpoint in memory; nothing is ever bound to it.
pub(super) fn address_of(dc: DcId) -> SocketAddr {
    let [high, low] = dc.0.to_be_bytes();
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, NETWORK, high, low)), PORT)
}

/// The data center that an address names.
pub(super) fn dc_at(address: SocketAddr) -> Option<DcId> {
    match address {
        SocketAddr::V4(v4) => match v4.ip().octets() {
            [127, NETWORK, high, low] => Some(DcId(u16::from_be_bytes([high, low]))),
            _ => None,
        },
        SocketAddr::V6(_) => None,
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("data_centers", &self.data_centers).finish_non_exhaustive()
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("dc", &self.dc).finish_non_exhaustive()
    }
}

const NETWORK: u8 = 77;
const PORT: u16 = 4433;

/// Datagrams that QUIC may hand over at once.
const SEGMENTS_MAX: usize = 10;
