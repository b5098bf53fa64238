//! A connection over TCP, with or without TLS, that carries messages in both directions.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::Acceptor;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::{LazyConfigAcceptor, TlsConnector};

use crate::real::connections::message::{Answer, HELLO_BYTES_MAX, Hello, pack, unpack};
use crate::real::connections::message_memory::MessageMemory;
use crate::real::environment::{Environment, Stream};
use crate::real::error::{ChannelError, LinkFault};
use gaia_certificates::{Credentials, Proof, Refusal, SERVER_NAME};
use gaia_core::session::Incarnation;
use gaia_core::topology::Address;
use gaia_core::wire::{ENVELOPE_BYTES, Gathering, LanBody, LanKind, ReceivedBody};

/// A message to send.
pub(in crate::real) type Parcel = (LanKind, LanBody);

/// A message that was received.
pub(in crate::real) type Received = (LanKind, ReceivedBody);

/// Both halves of a connection.
pub(in crate::real) struct Channel {
    reader: Reader,
    writer: Writer,
    /// The peer's certificates, if the connection uses TLS.
    chain: Option<Vec<CertificateDer<'static>>>,
    /// The incarnation that the peer has assigned to this node, if it was requested.
    incarnation: Option<Incarnation>,
}

/// The reading half of a connection.
pub(in crate::real) struct Reader {
    half: ReadHalf<Box<dyn Stream>>,
    gathering: Gathering,
    memory: MessageMemory,
    proof: Option<Proof>,
}

/// The writing half of a connection.
pub(in crate::real) struct Writer {
    half: WriteHalf<Box<dyn Stream>>,
}

impl Channel {
    fn new(stream: Box<dyn Stream>, chain: Option<Vec<CertificateDer<'static>>>) -> Self {
        let (read, write) = split(stream);
        Self {
            reader: Reader {
                half: read,
                gathering: Gathering::default(),
                memory: MessageMemory::default(),
                proof: None,
            },
            writer: Writer { half: write },
            chain,
            incarnation: None,
        }
    }

    /// Closes the connection once the peer's certificate is revoked.
    pub(in crate::real) fn held_to(mut self, credentials: &Credentials) -> Self {
        self.reader.proof = self.chain.clone().map(|chain| credentials.proof(chain));
        self
    }

    /// The peer's certificates, if the connection uses TLS.
    pub(in crate::real) fn chain(&self) -> Option<&[CertificateDer<'static>]> {
        self.chain.as_deref()
    }

    /// The incarnation that was assigned to a server that has requested one.
    pub(in crate::real) fn incarnation(&self) -> Option<Incarnation> {
        self.incarnation
    }

    /// Connects, authenticates, and sends a hello.
    pub(in crate::real) async fn dial(
        environment: &dyn Environment,
        address: &Address,
        tls: Option<ClientConfig>,
        hello: &Hello,
    ) -> Result<Self, LinkFault> {
        let dialled = Self::dial_in_time(environment, address, tls, hello);
        timeout(HANDSHAKE_MAX, dialled).await.unwrap_or_else(|_| {
            Err(LinkFault::Route(format!("no answer within {} s", HANDSHAKE_MAX.as_secs())))
        })
    }

    async fn dial_in_time(
        environment: &dyn Environment,
        address: &Address,
        tls: Option<ClientConfig>,
        hello: &Hello,
    ) -> Result<Self, LinkFault> {
        let candidates = resolve(address).await?;
        let connect = |candidate| environment.connect(candidate);
        let stream = connect_to_one(connect, &address.host, &candidates).await?;
        Self::greet(stream, tls, hello).await
    }

