//! The monitoring endpoints of a process: `/metrics`, `/healthz` and `/readyz` over HTTP.
//!
//! The server listens only if it is configured. It is unauthenticated: any host that reaches the address may read. So
//! the address should be on loopback or a private network. The server has its own thread and runtime, so that it
//! answers when a node's loop does not. Each connection is for one request and has a time limit. If there are too
//! many connections, the oldest are evicted ([`IncomingConnections`]).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::real::connections::incoming::IncomingConnections;
use crate::real::connections::throttle::LogThrottle;
use crate::real::error::RealError;
use gaia_telemetry::Telemetry;

/// Serves an address until the process ends. Returns the bound address, because port 0 is any free one.
///
/// # Errors
/// If listening on the address fails.
pub fn watch(address: SocketAddr, telemetry: &Telemetry) -> Result<SocketAddr, RealError> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind(address));
    let listener = listener.map_err(|error| RealError::Listen {
        address: address.to_string(),
        reason: error.to_string(),
    })?;
    let address = listener.local_addr()?;
    let telemetry = telemetry.clone();
    let thread = std::thread::Builder::new().name("gaia-watch".into());
    thread.spawn(move || runtime.block_on(answer_all(listener, telemetry)))?;
    Ok(address)
}

async fn answer_all(listener: TcpListener, telemetry: Telemetry) {
    let incoming = IncomingConnections::new(CALLERS_MAX);
    let complaints = LogThrottle::default();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(left_out) = complaints.pass() {
                    warn!("cannot accept a connection for metrics: {error}{left_out}");
                }
                // Usually out of file descriptors. They become free as connections close.
                sleep(PAUSE).await;
                continue;
            }
        };

        let (connection, evicted) = incoming.admit(from);
        if evicted.is_some() {
            telemetry.on_watcher_refused();
        }
        let telemetry = telemetry.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = connection.evicted() => {}
                () = converse(stream, &telemetry) => {}
            }
        });
    }
}

/// Answers one request, and closes the connection. Closes it early if the caller is too slow.
async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, telemetry: &Telemetry) {
    let service = service_fn(async |request| Ok::<_, Infallible>(answer(&request, telemetry)));
    let mut http = http1::Builder::new();
    // One time limit applies to the whole connection.
    http.keep_alive(false).header_read_timeout(None);
    http.max_buf_size(REQUEST_BYTES_MAX).max_headers(HEADERS_MAX);
    let conversation = http.serve_connection(TokioIo::new(stream), service);
    match timeout(CONVERSATION_MAX, conversation).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!("cannot read a request for metrics: {error}"),
        Err(_) => debug!("a request for metrics took longer than {} s", CONVERSATION_MAX.as_secs()),
    }
}

fn answer(request: &Request<Incoming>, telemetry: &Telemetry) -> Response<String> {
    let path = request.uri().path();
    if ![METRICS, HEALTH, READINESS].contains(&path) {
        return plain(StatusCode::NOT_FOUND, format!("{METRICS}, {HEALTH} or {READINESS}\n"));
    }

    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "GET or HEAD\n".into());
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refusal;
    }

    match path {
        METRICS => {
            let mut page = plain(StatusCode::OK, telemetry.metrics());
            page.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(EXPOSITION));
            page
        }
        HEALTH => health_response(telemetry.alive()),
        _ => health_response(telemetry.ready()),
    }
}

fn health_response(found: Result<(), String>) -> Response<String> {
    match found {
        Ok(()) => plain(StatusCode::OK, "ok\n".into()),
        Err(reason) => plain(StatusCode::SERVICE_UNAVAILABLE, reason + "\n"),
    }
}

fn plain(status: StatusCode, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

const METRICS: &str = "/metrics";
const HEALTH: &str = "/healthz";
const READINESS: &str = "/readyz";

/// The text format of Prometheus.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The largest number of simultaneous connections. A few scrapers and probes connect a few times a minute.
const CALLERS_MAX: usize = 16;
const CONVERSATION_MAX: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);

