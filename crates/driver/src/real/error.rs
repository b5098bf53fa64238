//! The errors of a run over real processes, and the faults of a link.

use gaia_core::application::ApplicationError;
use std::io;
use std::path::PathBuf;

use gaia_certificates::{CertificateError, Refusal};
use gaia_checkpoint::CheckpointError;
use gaia_core::node::LanError;
use gaia_core::recovery::RecoveryError;
use gaia_core::types::StateError;
use gaia_core::wire::FrameError;
use gaia_model::{HeaderTooLong, ModelError};
use gaia_quic::TransportError;

/// Why a node, or a run over nodes, failed. Nodes have their display names, such as "server 0 of tokyo".
#[derive(Debug, thiserror::Error)]
pub enum RealError {
    /// The certificates of this node are missing or invalid.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    /// The data of data centers does not go together.
    #[error("the data centers do not agree on their data: {reason}")]
    Disagreement {
        /// What does not fit, and in which data centers.
        reason: String,
    },
    /// The coordinator has not chosen a remote model, which the run leaves to the program.
    #[error("no remote model is chosen for model = \"auto\": {reason}")]
    NoChoice {
        /// Why.
        reason: String,
    },
    /// The certificate is that of another node.
    #[error("the certificate of this node is for {found}, expected {expected}")]
    NotThisNode {
        /// The identity in the certificate.
        found: String,
        /// The identity of this node.
        expected: String,
    },
    /// The address of a node is not configured.
    #[error("no address for {node}: expected {key} in the topology, or {instead}")]
    NoAddress {
        /// The name of the node.
        node: String,
        /// The key of the topology that sets it.
        key: &'static str,
        /// The option or environment variable that can set it.
        instead: &'static str,
    },
    /// The data center keeps its model, and a server has no folder for it.
    #[error(
        "no folder for the model: with model.keep = \"home\" expected --out DIR for each server"
    )]
    NoModelFolder,
    /// The model has no file.
    #[error(
        "the model cannot be written: {0}: expected fewer tables, shorter names or a shorter run file"
    )]
    Unwritable(#[from] HeaderTooLong),
    /// A server's shard of the model could not be written.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Listening on an address failed.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        reason: String,
    },
    /// Connecting to a node failed permanently.
    #[error("cannot connect to {node} at {address}: {fault}")]
    Unreachable {
        /// The name of the node.
        node: String,
        /// The address of the node.
        address: String,
        /// The fault of the link.
        fault: LinkFault,
    },
    /// A node is disconnected for longer than the limit.
    #[error("{node} is lost: {reason}")]
    Lost {
        /// The name of the node.
        node: String,
        /// The error that ended its connection.
        reason: String,
    },
    /// A node has reported an error.
    #[error("{node} failed: {reason}")]
    Failed {
        /// The name of the node.
        node: String,
        /// Its error.
        reason: String,
    },
    /// One of two mirrors has lost its state, which the other relies on.
    #[error(
        "{node} and {peer} disagree on the frames that they exchanged, so one of them has lost its state: {reason}"
    )]
    Forgot {
        /// The name of the node.
        node: String,
        /// The name of the other mirror.
        peer: String,
        /// What the sessions of both disagree on.
        reason: String,
    },
    /// A server has restarted without its state, and cannot take another's copy.
    #[error("{node} has lost its copy and cannot rebuild it: {reason}")]
    CopyLost {
        /// The name of the node.
        node: String,
        /// Why it cannot take a copy.
        reason: String,
    },
    /// A worker has restarted without its state, and repeating its work would add counts twice.
    #[error(
        "{node} has restarted without its state and cannot take part: the deltas of {app} are counts, which would be \
         added twice; start it with --state DIR"
    )]
    CountsLost {
        /// The name of the node.
        node: String,
        /// The name of the application.
        app: &'static str,
    },
    /// The coordinator has ended the run.
    #[error("the coordinator ended the run: {reason}")]
    Ended {
        /// The cause.
        reason: String,
    },
    /// This node's data center takes no part in the run.
    #[error("this node takes no part in the run: {reason}")]
    Dismissed {
        /// The cause.
        reason: String,
    },
    /// The process that started this node has closed its standard input.
    #[error("the process that started this node has ended")]
    ParentEnded,
    /// The run was interrupted.
    #[error("the run was interrupted")]
    Interrupted,
    /// A node has violated the protocol.
    #[error("{from} violated the protocol: {reason}")]
    Broken {
        /// The name of the node.
        from: String,
        /// The violation.
        reason: String,
    },
    /// A log or checkpoint of this process cannot be read or written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The coordinator's state does not fit this run.
    #[error("the saved state of the coordinator does not fit this run: {0}")]
    OtherState(StateError),
    /// The state of a node does not fit this run.
    #[error("{}: the saved state does not fit this run: {error}", path.display())]
    Recovery {
        /// The directory of the state.
        path: PathBuf,
        /// What does not fit.
        error: RecoveryError,
    },
    /// A server rejected a frame of a mirror.
    #[error("{at}: {reason}")]
    Peer {
        /// The name of the server.
        at: String,
        /// The name of the mirror, and why its frame was rejected.
        reason: String,
    },
    /// A connection between data centers failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The task of a worker cannot go on.
    #[error("{worker}: {reason}")]
    Task {
        /// The name of the worker.
        worker: String,
        /// The reason of the application.
        reason: ApplicationError,
    },
    /// A copy cannot be evaluated.
    #[error("{part}: {reason}")]
    Evaluation {
        /// The evaluation, with the name of its worker.
        part: String,
        /// The reason of the application.
        reason: ApplicationError,
    },
    /// A part of this process panicked.
    #[error("{part} panicked: {message}")]
    Panicked {
        /// The part, such as the name of a node.
        part: String,
        /// The message of the panic.
        message: String,
    },
    /// The operating system refused a resource.
    #[error("cannot create threads or files for the run: {0}")]
    Machine(#[from] io::Error),
    /// A child process did not start.
    #[error("cannot start {node}: {reason}")]
    NotStarted {
        /// The name of the node.
        node: String,
        /// The cause.
        reason: String,
    },
    /// A log file cannot be written.
    #[error("cannot write the log {path}: {reason}")]
    NoLog {
        /// The path of the file.
        path: String,
        /// The cause.
        reason: String,
    },
    /// This process is itself a node that a run has started.
    #[error("a process that a run has started cannot start another run")]
    Nested,
}

