//! A server that speaks enough of S3 for a reader: objects by ranges and conditions, lists in pages, keys of access; and what
//! can go wrong with them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

/// A server on this machine. It ends with its process.
#[derive(Clone)]
pub(crate) struct Server {
    state: Arc<Mutex<State>>,
    address: String,
}

#[derive(Default)]
struct State {
    /// By bucket and key.
    objects: BTreeMap<String, Vec<u8>>,
    /// Counts up where an object is replaced.
    versions: BTreeMap<String, u64>,
    faults: Vec<Fault>,
    seen: Seen,
}

/// What the server was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Lists and heads.
    pub(crate) questions: usize,
    /// Parts of objects.
    pub(crate) ranges: usize,
    /// Whole objects.
    pub(crate) wholes: usize,
    /// The most bytes of an answer.
    pub(crate) most_bytes: usize,
}

/// What happens to the next request of an object's bytes.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It is answered with a status.
    Status(u16),
    /// The connection ends after some bytes of the answer.
    Cut(usize),
    /// The object is replaced before.
    Replaced,
    /// The object is deleted before.
    Deleted,
}

/// The key that may read.
pub(crate) const ACCESS_KEY: &str = "own-key";

impl Server {
    #[allow(clippy::disallowed_methods, reason = "a server needs threads")]
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = Self { state: Arc::default(), address };
        let own = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let own = own.clone();
                std::thread::spawn(move || own.serve(&stream));
            }
        });
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn put(&self, key: &str, bytes: impl Into<Vec<u8>>) {
        let mut state = self.state();
        state.objects.insert(key.into(), bytes.into());
        *state.versions.entry(key.into()).or_default() += 1;
    }

    pub(crate) fn fail(&self, faults: &[Fault]) {
        self.state().faults = faults.to_vec();
    }

    /// What was asked for since the last call.
    pub(crate) fn seen(&self) -> Seen {
        std::mem::take(&mut self.state().seen)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Serves the requests of a connection, one after the other.
    fn serve(&self, stream: &TcpStream) {
        let mut lines = BufReader::new(stream);
        while let Some(request) = Request::read(&mut lines) {
            let Some((answer, cut)) = self.answer(&request) else { return };
            let sent = &answer[..cut.unwrap_or(answer.len()).min(answer.len())];
            if (&mut &*stream).write_all(sent).is_err() || cut.is_some() {
                let _gone = stream.shutdown(std::net::Shutdown::Both);
                return;
            }
        }
    }

    /// The bytes of an answer, and after how many of them the connection ends.
    fn answer(&self, request: &Request) -> Option<(Vec<u8>, Option<usize>)> {
        let mut state = self.state();
        let is_open = request.path.starts_with("/open");
        let is_signed = is_open
            || request.header("authorization").is_some_and(|text| {
                text.starts_with(&format!("AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/"))
            });
        if !is_signed {
            return Some((answer(403, "", b"<Error><Code>AccessDenied</Code></Error>"), None));
        }
        if let Some((_, bucket)) =
            request.query.get("list-type").zip(request.path.strip_prefix('/'))
        {
            state.seen.questions += 1;
            return Some((answer(200, "", state.list(bucket, request).as_bytes()), None));
        }

        let key = request.path.trim_start_matches('/').to_owned();
        let mut cut = None;
        if request.method == "GET" && !state.faults.is_empty() {
            match state.faults.remove(0) {
                Fault::Status(status) => return Some((answer(status, "", b""), None)),
                Fault::Cut(bytes) => cut = Some(bytes),
                Fault::Replaced => *state.versions.entry(key.clone()).or_default() += 1,
                Fault::Deleted => drop(state.objects.remove(&key)),
            }
        }
        let Some(bytes) = state.objects.get(&key).cloned() else {
            return Some((answer(404, "", b"<Error><Code>NoSuchKey</Code></Error>"), None));
        };
        let etag = format!("\"{}\"", state.versions[&key]);
        let headers = format!(
            "ETag: {etag}\r\nLast-Modified: Tue, 24 Nov 2026 00:00:00 GMT\r\nAccept-Ranges: bytes\r\n"
        );
        if request.method == "HEAD" {
            state.seen.questions += 1;
            return Some((head(200, &headers, bytes.len()).into_bytes(), None));
        }
        if request.header("if-match").is_some_and(|wanted| wanted != etag) {
            return Some((answer(412, "", b""), None));
        }
        let Some(range) = request.header("range").and_then(|range| range.strip_prefix("bytes="))
        else {
            state.seen.wholes += 1;
            return Some((answer(200, &headers, &bytes), cut));
        };
        let (first, last) = range.split_once('-').unwrap();
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        let last = last.min(bytes.len() - 1);
        state.seen.ranges += 1;
        state.seen.most_bytes = state.seen.most_bytes.max(last + 1 - first);
        let headers = format!("{headers}Content-Range: bytes {first}-{last}/{}\r\n", bytes.len());
        Some((answer(206, &headers, &bytes[first..=last]), cut))
    }
}

impl State {
    /// A page of the keys of a bucket: two at most, so that lists have several.
    fn list(&self, bucket: &str, request: &Request) -> String {
        let bucket = format!("{}/", bucket.trim_end_matches('/'));
        let prefix = request.query.get("prefix").map_or("", String::as_str);
        let after = request.query.get("continuation-token").map_or("", String::as_str);
        let keys: Vec<&str> = self
            .objects
            .keys()
            .filter_map(|key| key.strip_prefix(&bucket))
            .filter(|key| key.starts_with(prefix) && *key > after)
            .collect();
        let mut page = String::from("<ListBucketResult>");
        for key in keys.iter().take(2) {
            let size = self.objects[&format!("{bucket}{key}")].len();
            let key = key.replace('&', "&amp;");
            page += &format!(
                "<Contents><Key>{key}</Key><Size>{size}</Size><ETag>\"1\"</ETag>\
                 <LastModified>2026-11-24T00:00:00.000Z</LastModified></Contents>"
            );
        }
        if keys.len() > 2 {
            page += "<IsTruncated>true</IsTruncated>";
            let token = keys[1].replace('&', "&amp;");
            page += &format!("<NextContinuationToken>{token}</NextContinuationToken>");
        }
        page + "</ListBucketResult>"
    }
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
}

impl Request {
    fn read(lines: &mut impl BufRead) -> Option<Self> {
        let mut line = String::new();
        lines.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, target) = (words.next()?, words.next()?);
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_owned(), decoded(value))
        };
        let query = query.split('&').filter(|text| !text.is_empty()).map(pair).collect();
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            lines.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        Some(Self { method, path: decoded(path), query, headers })
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

fn head(status: u16, headers: &str, length: usize) -> String {
    format!("HTTP/1.1 {status} x\r\n{headers}Content-Length: {length}\r\n\r\n")
}

fn answer(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    [head(status, headers, body.len()).as_bytes(), body].concat()
}

/// Text with its `%XX` as characters.
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut found = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        found.push(u8::from_str_radix(&part[..2], 16).unwrap());
        found.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(found).unwrap()
}
