//! Hosts without a certificate that send packets to the ports of a run.

use std::collections::VecDeque;
use std::fs;
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

use rustls::Side;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::Version;

use crate::addresses::free_address;
use crate::failures::{Bare, Limit};
use crate::{Bench, Node, check_summary, evaluations, run_file, said};

/// Nobody who forges them reads an answer, so no handshake goes on. Half of the places for handshakes are theirs at most,
/// and the lines about them are limited in rate.
#[test]
fn a_run_goes_on_through_a_flood_of_forged_initials_and_its_log_stays_short() {
    let names = ["north", "south"];
    let mut run = Bare::new(&run_file(&names, "", "clocks = 60"), &names);
    let listens = free_address();
    let accepts = run.server("south", &listens);
    let mut nodes = vec![run.server("north", "127.0.0.1:0")];
    let _limit = Limit::on(&[&run.conductor, &accepts]);

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut number = 0_u64;
    let mut flood = |packets: u64| {
        for _ in 0..packets {
            number += 1;
            // A buffer that is full loses the packet, as it would those of others.
            let _lost = socket.send_to(&forged(number), &listens);
        }
    };
    // From before the mirrors meet to the end.
    flood(PACKETS);
    nodes.extend(names.map(|dc| run.worker(dc)));
    for _ in 0..6 {
        flood(PACKETS);
        run.goes_on(1);
    }

    let summary = run.ends(nodes);
    check_summary(&summary, 2, 2);
    assert_eq!(summary["stopped_by"], "clocks", "{summary:#}");
    let (code, said) = Node::end(accepts);
    assert_eq!(code, Some(0), "{said}");
    let refused = said.lines().filter(|line| line.contains("refused a connection from")).count();
    assert!(refused > 0, "{said}");
    assert!(said.lines().count() < LINES_MAX, "{} lines:\n{said}", said.lines().count());
}

/// Two runs at once, of which strangers besiege one. A clock takes 50 ms, in which nodes compute for less than one, so that
/// both have the processors that they need.
#[test]
#[allow(clippy::disallowed_methods, reason = "strangers call at a rate")]
fn a_run_that_strangers_besiege_keeps_nineteen_of_twenty_clocks() {
    let names = ["north", "south"];
    let text = run_file(&names, "", "clocks = 1000000");
    let text = text.replace("clock_overhead = \"10 ms\"", "clock_overhead = \"50 ms\"");
    let text = text.replace("every = 5", "every = 1");
    let start = |listens: &str| {
        let run = Bare::new(&text, &names);
        let mut nodes = vec![run.server("north", "127.0.0.1:0"), run.server("south", listens)];
        nodes.extend(names.map(|dc| run.worker(dc)));
        (run, nodes)
    };
    let listens = free_address();
    let (mut besieged, besieged_nodes) = start(&listens);
    let (mut calm, _calm_nodes) = start(&free_address());
    let _limit = Limit::on(&[&besieged.conductor, &besieged_nodes[1], &calm.conductor]);
    besieged.goes_on(1);
    calm.goes_on(1);

    let clock_of = |run: &Bare| {
        let last = evaluations(&run.bench, "out").pop();
        last.and_then(|last| last["clock"].as_u64()).unwrap()
    };
    let before = [&besieged, &calm].map(clock_of);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (mut idle, mut callers, mut number) = (VecDeque::new(), 0, 0);
    let clocks = loop {
        for _ in 0..10 {
            number += 1;
            // A buffer that is full loses the packet, as it would those of others.
            let _lost = socket.send_to(&forged(number), &listens);
        }
        for at in [&listens, &besieged.coordinator] {
            if let Ok(caller) = TcpStream::connect(at) {
                callers += 1;
                idle.push_back(caller);
            }
        }
        while idle.len() > IDLE_MAX {
            idle.pop_front();
        }
        // A thousand packets and two hundred callers a second.
        std::thread::sleep(Duration::from_millis(10));
        let now = [&besieged, &calm].map(clock_of);
        if now[1] >= before[1] + CLOCKS {
            break [now[0] - before[0], now[1] - before[1]];
        }
    };
    assert!(callers > 500, "{callers}");
    assert!(20 * clocks[0] >= 19 * clocks[1], "{clocks:?}");
}

