//! Sessions: each rule as a situation, and all of them at once over a network that means harm.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::num::NonZeroU64;
use std::time::Duration;

use bytes::Bytes;
use gaia_core::session::{
    HEADER_BYTES, HelloKind, Incarnation, Message, Session, SessionConfig, SessionError,
    message_len, window,
};
use gaia_core::types::limits::{BULK_FRAME_BYTES_MAX, CONTROL_FRAME_BYTES_MAX};
use gaia_core::types::{Bandwidth, Lane};
use gaia_core::wire::PROTOCOL_VERSION;
use proptest::prelude::*;

/// What may be under way in a data lane.
const WINDOW: usize = 1_000;

fn incarnation(number: u64) -> Incarnation {
    Incarnation(NonZeroU64::new(number).unwrap())
}

fn config(number: u64) -> SessionConfig {
    SessionConfig {
        incarnation: incarnation(number),
        sent_bytes_max: WINDOW,
        early_bytes_max: WINDOW,
    }
}

fn session(number: u64) -> Session {
    Session::new(config(number))
}

fn give(to: &mut Session, message: &Message) -> Result<Option<HelloKind>, SessionError> {
    to.handle_message(&message.to_bytes())
}

/// Two ends that have met.
fn pair() -> (Session, Session) {
    let (mut a, mut b) = (session(1), session(1));
    assert_eq!(meet(&mut a, &mut b), (Ok(Some(HelloKind::First)), Ok(Some(HelloKind::First))));
    (a, b)
}

type Hellos = Result<Option<HelloKind>, SessionError>;

/// Connects two ends; answers with what each says of the other.
fn meet(a: &mut Session, b: &mut Session) -> (Hellos, Hellos) {
    let (from_a, from_b) = (a.connect(), b.connect());
    let of_a = give(b, &from_a);
    (give(a, &from_b), of_a)
}

fn frame(number: u8, bytes: usize) -> Bytes {
    vec![number; bytes].into()
}

/// Pushes a data frame and takes the message that carries it.
fn sent(from: &mut Session, number: u8) -> Message {
    from.push(Lane::Data, frame(number, 8));
    from.poll_transmit(Lane::Data).unwrap()
}

fn frames(of: &mut Session) -> Vec<u8> {
    std::iter::from_fn(|| of.poll_frame()).map(|(_, frame)| frame[0]).collect()
}

/// A message with one field of its header changed and the CRC right again.
fn forged(message: &Message, at: usize, field: &[u8]) -> Bytes {
    let mut bytes = message.to_bytes().to_vec();
    bytes[at..at + field.len()].copy_from_slice(field);
    let crc = crc32fast::hash(&bytes[..HEADER_BYTES - 4]);
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    bytes.into()
}

#[test]
fn frames_wait_for_those_before_them() {
    let (mut a, mut b) = pair();
    let [one, two, three] = [1, 2, 3].map(|number| sent(&mut a, number));
    give(&mut b, &three).unwrap();
    give(&mut b, &two).unwrap();
    assert!(frames(&mut b).is_empty());
    assert_eq!(b.received(Lane::Data), 0);
    give(&mut b, &one).unwrap();
    assert_eq!(frames(&mut b), [1, 2, 3]);
}

#[test]
fn lanes_do_not_wait_for_each_other() {
    let (mut a, mut b) = pair();
    let lost = sent(&mut a, 1);
    a.push(Lane::Control, frame(2, 8));
    let control = a.poll_transmit(Lane::Control).unwrap();
    give(&mut b, &control).unwrap();
    assert_eq!(b.poll_frame(), Some((Lane::Control, frame(2, 8))));
    give(&mut b, &lost).unwrap();
    assert_eq!(b.poll_frame(), Some((Lane::Data, frame(1, 8))));
}