    async fn greet(
        stream: Box<dyn Stream>,
        tls: Option<ClientConfig>,
        hello: &Hello,
    ) -> Result<Self, LinkFault> {
        let mut channel = match tls {
            Some(config) => {
                let name = ServerName::try_from(SERVER_NAME).expect("a host name");
                let connected = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
                let stream = connected.map_err(|error| LinkFault::of_io(&error))?;
                let chain = stream.get_ref().1.peer_certificates().map(<[_]>::to_vec);
                Self::new(Box::new(stream), chain)
            }
            None => Self::new(stream, None),
        };

        channel.writer.send(LanKind::Hello, &pack(hello).into()).await?;
        match unpack(&channel.reader.hello().await?)? {
            Answer::Welcome => Ok(channel),
            Answer::Begin { incarnation } => Ok(Self { incarnation: Some(incarnation), ..channel }),
            Answer::Refused { reason } => Err(LinkFault::Refused(reason)),
            Answer::Later { reason } => Err(LinkFault::Later(reason)),
        }
    }

    /// Accepts a connection, and reads the peer's hello.
    ///
    /// # Errors
    /// If the peer takes longer than [`FIRST_FLIGHT_MAX`] for its first message, which is a TLS ClientHello or the
    /// hello, or longer than [`HANDSHAKE_MAX`] for all, or does not authenticate.
    pub(in crate::real) async fn take(
        stream: Box<dyn Stream>,
        tls: Option<Arc<ServerConfig>>,
    ) -> Result<(Self, Hello), ChannelError> {
        let taken = async {
            let (mut channel, hello) = match tls {
                Some(config) => {
                    let opening = LazyConfigAcceptor::new(Acceptor::default(), stream);
                    let opening = within(FIRST_FLIGHT_MAX, opening).await?;
                    let stream = opening.into_stream(config).await?;
                    let chain = stream.get_ref().1.peer_certificates().map(<[_]>::to_vec);
                    let mut channel = Self::new(Box::new(stream), chain);
                    let hello = channel.reader.hello().await;
                    (channel, hello)
                }
                None => {
                    let mut channel = Self::new(stream, None);
                    let hello = within(FIRST_FLIGHT_MAX, channel.reader.hello()).await;
                    (channel, hello)
                }
            };

            match hello {
                Ok(body) => Ok((channel, unpack(&body)?)),
                Err(error) => {
                    // The answer is a frame of this version. A peer of another version reads both versions from it.
                    let _gone = channel.answer(&refused(&error)).await;
                    channel.linger().await;
                    Err(error)
                }
            }
        };
        within(HANDSHAKE_MAX, taken).await
    }

    pub(in crate::real) async fn answer(&mut self, answer: &Answer) -> Result<(), ChannelError> {
        self.writer.send(LanKind::Hello, &pack(answer).into()).await
    }

    /// Closes the connection, and reads the bytes in flight. A connection that is dropped with unread bytes is reset,
    /// and the answer would be lost.
    async fn linger(mut self) {
        let _gone = self.writer.half.shutdown().await;
        let mut rest = self.reader.half.take(UNREAD_BYTES_MAX);
        let mut nowhere = tokio::io::sink();
        let read = tokio::io::copy(&mut rest, &mut nowhere);
        let _gone = timeout(LINGER_MAX, read).await;
    }

    /// Refuses the peer, and closes the connection.
    pub(in crate::real) async fn refuse(self, reason: String) {
        self.dismiss(&Answer::Refused { reason }).await;
    }

    /// Tells the peer to try again later, and closes the connection.
    pub(in crate::real) async fn put_off(self, reason: String) {
        self.dismiss(&Answer::Later { reason }).await;
    }

    /// Sends an answer that refuses the peer, and closes the connection.
    pub(in crate::real) async fn dismiss(mut self, answer: &Answer) {
        // The peer may have closed the connection.
        let _gone = self.answer(answer).await;
        let _gone = self.writer.half.shutdown().await;
    }

    /// Passes the writing half to a task that sends the parcels of the returned channel, and closes the connection once
    /// the channel is closed and empty.
    pub(in crate::real) fn start(
        self,
        parcels_max: usize,
    ) -> (Reader, Sender<Parcel>, JoinHandle<()>) {
        let (parcels, outgoing) = channel(parcels_max);
        (self.reader, parcels, tokio::spawn(self.writer.run(outgoing)))
    }
}

