//! The errors of a run over real processes, and the faults of a link.

use std::io;
use std::path::PathBuf;

use crate::quic::TransportError;
use gaia_certificates::{CertificateError, Refusal};
use gaia_checkpoint::CheckpointError;
use gaia_core::node::LanError;
use gaia_core::recovery::RecoveryError;
use gaia_core::server::PeerError;
use gaia_core::types::StateError;
use gaia_core::wire::FrameError;

/// Why a node, or a run over nodes, failed. Nodes have their display names, such as "server 0 of tokyo".
#[derive(Debug, thiserror::Error)]
pub enum RealError {
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    #[error("the certificate in use is for {found}, this node is {expected}")]
    NotThisNode { found: String, expected: String },
    #[error("no address for {node}: expected {key} in the topology, or {instead}")]
    NoAddress { node: String, key: &'static str, instead: &'static str },
    #[error("cannot listen on {address}: {reason}")]
    Listen { address: String, reason: String },
    #[error("cannot join {node} at {address}: {fault}")]
    Unreachable { node: String, address: String, fault: LinkFault },
    #[error("{node} is lost: {reason}")]
    Lost { node: String, reason: String },
    #[error("{node} failed: {reason}")]
    Failed { node: String, reason: String },
    /// One of two mirrors has lost its state, which the other relies on.
    #[error(
        "{node} and {peer} do not know the same past, so one of them has lost its state: {reason}"
    )]
    Forgot { node: String, peer: String, reason: String },
    /// A server has restarted without its state, and cannot take another's copy.
    #[error("{node} has lost its copy, and cannot take another's: {reason}")]
    CopyLost { node: String, reason: String },
    #[error(
        "{node} comes back without its state, and cannot begin anew: the deltas of {app} are counts, which would be \
         counted again; give it --state"
    )]
    CountsLost { node: String, app: &'static str },
    #[error("the run was ended by the coordinator: {reason}")]
    Ended { reason: String },
    #[error("this node takes no part: {reason}")]
    Dismissed { reason: String },
    #[error("the run was interrupted")]
    Interrupted,
    #[error("{from} broke the protocol: {reason}")]
    Broken { from: String, reason: String },
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error("the state that the coordinator was in does not fit this run: {0}")]
    OtherState(StateError),
    #[error("{} holds what does not fit this run: {error}", path.display())]
    Recovery { path: PathBuf, error: RecoveryError },
    #[error("{at}: {error}")]
    Peer { at: String, error: PeerError },
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error("{part} panicked: {message}")]
    Panicked { part: String, message: String },
    #[error("no threads or files for the run: {0}")]
    Machine(#[from] io::Error),
    #[error("{node} cannot be started: {reason}")]
    NotStarted { node: String, reason: String },
    #[error("the log {path} cannot be written: {reason}")]
    NoLog { path: String, reason: String },
    /// This process is itself a node that a run has started.
    #[error("a node does not start a run of nodes")]
    Nested,
}

/// The fault of one link, by what must be corrected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkFault {
    #[error("name: {0}")]
    Name(String),
    #[error("route: {0}")]
    Route(String),
    #[error("port: {0}")]
    Port(String),
    #[error("certificate: {0}")]
    Certificate(String),
    #[error("version: {0}")]
    Version(String),
    /// The peer has refused the connection.
    #[error("refused: {0}")]
    Refused(String),
    /// The peer has refused the connection for the moment.
    #[error("{0}")]
    Later(String),
    /// The peer does not answer as a node does.
    #[error("protocol: {0}")]
    Protocol(String),
}

impl LinkFault {
    /// Whether the fault may be temporary while nodes start.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Self::Name(_) | Self::Route(_) | Self::Port(_) | Self::Later(_))
    }

    /// The fault of a failed connect or handshake over TCP.
    pub(super) fn of_io(error: &io::Error) -> Self {
        if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
            return Self::of_tls(tls);
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Port("connection refused".into()),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                Self::Port("the connection was closed before the peer had answered".into())
            }
            _ => Self::Route(error.to_string()),
        }
    }

    fn of_tls(error: &rustls::Error) -> Self {
        match Refusal::of(error) {
            Some(refusal) => Self::Certificate(refusal.to_string()),
            None => match error {
                rustls::Error::AlertReceived(alert) => {
                    Self::Certificate(format!("the peer refused this node's ({alert:?})"))
                }
                other => Self::Protocol(other.to_string()),
            },
        }
    }
}

impl From<FrameError> for LinkFault {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::PeerSpeaksOtherVersion { .. } => Self::Version(error.to_string()),
            other => Self::Protocol(other.to_string()),
        }
    }
}

/// Why a connection has ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChannelError {
    #[error("the connection was closed")]
    Closed,
    #[error("nothing was heard for {0} s")]
    Silent(u64),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Message(#[from] LanError),
    #[error("{0}")]
    Other(String),
}

impl From<ChannelError> for LinkFault {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::Io(error) => Self::of_io(&error),
            ChannelError::Frame(error) => error.into(),
            ChannelError::Closed => {
                Self::Port("the connection was closed before the peer had answered".into())
            }
            ChannelError::Silent(_) => Self::Route(error.to_string()),
            other => Self::Protocol(other.to_string()),
        }
    }
}