#[test]
fn a_frame_that_comes_again_is_dropped_and_acknowledged_at_once() {
    let (mut a, mut b) = pair();
    let one = sent(&mut a, 1);
    give(&mut b, &one).unwrap();
    assert_eq!(frames(&mut b), [1]);
    let _lost = b.poll_acknowledgement().unwrap();
    assert_eq!(b.poll_transmit(Lane::Control), None);
    give(&mut b, &one).unwrap();
    assert!(frames(&mut b).is_empty());
    let again = b.poll_transmit(Lane::Control).unwrap();
    give(&mut a, &again).unwrap();
    assert_eq!(a.acknowledged(Lane::Data), 1);
}

#[test]
fn what_was_not_passed_on_is_not_acknowledged() {
    let (mut a, mut b) = pair();
    let one = sent(&mut a, 1);
    give(&mut b, &one).unwrap();
    assert_eq!(b.poll_acknowledgement(), None);
    let word = sent(&mut b, 9);
    give(&mut a, &word).unwrap();
    assert_eq!(a.acknowledged(Lane::Data), 0);
    assert_eq!(frames(&mut b), [1]);
    let word = sent(&mut b, 8);
    give(&mut a, &word).unwrap();
    assert_eq!(a.acknowledged(Lane::Data), 1);
}

#[test]
fn acknowledgements_go_alone_after_some_frames_or_a_part_of_the_window() {
    let (mut a, mut b) = pair();
    let mut check = |bytes: usize, expect: usize| {
        let frames = (1..).find(|_| {
            a.push(Lane::Control, frame(1, bytes));
            let message = a.poll_transmit(Lane::Control).unwrap();
            give(&mut b, &message).unwrap();
            b.poll_frame().unwrap();
            let acknowledgement = b.poll_transmit(Lane::Control);
            acknowledgement.is_some_and(|message| give(&mut a, &message).is_ok())
        });
        assert_eq!(frames, Some(expect));
        assert_eq!(a.acknowledged(Lane::Control), a.pushed(Lane::Control));
    };
    check(0, 5);
    check(WINDOW / 4 - HEADER_BYTES, 1);
    let many = SessionConfig { early_bytes_max: 1 << 20, ..config(1) };
    let (mut a, mut b) = (session(1), Session::new(many));
    meet(&mut a, &mut b).0.unwrap();
    let messages = (0..16).map(|number| sent(&mut a, number)).collect::<Vec<_>>();
    for message in &messages[..15] {
        give(&mut b, message).unwrap();
    }
    assert_eq!(frames(&mut b).len(), 15);
    assert_eq!(b.poll_transmit(Lane::Control), None);
    give(&mut b, &messages[15]).unwrap();
    assert_eq!(frames(&mut b).len(), 1);
    assert!(b.poll_transmit(Lane::Control).is_some());
    assert_eq!(b.poll_acknowledgement(), None);
}

#[test]
fn the_window_closes_while_nothing_is_acknowledged_and_opens_again() {
    let (mut a, mut b) = pair();
    let mut pushed = 0;
    while a.room(Lane::Data) > 0 {
        a.push(Lane::Data, frame(pushed, 140));
        pushed += 1;
    }
    assert_eq!(pushed, 5);
    assert!(a.room(Lane::Control) > 0);
    while let Some(message) = a.poll_transmit(Lane::Data) {
        give(&mut b, &message).unwrap();
    }
    assert_eq!(frames(&mut b).len(), 5);
    let acknowledgement = b.poll_acknowledgement().unwrap();
    give(&mut a, &acknowledgement).unwrap();
    assert_eq!((a.room(Lane::Data), a.held_bytes(Lane::Data)), (WINDOW - HEADER_BYTES, 0));
}

#[test]
fn a_new_connection_goes_on_where_the_receiver_is() {
    let (mut a, mut b) = pair();
    let messages = [1, 2, 3, 4].map(|number| sent(&mut a, number));
    give(&mut b, &messages[0]).unwrap();
    give(&mut b, &messages[2]).unwrap();
    assert_eq!(frames(&mut b), [1]);
    assert_eq!(
        meet(&mut a, &mut b),
        (Ok(Some(HelloKind::Reconnected)), Ok(Some(HelloKind::Reconnected)))
    );
    assert_eq!(a.acknowledged(Lane::Data), 1);
    let again: Vec<Message> = std::iter::from_fn(|| a.poll_transmit(Lane::Data)).collect();
    assert_eq!(again.len(), 3);
    for message in &again {
        give(&mut b, message).unwrap();
    }
    assert_eq!(frames(&mut b), [2, 3, 4]);
}

