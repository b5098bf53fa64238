//! `--live`: the page of the run under way, over HTTP.

use std::net::SocketAddr;

use clap::Args;

use super::{Failure, Terminal};
use gaia_driver::real::http::{Announcer, Answer, Events, PLAIN, Site, serve};
use gaia_report::{LIVE_SCRIPT, LivePage};

/// Whether the run is shown on a page while it goes on.
#[derive(Debug, Args)]
pub(crate) struct LiveFlags {
    /// Serve the report over HTTP while the run goes on, renewed at each evaluation, without authentication. A port
    /// alone is a port of 127.0.0.1, and 0 is any free one; written after the run file [default port: 9465]
    #[arg(long, value_name = "[IP:]PORT", num_args = 0..=1, default_missing_value = "9465", value_parser = served_at)]
    pub(crate) live: Option<SocketAddr>,
}

impl LiveFlags {
    /// Starts to serve the page, if that is asked for, and says where.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub(super) fn serve(&self, terminal: &Terminal) -> Result<Option<LivePage>, Failure> {
        let Some(address) = self.live else { return Ok(None) };
        let (announcer, events) = Announcer::new();
        let page = LivePage::new(move || announcer.announce());
        let address = serve(address, Live { page: page.clone(), events })
            .map_err(|error| Failure::usage(format!("--live: {error}, expected a free port")))?;
        terminal.note(&format!("live at http://{address}/"));
        Ok(Some(page))
    }
}

/// The page, its script and its events.
#[derive(Clone)]
struct Live {
    page: LivePage,
    events: Events,
}

impl Site for Live {
    const NAME: &'static str = "live";

    fn answer(&self, path: &str) -> Answer {
        match path {
            "/" => Answer::text(200, "text/html; charset=utf-8", &*self.page.draw()),
            "/live.js" => Answer::text(200, "text/javascript; charset=utf-8", LIVE_SCRIPT),
            "/events" => Answer::events(self.events.clone()),
            _ => Answer::text(404, PLAIN, "/ has the page of the run\n"),
        }
    }
}

/// Where to serve the page.
fn served_at(text: &str) -> Result<SocketAddr, String> {
    let port = || Some(SocketAddr::from(([127, 0, 0, 1], text.parse().ok()?)));
    text.parse().ok().or_else(port).ok_or_else(|| {
        "expected PORT or IP:PORT, such as 9465 or 0.0.0.0:9465; without one, --live stands after the run file".into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        let check = |text: &str, expect: Option<&str>| {
            let found = served_at(text).ok().map(|address| address.to_string());
            assert_eq!(found.as_deref(), expect, "{text}");
        };
        check("9465", Some("127.0.0.1:9465"));
        check("0.0.0.0:0", Some("0.0.0.0:0"));
        check("run.toml", None);
    }
}
