//! A frame of a mirror that is refused: it does not count as received, the run goes on, and the log replays.

use std::collections::BTreeMap;

use bytes::Bytes;
use gaia_core::codec::{Changes, ValueFormat};
use gaia_core::node::Lane;
use gaia_core::recovery::{Logging, RecoverableServer, RecoveringServer};
use gaia_core::server::PeerError;
use gaia_core::session::{Incarnation, Session, SessionConfig, SessionState};
use gaia_core::types::{DcId, Instant, State, WorkerId};
use gaia_core::wire::{BulkKind, ControlMessage, encode_control};

use crate::cluster::Setup;
use crate::peers::{bulk, header};
use crate::tap;

const MIRROR: DcId = DcId(1);
const CONFIG: SessionConfig = SessionConfig {
    incarnation: Incarnation::FIRST,
    sent_bytes_max: 1 << 20,
    early_bytes_max: 1 << 20,
};

fn recovering() -> RecoveringServer {
    let setup = Setup { data_centers: 2, ..Setup::new(tap(ValueFormat::F32)) };
    let worker = WorkerId { dc: DcId(0), index: 0 };
    let windows = BTreeMap::from([(MIRROR, 1 << 20)]);
    RecoveringServer::new(setup.server(DcId(0)), [worker], windows)
}

/// A mirror connects, and sends these frames. Returns its session, and whether the server has refused one.
fn connect(
    server: &mut RecoverableServer,
    state: &SessionState,
    frames: &[(Lane, Bytes)],
) -> (Session, Result<(), PeerError>) {
    let now = Instant::ZERO;
    let mut mirror = Session::resume(CONFIG, state);
    frames.iter().for_each(|(lane, frame)| mirror.push(*lane, frame.clone()));
    let hello = server.connect(MIRROR);
    server.handle_message(now, MIRROR, &mirror.connect().to_bytes()).unwrap();
    mirror.handle_message(&hello.to_bytes()).unwrap();

    for lane in Lane::ALL {
        while let Some(message) = mirror.poll_transmit(lane) {
            server.handle_message(now, MIRROR, &message.to_bytes()).unwrap();
        }
    }
    loop {
        match server.deliver(now, MIRROR) {
            Ok(Some(_)) => {}
            Ok(None) => return (mirror, Ok(())),
            Err(error) => return (mirror, Err(error)),
        }
    }
}

fn update(sequence: u64, value: f32) -> (Lane, Bytes) {
    let changes = Changes::Dense { start: 0, values: &[value] };
    (Lane::Data, bulk(&header(BulkKind::Update, sequence), changes))
}

fn tightness() -> (Lane, Bytes) {
    let mut frame = Vec::new();
    encode_control(&ControlMessage::Tightness { steps: 1 }, &mut frame);
    (Lane::Control, frame.into())
}

#[test]
fn a_mirror_that_was_refused_may_send_what_is_right_on_its_next_connection() {
    let mut server = recovering().begin(Logging::Each, Incarnation::FIRST);
    let nothing = SessionState::new(Incarnation::FIRST);
    let good = update(1, 2.0);

    let refused = [
        vec![good.clone(), update(7, 4.0), update(2, 8.0)],
        vec![good.clone(), (Lane::Data, good.1.slice(..9))],
        vec![good.clone(), tightness()],
    ];
    for frames in refused.iter().chain(&refused) {
        let (_, answer) = connect(&mut server, &nothing, frames);
        let error = answer.unwrap_err();
        assert!(!error.ends_run() && error.peer() == MIRROR, "{error}");
        assert_eq!(server.server().values()[0], 2.0, "what came before it counts once");
    }

    let right = [good, update(2, 3.0)];
    let (_, answer) = connect(&mut server, &nothing, &right);
    assert_eq!((answer, server.server().values()[0]), (Ok(()), 5.0));

    // What is not finite shows that training has diverged, and ends the run.
    let (_, answer) =
        connect(&mut server, &nothing, &[&right[..], &[update(3, f32::NAN)]].concat());
    assert!(answer.unwrap_err().ends_run());
}

#[test]
fn a_log_with_refused_frames_replays() {
    let mut server = recovering().begin(Logging::Each, Incarnation::FIRST);
    let nothing = SessionState::new(Incarnation::FIRST);
    for frames in [
        vec![update(1, 2.0), update(1, 2.0)],
        vec![update(1, 2.0), tightness()],
        vec![update(1, 2.0), update(2, 3.0)],
    ] {
        let _refused = connect(&mut server, &nothing, &frames).1;
    }
    let entries = server.take_entries();
    server.handle_synced();
    while server.poll_output().is_some() {}

    let mut replayed = recovering();
    entries.iter().for_each(|entry| replayed.replay(entry).unwrap());
    assert_eq!(replayed.server().values(), server.server().values());
    assert_eq!(Some(replayed.state()), server.state(State::default()));
}
