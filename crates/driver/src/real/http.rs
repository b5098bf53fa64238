//! Small pages over HTTP, for people and programs that watch a run.
//!
//! The server is unauthenticated: any host that reaches the address may read. So the address should be on loopback or a
//! private network. The server has its own thread and runtime, so that it answers when a run's loop does not, and a run
//! never waits for it. Each connection is for one request and has a time limit, unless it is answered with events. If
//! there are too many connections, the oldest are evicted.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::real::connections::incoming::IncomingConnections;
use crate::real::connections::throttle::LogThrottle;
use crate::real::error::RealError;

/// What is served at an address.
pub trait Site: Clone + Send + Sync + 'static {
    /// What is served, in messages: `metrics`.
    const NAME: &'static str;

    /// The answer to a GET of a path.
    fn answer(&self, path: &str) -> Answer;

    /// A connection was closed for a newer one.
    fn on_evicted(&self) {}
}

/// An answer: its status, the type of its contents, and those.
pub struct Answer {
    status: StatusCode,
    content_type: &'static str,
    contents: Contents,
}

/// By which names requests may ask for this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hosts {
    /// `localhost` and IP addresses. A page of another site, whose name leads to this machine, then reads nothing in a
    /// user's browser.
    Local,
    /// Any, since other machines may know this one by any name.
    Any,
}

enum Contents {
    Text(String),
    Events(Events),
}

/// Tells browsers that there is something new. Dropping it ends their connections.
pub struct Announcer(watch::Sender<u64>);

/// What an [`Announcer`] announces, as server-sent events: the number of the newest version. A reader that is slow misses
/// those in between.
#[derive(Clone)]
pub struct Events(watch::Receiver<u64>);

/// A body of text, or of events that are written as they come.
enum Sent {
    Text(Option<Bytes>),
    Events(Pin<Box<NextEvent>>),
}

/// The next version and what comes after it.
type NextEvent = dyn Future<Output = Option<(u64, Events)>> + Send;

/// Serves an address until the process ends. Returns the bound address, because port 0 is any free one.
///
/// # Errors
/// If listening on the address fails.
pub fn serve<S: Site>(address: SocketAddr, site: S) -> Result<SocketAddr, RealError> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind(address));
    let listener = listener.map_err(|error| RealError::Listen {
        address: address.to_string(),
        reason: error.to_string(),
    })?;
    let address = listener.local_addr()?;
    let hosts = Hosts::of(address);
    let thread = std::thread::Builder::new().name(format!("gaia-{}", S::NAME));
    thread.spawn(move || runtime.block_on(answer_all(listener, site, hosts)))?;
    Ok(address)
}

impl Hosts {
    fn of(address: SocketAddr) -> Self {
        if address.ip().is_loopback() { Self::Local } else { Self::Any }
    }

    /// Whether a request with this header is answered. Without one it is from no browser.
    fn include(self, host: Option<&HeaderValue>) -> bool {
        let (Self::Local, Some(host)) = (self, host) else { return true };
        let Ok(authority) = Authority::try_from(host.as_bytes()) else { return false };
        let name = authority.host().trim_matches(['[', ']']);
        name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
    }
}

impl Answer {
    /// Text with a status.
    ///
    /// # Panics
    /// Where the status is none of HTTP.
    pub fn text(status: u16, content_type: &'static str, text: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(status).expect("a status of HTTP");
        Self { status, content_type, contents: Contents::Text(text.into()) }
    }

    /// Events until their announcer is dropped.
    pub fn events(events: Events) -> Self {
        let content_type = "text/event-stream";
        Self { status: StatusCode::OK, content_type, contents: Contents::Events(events) }
    }
}

impl Announcer {
    /// An announcer of version 0, and its events.
    pub fn new() -> (Self, Events) {
        let (sender, receiver) = watch::channel(0);
        (Self(sender), Events(receiver))
    }

    /// Announces the next version. Never waits.
    pub fn announce(&self) {
        self.0.send_modify(|version| *version += 1);
    }
}

impl Events {
    /// The next version, and what comes after it; the first one is that of the moment. `None` once there is no more.
    async fn next(mut self, pause: Duration) -> Option<(u64, Self)> {
        sleep(pause).await;
        self.0.changed().await.ok()?;
        let version = *self.0.borrow_and_update();
        Some((version, self))
    }
}

impl Sent {
    fn events(mut events: Events) -> Self {
        events.0.mark_changed();
        Self::Events(Box::pin(events.next(Duration::ZERO)))
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Events(next) => {
                let Some((version, events)) = ready!(next.as_mut().poll(context)) else {
                    return Poll::Ready(None);
                };
                *next = Box::pin(events.next(EVENT_EVERY));
                let event = format!("id: {version}\ndata: {version}\n\n");
                Poll::Ready(Some(Ok(Frame::data(event.into()))))
            }
        }
    }

    /// Text has its length in the answer's header.
    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            Self::Events(_) => SizeHint::default(),
        }
    }
}