#[test]
fn nothing_leaves_before_the_other_end_has_said_hello() {
    let (mut a, mut b) = (session(1), session(1));
    a.push(Lane::Data, frame(1, 8));
    let hello = a.connect();
    assert_eq!((a.poll_transmit(Lane::Data), a.poll_acknowledgement()), (None, None));
    let theirs = b.connect();
    give(&mut a, &theirs).unwrap();
    let message = a.poll_transmit(Lane::Data).unwrap();
    assert_eq!(give(&mut b, &message), Err(SessionError::PeerSkippedHello));
    give(&mut b, &hello).unwrap();
    assert_eq!(give(&mut b, &hello), Err(SessionError::PeerSaidHelloTwice));
    give(&mut b, &message).unwrap();
    assert_eq!(frames(&mut b), [1]);
}

#[test]
fn a_peer_that_restarted_with_its_state_goes_on() {
    let (mut a, mut b) = pair();
    let messages = [1, 2].map(|number| sent(&mut a, number));
    give(&mut b, &messages[0]).unwrap();
    assert_eq!(frames(&mut b), [1]);
    let not_passed_on = sent(&mut b, 9);
    give(&mut a, &not_passed_on).unwrap();
    let mut a = Session::resume(config(2), &a.state());
    assert_eq!(
        meet(&mut a, &mut b),
        (Ok(Some(HelloKind::Reconnected)), Ok(Some(HelloKind::Resumed)))
    );
    let again = a.poll_transmit(Lane::Data).unwrap();
    assert_eq!(
        give(&mut b, &messages[1]),
        Err(SessionError::PeerChangedIncarnation { found: incarnation(1), known: incarnation(2) })
    );
    give(&mut b, &again).unwrap();
    let word = b.poll_transmit(Lane::Data).unwrap();
    give(&mut a, &word).unwrap();
    assert_eq!((frames(&mut b), frames(&mut a)), (vec![2], vec![9]));
}

/// A node may come back with a state from before frames that had already left: what it sends under their numbers is
/// something else.
#[test]
fn frames_of_a_former_incarnation_that_still_wait_are_dropped() {
    let (mut a, mut b) = pair();
    let state = a.state();
    let _lost = sent(&mut a, 1);
    let early = sent(&mut a, 2);
    give(&mut b, &early).unwrap();
    let mut a = Session::resume(config(2), &state);
    meet(&mut a, &mut b).1.unwrap();
    for number in [3, 4] {
        let message = sent(&mut a, number);
        give(&mut b, &message).unwrap();
    }
    assert_eq!(frames(&mut b), [3, 4]);
}

#[test]
fn a_peer_that_has_lost_its_state_is_told_from_one_that_resumed() {
    let (mut a, mut b) = pair();
    let one = sent(&mut a, 1);
    give(&mut b, &one).unwrap();
    assert_eq!(frames(&mut b), [1]);
    let _under_way = [sent(&mut b, 7), sent(&mut b, 8)];
    let mut kept = Session::resume(config(1), &b.state());
    assert_eq!(
        kept.accept_hello(b.peer_hello().unwrap()),
        HelloKind::Resumed,
        "it is the one that was known"
    );
    let mut a = session(2);
    a.push(Lane::Data, frame(3, 8));
    let reset = HelloKind::Reset { lost: 2, began: incarnation(2) };
    assert_eq!(meet(&mut a, &mut b), (Ok(Some(HelloKind::First)), Ok(Some(reset))));
    // A log that tells of the same makes the same state, and reports that both reset.
    assert_eq!(kept.accept_hello(b.peer_hello().unwrap()), reset);
    assert_eq!(kept.state(), b.state());
    let message = a.poll_transmit(Lane::Data).unwrap();
    give(&mut b, &message).unwrap();
    assert_eq!(frames(&mut b), [3]);
    let word = sent(&mut b, 9);
    give(&mut a, &word).unwrap();
    assert_eq!((frames(&mut a), a.acknowledged(Lane::Data)), (vec![9], 1));
    // Both ends have it the same way at the next connection.
    assert_eq!(
        meet(&mut a, &mut b),
        (Ok(Some(HelloKind::Reconnected)), Ok(Some(HelloKind::Reconnected)))
    );
}

