//! Messages that the coordinator receives from one node.

use tokio::sync::mpsc::Sender;

use crate::real::SILENCE_MAX;
use crate::real::connections::channel::Reader;
use crate::real::connections::message::{MESSAGE_BYTES_MAX, Report, decode_copy};
use crate::real::error::ChannelError;
use gaia_core::types::NodeId;
use gaia_core::wire::LanKind;

/// A message from a node, or the end of its connection.
pub(in crate::real) struct Received {
    pub(in crate::real) node: NodeId,
    /// The number of the connection that it arrived on.
    pub(in crate::real) connection: u64,
    /// The message, or why the connection has ended.
    pub(in crate::real) message: Result<Message, ChannelError>,
}

pub(in crate::real) enum Message {
    Report(Report),
    Copy { ticket: u64, values: Vec<f32> },
}

/// Receives the messages of a node until its connection ends. The last item sent is the reason.
pub(in crate::real) async fn receive(
    node: NodeId,
    connection: u64,
    mut reader: Reader,
    copy_bytes_max: usize,
    sender: Sender<Received>,
) {
    let bytes_max = |kind| if kind == LanKind::Copy { copy_bytes_max } else { MESSAGE_BYTES_MAX };
    loop {
        let next = reader.next(bytes_max, Some(SILENCE_MAX)).await;
        let message = next.and_then(|(kind, body)| match kind {
            LanKind::Report => Report::read(&body).map(Message::Report),
            LanKind::Copy => {
                let (ticket, values) = decode_copy(&body)?;
                Ok(Message::Copy { ticket, values })
            }
            other => Err(ChannelError::Other(format!("received {other:?}, expected a report"))),
        });
        let last = message.is_err();
        if sender.send(Received { node, connection, message }).await.is_err() || last {
            return;
        }
    }
}
