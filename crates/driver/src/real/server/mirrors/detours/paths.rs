//! All paths of a server to its mirrors, and what is sent over each.
//!
//! It does no I/O: it returns the datagrams to send. The socket asks it about each batch of datagrams, of up to 65 kB each way. That
//! costs an uncontended lock and a look at no more than as many addresses as there are data centers, some tens of nanoseconds,
//! beside the microseconds of a system call.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use quinn::udp::EcnCodepoint;

use super::datagram::{self, Datagram, Header, PathReport};
use super::path::{Path, Route, TICK};
use super::token_bucket::TokenBucket;
use gaia_core::link::{DATAGRAM_BYTES_MAX, IP_UDP_HEADER_BYTES};
use gaia_core::topology::Topology;
use gaia_core::types::DcId;

/// The paths of one server.
#[derive(Debug)]
pub(super) struct Paths {
    own: DcId,
    mirrors: BTreeMap<DcId, Mirror>,
    /// When this process last ran, as far as is known here.
    ran_at: Duration,
    /// Detours that have begun or ended, and were not taken yet.
    changes: Vec<DetourChange>,
}

/// A mirror, and the path to it.
#[derive(Debug)]
struct Mirror {
    /// Where it listens. `None` if it takes no part in the run.
    listen_address: Option<SocketAddr>,
    /// The address of its connection, as QUIC has it. It differs behind a translation of addresses.
    connection_address: Option<SocketAddr>,
    /// Where its last direct report came from. It differs if the translation has changed.
    report_address: Option<SocketAddr>,
    /// The address of this host at which its datagrams arrive.
    local_ip: Option<IpAddr>,
    path: Path,
    /// The path to a process of which nothing is known.
    unused: Path,
    route: Route,
    /// The data center over which it is known to receive datagrams.
    detour: Option<DcId>,
    /// All other data centers, the best intermediate first.
    intermediates: Vec<DcId>,
    /// How many reports went over intermediates.
    reports_over: usize,
    kept: KeptDatagrams,
    /// For what is sent to the mirror on detours to others.
    bucket: TokenBucket,
    traffic: DetourTraffic,
}

/// What detours change in the traffic of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::real) struct DetourTraffic {
    /// Bytes on the wire that were sent to the mirror beside its connection: reports, and datagrams to and of others.
    pub(in crate::real) added_bytes: u64,
    /// Bytes of its connection that were sent to an intermediate instead, or dropped.
    pub(in crate::real) moved_bytes: u64,
    /// Datagrams on detours that had no room on the link or in the socket.
    pub(in crate::real) dropped: u64,
}

/// The last datagrams to a mirror, which it may not have received. QUIC itself sends lost ones again only after a time that
/// doubles with each attempt.
#[derive(Debug, Default)]
struct KeptDatagrams {
    contents: Vec<u8>,
    segment: usize,
}

/// A datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub(super) to: SocketAddr,
    pub(super) from_ip: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) contents: Vec<u8>,
}

/// A datagram of a mirror that has arrived on a detour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DetouredDatagram {
    /// The address of the mirror, as QUIC has it.
    pub(super) from: SocketAddr,
    pub(super) to_ip: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) contents: Vec<u8>,
}

/// What QUIC sends at once to one address: one datagram, or several of which all but the last have `segment` bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch<'a> {
    pub(super) contents: &'a [u8],
    pub(super) segment: Option<usize>,
    pub(super) ecn: Option<EcnCodepoint>,
}

/// A detour to a mirror has begun or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DetourChange {
    pub(super) peer: DcId,
    /// The data center over which datagrams reach the mirror. `None` if they do directly.
    pub(super) over: Option<DcId>,
}

impl Paths {
    /// The paths of a process that has a token for each mirror, drawn at random.
    pub(super) fn new(
        topology: &Topology,
        own: DcId,
        tokens: &BTreeMap<DcId, u64>,
        now: Duration,
    ) -> Self {
        let mirror = |(&peer, &token): (&DcId, &u64)| {
            let bandwidth = topology.server_bandwidth(own, peer);
            let back = topology.server_bandwidth(peer, own);
            let some = DATAGRAMS_IN_THE_WAY * DATAGRAM_BYTES_MAX;
            let serialisation = bandwidth.time_for(some).max(back.time_for(some));
            let path = Path::new(own, token, topology.link(own, peer).rtt.0, serialisation, now);
            let mirror = Mirror {
                listen_address: None,
                connection_address: None,
                report_address: None,
                local_ip: None,
                unused: path.clone(),
                path,
                route: Route::Direct,
                detour: None,
                intermediates: intermediates(topology, own, peer),
                reports_over: 0,
                kept: KeptDatagrams::default(),
                bucket: TokenBucket::new(bandwidth, now),
                traffic: DetourTraffic::default(),
            };
            (peer, mirror)
        };
        Self { own, mirrors: tokens.iter().map(mirror).collect(), ran_at: now, changes: Vec::new() }
    }

    /// The data centers of all mirrors.
    pub(super) fn peers(&self) -> Vec<DcId> {
        self.mirrors.keys().copied().collect()
    }