#[test]
fn a_peer_that_lost_its_state_and_restarted_before_it_was_met_again_is_told_too() {
    let (_, mut b) = pair();
    let lost = session(3);
    let mut a = Session::resume(config(4), &lost.state());
    let reset = HelloKind::Reset { lost: 0, began: incarnation(3) };
    assert_eq!(meet(&mut a, &mut b), (Ok(Some(HelloKind::First)), Ok(Some(reset))));
}

#[test]
fn a_stale_incarnation_is_refused() {
    let (mut old, mut b) = pair();
    let (late_hello, late) = (old.connect(), sent(&mut pair().0, 1));
    let mut new = Session::resume(config(2), &old.state());
    meet(&mut new, &mut b).1.unwrap();
    let (found, known) = (incarnation(1), incarnation(2));
    assert_eq!(give(&mut b, &late), Err(SessionError::PeerChangedIncarnation { found, known }));
    let _hello = b.connect();
    assert_eq!(give(&mut b, &late_hello), Err(SessionError::PeerIsStale { found, known }));
}

#[test]
fn what_a_peer_cannot_have_is_refused() {
    let (mut a, mut b) = pair();
    let one = sent(&mut a, 1);
    let refused = |to: &mut Session, bytes: Bytes, expect: SessionError| {
        let before = to.state();
        assert_eq!(to.handle_message(&bytes), Err(expect));
        assert_eq!((to.state(), to.poll_frame()), (before, None));
    };
    let eight = 8_u64.to_le_bytes();
    let lane = Lane::Data;
    let received = SessionError::PeerReceivedUnsent { lane, received: 8, sent: 0 };
    refused(&mut b, forged(&one, 48, &eight), received);
    let found = Some(incarnation(8));
    let another = SessionError::PeerSpeaksToAnother { found, own: incarnation(1) };
    refused(&mut b, forged(&one, 24, &eight), another);
    let (found, known) = (incarnation(8), incarnation(1));
    let changed = SessionError::PeerChangedIncarnation { found, known };
    refused(&mut b, forged(&one, 16, &eight), changed);

    give(&mut b, &one).unwrap();
    assert_eq!(frames(&mut b), [1]);
    let acknowledgement = b.poll_acknowledgement().unwrap();
    give(&mut a, &acknowledgement).unwrap();
    let (_, hello) = (a.connect(), b.connect());
    let none = forged(&hello, 48, &[0; 8]);
    let forgot = SessionError::PeerForgot { lane, received: 0, acknowledged: 1 };
    refused(&mut a, none, forgot);
    let claims = SessionError::PeerClaimsForeignState { incarnation: known, began: found };
    refused(&mut a, forged(&hello, 32, &eight), claims);
    give(&mut a, &hello).unwrap();
}

#[test]
fn a_peer_that_leaves_a_gap_open_cannot_fill_the_memory() {
    let (mut a, mut b) = (session(1), session(1));
    meet(&mut a, &mut b).0.unwrap();
    let _lost = sent(&mut a, 0);
    let refused = (1..100).find_map(|number| give(&mut b, &sent(&mut a, number)).err());
    assert!(matches!(refused, Some(SessionError::PeerSentTooMuch { most: WINDOW, .. })));
    assert!(b.held_bytes(Lane::Data) <= WINDOW + HEADER_BYTES + 8);
}

