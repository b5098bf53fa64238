//! A network in memory. The address of a socket determines its data center.
//!
//! The link model of the directed pair determines the fate of a datagram. A delivered one waits at its destination,
//! ordered by its time of arrival, until the destination's socket is polled after that time. The socket's timer wakes
//! the poll. There is no task, no thread and no real socket. A dropped datagram is lost without a notification, and the
//! link counts it.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use rand_core::Rng;
use tokio::time::Sleep;

use gaia_core::link::{Fate, IP_UDP_HEADER_BYTES, Link, LinkStats};
use gaia_core::topology::Topology;
use gaia_core::types::{Bandwidth, DcId, Instant, Random, Seed};
use gaia_quic::link_config;

/// All directed links of a topology, and the datagrams in flight.
pub struct Network {
    started: tokio::time::Instant,
    data_centers: usize,
    /// By [`Self::number`].
    links: Vec<Mutex<Wire>>,
    hosts: RwLock<BTreeMap<SocketAddr, Arc<Mutex<Host>>>>,
}

struct Wire {
    link: Link,
    severed: bool,
    severed_packets: u64,
    disorder: Disorder,
    chance: Random,
}

/// Additional faults of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Disorder {
    /// The probability that a datagram arrives twice, 0 to 1.
    pub repeated: f64,
    /// The probability that a datagram is delayed, 0 to 1. Later ones overtake it.
    pub late: f64,
    /// The largest delay.
    pub late_by: Duration,
}

#[derive(Default)]
struct Host {
    /// By arrival, then by order of sending.
    arriving: BTreeMap<(Instant, u64), Datagram>,
    received: u64,
    waker: Option<Waker>,
    /// Whether the socket was removed from the network.
    unplugged: bool,
}

struct Datagram {
    from: SocketAddr,
    ecn: Option<EcnCodepoint>,
    contents: Box<[u8]>,
}

/// A socket of one data center.
pub struct Socket {
    dc: DcId,
    address: SocketAddr,
    host: Arc<Mutex<Host>>,
    network: Arc<Network>,
    timer: Mutex<Pin<Box<Sleep>>>,
}

impl Network {
    /// The links of a topology, all idle. All random numbers come from `seed`.
    pub fn new(topology: &Topology, seed: Seed) -> Arc<Self> {
        let data_centers = topology.data_centers.len();
        let mut links = Vec::new();
        for from in topology.dc_ids() {
            for to in topology.dc_ids() {
                let config = link_config(topology, from, to);
                let seed = seed.nth(links.len());
                links.push(Mutex::new(Wire {
                    link: Link::new(config, seed),
                    severed: false,
                    severed_packets: 0,
                    disorder: Disorder::default(),
                    chance: seed.child("disorder").random(),
                }));
            }
        }
        let hosts = RwLock::default();
        Arc::new(Self { started: tokio::time::Instant::now(), data_centers, links, hosts })
    }

    /// Cuts or restores both directions between two data centers. Datagrams in flight still arrive.
    pub fn sever(&self, one: DcId, other: DcId, severed: bool) {
        self.sever_one_way(one, other, severed);
        self.sever_one_way(other, one, severed);
    }

    /// As [`Self::sever`], in one direction.
    pub fn sever_one_way(&self, from: DcId, to: DcId, severed: bool) {
        self.wire(from, to).severed = severed;
    }

    /// Whether a directed link is cut.
    pub fn is_severed(&self, from: DcId, to: DcId) -> bool {
        self.wire(from, to).severed
    }

    /// Sets the additional faults of a directed link's datagrams.
    pub fn set_disorder(&self, from: DcId, to: DcId, disorder: Disorder) {
        self.wire(from, to).disorder = disorder;
    }

    /// Changes the bandwidth of a directed link. QUIC is not notified.
    pub fn set_bandwidth(&self, from: DcId, to: DcId, bandwidth: Bandwidth) {
        self.wire(from, to).link.set_bandwidth(self.now(), bandwidth);
    }

    /// The time since the network was created.
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

    /// The position of a directed link in tables indexed by link.
    pub(super) fn number(&self, from: DcId, to: DcId) -> usize {
        from.index() * self.data_centers + to.index()
    }

    /// How many links are numbered.
    pub(super) fn links(&self) -> usize {
        self.links.len()
    }