impl Reader {
    /// The same, whose messages are in the memory of those of other connections.
    pub(in crate::real) fn in_memory(self, memory: MessageMemory) -> Self {
        Self { memory, ..self }
    }

    /// The next message, of at most `bytes_max` bytes for its kind. Fails if nothing arrives within `silence_max`, however long
    /// the message takes. Not cancel safe.
    pub(in crate::real) async fn next(
        &mut self,
        bytes_max: impl Fn(LanKind) -> usize,
        silence_max: Option<Duration>,
    ) -> Result<Received, ChannelError> {
        loop {
            let Self { half, gathering, memory, proof } = self;
            let mut arriving = Arriving { half, silence_max };
            let gathered = tokio::select! {
                biased;
                refusal = revoked(proof) => Err(ChannelError::Other(refusal.to_string())),
                gathered = arriving.gather_frame(gathering, &bytes_max, || memory.take()) => gathered,
            };
            if let Some((kind, body)) = gathered? {
                memory.remember(&body);
                return Ok((kind, body));
            }
        }
    }

    async fn hello(&mut self) -> Result<ReceivedBody, ChannelError> {
        match self.next(|_| HELLO_BYTES_MAX, None).await? {
            (LanKind::Hello, body) => Ok(body),
            (other, _) => Err(ChannelError::Other(format!("received {other:?}, expected a hello"))),
        }
    }
}

/// Opens a stream to the first address of a host that takes it. Each has an equal share of the time, so that one that does not
/// answer leaves some to the others.
async fn connect_to_one<S, F: Future<Output = io::Result<S>>>(
    connect: impl Fn(SocketAddr) -> F,
    host: &str,
    candidates: &[SocketAddr],
) -> Result<S, LinkFault> {
    let share = HANDSHAKE_MAX.div_f64(candidates.len().max(1) as f64);
    let mut fault = LinkFault::Name(format!("`{host}` has no address"));
    for candidate in candidates {
        fault = match timeout(share, connect(*candidate)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => LinkFault::of_io(&error),
            Err(_) => {
                let seconds = share.as_secs_f64();
                LinkFault::Route(format!("no answer from {candidate} within {seconds:.1} s"))
            }
        };
    }
    Err(fault)
}

/// Waits until a peer's certificate is revoked. Never returns if the peer has none.
async fn revoked(proof: &mut Option<Proof>) -> Refusal {
    match proof {
        Some(proof) => proof.revoked().await,
        None => std::future::pending().await,
    }
}

/// The result of a future, or an error after a timeout.
async fn within<T, E: Into<ChannelError>>(
    time_max: Duration,
    awaited: impl Future<Output = Result<T, E>>,
) -> Result<T, ChannelError> {
    match timeout(time_max, awaited).await {
        Ok(came) => came.map_err(Into::into),
        Err(_) => Err(ChannelError::Silent(time_max.as_secs())),
    }
}

/// Bytes that arrive, each within some time of the one before.
struct Arriving<'r> {
    half: &'r mut ReadHalf<Box<dyn Stream>>,
    silence_max: Option<Duration>,
}

impl Arriving<'_> {
    /// Reads a frame into the memory of its message. Returns the message that it completes, if any.
    async fn gather_frame(
        &mut self,
        gathering: &mut Gathering,
        bytes_max: impl Fn(LanKind) -> usize,
        spare: impl FnOnce() -> Vec<f32>,
    ) -> Result<Option<Received>, ChannelError> {
        let mut envelope = [0; ENVELOPE_BYTES];
        let first = self.read(&mut envelope).await?;
        if first == 0 {
            return Err(ChannelError::Closed);
        }
        self.read_exact(&mut envelope[first..]).await?;
        self.read_exact(gathering.begin_frame(&envelope, bytes_max, spare)?).await?;
        Ok(gathering.finish_frame()?)
    }

    async fn read_exact(&mut self, mut unread: &mut [u8]) -> Result<(), ChannelError> {
        while !unread.is_empty() {
            let bytes = self.read(unread).await?;
            if bytes == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            unread = &mut unread[bytes..];
        }
        Ok(())
    }

    /// Reads what is there, and waits for it if there is nothing.
    async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ChannelError> {
        let reading = self.half.read(buffer);
        match self.silence_max {
            Some(silence_max) => within(silence_max, reading).await,
            None => Ok(reading.await?),
        }
    }
}

