//! The encoding of workers' and servers' messages in the body of a LAN frame.
//!
//! Integers and floats are little endian. Rows and the values of updates and answers begin at a multiple of four bytes, so
//! that a receiver can use values where they have arrived. Decoding takes the layout of the shard, and returns only messages
//! that fit it: rows that the shard owns, with values for each of them, and never more than the shard has. It allocates no
//! more memory than the bytes require.

use std::time::Duration;

use super::message::skips;
use super::{ProbeRequest, Probed, RowsRead, WorkerMessage};
use crate::store::{ShardDeltas, ShardRows};
use crate::sync::WaitReason;
use crate::types::limits::CLOCK_MAX;
use crate::types::packed::bytes_of;
use crate::types::{
    Clock, DcId, Deltas, RowSet, ShardLayout, SharedValues, TableDeltas, TableRows, WorkerId,
};
use crate::wire::{LanBody, ReceivedBody};

/// Why the body of a LAN frame is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LanError {
    /// The body ends within a field.
    #[error("peer sent a message that ends within {what}")]
    PeerSentShortMessage {
        /// The name of the field.
        what: &'static str,
    },
    /// The body continues after the last field.
    #[error("peer sent {bytes} bytes after the end of a message")]
    PeerSentLongMessage {
        /// The number of excess bytes.
        bytes: usize,
    },
    /// A field has an unknown number.
    #[error("peer sent {what} {found}, expected 0 to {most}")]
    PeerSentUnknown {
        /// The name of the field.
        what: &'static str,
        /// The number.
        found: u32,
        /// The largest known number.
        most: u32,
    },
    /// Rows, values or workers do not fit the shard's layout.
    #[error("peer sent {what} that do not fit the shard")]
    PeerSentForeign {
        /// The name of the field.
        what: &'static str,
    },
}

/// Encodes a worker's message to the server that owns `layout`.
///
/// # Panics
/// If the message is only for a server in the worker's process.
pub fn encode_worker_message(message: &WorkerMessage, layout: &ShardLayout) -> LanBody {
    let mut body = LanBody::default();
    let out = body.bytes_mut();
    match message {
        WorkerMessage::Read { clock, rows } => {
            out.extend_from_slice(&READ.to_le_bytes());
            out.extend_from_slice(&clock.0.to_le_bytes());
            for (table, rows) in rows.tables() {
                put_table_rows(rows, layout.rows_of(table), out);
            }
        }
        WorkerMessage::Update { clock, at, deltas, probed, learning_rate_factor, keeps: _ } => {
            out.extend_from_slice(&UPDATE.to_le_bytes());
            out.extend_from_slice(&clock.0.to_le_bytes());
            out.extend_from_slice(&at.0.to_le_bytes());
            for (table, deltas) in deltas.tables() {
                put_table_rows(&deltas.rows, layout.rows_of(table), body.bytes_mut());
                body.push_values(&deltas.values);
            }
            let out = body.bytes_mut();
            out.extend_from_slice(&(probed.len() as u32).to_le_bytes());
            for Probed { of, clock, away, home, untrained } in probed {
                out.extend_from_slice(&of.0.to_le_bytes());
                out.extend_from_slice(&clock.0.to_le_bytes());
                for loss in [away, home, untrained] {
                    out.extend_from_slice(&loss.to_le_bytes());
                }
            }
            out.push(u8::from(learning_rate_factor.is_some()));
            if let Some(factor) = learning_rate_factor {
                out.extend_from_slice(&factor.to_le_bytes());
            }
        }
        WorkerMessage::HandOver { .. } => panic!("a worker hands over within its process"),
        WorkerMessage::Reset => out.extend_from_slice(&RESET.to_le_bytes()),
    }

    body
}

