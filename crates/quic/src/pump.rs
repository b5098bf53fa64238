//! The sending side of one connection: control frames first, and little data in QUIC's buffer.
//!
//! A frame in QUIC's buffer can neither be overtaken by a more significant one nor merged with the next. So data waits
//! here, frame by frame, and two limits control how fast it is written. The owner is notified of room in a data lane
//! shortly before the last frame has crossed the link: early enough that the link does not become idle, and no earlier,
//! because unsent updates can merge. A control lane has room once QUIC has taken the last byte.
//!
//! - **Pace**: data is written no faster than the link carries payload, with half a quantum of advance for late timers. So no
//!   queue builds up at the bottleneck, and a burst does not begin with a flood.
//! - **Room**: QUIC may buffer the bytes in flight and half a quantum. This limit applies if the link is slower than in the
//!   topology, or loses packets. quinn counts buffered bytes against its send window, so before data is written that window is
//!   set to
//!
//!   > (bytes in flight + bytes held for a gap) × payload share + half a quantum
//!
//!   This project's congestion controller knows both, and wakes the pump when enough bytes were sent.
//!
//! Control frames have an additional send window, are written before data, and use streams that quinn serves first. So
//! they wait only for packets that are already queued at the bottleneck.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use quinn::{Connection, SendStream, WriteError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::congestion::Flight;
use super::counters::LaneCounters;
use super::event::{Event, Generation, Of};
use super::frames::{Hello, prefix_of};
use super::stripe::Stripe;
use super::stripes::StripePosition;
use gaia_core::link::{DATAGRAM_BYTES_MAX, STREAM_PAYLOAD_BYTES_MAX};
use gaia_core::node::Lane;
use gaia_core::types::{Bandwidth, ByteSize, DcId, ShardId};

/// A command to the pump.
pub(super) enum Command {
    Send {
        shard: ShardId,
        lane: Lane,
        head: Bytes,
        frame: Bytes,
    },
    /// Send all frames, then finish all streams.
    Finish,
}

/// The peer of a pump, and the assumed properties of the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) to: DcId,
    pub(super) generation: Generation,
    /// The number of the first lane's shard.
    pub(super) first_shard: u16,
    /// The part of the link's bandwidth that frames can use.
    pub(super) payload_rate: Bandwidth,
    pub(super) quantum: ByteSize,
    /// How long the last acknowledgements may take.
    pub(super) patience: Duration,
}

pub struct Pump {
    route: Route,
    connection: Connection,
    flight: Arc<Flight>,
    /// By shard.
    control: Vec<Outgoing>,
    data: Vec<Outgoing>,
    /// The shard whose data is written next.
    turn: usize,
    pace: Pace,
    send_window: u64,
    commands: UnboundedReceiver<Command>,
    finishing: bool,
    notices: UnboundedSender<Of<Event>>,
    /// Events of room in data lanes, with the time when they are due.
    rooms: VecDeque<(Instant, Event)>,
    room_timer: Pin<Box<Sleep>>,
    counters: Arc<LaneCounters>,
}

/// One lane of one shard, on one stream or several.
pub(super) struct Outgoing {
    /// By stripe.
    streams: Vec<SendStream>,
    place: StripePosition,
    /// The unwritten rest of the hellos, by stripe.
    hellos: Vec<Bytes>,
    frames: VecDeque<InHand>,
    /// When the frames so far would have crossed the link at the payload rate, or were accepted if that was later.
    drained_at: Instant,
}

/// When the bytes written so far will have crossed the link at its payload rate.
struct Pace {
    rate: Bandwidth,
    /// How far ahead of the link writes may be.
    advance: Duration,
    crossed_at: Instant,
    timer: Pin<Box<Sleep>>,
}

/// The result of one write: the number of bytes, and the frame that they complete, if any.
struct Written {
    bytes: usize,
    whole: Option<InHand>,
}

/// A frame that may be partly written.
struct InHand {
    /// The unwritten rest of its length prefix with the head, and of the frame behind it.
    prefix: Bytes,
    rest: Bytes,
    frame_bytes: usize,
    handed: Instant,
}

impl Outgoing {
    /// A lane on these streams, to which nothing was written.
    pub(super) fn new(from: DcId, shard: ShardId, lane: Lane, streams: Vec<SendStream>) -> Self {
        let count = u8::try_from(streams.len()).expect("stripes are bounded");
        let hello = |stripe| Hello { from, shard, lane, stripe }.encode();
        let hellos = Stripe::all(count).map(|stripe| Bytes::copy_from_slice(&hello(stripe)));
        Self {
            place: StripePosition::first(streams.len()),
            hellos: hellos.collect(),
            streams,
            frames: VecDeque::new(),
            drained_at: Instant::now(),
        }
    }

    /// Adds a frame that is a head and what follows it.
    fn push(&mut self, head: &[u8], rest: Bytes) {
        let frame_bytes = head.len() + rest.len();
        let prefix = Bytes::from([&prefix_of(frame_bytes)[..], head].concat());
        self.frames.push_back(InHand { prefix, rest, frame_bytes, handed: Instant::now() });
    }