#[test]
fn a_long_last_frame_may_come_before_all_others() {
    let (mut a, mut b) = pair();
    let mut messages = [1, 2, 3].map(|number| sent(&mut a, number)).to_vec();
    assert!(a.room(Lane::Data) > 0);
    a.push(Lane::Data, frame(4, 5 * WINDOW));
    messages.extend(a.poll_transmit(Lane::Data));
    for message in messages.iter().rev() {
        assert_eq!(give(&mut b, message), Ok(None));
    }
    assert_eq!(frames(&mut b), [1, 2, 3, 4]);
}

#[test]
fn malformed_messages_are_refused_by_what_is_wrong_with_them() {
    let (mut a, mut b) = pair();
    let one = sent(&mut a, 1);
    let acknowledgement = {
        give(&mut b, &one).unwrap();
        frames(&mut b);
        b.poll_acknowledgement().unwrap()
    };
    let mut check = |bytes: Bytes, expect: SessionError| {
        let length = message_len(&bytes);
        let refused = b.handle_message(&bytes);
        assert_eq!(refused, Err(expect.clone()));
        // A stream is refused by the header alone, except for what only the rest can tell.
        assert!(length == Err(expect) || length.is_ok());
    };
    let version = PROTOCOL_VERSION + 1;
    check(
        forged(&one, 4, &version.to_le_bytes()),
        SessionError::PeerSpeaksOtherVersion { theirs: version, ours: PROTOCOL_VERSION },
    );
    check(
        forged(&one, 0, b"GAIC"),
        SessionError::PeerSentOtherProtocol { found: *b"GAIC", expected: *b"GAIS" },
    );
    check(forged(&one, 6, &[4]), SessionError::PeerSentUnknownKind { found: 4, most: 3 });
    check(forged(&one, 7, &[1]), SessionError::PeerUsedReservedBytes);
    check(forged(&one, 16, &[0; 8]), SessionError::PeerHasNoIncarnation);
    check(
        forged(&one, 32, &[0; 8]),
        SessionError::PeerSentWrongNumber { kind: "frame", number: 0 },
    );
    check(
        forged(&acknowledgement, 32, &7_u64.to_le_bytes()),
        SessionError::PeerSentWrongNumber { kind: "acknowledgement", number: 7 },
    );
    let short = one.to_bytes().slice(..HEADER_BYTES - 1);
    let expected = HEADER_BYTES;
    check(short, SessionError::PeerSentShortMessage { bytes: HEADER_BYTES - 1, expected });
    let cut = one.to_bytes().slice(..HEADER_BYTES + 3);
    let (claimed, present) = (HEADER_BYTES + 8, HEADER_BYTES + 3);
    check(cut, SessionError::PeerSentWrongLength { claimed, present });
    for (kind, most) in [(1, CONTROL_FRAME_BYTES_MAX), (2, BULK_FRAME_BYTES_MAX), (3, 0)] {
        let mut long = one.clone();
        long.header[8..12].copy_from_slice(&(most as u32 + 1).to_le_bytes());
        if kind == 3 {
            long.header[32..40].copy_from_slice(&[0; 8]);
        }
        let bytes = most + 1;
        check(forged(&long, 6, &[kind]), SessionError::PeerSentOversizedFrame { bytes, most });
    }
}

#[test]
fn a_stream_is_cut_where_messages_end() {
    let (mut a, _) = pair();
    let one = sent(&mut a, 1).to_bytes();
    for present in 0..one.len() {
        let expect = (present >= HEADER_BYTES).then_some(one.len());
        assert_eq!(message_len(&one[..present]), Ok(expect));
    }
}

#[test]
fn a_window_holds_two_bandwidth_delay_products() {
    let mbit = Bandwidth::from_mbit;
    assert_eq!(window(mbit(80.0), Duration::from_millis(100)), 2_000_000);
    assert_eq!(window(mbit(1.0), Duration::from_millis(1)), 64 << 10);
}

