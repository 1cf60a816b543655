//! Tells Prometheus of the agent: a small HTTP server, which asks the agent anew for each scrape.

mod metrics;

use crate::agent::Client;
use crate::http::{self, Answer, Request};
use std::io;
use std::net::SocketAddr;
use std::path::Path;

/// Where it listens unless it is told.
pub const LISTEN: &str = "127.0.0.1:9473";

/// Serves until SIGINT or SIGTERM.
///
/// # Errors
/// It cannot listen there.
pub fn run(listen: SocketAddr, max_paths: usize, agent: &Path) -> io::Result<()> {
    let agent = agent.to_owned();
    http::serve(http::bind(listen)?, "/metrics", move |request| answer(request, max_paths, &agent))
}

fn answer(request: &Request<'_>, max_paths: usize, agent: &Path) -> Answer {
    if request.path != "/metrics" {
        return Answer::line("404 Not Found", "see /metrics");
    }
    let status = Client::connect(agent).and_then(|mut client| client.status(0, true)).ok();
    match metrics::text(status, max_paths) {
        Ok(text) => Answer::new("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", text),
        Err(e) => Answer::line("500 Failed", &e.to_string()),
    }
}
