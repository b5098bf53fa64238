//! The monitoring endpoints of a process: `/metrics`, `/healthz` and `/readyz` over HTTP.
//!
//! They are served only if an address is configured, without authentication: see [`http`](super::http).

use std::net::SocketAddr;

use crate::real::error::RealError;
use crate::real::http::{Answer, PLAIN, Site, serve};
use gaia_telemetry::Telemetry;

/// Serves an address until the process ends. Returns the bound address, because port 0 is any free one.
///
/// # Errors
/// If listening on the address fails.
pub fn watch(address: SocketAddr, telemetry: &Telemetry) -> Result<SocketAddr, RealError> {
    serve(address, Watched(telemetry.clone()))
}

/// What a process says of itself.
#[derive(Clone)]
struct Watched(Telemetry);

impl Site for Watched {
    const NAME: &'static str = "metrics";

    fn answer(&self, path: &str) -> Answer {
        match path {
            METRICS => Answer::text(200, EXPOSITION, self.0.metrics()),
            HEALTH => health(self.0.alive()),
            READINESS => health(self.0.ready()),
            _ => Answer::text(404, PLAIN, format!("{METRICS}, {HEALTH} or {READINESS}\n")),
        }
    }

    fn on_evicted(&self) {
        self.0.on_watcher_refused();
    }
}

fn health(found: Result<(), String>) -> Answer {
    match found {
        Ok(()) => Answer::text(200, PLAIN, "ok\n"),
        Err(reason) => Answer::text(503, PLAIN, reason + "\n"),
    }
}

const METRICS: &str = "/metrics";
const HEALTH: &str = "/healthz";
const READINESS: &str = "/readyz";

/// The text format of Prometheus.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::real::http::{CALLERS_MAX, CONVERSATION_MAX, Hosts, answer_all, converse};

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
        let site = Watched(telemetry.clone());
        tokio::join!(asking, converse(stream, &site, Hosts::Any));
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
        let site = Watched(telemetry.clone());
        tokio::select! {
            () = asking => {}
            () = converse(stream, &site, Hosts::Any) => {}
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
        let answering = tokio::spawn(answer_all(listener, Watched(telemetry.clone()), Hosts::Any));
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