impl Writer {
    /// Sends a message from where it is: what a frame has was just read for its checksum, and is in the processor's cache.
    async fn send(&mut self, kind: LanKind, body: &LanBody) -> Result<(), ChannelError> {
        self.half.write_all_buf(&mut body.frames(kind)).await?;
        self.half.flush().await?;
        Ok(())
    }

    async fn run(mut self, mut outgoing: Receiver<Parcel>) {
        while let Some((kind, body)) = outgoing.recv().await {
            if self.send(kind, &body).await.is_err() {
                // The reader of this connection returns the error.
                return;
            }
        }
        let _gone = self.half.shutdown().await;
    }
}

/// All IP addresses of an address.
pub(in crate::real) async fn resolve(address: &Address) -> Result<Vec<SocketAddr>, LinkFault> {
    let found = tokio::net::lookup_host((address.host.as_str(), address.port)).await;
    let found = found.map_err(|error| {
        LinkFault::Name(format!("`{}` cannot be resolved: {error}", address.host))
    })?;
    Ok(found.collect())
}

fn refused(error: &ChannelError) -> Answer {
    Answer::Refused { reason: error.to_string() }
}

/// The longest time for the first message of a peer. A correct peer sends it as soon as it is connected. If the packet
/// is lost, TCP sends it again within a second.
pub(in crate::real) const FIRST_FLIGHT_MAX: Duration = Duration::from_secs(2);