/// Decodes a worker's message to the server that owns `layout`. Many values stay where they are, and hold the memory of the
/// body.
///
/// # Errors
/// If the bytes are not such a message, or it does not fit the shard.
pub fn decode_worker_message(
    body: &ReceivedBody,
    layout: &ShardLayout,
) -> Result<WorkerMessage, LanError> {
    let mut reader = Reader { body, at: 0 };
    let kind = reader.number("its kind")?;
    if kind > RESET {
        return Err(LanError::PeerSentUnknown { what: "message", found: kind, most: RESET });
    }

    if kind == RESET {
        reader.end()?;
        return Ok(WorkerMessage::Reset);
    }

    let clock = reader.clock()?;
    if clock.0 > CLOCK_MAX {
        return Err(LanError::PeerSentForeign { what: "clocks" });
    }
    let tables = layout.model().table_ids();
    let message = if kind == READ {
        let mut rows = RowSet { tables: Vec::new() };
        for _ in tables {
            rows.tables.push(reader.table_rows()?);
        }
        let foreign = LanError::PeerSentForeign { what: "rows to read" };
        let rows = ShardRows::checked(rows, layout).ok_or(foreign)?;
        WorkerMessage::Read { clock, rows }
    } else {
        let at = reader.clock()?;
        if !skips(clock, at) {
            return Err(LanError::PeerSentForeign { what: "clocks" });
        }
        let mut deltas = Deltas { tables: Vec::new() };
        for table in tables {
            let rows = reader.table_rows()?;
            let count = rows.len(layout.rows_of(table)) * layout.width_of(table);
            let values = reader.values(count)?;
            deltas.tables.push(TableDeltas { rows, values });
        }
        let mut probed = Vec::new();
        for _ in 0..reader.count()? {
            let of = DcId(u16::from_le_bytes(reader.array("a measurement")?));
            let clock = reader.clock()?;
            let mut loss = || reader.array("a loss").map(f64::from_le_bytes);
            let (away, home, untrained) = (loss()?, loss()?, loss()?);
            probed.push(Probed { of, clock, away, home, untrained });
        }
        let foreign = LanError::PeerSentForeign { what: "deltas" };
        let deltas = ShardDeltas::checked(deltas, layout).ok_or(foreign)?;
        let learning_rate_factor = reader.learning_rate_factor()?;
        WorkerMessage::Update { clock, at, deltas, probed, learning_rate_factor, keeps: false }
    };

    reader.end()?;
    Ok(message)
}

/// Encodes a server's reply to a worker.
pub fn encode_rows_read(message: &RowsRead) -> LanBody {
    let mut body = LanBody::default();
    let out = body.bytes_mut();
    out.extend_from_slice(&message.clock.0.to_le_bytes());
    out.extend_from_slice(&message.at.0.to_le_bytes());
    out.extend_from_slice(&(message.values.len() as u32).to_le_bytes());
    body.push_values(&message.values);

    let out = body.bytes_mut();
    out.extend_from_slice(&(message.held.len() as u32).to_le_bytes());

    for (reason, time) in &message.held {
        let (kind, from, number) = match *reason {
            WaitReason::LocalWorker { worker } => (0, worker.dc, u32::from(worker.index)),
            WaitReason::Updates { from } => (1, from, 0),
            WaitReason::MirrorClock { from } => (2, from, 0),
            WaitReason::Announced { from, row } => (3, from, row),
            WaitReason::PartialPartition { from } => (4, from, 0),
        };
        out.push(kind);
        out.extend_from_slice(&from.0.to_le_bytes());
        out.extend_from_slice(&number.to_le_bytes());
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        out.extend_from_slice(&nanos.to_le_bytes());
    }

    out.extend_from_slice(&(message.probes.len() as u32).to_le_bytes());
    for probe in &message.probes {
        out.extend_from_slice(&probe.of.0.to_le_bytes());
        out.extend_from_slice(&probe.clock.0.to_le_bytes());
        put_values(&probe.away, out);
        put_values(&probe.home, out);
    }

    body
}

