//! The log: which events are written to standard error, and how.

use std::fmt::{self, Write};
use std::sync::OnceLock;

use clap::ValueEnum;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::fmt::format::{Format, Full, Json, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

use super::VerbosityFlags;
use gaia_report::StandardError;
use gaia_telemetry::TOLD;

/// How an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line of text.
    Text,
    /// A JSON object per line.
    Json,
}

/// Writes the events that `GAIA_LOG` selects to standard error; warnings if it is not set. In JSON, the notes that a
/// person would read there are written as events, too.
///
/// # Errors
/// If `GAIA_LOG` is not a filter.
pub(super) fn open_log(flags: &VerbosityFlags, colour: bool) -> Result<(), String> {
    let warnings = up_to(LevelFilter::WARN);
    let (filter, opened) = match wanted() {
        Ok(Some(filter)) => (filter, Ok(())),
        Ok(None) if flags.quiet => (warnings, Ok(())),
        // And the notes for a person.
        Ok(None) => (warnings.with_target(TOLD, LevelFilter::INFO), Ok(())),
        // The complaint goes the way of the log.
        Err(complaint) => (warnings, Err(complaint)),
    };

    let log = tracing_subscriber::fmt::layer().with_writer(|| StandardError);
    let log = match flags.log {
        LogFormat::Text => {
            let lines = TextLines { full: Format::default() };
            log.with_ansi(colour).event_format(lines).boxed()
        }
        LogFormat::Json => {
            let lines = NodeLines { json: Format::default().json(), node: &NODE };
            log.with_ansi(false).fmt_fields(JsonFields::new()).event_format(lines).boxed()
        }
    };
    // A process that calls this twice keeps its first log.
    let _already_set = tracing_subscriber::registry().with(log.with_filter(filter)).try_init();

    opened
}

/// The log of a program that is more than this command line, which takes the events of its runs itself.
pub struct Log {
    /// The filter, unless `GAIA_LOG` is the filter.
    filter: Option<reload::Handle<Targets, Registry>>,
}

/// An event for a [`Log`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// How serious it is.
    pub level: Level,
    /// Where it comes from: the module, such as `gaia_driver::real`.
    pub target: String,
    /// What is said, with the fields of the event.
    pub text: String,
}

impl Log {
    /// Hands the events that `GAIA_LOG` selects to `sink`; where it is not set, warnings, until [`Log::set_level`] selects
    /// others. `sink` is called by any thread of a run and must not wait. A process that calls this twice keeps its first log.
    ///
    /// # Errors
    /// If `GAIA_LOG` is not a filter.
    pub fn open(sink: impl Fn(LogRecord) + Send + Sync + 'static) -> Result<Self, String> {
        let wanted = wanted()?;
        let is_open = wanted.is_none();
        let filter = wanted.unwrap_or_else(|| up_to(LevelFilter::WARN));
        let (filter, handle) = reload::Layer::new(filter);
        let subscriber = tracing_subscriber::registry().with(Bridge(sink).with_filter(filter));
        let _already_set = subscriber.try_init();

        Ok(Self { filter: is_open.then_some(handle) })
    }

    /// Selects the events of this level and those that are more serious, or none. Has no effect where `GAIA_LOG` is set.
    pub fn set_level(&self, level: Option<Level>) {
        if let Some(filter) = &self.filter {
            let level = level.map_or(LevelFilter::OFF, LevelFilter::from_level);
            // The filter is gone where the process has another log.
            let _gone = filter.reload(up_to(level));
        }
    }
}

/// Makes records of events.
struct Bridge<F>(F);

impl<F: Fn(LogRecord) + Send + Sync + 'static> Layer<Registry> for Bridge<F> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, Registry>) {
        let mut text = EventText::default();
        event.record(&mut text);
        let EventText { mut message, fields } = text;
        message.push_str(&fields);
        let metadata = event.metadata();
        let (level, target) = (*metadata.level(), metadata.target().into());
        (self.0)(LogRecord { level, target, text: message });
    }
}

/// The text of an event: its message, and ` name=value` for each of its other fields.
#[derive(Default)]
struct EventText {
    message: String,
    fields: String,
}

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

/// The filter that `GAIA_LOG` is, if it is set.
///
/// # Errors
/// If it is not a filter.
fn wanted() -> Result<Option<Targets>, String> {
    let Some(wanted) = std::env::var_os(LOG) else { return Ok(None) };
    let wanted = wanted.to_string_lossy();
    let expected =
        |error| format!("{LOG} is `{wanted}` ({error}), expected a filter such as \"gaia=info\"");
    wanted.parse().map(Some).map_err(|error: ParseError| expected(error))
}

/// Says which node this process is: from here on each line of a log in JSON does.
pub(super) fn name_node(name: &str) {
    // A process is one node, or one server with its worker.
    let _already_named = NODE.set(name.into());
}

