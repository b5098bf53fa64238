//! The UDP socket of a server, which takes detours.
//!
//! QUIC does not notice them: it sends to the address of a mirror, and what arrives over another data center seems to come
//! from there.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use tokio::time::Instant;

use super::datagram::is_detour_datagram;
use super::path::Route;
use super::paths::{Batch, DetourChange, DetouredDatagram, Outgoing, Paths};
use super::waiting::WaitingDatagrams;

/// A socket that carries the datagrams of a server to its mirrors, directly or on detours, and those of others between
/// them.
pub(super) struct DetouringSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    origin: Instant,
    paths: Mutex<Paths>,
    /// Datagrams that have arrived on detours, and were not received yet: no more than arrive at once, since they are received
    /// before others arrive.
    detoured: Mutex<VecDeque<DetouredDatagram>>,
    waiting: Mutex<WaitingDatagrams>,
    /// Tells the task that receives when the socket has room for what waits.
    room: Mutex<Pin<Box<dyn UdpPoller>>>,
}

impl DetouringSocket {
    /// `paths` begin now.
    pub(super) fn new(inner: Arc<dyn AsyncUdpSocket>, paths: Paths) -> Self {
        let room = Mutex::new(inner.clone().create_io_poller());
        let (paths, detoured, waiting) = (Mutex::new(paths), Mutex::default(), Mutex::default());
        Self { inner, origin: Instant::now(), paths, detoured, waiting, room }
    }

    pub(super) fn paths(&self) -> MutexGuard<'_, Paths> {
        locked(&self.paths)
    }

    /// Sends the reports that are due, and chooses routes.
    pub(super) fn tick(&self) -> Vec<DetourChange> {
        let mut out = Vec::new();
        let changes = {
            let mut paths = self.paths();
            paths.tick(self.now(), &mut out)
        };
        self.send(out);
        changes
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Sends datagrams. Those that the socket has no room for wait until it has. While a server sends as fast as it can, its
    /// socket is full nearly always, so that dropping them would drop nearly all that others send over it.
    fn send(&self, out: Vec<Outgoing>) {
        let dropped = locked(&self.waiting).append(out);
        for to in dropped {
            self.paths().on_dropped(to);
        }
        // What still waits is sent before the next packet of QUIC, or at the next tick.
        let _some_wait = self.send_waiting();
    }

    /// Sends the datagrams that wait. One at a time: where one is too large for its path, some kernels refuse the batch that it is
    /// in, and quinn then sends no more batches at all.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the socket has no room for all.
    fn send_waiting(&self) -> io::Result<()> {
        let mut waiting = locked(&self.waiting);
        while let Some(Outgoing { to, from_ip, ecn, contents }) = waiting.first() {
            let (destination, src_ip) = (*to, *from_ip);
            let transmit =
                Transmit { destination, ecn: *ecn, contents, segment_size: None, src_ip };
            match self.inner.try_send(&transmit) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                // One that cannot be sent is as one that the path loses.
                Ok(()) | Err(_) => waiting.remove_first(),
            }
        }
        Ok(())
    }

    /// Sends the datagrams that wait, and has the receiving task woken once the socket has room for the others.
    fn poll_waiting(&self, cx: &mut Context<'_>) {
        while self.send_waiting().is_err() {
            // A socket that can say nothing of its room is not asked again and again.
            let Poll::Ready(Ok(())) = locked(&self.room).as_mut().poll_writable(cx) else { return };
        }
    }

    /// Moves datagrams that have arrived on detours into the buffers, and returns the number of filled buffers.
    fn receive_detoured(&self, buffers: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]) -> usize {
        let mut detoured = self.detoured();
        let mut filled = 0;
        for (buffer, meta) in buffers.iter_mut().zip(meta) {
            let Some(DetouredDatagram { from, to_ip, ecn, contents }) = detoured.pop_front() else {
                break;
            };
            // A datagram that is longer than QUIC expects is cut, as by a socket.
            let len = contents.len().min(buffer.len());
            buffer[..len].copy_from_slice(&contents[..len]);
            *meta = RecvMeta { addr: from, len, stride: len, ecn, dst_ip: to_ip };
            filled += 1;
        }
        filled
    }

    /// Takes the datagrams that are none of QUIC's out of what has arrived, and handles them.
    fn take_detour_datagrams(&self, buffers: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]) {
        let (mut paths, mut out) = (self.paths(), Vec::new());
        let now = self.now();
        for (buffer, meta) in buffers.iter_mut().zip(meta) {
            let peer = paths.on_received(now, meta.addr, meta.dst_ip);
            let datagrams = buffer[..meta.len].chunks(meta.stride.max(1));
            if !datagrams.clone().any(is_detour_datagram) {
                continue;
            }

            let mut rest = Vec::with_capacity(meta.len);
            for datagram in datagrams {
                if !is_detour_datagram(datagram) {
                    rest.extend_from_slice(datagram);
                    continue;
                }
                let (from, datagram) = ((meta.addr, peer), (datagram, meta.ecn));
                self.detoured().extend(paths.on_datagram(now, from, datagram, &mut out));
            }
            buffer[..rest.len()].copy_from_slice(&rest);
            // quinn takes no datagram from an empty buffer.
            meta.len = rest.len();
        }
        drop(paths);
        if !out.is_empty() {
            self.send(out);
        }
    }

    fn detoured(&self) -> MutexGuard<'_, VecDeque<DetouredDatagram>> {
        locked(&self.detoured)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsyncUdpSocket for DetouringSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.inner.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.send_waiting()?;
        let (contents, segment, ecn) = (transmit.contents, transmit.segment_size, transmit.ecn);
        let (batch, mut out) = (Batch { contents, segment, ecn }, Vec::new());
        let route = self.paths().on_send(transmit.destination, batch);
        match route {
            None | Some((_, Route::Direct)) => return self.inner.try_send(transmit),
            Some((peer, Route::Over(over))) => {
                self.paths().detour_only(self.now(), (peer, over), batch, &mut out);
            }
            Some((peer, Route::DirectAndOver(over))) => {
                self.inner.try_send(transmit)?;
                self.paths().detour(self.now(), (peer, over), batch, &mut out);
            }
        }
        self.send(out);
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.poll_waiting(cx);
        let filled = self.receive_detoured(buffers, meta);
        if filled > 0 {
            return Poll::Ready(Ok(filled));
        }
        let received = ready!(self.inner.poll_recv(cx, buffers, meta))?;
        self.take_detour_datagrams(&mut buffers[..received], &mut meta[..received]);
        Poll::Ready(Ok(received))
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
        self.inner.may_fragment()
    }
}