    /// The traffic of a link, and the number of datagrams sent while it was cut.
    pub(super) fn stats(&self, from: DcId, to: DcId) -> (LinkStats, u64) {
        let wire = self.wire(from, to);
        (*wire.link.stats(), wire.severed_packets)
    }

    /// Binds a data center's only socket. Must be called within a tokio runtime.
    pub(super) fn socket(self: &Arc<Self>, dc: DcId) -> Arc<Socket> {
        self.bind(address_of(dc)).expect("a data center has one such socket")
    }

    /// Binds a socket at an address of a data center. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the address is in use, or belongs to no data center.
    pub fn bind(self: &Arc<Self>, address: SocketAddr) -> io::Result<Arc<Socket>> {
        let dc = self.dc_at(address).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let mut hosts = self.hosts.write().unwrap_or_else(PoisonError::into_inner);
        if hosts.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let host = Arc::<Mutex<Host>>::default();
        hosts.insert(address, host.clone());
        let timer = Mutex::new(Box::pin(tokio::time::sleep_until(self.started)));
        Ok(Arc::new(Socket { dc, address, host, network: self.clone(), timer }))
    }

    /// Removes a socket from the network, so that its address is free. A task that still uses the socket sends and
    /// receives nothing.
    pub fn unplug(&self, address: SocketAddr) {
        let mut hosts = self.hosts.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = hosts.remove(&address) {
            lock(&host).unplugged = true;
        }
    }

    /// An address in a data center.
    pub fn address(dc: DcId, port: u16) -> SocketAddr {
        let [high, low] = dc.0.to_be_bytes();
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, NETWORK, high, low)), port)
    }

    /// The data center of an address.
    pub fn dc_at(&self, address: SocketAddr) -> Option<DcId> {
        dc_at(address).filter(|dc| dc.index() < self.data_centers)
    }

    fn send(
        &self,
        (from, to): (&Socket, DcId),
        at: SocketAddr,
        contents: &[u8],
        ecn: Option<EcnCodepoint>,
    ) {
        let arrivals = self.arrivals(from.dc, to, contents.len() as u64 + IP_UDP_HEADER_BYTES);
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        let Some(host) = hosts.get(&at).cloned() else { return };
        drop(hosts);

        for arrives in arrivals.into_iter().flatten() {
            let mut host = lock(&host);
            host.received += 1;
            let key = (arrives, host.received);
            let datagram = Datagram { from: from.address, ecn, contents: contents.into() };
            host.arriving.insert(key, datagram);
            let is_next = host.arriving.first_key_value().is_some_and(|(first, _)| *first == key);
            let waker = if is_next { host.waker.take() } else { None };
            drop(host);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// When a datagram arrives, if it does, and when it arrives a second time, if it does.
    fn arrivals(&self, from: DcId, to: DcId, bytes: u64) -> [Option<Instant>; 2] {
        let mut wire = self.wire(from, to);
        if wire.severed {
            wire.severed_packets += 1;
            return [None; 2];
        }
        let Fate::Delivered { arrives, .. } = wire.link.send(self.now(), bytes) else {
            return [None; 2];
        };
        let Disorder { repeated, late, late_by } = wire.disorder;
        let mut befalls = |chance: f64| {
            let (drawn, later) = (unit(&mut wire.chance), unit(&mut wire.chance));
            (drawn < chance).then(|| arrives + late_by.mul_f64(later))
        };
        if repeated == 0.0 && late == 0.0 {
            return [Some(arrives), None];
        }
        [Some(befalls(late).unwrap_or(arrives)), befalls(repeated)]
    }

    fn wire(&self, from: DcId, to: DcId) -> MutexGuard<'_, Wire> {
        let wire = &self.links[self.number(from, to)];
        wire.lock().expect("a link is never left half changed")
    }
}

fn lock(host: &Mutex<Host>) -> MutexGuard<'_, Host> {
    host.lock().expect("a host is never left half changed")
}

