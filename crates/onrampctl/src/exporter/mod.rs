//! Tells Prometheus of the agent: a small HTTP server, which asks the agent anew for each scrape.

mod metrics;

use crate::agent::{Client, unanswered};
use crate::http::{self, Answer, Request};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Where it listens unless it is told.
pub const LISTEN: &str = "127.0.0.1:9473";

/// Serves until SIGINT or SIGTERM.
///
/// # Errors
/// It cannot listen there.
pub fn run(listen: SocketAddr, max_paths: usize, agent: &Path) -> io::Result<()> {
    let (agent, missing) = (agent.to_owned(), Missing::default());
    http::serve(http::bind(listen)?, "/metrics", move |request| answer(request, max_paths, &agent, &missing))
}

/// Why `onramp_up` is 0, as it was last logged; none while it is 1.
#[derive(Default)]
struct Missing(Mutex<Option<String>>);

impl Missing {
    /// Returns the line to log, if that is another reason than before, or there is none any more.
    fn changed(&self, why: Option<String>) -> Option<String> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *last == why {
            return None;
        }
        let line =
            why.as_ref().map_or("onramp_up is 1: the agent answers".into(), |why| format!("onramp_up is 0: {why}"));
        *last = why;
        Some(line)
    }
}

fn answer(request: &Request<'_>, max_paths: usize, agent: &Path, missing: &Missing) -> Answer {
    if request.path != "/metrics" {
        return Answer::line("404 Not Found", "see /metrics");
    }
    let status = Client::connect(agent).and_then(|mut client| client.status(0, true));
    if let Some(line) = missing.changed(status.as_ref().err().map(|e| unanswered(agent, e))) {
        eprintln!("onrampctl: {line}");
    }
    match metrics::text(status.ok(), max_paths) {
        Ok(text) => Answer::new("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", text),
        Err(e) => Answer::line("500 Failed", &e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_there_is_no_agent_is_logged_once() {
        let missing = Missing::default();
        let why = || Some("no agent answers at /x: No such file".into());
        assert_eq!(missing.changed(None), None);
        assert_eq!(missing.changed(why()).as_deref(), Some("onramp_up is 0: no agent answers at /x: No such file"));
        assert_eq!(missing.changed(why()), None);
        assert!(missing.changed(None).is_some_and(|line| line.starts_with("onramp_up is 1")));
    }
}
