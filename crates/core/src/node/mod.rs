//! The interface between drivers and nodes.
//!
//! A node does no I/O and has no clock. The driver passes in what it has received ([`ServerInput`], messages) and the
//! time. The node returns messages, frames and the time of its next timeout. After each call that changes a node, the
//! driver polls outputs until there are none, then polls a frame for each lane of each peer that has room, then reads
//! the next timeout.

mod lan;
mod message;

pub use crate::types::Lane;
pub use lan::{
    LanError, decode_rows_read, decode_worker_message, encode_rows_read, encode_worker_message,
};
pub use message::{ProbeRequest, Probed, RowsRead, Stretch, WorkerMessage};

use std::time::Duration;

use bytes::Bytes;

use crate::types::DcId;

/// An event at a parameter server, except messages of its own data center.
#[derive(Clone, Debug)]
pub enum ServerInput {
    /// A whole frame of a mirror.
    Frame {
        /// The mirror's data center.
        from: DcId,
        /// The lane in which the frame was sent.
        lane: Lane,
        /// The encoded frame.
        frame: Bytes,
    },
    /// Data frames for a mirror have left the sending side. The server estimates the link's rate from these events.
    Drained {
        /// The mirror's data center.
        to: DcId,
        /// The size of the frames in bytes.
        bytes: u64,
        /// How long the link was busy with them.
        busy: Duration,
    },
    /// Nothing is received from a mirror: the connection to it has failed, or it has been silent for a while. It counts as
    /// connected again with its next frame.
    Disconnected {
        /// The mirror's data center.
        from: DcId,
    },
    /// The first hello of a mirror was received.
    First {
        /// The mirror's data center.
        from: DcId,
        /// The number of the mirror's incarnation.
        incarnation: u64,
    },
    /// A mirror has lost its state and begins a new incarnation.
    Reset {
        /// The mirror's data center.
        from: DcId,
        /// The number of the new incarnation, higher than all before.
        incarnation: u64,
    },
    /// A mirror has left the run permanently.
    Left {
        /// The mirror's data center.
        from: DcId,
        /// The number of the mirror's last incarnation.
        incarnation: u64,
    },
}