impl fmt::Debug for DetouringSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetouringSocket").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use quinn::{Endpoint, EndpointConfig, TokioRuntime, TransportConfig};
    use tokio::task::JoinHandle;
    use tokio::time::sleep;

    use super::super::super::test_endpoints::{
        LossySocket, client_config, credentials, server_config,
    };
    use super::super::datagram::{HEADER_BYTES, Header, PathReport};
    use super::super::path::TICK;
    use super::super::waiting::WAITING_BYTES_MAX;
    use super::*;
    use crate::test_topology::{link, mesh};
    use gaia_certificates::{Credentials, SERVER_NAME};
    use gaia_core::topology::Topology;
    use gaia_core::types::{Bandwidth, DcId};

    const NORTH: DcId = DcId(0);
    const SOUTH: DcId = DcId(1);
    const WEST: DcId = DcId(2);

    /// An endpoint over a socket that takes detours.
    struct Node {
        endpoint: Endpoint,
        socket: Arc<DetouringSocket>,
        /// The addresses to which its path is dead.
        dead: Arc<Mutex<BTreeSet<SocketAddr>>>,
        ticks: JoinHandle<()>,
    }

    struct Three {
        nodes: Vec<Node>,
        credentials: Vec<Credentials>,
    }

    fn topology() -> Topology {
        let link = link(Bandwidth::from_mbit(1_000.0), Duration::from_millis(1), 1 << 20);
        mesh(&["north", "south", "west"], link)
    }

    /// An address of a data center in tests without a network.
    fn address(dc: DcId) -> SocketAddr {
        ([10, 0, 0, 1 + dc.0 as u8], 4433).into()
    }

    /// The paths of a data center, which has a token for each mirror.
    fn paths(own: DcId) -> Paths {
        let others = [NORTH, SOUTH, WEST].into_iter().filter(|peer| *peer != own);
        let tokens = others.map(|peer| (peer, token(own, peer))).collect();
        Paths::new(&topology(), own, &tokens, Duration::ZERO)
    }

    fn token(of: DcId, peer: DcId) -> u64 {
        1 + 3 * u64::from(of.0) + u64::from(peer.0)
    }

    impl Three {
        fn new() -> Self {
            let credentials = credentials(&["north", "south", "west"]);
            let node = |own: DcId| {
                let dead = Arc::<Mutex<BTreeSet<SocketAddr>>>::default();
                let lost = dead.clone();
                let lossy = LossySocket::new(move |sent: &Transmit<'_>| {
                    lost.lock().unwrap().contains(&sent.destination)
                });
                let socket = Arc::new(DetouringSocket::new(Arc::new(lossy), paths(own)));
                let server = Some(server_config(&credentials[own.index()], &credentials));
                let mut config = EndpointConfig::default();
                config.grease_quic_bit(false);
                let runtime = Arc::new(TokioRuntime);
                let endpoint =
                    Endpoint::new_with_abstract_socket(config, server, socket.clone(), runtime);
                let ticking = socket.clone();
                let ticks = tokio::spawn(async move {
                    loop {
                        sleep(TICK).await;
                        ticking.tick();
                    }
                });
                Node { endpoint: endpoint.unwrap(), socket, dead, ticks }
            };
            let three = Self { nodes: [NORTH, SOUTH, WEST].map(node).into(), credentials };
            for node in &three.nodes {
                let peers = node.socket.paths().peers();
                for peer in peers {
                    node.socket.paths().set_listen_address(peer, Some(three.address(peer)));
                }
            }
            three
        }

        fn address(&self, dc: DcId) -> SocketAddr {
            self.nodes[dc.index()].endpoint.local_addr().unwrap()
        }

        /// Cuts or restores the path from one to another.
        fn sever(&self, from: DcId, to: DcId, is_dead: bool) {
            let (at, mut dead) = (self.address(to), self.nodes[from.index()].dead.lock().unwrap());
            if is_dead {
                dead.insert(at);
            } else {
                dead.remove(&at);
            }
        }

        fn sever_both(&self, one: DcId, other: DcId, is_dead: bool) {
            self.sever(one, other, is_dead);
            self.sever(other, one, is_dead);
        }

        /// Waits until a data center sends to another as it should.
        async fn sends(&self, from: DcId, to: DcId, on_detour: bool) {
            while self.nodes[from.index()].socket.paths().takes_detour(to) != on_detour {
                sleep(TICK).await;
            }
        }

        /// Sends so many bytes on a new connection from north to south, in two halves: `between` is called before the second.
        async fn transfer(&self, bytes: usize, between: impl FnOnce()) {
            let listening = self.nodes[SOUTH.index()].endpoint.clone();
            let taken = tokio::spawn(async move {
                let connection = listening.accept().await.unwrap().await.unwrap();
                let mut stream = connection.accept_uni().await.unwrap();
                let arrived = stream.read_to_end(bytes).await.unwrap().len();
                connection.closed().await;
                arrived
            });
            let mut transport = TransportConfig::default();
            transport.keep_alive_interval(Some(Duration::from_millis(500)));
            let config = client_config(&self.credentials[0], &self.credentials[1], transport);
            let endpoint = &self.nodes[NORTH.index()].endpoint;
            let connecting =
                endpoint.connect_with(config, self.address(SOUTH), SERVER_NAME).unwrap();
            let connection = connecting.await.unwrap();
            let mut stream = connection.open_uni().await.unwrap();
            stream.write_all(&vec![7; bytes / 2]).await.unwrap();
            between();
            stream.write_all(&vec![7; bytes - bytes / 2]).await.unwrap();
            stream.finish().unwrap();
            stream.stopped().await.unwrap();
            connection.close(0_u8.into(), b"");
            assert_eq!(taken.await.unwrap(), bytes);
        }

        /// What west has passed on to south, and its reports.
        fn passed_on(&self) -> u64 {
            self.nodes[WEST.index()].socket.paths().traffic(SOUTH).added_bytes
        }
    }

    impl Drop for Three {
        fn drop(&mut self) {
            self.nodes.iter().for_each(|node| node.ticks.abort());
        }
    }

    #[tokio::test]
    async fn a_connection_survives_its_dead_link_and_a_new_one_is_made_around_it() {
        const BYTES: usize = 2_000_000;
        let three = Three::new();
        three.transfer(BYTES, || {}).await;
        assert!(three.passed_on() < 20_000, "{}", three.passed_on());

        three.transfer(BYTES, || three.sever_both(NORTH, SOUTH, true)).await;
        let first = three.passed_on();
        assert!(first > BYTES as u64 / 4, "{first}");
        three.transfer(BYTES, || {}).await;
        let second = three.passed_on() - first;
        assert!(second > BYTES as u64, "{second}");

        three.sever_both(NORTH, SOUTH, false);
        three.sends(NORTH, SOUTH, false).await;
        three.sends(SOUTH, NORTH, false).await;
        let before = three.passed_on();
        three.transfer(BYTES, || {}).await;
        let after = three.passed_on() - before;
        assert!(after < 20_000, "{after}");
    }

    #[tokio::test]
    async fn a_link_that_is_dead_in_one_direction_goes_around_in_that_direction() {
        const BYTES: usize = 1_000_000;
        let three = Three::new();
        three.transfer(BYTES, || {}).await;
        three.sever(NORTH, SOUTH, true);
        three.sends(NORTH, SOUTH, true).await;
        let passed_on = |to| three.nodes[WEST.index()].socket.paths().traffic(to).added_bytes;
        let (south, north) = (passed_on(SOUTH), passed_on(NORTH));
        three.transfer(BYTES, || {}).await;
        assert!(passed_on(SOUTH) - south > BYTES as u64);
        let back = passed_on(NORTH) - north;
        assert!(back < 20_000, "acknowledgements come directly: {back}");
    }

    /// A socket that hands out what has arrived, and keeps what is sent.
    #[derive(Debug, Default)]
    struct Memory {
        arrived: Mutex<VecDeque<(RecvMeta, Vec<u8>)>>,
        sent: Mutex<Vec<(SocketAddr, Vec<u8>)>>,
        is_full: AtomicBool,
    }

    /// Says when there is room in memory.
    #[derive(Debug)]
    struct Room(Arc<Memory>);

    impl UdpPoller for Room {
        fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            if self.0.is_full.load(Relaxed) { Poll::Pending } else { Poll::Ready(Ok(())) }
        }
    }

    impl AsyncUdpSocket for Memory {
        fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
            Box::pin(Room(self))
        }

        fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
            if self.is_full.load(Relaxed) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            assert_eq!(transmit.segment_size, None);
            let sent = (transmit.destination, transmit.contents.to_vec());
            self.sent.lock().unwrap().push(sent);
            Ok(())
        }

        fn poll_recv(
            &self,
            _: &mut Context<'_>,
            buffers: &mut [IoSliceMut<'_>],
            meta: &mut [RecvMeta],
        ) -> Poll<io::Result<usize>> {
            let mut arrived = self.arrived.lock().unwrap();
            let mut filled = 0;
            for (buffer, meta) in buffers.iter_mut().zip(meta) {
                let Some((next, contents)) = arrived.pop_front() else { break };
                buffer[..contents.len()].copy_from_slice(&contents);
                *meta = next;
                filled += 1;
            }
            if filled == 0 { Poll::Pending } else { Poll::Ready(Ok(filled)) }
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            Ok(address(NORTH))
        }
    }

    /// North's socket, which knows the tokens of the others, over one in memory.
    fn north(memory: Memory) -> (Arc<Memory>, DetouringSocket) {
        let (memory, mut paths) = (Arc::new(memory), paths(NORTH));
        for peer in [SOUTH, WEST] {
            paths.set_listen_address(peer, Some(address(peer)));
            let report = PathReport {
                from: peer,
                receives: true,
                wants_answer: false,
                receives_over: None,
                number: 1,
                answers: 0,
                token: token(peer, NORTH),
                to_token: token(NORTH, peer),
            };
            let source = (address(peer), Some(peer));
            let contents = (&report.encode()[..], None);
            paths.on_datagram(Duration::ZERO, source, contents, &mut Vec::new());
        }
        (memory.clone(), DetouringSocket::new(memory, paths))
    }

    /// All datagrams of QUIC that a socket receives, through so many buffers at a time.
    fn received(socket: &DetouringSocket, buffers: usize) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut all = Vec::new();
        loop {
            let (mut memory, mut meta) =
                (vec![[0; 64]; buffers], vec![RecvMeta::default(); buffers]);
            let mut slices: Vec<IoSliceMut<'_>> =
                memory.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
            let Poll::Ready(count) = socket.poll_recv(&mut cx, &mut slices, &mut meta) else {
                return all;
            };
            for (meta, buffer) in meta.iter().zip(&slices).take(count.unwrap()) {
                // As quinn does.
                let datagrams = buffer[..meta.len].chunks(meta.stride.max(1));
                all.extend(datagrams.map(|datagram| (meta.addr, datagram.to_vec())));
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn packets_and_datagrams_of_detours_that_arrive_in_one_batch_are_told_apart() {
        let detoured = |inner: &[u8]| {
            Header { from: WEST, to: NORTH, token: token(NORTH, SOUTH) }.before(inner)
        };
        let stride = detoured(b"@ab").len();
        let packet = |last: u8| [&vec![0x40; stride - 1][..], &[last]].concat();
        // What the kernel joins has datagrams of one size, and a last one that may be shorter.
        let joined = |datagrams: &[Vec<u8>]| {
            let contents = datagrams.concat();
            let meta = RecvMeta {
                addr: address(SOUTH),
                len: contents.len(),
                stride,
                ecn: None,
                dst_ip: None,
            };
            (meta, contents)
        };
        for buffers in [1, 2, 8] {
            let (memory, socket) = north(Memory::default());
            memory.arrived.lock().unwrap().extend([
                joined(&[packet(1), detoured(b"@ab"), packet(2), b"@".to_vec()]),
                joined(&[detoured(b"@cd"), detoured(b"@ef"), detoured(b"@")]),
                joined(&[packet(3)]),
            ]);
            let mut all = received(&socket, buffers);
            all.sort();
            let (south, west) = (address(SOUTH), address(WEST));
            let mut expected = vec![
                (south, packet(1)),
                (south, packet(2)),
                (south, packet(3)),
                (south, b"@".to_vec()),
                (west, b"@".to_vec()),
                (west, b"@ab".to_vec()),
                (west, b"@cd".to_vec()),
                (west, b"@ef".to_vec()),
            ];
            expected.sort();
            assert_eq!(all, expected, "{buffers} buffers");
        }
    }

    fn send(socket: &DetouringSocket) -> io::Result<()> {
        let contents = &[0x40; 9];
        let (destination, ecn, segment_size) = (address(SOUTH), None, None);
        socket.try_send(&Transmit { destination, ecn, contents, segment_size, src_ip: None })
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_no_room_in_the_socket_waits_if_it_goes_directly() {
        let (_, full) = north(Memory { is_full: true.into(), ..Memory::default() });
        assert_eq!(send(&full).unwrap_err().kind(), io::ErrorKind::WouldBlock);

        let (memory, socket) = north(Memory::default());
        tokio::time::advance(Duration::from_millis(100)).await;
        send(&socket).unwrap();
        assert_eq!(*memory.sent.lock().unwrap(), [(address(SOUTH), vec![0x40; 9])]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_passed_on_waits_for_room_in_the_socket_and_then_goes_before_packets() {
        tokio::time::advance(Duration::from_millis(100)).await;
        let (memory, socket) = north(Memory { is_full: true.into(), ..Memory::default() });
        let inner = [0x40; 30];
        let arrives = |count: usize| {
            let header = Header { from: WEST, to: SOUTH, token: token(NORTH, WEST) };
            let contents = header.before(&inner);
            let (addr, len) = (address(WEST), contents.len());
            let meta = RecvMeta { addr, len, stride: len, ecn: None, dst_ip: None };
            memory.arrived.lock().unwrap().extend(vec![(meta, contents); count]);
        };
        arrives(2);
        assert_eq!(received(&socket, 1), []);
        assert_eq!(*memory.sent.lock().unwrap(), []);

        let packet = (address(SOUTH), vec![0x40; 9]);
        let passed_on = Header { from: WEST, to: SOUTH, token: token(SOUTH, NORTH) }.before(&inner);
        let passed_on = (address(SOUTH), passed_on);
        assert_eq!(send(&socket).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        memory.is_full.store(false, Relaxed);
        send(&socket).unwrap();
        let expected = [passed_on.clone(), passed_on.clone(), packet];
        assert_eq!(memory.sent.lock().unwrap().drain(..).collect::<Vec<_>>(), expected);

        memory.is_full.store(true, Relaxed);
        arrives(1);
        assert_eq!(received(&socket, 1), []);
        memory.is_full.store(false, Relaxed);
        assert_eq!(received(&socket, 1), []);
        assert_eq!(memory.sent.lock().unwrap().drain(..).collect::<Vec<_>>(), [passed_on]);

        memory.is_full.store(true, Relaxed);
        let most = WAITING_BYTES_MAX / (HEADER_BYTES + inner.len());
        arrives(most + 7);
        assert_eq!(received(&socket, 8), []);
        assert_eq!(socket.paths().traffic(SOUTH).dropped, 7);
        memory.is_full.store(false, Relaxed);
        socket.tick();
        assert!(memory.sent.lock().unwrap().len() >= most);
    }
}