    /// Sets where a mirror listens, which may be another process at another address. `None` if it takes no part in the run.
    pub(super) fn set_listen_address(&mut self, peer: DcId, at: Option<SocketAddr>) {
        let Some(mirror) = self.mirrors.get_mut(&peer) else { return };
        if mirror.listen_address.is_some_and(|before| at != Some(before)) {
            (mirror.connection_address, mirror.report_address) = (None, None);
            mirror.path = mirror.unused.clone();
            mirror.path.on_received(self.ran_at);
        }
        mirror.listen_address = at;
        if at.is_none() {
            (mirror.route, mirror.detour) = (Route::Direct, None);
        }
    }

    /// Sets the address of a mirror's connection, or of an attempt to connect.
    pub(super) fn set_connection_address(&mut self, peer: DcId, at: SocketAddr) {
        if let Some(mirror) = self.mirrors.get_mut(&peer) {
            (mirror.connection_address, mirror.report_address) = (Some(at), None);
        }
    }

    /// What detours have changed in the traffic to a mirror.
    pub(super) fn traffic(&self, peer: DcId) -> DetourTraffic {
        self.mirrors.get(&peer).map_or_else(DetourTraffic::default, |mirror| mirror.traffic)
    }

    /// Whether a mirror is known to receive datagrams over a third data center, and not directly.
    pub(super) fn takes_detour(&self, peer: DcId) -> bool {
        self.mirrors.get(&peer).is_some_and(|mirror| mirror.detour.is_some())
    }

    /// Handles datagrams that have arrived from an address at one of this host. Returns the mirror that has the address.
    pub(super) fn on_received(
        &mut self,
        now: Duration,
        from: SocketAddr,
        to_ip: Option<IpAddr>,
    ) -> Option<DcId> {
        self.notice_stall(now);
        let peer = self.peer_at(from)?;
        let mirror = self.mirrors.get_mut(&peer)?;
        mirror.path.on_received(now);
        mirror.local_ip = to_ip;
        Some(peer)
    }

    /// Handles a datagram that is none of QUIC's and has arrived from an address, which is one of a mirror if it is known.
    pub(super) fn on_datagram(
        &mut self,
        now: Duration,
        (from, peer): (SocketAddr, Option<DcId>),
        (contents, ecn): (&[u8], Option<EcnCodepoint>),
        out: &mut Vec<Outgoing>,
    ) -> Option<DetouredDatagram> {
        match (datagram::read(contents)?, peer) {
            (Datagram::Report(report), Some(peer)) => {
                if report.from == peer {
                    let mirror = self.mirrors.get_mut(&peer)?;
                    if mirror.path.counts(&report) {
                        mirror.report_address = Some(from);
                    }
                    self.on_report(now, report, None, out);
                }
            }
            (Datagram::Report(report), None) => self.on_report_from(now, from, report, out),
            (Datagram::Detoured { header, inner }, Some(peer))
                if header.token == self.mirrors.get(&peer)?.path.token() =>
            {
                if header.to == self.own && header.from != peer {
                    return self.deliver(now, header.from, peer, (inner, ecn), out);
                }
                if header.from == peer && header.to != peer {
                    out.extend(self.pass_on(now, header, (inner, ecn)));
                }
            }
            // Of a host that is no mirror, or for another process.
            (Datagram::Detoured { .. }, _) => {}
        }
        None
    }

    /// How a batch is sent to an address, if it is a mirror's. Datagrams of it may be sent again on a detour.
    pub(super) fn on_send(&mut self, to: SocketAddr, batch: Batch<'_>) -> Option<(DcId, Route)> {
        let peer = self.peer_at(to)?;
        let mirror = self.mirrors.get_mut(&peer)?;
        mirror.kept.keep(batch);
        Some((peer, mirror.route))
    }

    /// Puts datagrams to a mirror on a detour, as far as the link to the intermediate has room for them.
    pub(super) fn detour(
        &mut self,
        now: Duration,
        (peer, over): (DcId, DcId),
        batch: Batch<'_>,
        out: &mut Vec<Outgoing>,
    ) {
        let Some(intermediate) = self.mirrors.get_mut(&over) else { return };
        for inner in batch.datagrams() {
            let Some(token) = intermediate.path.peer_token() else { return };
            let header = Header { from: self.own, to: peer, token };
            out.extend(intermediate.carry(now, header.before(inner), batch.ecn));
        }
    }

    /// As [`Self::detour`], for datagrams that are not sent directly.
    pub(super) fn detour_only(
        &mut self,
        now: Duration,
        (peer, over): (DcId, DcId),
        batch: Batch<'_>,
        out: &mut Vec<Outgoing>,
    ) {
        if let Some(mirror) = self.mirrors.get_mut(&peer) {
            mirror.traffic.moved_bytes += batch.datagrams().map(wire_bytes).sum::<u64>();
        }
        self.detour(now, (peer, over), batch, out);
    }

    /// Handles a datagram to an address that had no room in the socket and was dropped.
    pub(super) fn on_dropped(&mut self, to: SocketAddr) {
        if let Some(mirror) = self.peer_at(to).and_then(|peer| self.mirrors.get_mut(&peer)) {
            mirror.traffic.dropped += 1;
        }
    }