/// The longest time for the authentication of a peer.
pub(in crate::real) const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
const LINGER_MAX: Duration = Duration::from_secs(1);
const UNREAD_BYTES_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use tokio::io::duplex;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::Instant;

    use super::*;
    use crate::real::connections::message::{MESSAGE_BYTES_MAX, Purpose};
    use crate::real::environment::Machine;
    use gaia_core::types::NodeId;
    use gaia_core::wire::{PROTOCOL_VERSION, encode_lan};

    fn hello() -> Hello {
        Hello {
            run: "r".into(),
            node: NodeId::Coordinator,
            plan: 1,
            tables: Vec::new(),
            purpose: Purpose::Check,
            listens: None,
            process: None,
            instance: 1,
            begins: false,
            next_requests: None,
            stand_in: None,
        }
    }

    /// A message of another version of the protocol.
    fn foreign<T: serde::Serialize>(message: &T) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_lan(LanKind::Hello, &pack(message).into(), &mut bytes);
        bytes[4..6].copy_from_slice(&9_u16.to_le_bytes());
        bytes
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_does_not_answer_leaves_time_to_the_next_one_of_its_name() {
        let silent: SocketAddr = "[2001:db8::1]:1".parse().unwrap();
        let answering: SocketAddr = ([10, 0, 0, 1], 1).into();
        let connect = |to| async move {
            if to != answering {
                std::future::pending::<()>().await;
            }
            Ok(())
        };
        let began = Instant::now();
        let candidates = [silent, answering];
        let connecting = connect_to_one(connect, "b", &candidates);
        let connected = timeout(HANDSHAKE_MAX, connecting).await.expect("in time for a handshake");
        assert!(connected.is_ok() && began.elapsed() < HANDSHAKE_MAX * 2 / 3);

        let fault = connect_to_one(connect, "b", &[silent, silent]).await.err().unwrap();
        let expected = "no answer from [2001:db8::1]:1 within 5.0 s";
        assert_eq!(fault, LinkFault::Route(expected.into()));
        let fault = connect_to_one(connect, "b", &[]).await.err().unwrap();
        assert_eq!(fault, LinkFault::Name("`b` has no address".into()));
    }

    /// The whole message is one frame.
    #[tokio::test(start_paused = true)]
    async fn a_message_arrives_however_slow_its_connection_is_unless_nothing_arrives() {
        let (mut near, far) = duplex(64 << 10);
        let mut reader = Channel::new(Box::new(far), None).reader;
        let silence_max = Duration::from_secs(10);
        let body = vec![7_u8; 400];
        let mut bytes = Vec::new();
        encode_lan(LanKind::Copy, &body.clone().into(), &mut bytes);
        let sending = async {
            for byte in &bytes {
                near.write_all(&[*byte]).await.unwrap();
                tokio::time::advance(silence_max / 2).await;
            }
            near
        };
        let (received, _open) =
            tokio::join!(reader.next(|_| MESSAGE_BYTES_MAX, Some(silence_max)), sending);
        assert_eq!(*received.unwrap().1, body[..]);

        let silent = reader.next(|_| MESSAGE_BYTES_MAX, Some(silence_max)).await.map(drop);
        assert!(matches!(silent, Err(ChannelError::Silent(10))), "{silent:?}");
    }

    async fn listener() -> (TcpListener, Address) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string().parse().unwrap();
        (listener, address)
    }

    #[tokio::test]
    async fn a_caller_of_another_version_is_told_this_one() {
        let (listener, address) = listener().await;
        let calling = async {
            let mut stream = TcpStream::connect(address.to_string()).await.unwrap();
            stream.write_all(&foreign(&hello())).await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            answer
        };
        let taking = async {
            let (stream, _) = listener.accept().await.unwrap();
            Channel::take(Box::new(stream), None).await.map(drop).unwrap_err().to_string()
        };
        let (answer, error) = tokio::join!(calling, taking);
        assert!(error.contains("version 9") && error.contains("expected 1"), "{error}");
        assert_eq!(answer[4..6], PROTOCOL_VERSION.to_le_bytes());
    }

    #[tokio::test]
    async fn a_peer_of_another_version_is_named_with_both_versions() {
        let (listener, address) = listener().await;
        let answering = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(&foreign(&Answer::Welcome)).await.unwrap();
            stream
        };
        let hello = hello();
        let (fault, _open) =
            tokio::join!(Channel::dial(&Machine, &address, None, &hello), answering);
        let fault = fault.map(drop).unwrap_err();
        assert!(matches!(fault, LinkFault::Version(_)), "{fault}");
        assert!(fault.to_string().contains("version 9"), "{fault}");
    }

    #[tokio::test]
    async fn faults_say_what_a_person_would_have_to_put_right() {
        let (listener, address) = listener().await;
        drop(listener);
        let fault = Channel::dial(&Machine, &address, None, &hello()).await.map(drop).unwrap_err();
        assert_eq!(fault, LinkFault::Port("connection refused".into()));
        let nowhere = "no-such-host.invalid:1".parse().unwrap();
        let fault = Channel::dial(&Machine, &nowhere, None, &hello()).await.map(drop).unwrap_err();
        assert!(matches!(fault, LinkFault::Name(_)), "{fault}");
    }

    #[tokio::test]
    async fn bytes_that_are_no_frame_end_the_connection_with_their_reason() {
        let (listener, address) = listener().await;
        let calling = async {
            let mut stream = TcpStream::connect(address.to_string()).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").await.unwrap();
            stream
        };
        let taking = async {
            let (stream, _) = listener.accept().await.unwrap();
            Channel::take(Box::new(stream), None).await.map(drop).unwrap_err()
        };
        let (stream, error) = tokio::join!(calling, taking);
        assert!(matches!(error, ChannelError::Frame(_)), "{error}");
        drop(stream);
    }
}