/// What may happen to two ends and what is between them. Positions are taken modulo what there is.
#[derive(Clone, Debug)]
enum Act {
    Push { end: usize, lane: Lane, bytes: usize },
    Transmit { end: usize, lane: Lane },
    Acknowledge { end: usize },
    Deliver { to: usize, at: usize },
    Drop { to: usize, at: usize },
    Repeat { to: usize, at: usize },
    Damage { to: usize, at: usize, bit: usize },
    Break,
    Restart { end: usize },
}

fn act() -> impl Strategy<Value = Act> {
    let lane = || prop::sample::select(Lane::ALL.to_vec());
    let (end, at) = (0..2_usize, 0..8_usize);
    prop_oneof![
        6 => (end.clone(), lane(), 0..300_usize)
            .prop_map(|(end, lane, bytes)| Act::Push { end, lane, bytes }),
        8 => (end.clone(), lane()).prop_map(|(end, lane)| Act::Transmit { end, lane }),
        2 => end.clone().prop_map(|end| Act::Acknowledge { end }),
        8 => end.clone().prop_map(|to| Act::Deliver { to, at: 0 }),
        3 => (end.clone(), at.clone()).prop_map(|(to, at)| Act::Deliver { to, at }),
        1 => (end.clone(), at.clone()).prop_map(|(to, at)| Act::Drop { to, at }),
        2 => (end.clone(), at.clone()).prop_map(|(to, at)| Act::Repeat { to, at }),
        1 => (end.clone(), at, any::<usize>()).prop_map(|(to, at, bit)| Act::Damage { to, at, bit }),
        1 => Just(Act::Break),
        1 => end.prop_map(|end| Act::Restart { end }),
    ]
}

/// Two ends, and the messages on their way to each.
struct Network {
    ends: [Session; 2],
    ways: [Vec<Bytes>; 2],
    /// By end and lane.
    pushed: [[Vec<Bytes>; 2]; 2],
    taken: [[Vec<Bytes>; 2]; 2],
    incarnations: [u64; 2],
}

impl Network {
    fn new() -> Self {
        let mut network = Self {
            ends: [session(1), session(1)],
            ways: Default::default(),
            pushed: Default::default(),
            taken: Default::default(),
            incarnations: [1, 1],
        };
        network.connect();
        network
    }

    fn connect(&mut self) {
        for end in 0..2 {
            self.ways[1 - end] = vec![self.ends[end].connect().to_bytes()];
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Push { end, lane, bytes } if self.ends[end].room(lane) > 0 => {
                let pushed = &mut self.pushed[end][lane.index()];
                let frame = frame(pushed.len() as u8, bytes);
                pushed.push(frame.clone());
                self.ends[end].push(lane, frame);
            }
            Act::Push { .. } => {}
            Act::Transmit { end, lane } => {
                let message = self.ends[end].poll_transmit(lane);
                self.ways[1 - end].extend(message.map(|message| message.to_bytes()));
            }
            Act::Acknowledge { end } => {
                let message = self.ends[end].poll_acknowledgement();
                self.ways[1 - end].extend(message.map(|message| message.to_bytes()));
            }
            Act::Deliver { to, at } => {
                if let Some(at) = place(&self.ways[to], at) {
                    let message = self.ways[to].remove(at);
                    self.deliver(to, &message);
                }
            }
            Act::Drop { to, at } => {
                place(&self.ways[to], at).map(|at| self.ways[to].remove(at));
            }
            Act::Repeat { to, at } => {
                if let Some(at) = place(&self.ways[to], at) {
                    let message = self.ways[to][at].clone();
                    self.ways[to].push(message);
                }
            }
            Act::Damage { to, at, bit } => {
                if let Some(at) = place(&self.ways[to], at) {
                    let mut damaged = self.ways[to].remove(at).to_vec();
                    let bit = bit % (8 * damaged.len());
                    damaged[bit / 8] ^= 1 << (bit % 8);
                    let before = self.ends[to].state();
                    assert!(self.ends[to].handle_message(&damaged.into()).is_err());
                    assert_eq!(self.ends[to].state(), before);
                    self.connect();
                }
            }
            Act::Break => self.connect(),
            Act::Restart { end } => {
                self.incarnations[end] += 1;
                let config = config(self.incarnations[end]);
                self.ends[end] = Session::resume(config, &self.ends[end].state());
                self.connect();
            }
        }
        self.check();
    }