    /// Handles the passage of time: sends the reports that are due, and chooses routes.
    pub(super) fn tick(&mut self, now: Duration, out: &mut Vec<Outgoing>) -> Vec<DetourChange> {
        self.notice_stall(now);
        for peer in self.peers() {
            let Some(mirror) = self.mirrors.get_mut(&peer) else { continue };
            if mirror.address().is_some() && mirror.path.is_report_due(now) {
                self.report(now, peer, None, out);
            }
            self.choose_route(now, peer, out);
        }
        std::mem::take(&mut self.changes)
    }

    /// Notices that this process did not run for a while, before it handles what has arrived meanwhile.
    fn notice_stall(&mut self, now: Duration) {
        let stalled = now.saturating_sub(self.ran_at + STALL_MIN);
        self.ran_at = self.ran_at.max(now);
        if !stalled.is_zero() {
            self.mirrors.values_mut().for_each(|mirror| mirror.path.on_stalled(now, stalled));
        }
    }

    /// Takes a datagram that has arrived over a mirror from another one.
    fn deliver(
        &mut self,
        now: Duration,
        sender: DcId,
        over: DcId,
        (inner, ecn): (&[u8], Option<EcnCodepoint>),
        out: &mut Vec<Outgoing>,
    ) -> Option<DetouredDatagram> {
        if datagram::is_detour_datagram(inner) {
            // A detour has one intermediate.
            if let Some(Datagram::Report(report)) = datagram::read(inner)
                && report.from == sender
            {
                self.on_report(now, report, Some(over), out);
            }
            return None;
        }
        let sender = self.mirrors.get(&sender)?;
        let (from, to_ip) = (sender.address()?, sender.local_ip);
        Some(DetouredDatagram { from, to_ip, ecn, contents: inner.to_vec() })
    }

    /// Passes a datagram on to the mirror that it is for.
    fn pass_on(
        &mut self,
        now: Duration,
        header: Header,
        (inner, ecn): (&[u8], Option<EcnCodepoint>),
    ) -> Option<Outgoing> {
        let mirror = self.mirrors.get_mut(&header.to)?;
        let token = mirror.path.peer_token()?;
        mirror.carry(now, Header { token, ..header }.before(inner), ecn)
    }

    /// Handles a report from an address that no mirror has: behind a translation of addresses the address of a mirror changes.
    /// It is not answered, so that no host learns the token of this process.
    fn on_report_from(
        &mut self,
        now: Duration,
        from: SocketAddr,
        report: PathReport,
        out: &mut Vec<Outgoing>,
    ) {
        let Some(mirror) = self.mirrors.get_mut(&report.from) else { return };
        let is_known = mirror.path.peer_token() == Some(report.token);
        if mirror.listen_address.is_some() && is_known && mirror.path.counts(&report) {
            mirror.report_address = Some(from);
            mirror.path.on_received(now);
            self.on_report(now, report, None, out);
        }
    }

    fn on_report(
        &mut self,
        now: Duration,
        report: PathReport,
        over: Option<DcId>,
        out: &mut Vec<Outgoing>,
    ) {
        let Some(mirror) = self.mirrors.get_mut(&report.from) else { return };
        if mirror.address().is_none() {
            return;
        }
        if mirror.path.on_report(now, report, over) {
            self.report(now, report.from, Some((report.token, over)), out);
        }
        self.choose_route(now, report.from, out);
    }

    /// Sends a report directly, and over intermediates if the path is dead: over the one in use, or the best one, and another
    /// one each time, since nobody knows which of them reach the mirror. An answer to the process with a token also goes the way
    /// by which the report came.
    fn report(
        &mut self,
        now: Duration,
        peer: DcId,
        answers: Option<(u64, Option<DcId>)>,
        out: &mut Vec<Outgoing>,
    ) {
        let live = self.live_intermediates(now, peer);
        let Some(mirror) = self.mirrors.get_mut(&peer) else { return };
        let report = mirror.path.report(now, answers.map(|(token, _)| token)).encode();
        let is_dead = !mirror.path.is_alive(now);
        let back = answers.and_then(|(_, over)| over);
        if let Some(to) = mirror.latest_address() {
            mirror.traffic.added_bytes += wire_bytes(&report);
            out.push(Outgoing {
                to,
                from_ip: mirror.local_ip,
                ecn: None,
                contents: report.clone(),
            });
        }

        let mut over = BTreeSet::from_iter(back);
        if is_dead && let Some(best) = live.first() {
            mirror.reports_over += 1;
            let another = live[mirror.reports_over % live.len()];
            let in_use = mirror.path.receives_over(now).or(mirror.detour);
            let in_use = in_use.filter(|over| live.contains(over));
            over.extend([in_use.unwrap_or(*best), another]);
        }
        for over in over {
            let batch = Batch { contents: &report, segment: None, ecn: None };
            self.detour(now, (peer, over), batch, out);
        }
    }