pub(super) async fn answer_all<S: Site>(listener: TcpListener, site: S, hosts: Hosts) {
    let incoming = IncomingConnections::new(CALLERS_MAX);
    let complaints = LogThrottle::default();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(left_out) = complaints.pass() {
                    warn!("cannot accept a connection for {}: {error}{left_out}", S::NAME);
                }
                // Usually out of file descriptors. They become free as connections close.
                sleep(PAUSE).await;
                continue;
            }
        };

        let (connection, evicted) = incoming.admit(from);
        if evicted.is_some() {
            site.on_evicted();
        }
        let site = site.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = connection.evicted() => {}
                () = converse(stream, &site, hosts) => {}
            }
        });
    }
}

/// Answers one request, and closes the connection. Closes it early if the caller is too slow.
pub(super) async fn converse<S: Site>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    site: &S,
    hosts: Hosts,
) {
    let has_events = AtomicBool::new(false);
    let service = service_fn(async |request| {
        let answer = answer(&request, site, hosts);
        has_events.store(matches!(answer.body(), Sent::Events(_)), Ordering::Relaxed);
        Ok::<_, Infallible>(answer)
    });
    let mut http = http1::Builder::new();
    // One time limit applies to the whole connection.
    http.keep_alive(false).header_read_timeout(None);
    http.max_buf_size(REQUEST_BYTES_MAX).max_headers(HEADERS_MAX);
    let mut conversation = pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = match timeout(CONVERSATION_MAX, conversation.as_mut()).await {
        Err(_) if has_events.load(Ordering::Relaxed) => Ok(conversation.await),
        ended => ended,
    };
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!("cannot read a request for {}: {error}", S::NAME),
        Err(_) => {
            let most = CONVERSATION_MAX.as_secs();
            debug!("a request for {} took longer than {most} s", S::NAME);
        }
    }
}

fn answer<S: Site>(request: &Request<Incoming>, site: &S, hosts: Hosts) -> Response<Sent> {
    if !hosts.include(request.headers().get(HOST)) {
        return response(Answer::text(
            403,
            PLAIN,
            "expected localhost or an IP address as the host\n",
        ));
    }
    let found = site.answer(request.uri().path());
    if found.status == StatusCode::NOT_FOUND
        || [Method::GET, Method::HEAD].contains(request.method())
    {
        return response(found);
    }
    let mut refusal = response(Answer::text(405, PLAIN, "GET or HEAD\n"));
    refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    refusal
}

fn response(answer: Answer) -> Response<Sent> {
    let Answer { status, content_type, contents } = answer;
    let mut response = Response::new(match contents {
        Contents::Text(text) => Sent::Text(Some(text.into())),
        Contents::Events(events) => Sent::events(events),
    });
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The type of plain text.
pub const PLAIN: &str = "text/plain; charset=utf-8";

/// The largest number of simultaneous connections. A few scrapers, probes and browsers connect.
pub(super) const CALLERS_MAX: usize = 16;
pub(super) const CONVERSATION_MAX: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);
/// Browsers are told of new versions no more often.
const EVENT_EVERY: Duration = Duration::from_secs(1);

/// The smallest buffer that hyper allows. It is larger than any request of a scraper or a browser on loopback.
const REQUEST_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[derive(Clone)]
    struct Page(Events);

    impl Site for Page {
        const NAME: &'static str = "page";

        fn answer(&self, _: &str) -> Answer {
            Answer::events(self.0.clone())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn events_come_as_versions_do_and_end_with_their_announcer() {
        let (announcer, events) = Announcer::new();
        let site = Page(events);
        let (mut caller, stream) = duplex(1024);
        caller.write_all(b"GET /events HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();

        let mut answer = Vec::new();
        let listening = async {
            // Longer than any other conversation may take.
            sleep(2 * CONVERSATION_MAX).await;
            announcer.announce();
            announcer.announce();
            sleep(2 * EVENT_EVERY).await;
            drop(announcer);
            caller.read_to_end(&mut answer).await.unwrap();
        };
        tokio::join!(listening, converse(stream, &site, Hosts::Any));

        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.contains("content-type: text/event-stream\r\n"), "{answer}");
        let versions: Vec<&str> =
            answer.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(versions, ["0", "2"], "what is announced at once is told once: {answer}");
    }

    #[test]
    fn a_page_on_loopback_is_read_under_no_name_of_another_site() {
        for (host, expect) in [
            ("localhost", true),
            ("LOCALHOST:9465", true),
            ("127.0.0.1:9465", true),
            ("[::1]:9465", true),
            ("rebound.example:9465", false),
            ("localhost.example", false),
        ] {
            let header = HeaderValue::from_static(host);
            assert_eq!(Hosts::Local.include(Some(&header)), expect, "{host}");
            assert!(Hosts::Any.include(Some(&header)), "{host}");
        }
        assert!(Hosts::Local.include(None));
        assert_eq!(Hosts::of(([127, 0, 0, 1], 1).into()), Hosts::Local);
        assert_eq!(Hosts::of(([0, 0, 0, 0], 1).into()), Hosts::Any);
    }
}