/// Events as the library writes them; notes for a person without time, level and module.
struct TextLines {
    full: Format<Full>,
}

impl<S, N> FormatEvent<S, N> for TextLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if event.metadata().target() != TOLD {
            return self.full.format_event(context, writer, event);
        }
        let mut text = EventText::default();
        event.record(&mut text);
        writeln!(writer, "{}{}", text.message, text.fields)
    }
}

/// JSON as the library writes it, and the node in front of all else, so that the logs of many can be merged.
struct NodeLines {
    json: Format<Json>,
    node: &'static OnceLock<String>,
}

impl<S, N> FormatEvent<S, N> for NodeLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(node) = self.node.get() else {
            return self.json.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.json.format_event(context, Writer::new(&mut line), event)?;
        let rest = line.strip_prefix('{').ok_or(fmt::Error)?;
        let node = serde_json::to_string(node).map_err(|_| fmt::Error)?;
        write!(writer, "{{\"node\":{node},{rest}")
    }
}

/// Which node this process is, once that is known.
static NODE: OnceLock<String> = OnceLock::new();

/// The environment variable that selects the logged events.
const LOG: &str = "GAIA_LOG";

/// The events of a level and those that are more serious. Any host can cause quinn's warnings about packets, one by each
/// packet, so they are left out unless the level is for debugging: what Gaia says of callers that it refuses is limited in
/// rate.
fn up_to(level: LevelFilter) -> Targets {
    let of_packets = if level > LevelFilter::INFO { level } else { level.min(LevelFilter::ERROR) };
    Targets::new().with_default(level).with_target("quinn_proto", of_packets)
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use serde_json::Value;

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_record_has_the_level_the_target_and_the_fields_of_its_event() {
        let records = Arc::new(Mutex::new(Vec::new()));
        let kept = records.clone();
        let (filter, handle) = reload::Layer::new(up_to(LevelFilter::WARN));
        let bridge = Bridge(move |record| kept.lock().unwrap().push(record)).with_filter(filter);
        let log = Log { filter: Some(handle) };
        let said = || {
            tracing::warn!(target: "gaia_driver::real", at = 3, node = "tokyo", "it is lost");
            tracing::debug!("in detail");
            tracing::warn!(target: "quinn_proto::connection", "illegal packet");
            let taken: Vec<LogRecord> = std::mem::take(&mut records.lock().unwrap());
            taken
        };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(bridge), || {
            let text = "it is lost at=3 node=\"tokyo\"".to_owned();
            let target = "gaia_driver::real".to_owned();
            assert_eq!(said(), [LogRecord { level: Level::WARN, target, text }]);
            log.set_level(Some(Level::DEBUG));
            assert_eq!(said().len(), 3);
            log.set_level(None);
            assert_eq!(said(), []);
        });
    }

    #[test]
    fn a_note_for_a_person_has_no_time_level_or_module() {
        let page = Page::default();
        let writer = page.clone();
        let log = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false);
        let log = log.event_format(TextLines { full: Format::default() }).finish();
        tracing::subscriber::with_default(log, || {
            tracing::warn!(target: TOLD, "waiting for tokyo");
            tracing::warn!(target: "gaia_driver::real", "it is lost");
        });
        let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
        let (note, rest) = text.split_once('\n').unwrap();
        assert_eq!(note, "waiting for tokyo");
        assert!(rest.ends_with("  WARN gaia_driver::real: it is lost\n"), "{rest}");
    }

    #[test]
    fn each_line_is_an_object_with_time_level_target_message_fields_spans_and_node() {
        static NAMED: OnceLock<String> = OnceLock::new();
        let page = Page::default();
        let (json, writer) = (Format::default().json(), page.clone());
        let log = tracing_subscriber::fmt().with_writer(move || writer.clone());
        let log = log.fmt_fields(JsonFields::new());
        let log = log.event_format(NodeLines { json, node: &NAMED }).finish();
        tracing::subscriber::with_default(log, || {
            tracing::warn!("before");
            NAMED.set("to\"kyo/server-0".into()).unwrap();
            let span = tracing::info_span!("link", peer = "oregon/server-0").entered();
            tracing::info!(bytes = 7, "a \"message\"\nof two lines");
            drop(span);
        });

        let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[0]["level"], &lines[0]["node"]), (&"WARN".into(), &Value::Null));
        let line = &lines[1];
        assert_eq!(line["node"], "to\"kyo/server-0");
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["target"], "gaia::cli::log::tests");
        assert_eq!(line["fields"]["message"], "a \"message\"\nof two lines");
        assert_eq!(line["fields"]["bytes"], 7);
        assert_eq!(line["span"]["peer"], "oregon/server-0");

        let time = line["timestamp"].as_str().unwrap();
        let shape: String =
            time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00T00:00:00.000000Z");
    }
}