    fn choose_route(&mut self, now: Duration, peer: DcId, out: &mut Vec<Outgoing>) {
        let live = self.live_intermediates(now, peer);
        let Some(mirror) = self.mirrors.get_mut(&peer) else { return };
        if mirror.address().is_none() {
            (mirror.route, mirror.detour) = (Route::Direct, None);
            return;
        }
        let before = std::mem::replace(&mut mirror.route, mirror.path.route(now, &live));
        let detour = match mirror.route {
            Route::Direct if mirror.path.is_alive(now) || !live.is_empty() => None,
            Route::Over(over) => Some(over),
            // It may still be the right one, if reports are lost.
            Route::Direct | Route::DirectAndOver(_) => mirror.detour,
        };
        if mirror.path.is_unreachable(now) {
            mirror.detour = None;
        } else if std::mem::replace(&mut mirror.detour, detour) != detour {
            self.changes.push(DetourChange { peer, over: detour });
        }
        if let (Route::Direct, Route::Over(over) | Route::DirectAndOver(over)) =
            (before, mirror.route)
        {
            let KeptDatagrams { contents, segment } = std::mem::take(&mut mirror.kept);
            let batch = Batch { contents: &contents, segment: Some(segment), ecn: None };
            self.detour(now, (peer, over), batch, out);
        }
    }

    /// The data centers with which this one exchanges datagrams directly, for detours to a mirror, the best first.
    fn live_intermediates(&self, now: Duration, peer: DcId) -> Vec<DcId> {
        let all = self.mirrors.get(&peer).map_or(&[][..], |mirror| &mirror.intermediates);
        let is_live = |over: &&DcId| {
            let over = self.mirrors.get(*over);
            over.is_some_and(|over| over.address().is_some() && over.path.is_alive(now))
        };
        all.iter().filter(is_live).copied().collect()
    }

    fn peer_at(&self, address: SocketAddr) -> Option<DcId> {
        let at = Some(address);
        let has = |mirror: &Mirror| {
            [mirror.connection_address, mirror.listen_address, mirror.report_address].contains(&at)
        };
        self.mirrors.iter().find(|(_, mirror)| has(mirror)).map(|(dc, _)| *dc)
    }
}

impl Mirror {
    fn address(&self) -> Option<SocketAddr> {
        self.connection_address.or(self.listen_address)
    }

    /// Where datagrams that are none of QUIC's reach it.
    fn latest_address(&self) -> Option<SocketAddr> {
        self.report_address.or_else(|| self.address())
    }

    /// Sends a datagram of a detour to the mirror. `None` if the link has no room for it.
    fn carry(
        &mut self,
        now: Duration,
        contents: Vec<u8>,
        ecn: Option<EcnCodepoint>,
    ) -> Option<Outgoing> {
        let to = self.latest_address()?;
        let bytes = wire_bytes(&contents);
        if !self.bucket.try_take(now, bytes) {
            self.traffic.dropped += 1;
            return None;
        }
        self.traffic.added_bytes += bytes;
        Some(Outgoing { to, from_ip: self.local_ip, ecn, contents })
    }
}

impl KeptDatagrams {
    /// Keeps some datagrams. Those of a transfer at full rate, which are many at once, are left out: copying them would
    /// cost, and QUIC has others to send after them.
    fn keep(&mut self, batch: Batch<'_>) {
        let segment = batch.segment.unwrap_or(batch.contents.len());
        if batch.contents.len() <= KEPT_DATAGRAMS_MAX * segment {
            self.contents.clear();
            self.contents.extend_from_slice(batch.contents);
            self.segment = segment;
        }
    }
}

impl<'a> Batch<'a> {
    fn datagrams(self) -> impl Iterator<Item = &'a [u8]> {
        self.contents.chunks(self.segment.unwrap_or(self.contents.len()).max(1))
    }
}

fn wire_bytes(datagram: &[u8]) -> u64 {
    datagram.len() as u64 + IP_UDP_HEADER_BYTES
}

/// All other data centers, by the slower of the two links of a detour over them, then by its round trip.
fn intermediates(topology: &Topology, own: DcId, peer: DcId) -> Vec<DcId> {
    let mut all: Vec<DcId> = topology.dc_ids().filter(|dc| *dc != own && *dc != peer).collect();
    let slowest = |over: DcId| {
        let (first, second) = (topology.link(own, over), topology.link(over, peer));
        first.bandwidth.bytes_per_second().min(second.bandwidth.bytes_per_second())
    };
    let rtt = |over: DcId| topology.link(own, over).rtt.0 + topology.link(over, peer).rtt.0;
    all.sort_by(|one, other| {
        slowest(*other).total_cmp(&slowest(*one)).then(rtt(*one).cmp(&rtt(*other)))
    });
    all
}

/// How many datagrams at once are kept to be sent again.
const KEPT_DATAGRAMS_MAX: usize = 2;

/// How many datagrams of the usual size a report may have to wait for on a link.
const DATAGRAMS_IN_THE_WAY: u64 = 4;