    /// Whether all frames were written.
    fn is_idle(&self) -> bool {
        self.hellos.iter().all(Bytes::is_empty) && self.frames.is_empty()
    }

    /// Writes up to `bytes_max` of the oldest frame, after all hellos. Pending if QUIC takes no bytes or there is no
    /// frame.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<Result<Written, WriteError>> {
        let mut hellos = self.streams.iter_mut().zip(&mut self.hellos);
        if let Some((stream, rest)) = hellos.find(|(_, rest)| !rest.is_empty()) {
            let bytes = ready!(poll_write(cx, stream, rest, bytes_max))?;
            return Poll::Ready(Ok(Written { bytes, whole: None }));
        }
        let Some(front) = self.frames.front_mut() else { return Poll::Pending };
        let stream = &mut self.streams[self.place.stripe()];
        let bytes_max = bytes_max.min(self.place.left());
        let rest = if front.prefix.is_empty() { &mut front.rest } else { &mut front.prefix };
        let bytes = ready!(poll_write(cx, stream, rest, bytes_max))?;
        self.place.advance(bytes);
        let is_whole = front.prefix.is_empty() && front.rest.is_empty();
        let whole = if is_whole { self.frames.pop_front() } else { None };
        Poll::Ready(Ok(Written { bytes, whole }))
    }

    /// How long the link was busy with a frame accepted at `now`, at least the time of its bytes.
    fn drain(&mut self, handed: Instant, bytes: usize, rate: Bandwidth, now: Instant) -> Duration {
        let started = self.drained_at.max(handed);
        self.drained_at = now.max(started + rate.time_for(bytes as u64));
        self.drained_at - started
    }
}

/// Writes up to `bytes_max` of the rest of a frame, and returns how much QUIC took.
fn poll_write(
    cx: &mut Context<'_>,
    stream: &mut SendStream,
    rest: &mut Bytes,
    bytes_max: usize,
) -> Poll<Result<usize, WriteError>> {
    let mut chunks = [rest.slice(..rest.len().min(bytes_max))];
    let bytes = {
        let write = pin!(stream.write_chunks(&mut chunks));
        ready!(write.poll(cx))?.bytes
    };
    rest.advance(bytes);
    Poll::Ready(Ok(bytes))
}

impl Pump {
    pub(super) fn new(
        route: Route,
        (connection, flight): (Connection, Arc<Flight>),
        (control, data): (Vec<Outgoing>, Vec<Outgoing>),
        commands: UnboundedReceiver<Command>,
        notices: UnboundedSender<Of<Event>>,
        counters: Arc<LaneCounters>,
    ) -> Self {
        Self {
            route,
            connection,
            flight,
            control,
            data,
            turn: 0,
            pace: Pace::new(route),
            send_window: 0,
            commands,
            finishing: false,
            notices,
            rooms: VecDeque::new(),
            room_timer: Box::pin(sleep_until(Instant::now())),
            counters,
        }
    }