/// The smallest buffer that hyper allows. It is larger than any request of a scraper.
const REQUEST_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::net::TcpStream;

    use super::*;

    fn waiting() -> Telemetry {
        let telemetry = Telemetry::new();
        let peers = BTreeMap::from([("tokyo/server-0".to_owned(), "mirror")]);
        telemetry.node("oregon/server-0", "r", peers);
        telemetry
    }

    /// The answer to these bytes.
    async fn answer_to(request: &[u8], telemetry: &Telemetry) -> String {
        let (mut caller, stream) = duplex(256);
        let mut answer = Vec::new();
        let asking = async {
            // The answer may arrive before the request is written.
            let _hung_up = caller.write_all(request).await;
            caller.read_to_end(&mut answer).await.unwrap();
        };
        tokio::join!(asking, converse(stream, telemetry));
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn get(path: &str, telemetry: &Telemetry) -> String {
        answer_to(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes(), telemetry).await
    }

    #[tokio::test]
    async fn pages_answer_with_their_status_and_type() {
        let telemetry = waiting();
        let check = async |request: &str, status: &str, contains: &str| {
            let answer = answer_to(request.as_bytes(), &telemetry).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
            assert!(answer.contains(contains), "{request}: {answer}");
        };
        let host = "HTTP/1.1\r\nHost: h\r\n\r\n";
        let page = format!("content-type: {EXPOSITION}\r\n");
        check(&format!("GET /metrics {host}"), "200", &page).await;
        check(&format!("GET /metrics?x=y {host}"), "200", "# TYPE gaia_build_info gauge\n").await;
        check(&format!("GET /healthz {host}"), "200", "\r\n\r\nok\n").await;

        let reason = "oregon/server-0: waits for mirror tokyo/server-0\n";
        check(&format!("GET /readyz {host}"), "503", reason).await;
        check(&format!("GET / {host}"), "404", "/readyz").await;
        check(&format!("GET /metrics/ {host}"), "404", "").await;
        let post = "POST /metrics HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999\r\n\r\n";
        check(post, "405", "allow: GET, HEAD\r\n").await;
        let head = answer_to(format!("HEAD /metrics {host}").as_bytes(), &telemetry).await;

        assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    }

    #[tokio::test]
    async fn a_process_is_ready_once_its_node_is() {
        let telemetry = Telemetry::new();
        assert!(get("/readyz", &telemetry).await.contains("503"));
        let meter = telemetry.node("oregon/server-0", "r", BTreeMap::new());
        assert!(get("/readyz", &telemetry).await.contains("waits for the run to begin"));
        meter.on_begun();
        assert!(get("/readyz", &telemetry).await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_stands_still_is_unhealthy() {
        let telemetry = Telemetry::new();
        let meter = telemetry.node("oregon/server-0", "r", BTreeMap::new());
        meter.on_turn();
        assert!(get("/healthz", &telemetry).await.starts_with("HTTP/1.1 200"));
        tokio::time::advance(Duration::from_secs(11)).await;
        let answer = get("/healthz", &telemetry).await;
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(
            answer.contains("oregon/server-0: its event loop has not run for 11 s"),
            "{answer}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_says_nothing_or_little_or_does_not_listen_is_left() {
        let telemetry = waiting();
        let began = tokio::time::Instant::now();
        for said in ["", "GET /met", "GET /metrics HTTP/1.1\r\nA: b\r\n"] {
            assert_eq!(answer_to(said.as_bytes(), &telemetry).await, "", "{said}");
        }
        // The page is larger than the buffer, and the caller does not read.
        let (mut caller, stream) = duplex(64);
        let asking = async {
            caller.write_all(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = asking => {}
            () = converse(stream, &telemetry) => {}
        }
        assert_eq!(began.elapsed().as_secs(), 4 * CONVERSATION_MAX.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_request_is_refused_and_hurts_nobody() {
        let telemetry = waiting();
        let long = vec![b'a'; 1 << 20];
        let headers = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(1000));
        let garbage: [&[u8]; 7] = [
            b"\r\n\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET /metrics HTTP/9.9\r\n\r\n",
            b"GET http://\xff\xfe/metrics HTTP/1.1\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            &long,
            headers.as_bytes(),
        ];
        for bytes in garbage {
            let answer = answer_to(bytes, &telemetry).await;
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
        }
        assert!(get("/healthz", &telemetry).await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn idle_callers_are_hung_up_on_and_counted_where_others_ask() {
        let telemetry = waiting();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let answering = tokio::spawn(answer_all(listener, telemetry.clone()));
        let mut idle = Vec::new();
        for _ in 0..CALLERS_MAX {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let mut asks = TcpStream::connect(address).await.unwrap();
        asks.write_all(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        asks.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("\ngaia_watchers_refused_total 1\n"), "{answer}");
        let mut byte = [0];
        assert!(matches!(idle[0].read(&mut byte).await, Ok(0) | Err(_)));
        answering.abort();
    }
}