/// The time between two ticks beyond which this process did not run.
const STALL_MIN: Duration = TICK.saturating_mul(4);

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::test_topology::{link, mesh};
    use gaia_core::types::Bandwidth;

    const NORTH: DcId = DcId(0);
    const SOUTH: DcId = DcId(1);
    const WEST: DcId = DcId(2);
    const EAST: DcId = DcId(3);

    /// Data centers that exchange packets every 20 ms over links that are not dead.
    struct Run {
        all: BTreeMap<DcId, Paths>,
        dead: BTreeSet<(DcId, DcId)>,
        now: Duration,
        changes: Vec<(DcId, DetourChange)>,
        /// What has arrived on detours, where.
        detoured: Vec<(DcId, DcId, Vec<u8>)>,
    }

    fn address(dc: DcId) -> SocketAddr {
        ([10, 0, 0, 1 + dc.0 as u8], 4433).into()
    }

    /// The token that a data center has for another one.
    fn token(of: DcId, peer: DcId) -> u64 {
        100 + 20 * u64::from(of.0) + u64::from(peer.0)
    }

    fn topology(count: usize) -> Topology {
        let names: Vec<String> = (0..count).map(|dc| format!("dc{dc}")).collect();
        let mut topology =
            mesh(&names, link(Bandwidth::from_mbit(100.0), Duration::from_millis(20), 1 << 20));
        // Those that come first are the better intermediates.
        for link in &mut topology.links {
            let place = f64::from(link.from.0 + link.to.0);
            link.bandwidth = Bandwidth::from_mbit(100.0 - place);
        }
        topology
    }

    fn batch(contents: &[u8], segment: Option<usize>) -> Batch<'_> {
        Batch { contents, segment, ecn: None }
    }

    impl Run {
        /// All have exchanged reports.
        fn new(count: usize) -> Self {
            let mut run = Self::begin(count);
            run.pass(1_000);
            run
        }

        fn begin(count: usize) -> Self {
            let topology = topology(count);
            let paths = |own| {
                let peers = topology.dc_ids().filter(|peer| *peer != own);
                let tokens = peers.map(|peer| (peer, token(own, peer))).collect();
                let mut paths = Paths::new(&topology, own, &tokens, Duration::ZERO);
                for peer in paths.peers() {
                    paths.set_listen_address(peer, Some(address(peer)));
                }
                (own, paths)
            };
            let all = topology.dc_ids().map(paths).collect();
            let (dead, changes, detoured) = (BTreeSet::new(), Vec::new(), Vec::new());
            Self { all, dead, now: Duration::ZERO, changes, detoured }
        }

        fn paths(&mut self, dc: DcId) -> &mut Paths {
            self.all.get_mut(&dc).unwrap()
        }

        fn cut(&mut self, one: DcId, other: DcId) {
            self.dead.extend([(one, other), (other, one)]);
        }

        fn pass(&mut self, ms: u64) {
            let ids: Vec<DcId> = self.all.keys().copied().collect();
            for _ in 0..ms / 10 {
                self.now += Duration::from_millis(10);
                let now = self.now;
                if now.as_millis().is_multiple_of(20) {
                    for (from, to) in ids.iter().flat_map(|from| ids.iter().map(|to| (*from, *to)))
                    {
                        if from != to && !self.dead.contains(&(from, to)) {
                            self.paths(to).on_received(now, address(from), None);
                        }
                    }
                }
                if now.as_millis().is_multiple_of(TICK.as_millis()) {
                    for dc in &ids {
                        let mut out = Vec::new();
                        let changes = self.paths(*dc).tick(now, &mut out);
                        self.changes.extend(changes.into_iter().map(|change| (*dc, change)));
                        self.carry(*dc, out);
                    }
                }
            }
        }

        /// Carries datagrams to where they are sent, and all that is sent because of them.
        fn carry(&mut self, from: DcId, out: Vec<Outgoing>) {
            let mut under_way: VecDeque<(DcId, Outgoing)> =
                out.into_iter().map(|outgoing| (from, outgoing)).collect();
            while let Some((from, Outgoing { to, contents, .. })) = under_way.pop_front() {
                let at = self.all.keys().copied().find(|dc| address(*dc) == to).unwrap();
                if self.dead.contains(&(from, at)) {
                    continue;
                }
                let (now, mut out) = (self.now, Vec::new());
                let paths = self.paths(at);
                let peer = paths.on_received(now, address(from), None);
                let source = (address(from), peer);
                let detoured = paths.on_datagram(now, source, (&contents, None), &mut out);
                if let Some(DetouredDatagram { from, contents, .. }) = detoured {
                    let from = self.all.keys().copied().find(|dc| address(*dc) == from).unwrap();
                    self.detoured.push((from, at, contents));
                }
                under_way.extend(out.into_iter().map(|outgoing| (at, outgoing)));
            }
        }

        /// Sends packets of QUIC to a mirror as the socket does, and returns the route.
        fn send(&mut self, from: DcId, to: DcId, batch: Batch<'_>) -> Route {
            let (now, mut out) = (self.now, Vec::new());
            let paths = self.paths(from);
            let (peer, route) = paths.on_send(address(to), batch).unwrap();
            match route {
                Route::Direct => {}
                Route::Over(over) => paths.detour_only(now, (peer, over), batch, &mut out),
                Route::DirectAndOver(over) => paths.detour(now, (peer, over), batch, &mut out),
            }
            self.carry(from, out);
            route
        }

        fn route(&mut self, from: DcId, to: DcId) -> Route {
            self.send(from, to, batch(&[0x40], None))
        }
    }

    #[test]
    fn two_mirrors_reach_each_other_over_the_third_while_their_link_is_dead() {
        let mut run = Run::new(3);
        assert_eq!(run.route(SOUTH, WEST), Route::Direct);
        run.cut(SOUTH, WEST);
        run.pass(700);
        run.detoured.clear();
        assert_eq!(run.send(SOUTH, WEST, batch(b"@one@two@", Some(4))), Route::Over(NORTH));
        assert_eq!(run.send(WEST, SOUTH, batch(&[0x41], None)), Route::Over(NORTH));
        assert_eq!(run.route(WEST, NORTH), Route::Direct);
        let expected = [
            (SOUTH, WEST, b"@one".to_vec()),
            (SOUTH, WEST, b"@two".to_vec()),
            (SOUTH, WEST, b"@".to_vec()),
            (WEST, SOUTH, vec![0x41]),
        ];
        assert_eq!(run.detoured, expected);
        assert!(run.paths(SOUTH).takes_detour(WEST) && !run.paths(SOUTH).takes_detour(NORTH));

        run.pass(20_000);
        run.dead.clear();
        run.pass(200);
        assert_eq!(run.route(SOUTH, WEST), Route::Direct);
        assert_eq!(run.route(WEST, SOUTH), Route::Direct);
        run.pass(1_000);
        run.changes.sort_by_key(|(at, change)| (*at, change.over.is_none()));
        let change = |peer, over| DetourChange { peer, over };
        let expected = [
            (SOUTH, change(WEST, Some(NORTH))),
            (SOUTH, change(WEST, None)),
            (WEST, change(SOUTH, Some(NORTH))),
            (WEST, change(SOUTH, None)),
        ];
        assert_eq!(run.changes, expected);
    }

    #[test]
    fn a_link_that_fails_again_and_again_is_left_for_longer_than_it_is_dead() {
        let mut run = Run::new(3);
        run.cut(SOUTH, WEST);
        run.pass(2_000);
        run.dead.clear();
        run.pass(2_000);
        run.cut(SOUTH, WEST);
        run.pass(2_000);
        run.dead.clear();
        run.pass(900);
        assert_eq!(run.route(SOUTH, WEST), Route::Over(NORTH), "it may fail again");
        run.pass(600);
        assert_eq!(run.route(SOUTH, WEST), Route::Direct);
    }

    #[test]
    fn mirrors_whose_link_is_dead_from_the_beginning_find_each_other() {
        for count in [3, 4, 5, 7, 11] {
            let mut run = Run::begin(count);
            // Only the worst intermediate reaches both.
            let last = if count == 3 { NORTH } else { DcId(count as u16 - 1) };
            run.cut(SOUTH, WEST);
            for other in run.paths(SOUTH).peers().into_iter().filter(|dc| *dc != last) {
                run.cut(SOUTH, other);
            }
            run.pass(3_000);
            assert_eq!(run.route(SOUTH, WEST), Route::Over(last), "{count}");
            assert_eq!(run.route(WEST, SOUTH), Route::Over(last), "{count}");
        }
    }

    #[test]
    fn a_link_that_is_dead_in_one_direction_has_a_detour_in_that_direction() {
        let mut run = Run::new(3);
        run.dead.insert((SOUTH, WEST));
        run.pass(2_000);
        assert_eq!(run.route(SOUTH, WEST), Route::Over(NORTH));
        assert_eq!(run.route(WEST, SOUTH), Route::Direct);
    }

    #[test]
    fn a_data_center_that_is_cut_off_has_no_detour() {
        let mut run = Run::new(3);
        run.cut(SOUTH, WEST);
        run.cut(NORTH, WEST);
        run.pass(3_000);
        assert_eq!(run.route(WEST, SOUTH), Route::Direct);
        assert_eq!(run.route(SOUTH, WEST), Route::DirectAndOver(NORTH));
        assert_eq!(run.changes, [], "nobody knows whether it leads anywhere");
    }

    #[test]
    fn the_one_intermediate_that_reaches_both_is_found_however_many_there_are() {
        let mut run = Run::new(11);
        // South reaches only the worst of the nine.
        for other in (0..10).map(DcId).filter(|other| *other != SOUTH) {
            run.cut(SOUTH, other);
        }
        run.pass(1_500);
        for other in (0..10).map(DcId).filter(|other| *other != SOUTH) {
            assert_eq!(run.route(SOUTH, other), Route::Over(DcId(10)), "{other:?}");
            assert_eq!(run.route(other, SOUTH), Route::Over(DcId(10)), "{other:?}");
        }
    }

    #[test]
    fn another_intermediate_takes_over_from_one_that_fails() {
        let mut run = Run::new(4);
        run.cut(SOUTH, WEST);
        run.pass(2_000);
        assert_eq!(run.route(SOUTH, WEST), Route::Over(NORTH), "the better one");
        run.cut(NORTH, WEST);
        run.pass(2_000);
        assert_eq!(run.route(SOUTH, WEST), Route::Over(EAST));
        assert_eq!(run.route(WEST, SOUTH), Route::Over(EAST));
    }

    #[test]
    fn the_best_intermediate_has_the_fastest_links_and_then_the_shortest_round_trip() {
        let mut topology = topology(5);
        assert_eq!(intermediates(&topology, SOUTH, WEST), [NORTH, EAST, DcId(4)]);
        for link in &mut topology.links {
            link.bandwidth = Bandwidth::from_mbit(50.0);
            let far = u64::from(link.from == EAST || link.to == EAST);
            link.rtt.0 = Duration::from_millis(20 + 100 * far);
        }
        assert_eq!(intermediates(&topology, SOUTH, WEST), [NORTH, DcId(4), EAST]);
        topology.links.iter_mut().filter(|link| link.from == NORTH).for_each(|link| {
            link.bandwidth = Bandwidth::from_mbit(1.0);
        });
        assert_eq!(intermediates(&topology, SOUTH, WEST), [DcId(4), EAST, NORTH]);
    }

    #[test]
    fn what_was_sent_last_is_sent_again_on_the_detour() {
        let mut run = Run::new(3);
        run.cut(SOUTH, WEST);
        assert_eq!(run.send(SOUTH, WEST, batch(b"@lost", None)), Route::Direct);
        assert_eq!(run.send(SOUTH, WEST, batch(&[0x40; 3_000], Some(1_000))), Route::Direct);
        run.pass(600);
        assert_eq!(run.detoured, [(SOUTH, WEST, b"@lost".to_vec())], "a large batch is not kept");
    }

    #[test]
    fn an_intermediate_passes_on_only_what_a_mirror_sends_for_another_one() {
        let mut run = Run::new(3);
        let now = run.now;
        let north = run.paths(NORTH);
        let before = north.traffic(WEST).added_bytes;
        let mut arrives = |from: DcId, header: Header, is_known: bool| {
            let (mut out, source) = (Vec::new(), (address(from), is_known.then_some(from)));
            let contents = header.before(&[0x40]);
            let detoured = north.on_datagram(now, source, (&contents, None), &mut out);
            (detoured.is_some(), out.iter().map(|out| out.to).collect::<Vec<_>>())
        };
        let header = |from, to| Header { from, to, token: token(NORTH, SOUTH) };
        assert_eq!(arrives(SOUTH, header(SOUTH, WEST), true), (false, vec![address(WEST)]));
        assert_eq!(arrives(SOUTH, header(WEST, NORTH), true), (true, vec![]));
        for token in [0, token(NORTH, WEST)] {
            let forged = Header { token, ..header(SOUTH, WEST) };
            assert_eq!(arrives(SOUTH, forged, true), (false, vec![]), "its sender sees no packets");
        }
        assert_eq!(arrives(SOUTH, header(SOUTH, WEST), false), (false, vec![]), "no mirror");
        for (from, to) in [
            (WEST, WEST),
            (WEST, SOUTH),
            (SOUTH, SOUTH),
            (SOUTH, DcId(7)),
            (SOUTH, DcId(u16::MAX)),
            (DcId(7), NORTH),
            (SOUTH, NORTH),
            (NORTH, NORTH),
        ] {
            assert_eq!(arrives(SOUTH, header(from, to), true), (false, vec![]), "{from:?} {to:?}");
        }
        let passed_on = north.traffic(WEST).added_bytes - before;
        assert_eq!(passed_on, 14 + IP_UDP_HEADER_BYTES);

        north.set_listen_address(WEST, None);
        let mut out = Vec::new();
        let contents = header(SOUTH, WEST).before(&[0x40]);
        north.on_datagram(now, (address(SOUTH), Some(SOUTH)), (&contents, None), &mut out);
        assert_eq!(out, [], "west has left");
    }

    #[test]
    fn a_forged_report_changes_no_route() {
        let mut run = Run::new(3);
        let now = run.now;
        let forged = |receives_over, to_token| PathReport {
            from: WEST,
            receives: false,
            wants_answer: false,
            receives_over,
            number: 99,
            answers: 0,
            token: token(WEST, SOUTH),
            to_token,
        };
        let mut arrives = |report: PathReport, peer| {
            let source = (address(peer), Some(peer));
            run.paths(SOUTH).on_datagram(now, source, (&report.encode(), None), &mut Vec::new());
            run.route(SOUTH, WEST)
        };
        assert_eq!(arrives(forged(Some(NORTH), 0), WEST), Route::Direct, "of a host that is blind");
        let of_north = forged(Some(NORTH), token(SOUTH, NORTH));
        assert_eq!(arrives(of_north, WEST), Route::Direct, "of another mirror");
        assert_eq!(arrives(forged(Some(NORTH), token(SOUTH, WEST)), NORTH), Route::Direct);
        // A data center that takes no part is never the intermediate.
        for over in [SOUTH, WEST, DcId(u16::MAX)] {
            let route = arrives(forged(Some(over), token(SOUTH, WEST)), WEST);
            assert_eq!(route, Route::DirectAndOver(NORTH), "{over:?}");
        }
    }

    #[test]
    fn bytes_count_on_the_links_that_carry_them() {
        let mut run = Run::new(3);
        run.cut(SOUTH, WEST);
        run.pass(2_000);
        let before = |run: &mut Run| {
            let south = [WEST, NORTH].map(|peer| run.paths(SOUTH).traffic(peer));
            (south[0].moved_bytes, south[1].added_bytes, run.paths(NORTH).traffic(WEST).added_bytes)
        };
        let (moved, first, second) = before(&mut run);
        assert_eq!(run.send(SOUTH, WEST, batch(&[0x40; 3_000], Some(1_000))), Route::Over(NORTH));
        let header = datagram::HEADER_BYTES as u64;
        let plain = 3 * (1_000 + IP_UDP_HEADER_BYTES);
        let after = before(&mut run);
        assert_eq!(after.0 - moved, plain);
        assert_eq!((after.1 - first, after.2 - second), (plain + 3 * header, plain + 3 * header));
        assert_eq!(run.detoured.len(), 3);

        for _ in 0..10_000 {
            run.send(SOUTH, WEST, batch(&[0x40; 3_000], Some(1_000)));
        }
        let dropped =
            run.paths(SOUTH).traffic(NORTH).dropped + run.paths(NORTH).traffic(WEST).dropped;
        assert_eq!(dropped as usize + run.detoured.len(), 3 + 30_000);
        let burst = 50e6 / 8.0 * 0.1;
        let carried = run.detoured.len() as f64 * 1_041.0;
        assert!(carried > 0.9 * burst && carried < 1.1 * burst, "{carried}");
    }

    #[test]
    fn a_mirror_is_found_at_a_new_address() {
        let mut run = Run::new(3);
        let now = run.now;
        let north = run.paths(NORTH);
        let (seen, moved) = (([10, 0, 0, 8], 9).into(), ([10, 0, 0, 9], 4433).into());
        north.set_connection_address(WEST, seen);
        assert_eq!(north.on_received(now, seen, None), Some(WEST));

        // A translation of addresses has changed: a report with both tokens tells.
        let translated: SocketAddr = ([10, 0, 0, 8], 10).into();
        assert_eq!(north.on_received(now, translated, None), None);
        let report = |to_token| PathReport {
            from: WEST,
            receives: true,
            wants_answer: true,
            receives_over: None,
            number: 99,
            answers: 0,
            token: token(WEST, NORTH),
            to_token,
        };
        let mut out = Vec::new();
        for to_token in [0, token(NORTH, SOUTH), token(NORTH, WEST)] {
            assert_eq!(north.on_received(now, translated, None), None);
            let report = report(to_token).encode();
            north.on_datagram(now, (translated, None), (&report, None), &mut out);
        }
        assert_eq!(north.on_received(now, translated, None), Some(WEST));
        assert!(out.iter().all(|out| out.to == translated), "a stranger gets no answer: {out:?}");

        north.set_connection_address(WEST, seen);
        assert_eq!(north.on_received(now, translated, None), None, "a new connection");
        north.set_listen_address(WEST, Some(moved));
        assert_eq!(north.on_received(now, seen, None), None, "another process");
        assert_eq!(north.on_received(now, moved, None), Some(WEST));
    }

    #[test]
    fn a_mirror_that_ends_on_a_detour_takes_none_any_more() {
        let mut run = Run::new(3);
        run.cut(SOUTH, WEST);
        run.pass(2_000);
        assert!(run.paths(SOUTH).takes_detour(WEST));
        run.paths(SOUTH).set_listen_address(WEST, None);
        run.pass(100);
        assert!(!run.paths(SOUTH).takes_detour(WEST), "it has left");
        assert_eq!(run.changes.len(), 2, "{:?}", run.changes);

        let mut run = Run::new(3);
        run.cut(SOUTH, WEST);
        run.pass(2_000);
        run.cut(NORTH, WEST);
        run.pass(15_000);
        assert!(!run.paths(SOUTH).takes_detour(WEST), "it is gone");
        assert_eq!(run.changes.len(), 2, "it is not reached directly again: {:?}", run.changes);
    }

    #[test]
    fn a_process_that_was_stopped_takes_no_path_for_dead() {
        let mut run = Run::new(3);
        run.now += Duration::from_secs(20);
        let now = run.now;
        let south = run.paths(SOUTH);
        // What has arrived meanwhile is received before the time is looked at.
        south.on_received(now, address(NORTH), None);
        let mut out = Vec::new();
        south.tick(now, &mut out);
        assert_eq!(south.live_intermediates(now, WEST), [NORTH]);
        for Outgoing { contents, .. } in out {
            let Some(Datagram::Report(report)) = datagram::read(&contents) else { continue };
            assert!(report.receives, "{report:?}");
        }
        assert_eq!(run.route(SOUTH, WEST), Route::Direct);
    }

    #[test]
    fn a_process_that_restarts_is_an_intermediate_again_though_its_links_are_busy() {
        let mut run = Run::new(3);
        let topology = topology(3);
        let tokens = [SOUTH, WEST].map(|peer| (peer, 1_000 + u64::from(peer.0))).into();
        let mut restarted = Paths::new(&topology, NORTH, &tokens, run.now);
        for peer in restarted.peers() {
            restarted.set_listen_address(peer, Some(address(peer)));
        }
        run.all.insert(NORTH, restarted);
        run.pass(200);
        run.cut(SOUTH, WEST);
        run.pass(1_000);
        assert_eq!(run.route(SOUTH, WEST), Route::Over(NORTH));
        assert_eq!(run.route(WEST, SOUTH), Route::Over(NORTH));
    }
}