/// The fault of one link, by what must be corrected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkFault {
    /// The name of the address cannot be resolved.
    #[error("name: {0}")]
    Name(String),
    /// The host is unreachable, or does not answer in time.
    #[error("route: {0}")]
    Route(String),
    /// The host refuses the connection, or closes it before it has answered.
    #[error("port: {0}")]
    Port(String),
    /// A certificate is invalid or not trusted.
    #[error("certificate: {0}")]
    Certificate(String),
    /// The peer does not trust the certificate of this node. The alert says little of the reason.
    #[error("certificate: the peer refused the certificate of this node ({0})")]
    OwnRefused(String),
    /// The validity of a certificate is over, or has not begun.
    #[error("certificate: {0}")]
    Expired(String),
    /// The peer has another version of the protocol.
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

impl RealError {
    /// Whether a file or a setting of this process is wrong, so that another start with the same ends in the same way.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Certificates(CertificateError::Io { source, .. }) => {
                matches!(
                    source.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory
                )
            }
            Self::Certificates(error) => error.is_bad_input(),
            // Who has the directory may be about to end, and a file may have gone while the node ran.
            Self::Checkpoint(CheckpointError::InUse { .. } | CheckpointError::Io { .. }) => false,
            Self::Checkpoint(error) => error.is_bad_input(),
            Self::NotThisNode { .. }
            | Self::NoAddress { .. }
            | Self::NoModelFolder
            | Self::OtherState(_)
            | Self::Recovery { .. } => true,
            _ => false,
        }
    }

    /// Whether the disk of this host failed, as one does that is full. What was written before holds, so that the node can
    /// go on from it where the disk works again.
    pub(super) fn is_of_disk(&self) -> bool {
        match self {
            Self::Checkpoint(error) => !error.is_bad_input(),
            Self::Model(error) => matches!(error, ModelError::Unwritable { .. }),
            _ => false,
        }
    }
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
            Some(refusal @ (Refusal::Expired { .. } | Refusal::NotYetValid { .. })) => {
                Self::Expired(refusal.to_string())
            }
            Some(refusal) => Self::Certificate(refusal.to_string()),
            None => match error {
                rustls::Error::AlertReceived(alert) => Self::OwnRefused(format!("{alert:?}")),
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
    #[error("no message was received for {0} s")]
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