    fn deliver(&mut self, to: usize, message: &Bytes) {
        if self.ends[to].handle_message(message).is_err() {
            self.connect();
            return;
        }
        while let Some((lane, frame)) = self.ends[to].poll_frame() {
            self.taken[to][lane.index()].push(frame);
        }
    }

    fn check(&self) {
        for end in 0..2 {
            for lane in Lane::ALL.map(Lane::index) {
                let (pushed, taken) = (&self.pushed[end][lane], &self.taken[1 - end][lane]);
                assert_eq!(Some(&taken[..]), pushed.get(..taken.len()));
                let acknowledged = self.ends[end].acknowledged(Lane::ALL[lane]);
                assert!(acknowledged <= taken.len() as u64);
            }
            let longest = HEADER_BYTES + 300;
            assert!(self.ends[end].held_bytes(Lane::Data) <= 2 * (WINDOW + longest));
        }
    }

    /// The network does no more harm: everything arrives.
    fn settle(&mut self) {
        self.connect();
        loop {
            for end in 0..2 {
                for lane in Lane::ALL {
                    self.act(Act::Transmit { end, lane });
                }
                self.act(Act::Acknowledge { end });
            }
            if self.ways.iter().all(Vec::is_empty) {
                break;
            }
            for to in 0..2 {
                self.act(Act::Deliver { to, at: 0 });
            }
        }
        for end in 0..2 {
            assert_eq!(self.pushed[end], self.taken[1 - end]);
            assert_eq!(Lane::ALL.map(|lane| self.ends[end].held_bytes(lane)), [0, 0]);
        }
    }
}

fn place(way: &[Bytes], at: usize) -> Option<usize> {
    (!way.is_empty()).then(|| at % way.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever becomes of messages, connections and the ends themselves: exactly what was pushed comes out, in order.
    #[test]
    fn over_a_hostile_network_everything_arrives_once_and_in_order(
        acts in prop::collection::vec(act(), 0..200)
    ) {
        let mut network = Network::new();
        for act in acts {
            network.act(act);
        }
        network.settle();
    }

    /// Bytes from anywhere do no harm.
    #[test]
    fn arbitrary_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (_, mut b) = pair();
        let before = b.state();
        prop_assert!(b.handle_message(&bytes.clone().into()).is_err());
        prop_assert!(!matches!(message_len(&bytes), Ok(Some(_))));
        prop_assert_eq!(b.state(), before);
    }

    /// Headers whose CRC is right may say anything: what is taken of them keeps every count in order.
    #[test]
    fn arbitrary_headers_do_not_confuse(
        kind in 0..5_u8,
        fields in prop::array::uniform5(prop_oneof![0..4_u64, any::<u64>()]),
        bytes in 0..20_usize,
        connected in any::<bool>(),
    ) {
        let (mut a, mut b) = pair();
        let mut message = sent(&mut a, 1);
        message.frame = frame(1, bytes);
        message.header[6] = kind;
        message.header[8..12].copy_from_slice(&(bytes as u32).to_le_bytes());
        message.header[12..16].copy_from_slice(&crc32fast::hash(&message.frame).to_le_bytes());
        for (at, field) in fields.iter().enumerate() {
            message.header[16 + 8 * at..24 + 8 * at].copy_from_slice(&field.to_le_bytes());
        }
        if !connected {
            b.connect();
        }
        let _ = b.handle_message(&forged(&message, 7, &[0]));
        while b.poll_frame().is_some() {}
        for lane in Lane::ALL {
            prop_assert!(b.acknowledged(lane) <= b.pushed(lane));
        }
        let mut back = session(9);
        let (_, _) = meet(&mut back, &mut b);
    }
}