/// Decodes a reply of the server that owns `layout`. The worker has to check that it expects the reply. Many values stay where
/// they are, and hold the memory of the body.
///
/// # Errors
/// If the bytes are not such a reply, or it does not fit the shard.
pub fn decode_rows_read(body: &ReceivedBody, layout: &ShardLayout) -> Result<RowsRead, LanError> {
    let mut reader = Reader { body, at: 0 };
    let (clock, at) = (reader.clock()?, reader.clock()?);
    if !skips(clock, at) {
        return Err(LanError::PeerSentForeign { what: "clocks" });
    }
    let count = reader.count()?;
    if count > layout.parameters() {
        return Err(LanError::PeerSentForeign { what: "values" });
    }
    let values = reader.values(count)?;
    let mut held = Vec::new();

    for _ in 0..reader.count()? {
        let kind = reader.byte("a reason")?;
        let from = DcId(u16::from_le_bytes(reader.array("a reason")?));
        let number = u32::from_le_bytes(reader.array("a reason")?);
        let reason = match kind {
            0 => {
                let foreign = LanError::PeerSentForeign { what: "workers" };
                let index = u16::try_from(number).map_err(|_| foreign)?;
                WaitReason::LocalWorker { worker: WorkerId { dc: from, index } }
            }
            1 => WaitReason::Updates { from },
            2 => WaitReason::MirrorClock { from },
            3 => WaitReason::Announced { from, row: number },
            4 => WaitReason::PartialPartition { from },
            found => {
                let found = found.into();
                return Err(LanError::PeerSentUnknown { what: "reason", found, most: 4 });
            }
        };
        let nanos = u64::from_le_bytes(reader.array("a time")?);
        held.push((reason, Duration::from_nanos(nanos)));
    }

    let mut probes = Vec::new();
    for _ in 0..reader.count()? {
        let of = DcId(u16::from_le_bytes(reader.array("a copy")?));
        let clock = reader.clock()?;
        let away = reader.values(layout.parameters())?.into();
        let home = reader.values(layout.parameters())?.into();
        probes.push(ProbeRequest { of, clock, away, home });
    }

    reader.end()?;
    Ok(RowsRead { clock, at, values, held, probes, keeps: false, stretch: None })
}

/// Rows of a table that has `count` rows in the shard. A list of all of them is not sent.
fn put_table_rows(rows: &TableRows, count: usize, out: &mut Vec<u8>) {
    match rows {
        TableRows::Listed(listed) if listed.len() < count => {
            out.extend_from_slice(&LISTED.to_le_bytes());
            put_rows(listed, out);
        }
        _ => out.extend_from_slice(&ALL.to_le_bytes()),
    }
}

fn put_rows(rows: &[u32], out: &mut Vec<u8>) {
    out.extend_from_slice(&(rows.len() as u32).to_le_bytes());
    rows.iter().for_each(|row| out.extend_from_slice(&row.to_le_bytes()));
}

fn put_values(values: &[f32], out: &mut Vec<u8>) {
    out.extend_from_slice(&bytes_of(values));
}

/// A body, and how much of it was read.
struct Reader<'a> {
    body: &'a ReceivedBody,
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize, what: &'static str) -> Result<&'a [u8], LanError> {
        let rest = &self.body[self.at..];
        let taken = rest.get(..bytes).ok_or(LanError::PeerSentShortMessage { what })?;
        self.at += bytes;
        Ok(taken)
    }

    fn array<const BYTES: usize>(&mut self, what: &'static str) -> Result<[u8; BYTES], LanError> {
        let mut array = [0; BYTES];
        array.copy_from_slice(self.take(BYTES, what)?);
        Ok(array)
    }

    fn byte(&mut self, what: &'static str) -> Result<u8, LanError> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    fn clock(&mut self) -> Result<Clock, LanError> {
        self.array("a clock").map(|bytes| Clock(u64::from_le_bytes(bytes)))
    }

    fn number(&mut self, what: &'static str) -> Result<u32, LanError> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn count(&mut self) -> Result<usize, LanError> {
        self.number("a count").map(|count| count as usize)
    }

    fn form(&mut self) -> Result<u32, LanError> {
        match self.number("the form of rows")? {
            found @ (ALL | LISTED) => Ok(found),
            found => Err(LanError::PeerSentUnknown { what: "form of rows", found, most: LISTED }),
        }
    }

    fn table_rows(&mut self) -> Result<TableRows, LanError> {
        match self.form()? {
            ALL => Ok(TableRows::All),
            _ => Ok(TableRows::Listed(self.rows()?.into())),
        }
    }

    fn learning_rate_factor(&mut self) -> Result<Option<f64>, LanError> {
        match self.byte("whether it has a learning rate")? {
            0 => Ok(None),
            1 => {
                let factor = self.array("a learning rate").map(f64::from_le_bytes)?;
                let foreign = LanError::PeerSentForeign { what: "shares of a learning rate" };
                (0.0..=1.0).contains(&factor).then_some(Some(factor)).ok_or(foreign)
            }
            found => {
                let what = "form of a learning rate";
                Err(LanError::PeerSentUnknown { what, found: found.into(), most: 1 })
            }
        }
    }

    fn rows(&mut self) -> Result<Vec<u32>, LanError> {
        let count = self.count()?;
        let rows = self.take(4 * count, "rows")?.as_chunks::<4>().0;
        Ok(rows.iter().map(|row| u32::from_le_bytes(*row)).collect())
    }

    fn values(&mut self, count: usize) -> Result<SharedValues, LanError> {
        let at = self.at;
        self.take(4 * count, "values")?;
        Ok(self.body.values(at, count))
    }

    fn end(&self) -> Result<(), LanError> {
        match self.body.len() - self.at {
            0 => Ok(()),
            bytes => Err(LanError::PeerSentLongMessage { bytes }),
        }
    }
}