/// A folder that somebody else has made may have a link where a node's log is to be.
#[cfg(unix)]
#[test]
fn a_node_writes_its_log_to_no_file_that_a_link_leads_to() {
    let bench = Bench::new(&run_file(&["north", "south"], "driver = \"real\"", "clocks = 12"));
    let victim = bench.path("victim");
    fs::write(&victim, "of somebody else").unwrap();
    for folder in ["out/checkpoints", "out/logs/north"] {
        fs::create_dir_all(bench.path(folder)).unwrap();
    }
    fs::copy(bench.path("run.toml"), bench.path("out/run.toml")).unwrap();
    std::os::unix::fs::symlink(&victim, bench.path("out/logs/north/server-0.log")).unwrap();

    let arguments = ["--resume", "auto", "--out", "out", "--quiet"];
    let output = bench.gaia("train", &arguments).output().unwrap();
    let said = said(&output);
    let expected = "north/server-0.log: it is a symbolic link, expected a file";
    assert!(output.status.code() != Some(0) && said.contains(expected), "{said}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "of somebody else");
}

/// A datagram of a new connection. What everybody can encrypt is right, and what is in it is one of four things: random
/// bytes in place of what was encrypted, a ping and nothing more, a hello that is none of TLS, a bit that is reserved.
fn forged(number: u64) -> Vec<u8> {
    let connection = (!number).to_be_bytes();
    match number % 4 {
        0 => {
            let mut noise = initial(&connection, 0, 0, &[PING], WHOLE_BYTES);
            noise.iter_mut().skip(40).step_by(7).for_each(|byte| *byte ^= 0x5a);
            noise
        }
        1 => initial(&connection, 0, 0, &[PING], WHOLE_BYTES),
        2 => initial(&connection, 0, 0, &[CRYPTO, 0, 5, 2, 0, 0, 1, 9], WHOLE_BYTES),
        _ => {
            let first = initial(&connection, 0, 0, &[PING], WHOLE_BYTES / 2);
            [first, initial(&connection, 1, RESERVED, &[PING], WHOLE_BYTES / 2)].concat()
        }
    }
}

/// One packet of type Initial (RFC 9000, 17.2.2), padded and encrypted as RFC 9001, 5.2 says.
fn initial(connection: &[u8; 8], number: u8, reserved: u8, frames: &[u8], bytes: usize) -> Vec<u8> {
    let mut payload = frames.to_vec();
    payload.resize(bytes, 0);
    let after = (1 + payload.len() + TAG_BYTES) as u16;

    let mut packet = vec![LONG_HEADER | reserved, 0, 0, 0, 1, connection.len() as u8];
    packet.extend_from_slice(connection);
    // No identifier of its own, no token, then the length of what follows.
    packet.extend_from_slice(&[0, 0]);
    packet.extend_from_slice(&(0x4000 | after).to_be_bytes());
    packet.push(number);
    let header = packet.len();

    let suite = TLS13_AES_128_GCM_SHA256.tls13().unwrap().quic_suite().unwrap();
    let keys = suite.keys(connection, Side::Client, Version::V1).local;
    let tag = keys.packet.encrypt_in_place(u64::from(number), &packet, &mut payload).unwrap();
    packet.extend_from_slice(&payload);
    packet.extend_from_slice(tag.as_ref());

    // The sample begins four bytes after the start of the packet number, which has one byte here.
    let sample = packet[header + 3..][..keys.header.sample_len()].to_vec();
    let (first, rest) = packet.split_first_mut().unwrap();
    let number = &mut rest[header - 2..header - 1];
    keys.header.encrypt_in_place(&sample, first, number).unwrap();
    packet
}

/// The packets of one flood: many times the places for handshakes.
const PACKETS: u64 = 500;

/// For how many clocks a run is besieged: ten seconds of them.
const CLOCKS: u64 = 200;

/// More callers than the places that a node has for those who have not proven who they are.
const IDLE_MAX: usize = 400;

/// Ten lines at once and one each five seconds, and what a run says of itself.
const LINES_MAX: usize = 100;

const LONG_HEADER: u8 = 0xc0;
const RESERVED: u8 = 0x0c;
/// What a datagram has in its packets. Those of less than 1,200 bytes are dropped.
const WHOLE_BYTES: usize = 1_200;
const TAG_BYTES: usize = 16;
const PING: u8 = 1;
const CRYPTO: u8 = 6;
