//! Frames between nodes.
//!
//! This room decides how a message of the protocol is laid out in a frame, and which bytes are a frame. It does not
//! know lanes, connections and how a receiver reacts to a frame. The paper's mirror clients and mirror servers exchange
//! these frames.
//!
//! Between data centers bulk frames carry changes of parameters, and control frames all other messages. LAN frames
//! carry the messages of nodes of one data center and of the coordinator. All begin with the same sixteen bytes, the
//! envelope, so that a driver finds the end of a frame without knowledge of its contents:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | `GAIB`, `GAIC` or `GAIL` |
//! | 4 | 2 | protocol version |
//! | 6 | 1 | bulk and LAN: kind; control: 0 |
//! | 7 | 1 | bulk: value format; control: 0; LAN: 1 where more follows |
//! | 8 | 4 | bytes in the whole frame |
//! | 12 | 4 | CRC-32 of all other bytes of the frame |
//!
//! All numbers are little endian. Length and CRC are checked before any other field is used.

mod bulk;
mod control;
mod envelope;
mod error;
mod lan;
mod lan_body;
mod received_body;

pub use bulk::{BULK_HEADER_BYTES, BulkHeader, BulkKind, decode_bulk, encode_bulk, peek_bulk};
pub use control::{ControlMessage, Hello, LinkReport, decode_control, encode_control, is_control};
pub use envelope::{ENVELOPE_BYTES, PROTOCOL_VERSION, frame_len};
pub use error::FrameError;
pub use lan::{Gathering, LanFrames, LanKind, encode_lan};
pub use lan_body::LanBody;
pub use received_body::ReceivedBody;