/// A random number from 0 to below 1.
fn unit(chance: &mut Random) -> f64 {
    (chance.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(AlwaysWritable)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let at = transmit.destination;
        let to = self.network.dc_at(at).filter(|to| *to != self.dc);
        let to = to.ok_or_else(|| io::Error::from(io::ErrorKind::HostUnreachable))?;
        if lock(&self.host).unplugged {
            return Ok(());
        }
        let segment = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        for contents in transmit.contents.chunks(segment) {
            self.network.send((self, to), at, contents, transmit.ecn);
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
                let mut host = lock(&self.host);
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
        Ok(self.address)
    }

    fn max_transmit_segments(&self) -> usize {
        SEGMENTS_MAX
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

impl Host {
    /// Moves arrived datagrams into the buffers, the oldest first, and returns the number of filled buffers.
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
                addr: datagram.from,
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

/// A send never blocks: the link drops what it cannot take.
#[derive(Debug)]
struct AlwaysWritable;

impl UdpPoller for AlwaysWritable {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A loopback address for a data center. It identifies an endpoint in memory, and no real socket is bound to it.
pub(super) fn address_of(dc: DcId) -> SocketAddr {
    Network::address(dc, PORT)
}

/// The data center of an address.
pub(super) fn dc_at(address: SocketAddr) -> Option<DcId> {
    match address {
        SocketAddr::V4(v4) => match v4.ip().octets() {
            [127, NETWORK, high, low] => Some(DcId(u16::from_be_bytes([high, low]))),
            _ => None,
        },
        SocketAddr::V6(_) => None,
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut hosts = self.network.hosts.write().unwrap_or_else(PoisonError::into_inner);
        if hosts.get(&self.address).is_some_and(|host| Arc::ptr_eq(host, &self.host)) {
            hosts.remove(&self.address);
        }
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

/// The largest number of datagrams that QUIC may send in one call.
const SEGMENTS_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use crate::test_topology::{link, mesh};

    fn network() -> Arc<Network> {
        let link = link(Bandwidth::from_mbit(100.0), Duration::from_millis(20), 1 << 20);
        let topology = mesh(&["oregon", "tokyo"], link);

        Network::new(&topology, Seed(1))
    }

    /// Sends a hundred numbered datagrams, and gives those that come within a second in the order in which they do.
    async fn crossing(network: &Arc<Network>) -> Vec<u8> {
        let [from, to] = [0, 1].map(|dc| Network::address(DcId(dc), 7));
        let (sender, receiver) = (network.bind(from).unwrap(), network.bind(to).unwrap());
        for number in 0..100 {
            let contents = &[number];
            let transmit =
                Transmit { destination: to, ecn: None, contents, segment_size: None, src_ip: None };
            sender.try_send(&transmit).unwrap();
        }

        let mut came = Vec::new();
        let receiving = async {
            loop {
                let (mut buffer, mut meta) = ([0; 8], [RecvMeta::default()]);
                let mut buffers = [IoSliceMut::new(&mut buffer)];
                poll_fn(|cx| receiver.poll_recv(cx, &mut buffers, &mut meta)).await.unwrap();
                assert_eq!(meta[0].addr, from);
                came.push(buffer[0]);
            }
        };

        let _over = tokio::time::timeout(Duration::from_secs(1), receiving).await;
        came
    }

    #[tokio::test(start_paused = true)]
    async fn datagrams_come_once_and_in_order_unless_the_link_is_in_disorder() {
        let network = network();
        let all: Vec<u8> = (0..100).collect();
        assert_eq!(crossing(&network).await, all);
        let late_by = Duration::from_millis(5);
        let disorder = |repeated, late| {
            network.set_disorder(DcId(0), DcId(1), Disorder { repeated, late, late_by });
        };
        disorder(0.5, 0.0);

        let mut came = crossing(&network).await;
        assert!((125..175).contains(&came.len()), "{}", came.len());
        came.sort_unstable();
        came.dedup();
        assert_eq!(came, all);
        disorder(0.0, 0.5);
        let mut came = crossing(&network).await;
        assert!(!came.is_sorted());
        came.sort_unstable();

        assert_eq!(came, all);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_is_one_sockets_until_that_is_unplugged_or_gone() {
        let network = network();
        let at = Network::address(DcId(0), 7);
        let first = network.bind(at).unwrap();
        assert_eq!(network.bind(at).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        network.unplug(at);
        let second = network.bind(at).unwrap();
        drop(first);
        assert!(network.bind(at).is_err(), "the second has it");
        drop(second);
        assert!(network.bind(at).is_ok());
        assert!(network.bind(Network::address(DcId(2), 7)).is_err());
    }
}