    /// Runs until it is finished and all bytes are acknowledged, or the connection is lost. Returns whether all frames
    /// have arrived.
    pub async fn run(mut self) -> bool {
        let connection = self.connection.clone();
        let handed_over = tokio::select! {
            biased;
            done = std::future::poll_fn(|cx| self.poll(cx)) => done.is_ok(),
            _ = connection.closed() => false,
        };

        if !handed_over {
            return false;
        }
        let mut acknowledged = Vec::new();
        let lanes = self.control.iter_mut().chain(&mut self.data);

        for stream in lanes.flat_map(|lane| &mut lane.streams) {
            // A stream that the peer has stopped cannot be finished.
            let _ = stream.finish();
            acknowledged.push(stream.stopped());
        }

        let all = async {
            for stream in acknowledged {
                if stream.await.is_err() {
                    return false;
                }
            }
            true
        };

        timeout(self.route.patience, all).await.unwrap_or(false)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        self.take_commands(cx);
        self.write_control(cx)?;
        self.write_data(cx)?;
        self.notify_room(cx);
        let idle = |lanes: &[Outgoing]| lanes.iter().all(Outgoing::is_idle);
        if self.finishing && idle(&self.control) && idle(&self.data) {
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }

    fn take_commands(&mut self, cx: &mut Context<'_>) {
        while !self.finishing {
            match Pin::new(&mut self.commands).poll_recv(cx) {
                Poll::Ready(Some(Command::Send { shard, lane, head, frame })) => {
                    let place = usize::from(shard.0 - self.route.first_shard);
                    let lanes = match lane {
                        Lane::Control => &mut self.control,
                        Lane::Data => &mut self.data,
                    };
                    lanes[place].push(&head, frame);
                }
                Poll::Ready(Some(Command::Finish) | None) => self.finishing = true,
                Poll::Pending => return,
            }
        }
    }

    fn write_control(&mut self, cx: &mut Context<'_>) -> Result<(), WriteError> {
        if self.control.iter().all(Outgoing::is_idle) {
            return Ok(());
        }
        self.set_send_window(self.allowed() + CONTROL_WINDOW);
        for shard in 0..self.control.len() {
            while let Poll::Ready(written) = self.control[shard].poll_write(cx, CHUNK_BYTES_MAX) {
                self.on_written(shard, Lane::Control, &written?);
            }
        }
        Ok(())
    }

    /// Writes a chunk of each shard in turn while both limits allow it.
    fn write_data(&mut self, cx: &mut Context<'_>) -> Result<(), WriteError> {
        let shards = self.data.len();
        let quantum = self.route.quantum.0;
        let chunk_max = CHUNK_BYTES_MAX.min(quantum as usize / 2);
        let mut blocked = 0;

        while blocked < shards && !self.data.iter().all(Outgoing::is_idle) {
            if self.pace.poll_ready(cx).is_pending() {
                return Ok(());
            }
            self.set_send_window(self.allowed());
            match self.data[self.turn].poll_write(cx, chunk_max) {
                Poll::Ready(written) => {
                    self.on_written(self.turn, Lane::Data, &written?);
                    blocked = 0;
                }
                Poll::Pending => blocked += 1,
            }
            self.turn = (self.turn + 1) % shards;
            if blocked == shards {
                self.flight.wake_when_sent(quantum / WAKES_PER_QUANTUM, cx.waker());
            }
        }

        Ok(())
    }

    /// The number of bytes that QUIC may buffer.
    fn allowed(&self) -> u64 {
        let held = self.flight.held();
        held * STREAM_PAYLOAD_BYTES_MAX / DATAGRAM_BYTES_MAX + self.route.quantum.0 / 2
    }

    fn set_send_window(&mut self, bytes: u64) {
        if self.send_window != bytes {
            self.send_window = bytes;
            self.connection.set_send_window(bytes);
        }
    }

    fn on_written(&mut self, place: usize, lane: Lane, written: &Written) {
        self.pace.on_written(written.bytes);
        let Some(InHand { frame_bytes: bytes, handed, .. }) = written.whole else { return };
        let Route { to, first_shard, payload_rate, .. } = self.route;
        let lanes = match lane {
            Lane::Control => &mut self.control,
            Lane::Data => &mut self.data,
        };
        let busy = lanes[place].drain(handed, bytes, payload_rate, Instant::now());
        self.counters.count(lane, bytes);
        let shard = ShardId(first_shard + place as u16);
        let due = match lane {
            Lane::Control => Instant::now(),
            Lane::Data => self.pace.crossed_at.max(Instant::now() + ROOM_LEAD) - ROOM_LEAD,
        };
        let room = Event::Room { to, shard, lane, bytes: bytes as u64, busy };
        let later = self.rooms.iter().rev().take_while(|(at, _)| *at > due).count();
        self.rooms.insert(self.rooms.len() - later, (due, room));
    }

    fn notify_room(&mut self, cx: &mut Context<'_>) {
        while let Some((due, _)) = self.rooms.front() {
            if *due > Instant::now() {
                if self.room_timer.deadline() != *due {
                    self.room_timer.as_mut().reset(*due);
                }
                if self.room_timer.as_mut().poll(cx).is_pending() {
                    return;
                }
            }
            if let Some((_, room)) = self.rooms.pop_front() {
                // The owner may have ended.
                let Route { to: peer, generation, .. } = self.route;
                let _ = self.notices.send(Of { peer, generation, what: room });
            }
        }
    }
}

impl Pace {
    fn new(route: Route) -> Self {
        let now = Instant::now();
        let advance = route.payload_rate.time_for(route.quantum.0 / 2);
        let timer = Box::pin(sleep_until(now));
        Self { rate: route.payload_rate, advance, crossed_at: now, timer }
    }

    /// Ready while writes are not too far ahead. Then pending until half of the advance is left, so that a busy link
    /// needs dozens of wake-ups in a second and not a thousand.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        if self.crossed_at <= now + self.advance && self.timer.deadline() <= now {
            return Poll::Ready(());
        }
        if self.timer.deadline() <= now {
            self.timer.as_mut().reset(self.crossed_at - self.advance / 2);
        }
        self.timer.as_mut().poll(cx)
    }

    fn on_written(&mut self, bytes: usize) {
        self.crossed_at = self.crossed_at.max(Instant::now()) + self.rate.time_for(bytes as u64);
    }
}

/// How long before a frame has crossed the link the owner is notified: a timer's resolution, and the scheduling delays
/// of a busy machine.
const ROOM_LEAD: Duration = Duration::from_millis(3);

/// The size of a write. quinn keeps each write as a segment of its own, so that few long ones are cheapest.
const CHUNK_BYTES_MAX: usize = 16 << 10;

/// The additional buffer of QUIC for control frames.
pub(super) const CONTROL_WINDOW: u64 = 1 << 20;

/// How often the pump refills the buffer while a quantum is sent.
const WAKES_PER_QUANTUM: u64 = 8;