const READ: u32 = 0;
const UPDATE: u32 = 1;
const RESET: u32 = 2;
const ALL: u32 = 0;
const LISTED: u32 = 1;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::types::{ModelLayout, ShardId, TableLayout};

    fn layout(shards: usize) -> ShardLayout {
        let table = |name: &str, rows, width| TableLayout { name: name.into(), rows, width };
        let model = Arc::new(ModelLayout::new(vec![table("a", 9, 2), table("b", 4, 1)]));
        ShardLayout::new(model, ShardId(0), shards)
    }

    fn deltas(rows: [&[u32]; 2], layout: &ShardLayout) -> ShardDeltas {
        let table = |rows: &[u32], width: usize| {
            let values = (0..rows.len() * width).map(|value| value as f32 - 1.5).collect();
            TableDeltas::listed(rows.to_vec(), values)
        };
        let deltas = Deltas { tables: vec![table(rows[0], 2), table(rows[1], 1)] };
        ShardDeltas::checked(deltas, layout).unwrap()
    }

    fn received(body: LanBody) -> ReceivedBody {
        body.to_vec().into()
    }

    #[test]
    fn what_a_worker_says_reads_back_as_said() {
        let layout = layout(2);
        let rows = RowSet { tables: vec![TableRows::All, TableRows::listed(vec![2])] };
        let rows = ShardRows::checked(rows, &layout).unwrap();
        let read = WorkerMessage::Read { clock: Clock(7), rows };
        let probed =
            Probed { of: DcId(1), clock: Clock(3), away: 0.5, home: f64::NAN, untrained: 2.0 };
        let update = WorkerMessage::Update {
            clock: Clock(8),
            at: Clock(8),
            deltas: deltas([&[0, 2, 6, 8], &[2]], &layout),
            probed: vec![probed],
            learning_rate_factor: Some(0.25),
            keeps: false,
        };

        let tables = vec![TableDeltas::all(vec![0.5; 10]), TableDeltas::none()];
        let whole = WorkerMessage::Update {
            clock: Clock(9),
            at: Clock(12),
            deltas: ShardDeltas::checked(Deltas { tables }, &layout).unwrap(),
            probed: Vec::new(),
            learning_rate_factor: None,
            keeps: false,
        };

        for message in [read, update, whole, WorkerMessage::Reset] {
            let body = encode_worker_message(&message, &layout).to_vec();
            let again = decode_worker_message(&body.clone().into(), &layout).unwrap();
            assert_eq!(format!("{again:?}"), format!("{message:?}"));
            for length in 0..body.len() {
                assert!(decode_worker_message(&body[..length].to_vec().into(), &layout).is_err());
            }
        }
    }

    #[test]
    fn many_values_stay_where_they_have_arrived() {
        let rows = 400;
        let table = |name: &str| TableLayout { name: name.into(), rows, width: 1 };
        let model = Arc::new(ModelLayout::new(vec![table("a"), table("b")]));
        let layout = ShardLayout::new(model, ShardId(0), 1);
        let listed: Vec<u32> = (1..rows as u32).collect();
        let tables = vec![
            TableDeltas::listed(listed, vec![1.5; rows - 1]),
            TableDeltas::all(vec![2.5; rows]),
        ];
        let update = WorkerMessage::Update {
            clock: Clock(8),
            at: Clock(8),
            deltas: ShardDeltas::checked(Deltas { tables }, &layout).unwrap(),
            probed: Vec::new(),
            learning_rate_factor: Some(0.5),
            keeps: false,
        };
        let body = received(encode_worker_message(&update, &layout));
        let decoded = decode_worker_message(&body, &layout).unwrap();
        assert_eq!(format!("{decoded:?}"), format!("{update:?}"));
        let WorkerMessage::Update { deltas, .. } = decoded else { panic!("it was an update") };
        let is_in_body = |values: &[f32]| body.as_ptr_range().contains(&values.as_ptr().cast());
        assert!(deltas.tables().all(|(_, deltas)| is_in_body(&deltas.values)));

        let (held, probes) = (Vec::new(), Vec::new());
        let (clock, values) = (Clock(4), vec![3.5; 2 * rows].into());
        let read = RowsRead { clock, at: clock, values, held, probes, keeps: false, stretch: None };
        let body = received(encode_rows_read(&read));
        let decoded = decode_rows_read(&body, &layout).unwrap();
        assert_eq!(decoded.values, read.values);
        assert!(body.as_ptr_range().contains(&decoded.values.as_ptr().cast()));
    }

    #[test]
    fn a_learning_rate_that_is_no_share_of_the_largest_is_refused() {
        let layout = layout(2);
        for factor in [f64::NAN, -0.1, 1.1, f64::INFINITY] {
            let message = WorkerMessage::Update {
                clock: Clock(8),
                at: Clock(8),
                deltas: deltas([&[], &[]], &layout),
                probed: Vec::new(),
                learning_rate_factor: Some(factor),
                keeps: false,
            };
            assert!(!message.fits(&layout));
            let decoded =
                decode_worker_message(&received(encode_worker_message(&message, &layout)), &layout);
            assert!(matches!(decoded, Err(LanError::PeerSentForeign { .. })), "{factor}");
        }
    }

    #[test]
    fn a_worker_that_goes_back_or_names_a_clock_that_no_run_reaches_is_refused() {
        let layout = layout(2);
        let rows = ShardRows::checked(RowSet::all(layout.model()), &layout).unwrap();
        let read = WorkerMessage::Read { clock: Clock(CLOCK_MAX + 1), rows };
        assert!(!read.fits(&layout));
        let decoded =
            decode_worker_message(&received(encode_worker_message(&read, &layout)), &layout);
        assert!(matches!(decoded, Err(LanError::PeerSentForeign { what: "clocks" })));

        for (clock, at) in [(8, 7), (8, u64::MAX), (0, 1 << 41), (CLOCK_MAX, CLOCK_MAX + 1)] {
            let message = WorkerMessage::Update {
                clock: Clock(clock),
                at: Clock(at),
                deltas: deltas([&[], &[]], &layout),
                probed: Vec::new(),
                learning_rate_factor: None,
                keeps: false,
            };
            let decoded =
                decode_worker_message(&received(encode_worker_message(&message, &layout)), &layout);
            assert!(matches!(decoded, Err(LanError::PeerSentForeign { .. })), "{clock} {at}");
        }
    }

    #[test]
    fn a_list_of_all_rows_is_not_sent() {
        let layout = layout(2);
        let listed = WorkerMessage::Update {
            clock: Clock(8),
            at: Clock(8),
            deltas: deltas([&[0, 2, 4, 6, 8], &[]], &layout),
            probed: Vec::new(),
            learning_rate_factor: None,
            keeps: false,
        };
        let body = received(encode_worker_message(&listed, &layout));
        let read = decode_worker_message(&body, &layout).unwrap();
        let WorkerMessage::Update { deltas, .. } = read else { panic!("it was an update") };
        let rows: Vec<&TableRows> = deltas.tables().map(|(_, changes)| &changes.rows).collect();
        assert_eq!(rows, [&TableRows::All, &TableRows::none()]);
    }

    #[test]
    fn what_a_server_answers_reads_back_as_said() {
        let layout = layout(1);
        let message = RowsRead {
            clock: Clock(4),
            at: Clock(6),
            values: vec![1.0, -2.0, f32::INFINITY].into(),
            held: vec![
                (WaitReason::Updates { from: DcId(2) }, Duration::from_millis(3)),
                (WaitReason::Announced { from: DcId(1), row: 9 }, Duration::from_nanos(1)),
                (
                    WaitReason::LocalWorker { worker: WorkerId { dc: DcId(0), index: 5 } },
                    Duration::ZERO,
                ),
                (WaitReason::MirrorClock { from: DcId(0) }, Duration::from_secs(2)),
                (WaitReason::PartialPartition { from: DcId(3) }, Duration::from_secs(9)),
            ],
            probes: vec![ProbeRequest {
                of: DcId(1),
                clock: Clock(2),
                away: vec![0.5; layout.parameters()],
                home: vec![1.5; layout.parameters()],
            }],
            keeps: false,
            stretch: None,
        };

        let body = received(encode_rows_read(&message));
        let again = decode_rows_read(&body, &layout).unwrap();
        assert_eq!(format!("{again:?}"), format!("{message:?}"));
        let values = vec![0.0; layout.parameters() + 1].into();
        let body = received(encode_rows_read(&RowsRead { values, ..message }));
        let long = decode_rows_read(&body, &layout);

        assert!(matches!(long, Err(LanError::PeerSentForeign { .. })));
    }

    #[test]
    fn an_answer_of_a_clock_before_its_read_or_that_no_run_reaches_is_refused() {
        let layout = layout(1);
        let answered = |clock, at| {
            let (held, probes) = (Vec::new(), Vec::new());
            let values = vec![0.5; layout.parameters()].into();
            let (clock, at) = (Clock(clock), Clock(at));
            let read = RowsRead { clock, at, values, held, probes, keeps: false, stretch: None };
            decode_rows_read(&received(encode_rows_read(&read)), &layout)
        };
        for (clock, at) in [(8, 8), (8, 9), (0, CLOCK_MAX)] {
            assert!(answered(clock, at).is_ok(), "{clock} {at}");
        }
        for (clock, at) in [(8, 7), (8, u64::MAX), (0, CLOCK_MAX + 1)] {
            let refused = answered(clock, at);
            assert!(
                matches!(refused, Err(LanError::PeerSentForeign { what: "clocks" })),
                "{clock} {at}"
            );
        }
    }

    #[test]
    fn rows_that_the_shard_does_not_own_are_refused() {
        let whole = layout(1);
        let message = WorkerMessage::Update {
            clock: Clock(0),
            at: Clock(0),
            deltas: deltas([&[1], &[]], &whole),
            probed: Vec::new(),
            learning_rate_factor: None,
            keeps: false,
        };
        let body = received(encode_worker_message(&message, &whole));
        let foreign = Err(LanError::PeerSentForeign { what: "deltas" });
        let read = decode_worker_message(&body, &layout(2));
        assert_eq!(read.map(|message| format!("{message:?}")), foreign);
    }

    proptest! {
            #[test]
            fn any_bytes_are_a_message_or_an_error(
                body in vec(any::<u8>(), 0..200),
                form in 0_u8..4,
                shards in 1_usize..3,
            ) {
                let layout = layout(shards);
                let mut tagged = vec![form, 0, 0, 0];
                tagged.extend(&body);
                let body = ReceivedBody::from(body);
                let _ = decode_worker_message(&tagged.into(), &layout);
                let _ = decode_worker_message(&body, &layout);
                let _ = decode_rows_read(&body, &layout);
            }

            #[test]
            fn a_damaged_message_is_an_error_or_fits_the_shard(at in 0_usize..80, byte: u8) {
                let layout = layout(2);
                let message = WorkerMessage::Update {
                    clock: Clock(8),
                    at: Clock(8),
                    deltas: deltas([&[0, 4], &[0, 2]], &layout),
                    probed: Vec::new(),
                    learning_rate_factor: None,
    keeps: false,
                };
                let mut body = encode_worker_message(&message, &layout).to_vec();
                let at = at % body.len();
                body[at] = byte;
                let body = body.into();
                if let Ok(WorkerMessage::Update { deltas, .. }) = decode_worker_message(&body, &layout) {
                    let tables = deltas.tables().map(|(_, deltas)| deltas.clone()).collect();
                    let again = ShardDeltas::checked(Deltas { tables }, &layout);
                    prop_assert!(again.is_some());
                }
            }
        }
}
