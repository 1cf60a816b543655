//! Tells Prometheus of the agent: a small HTTP server, which asks the agent anew for each scrape.

mod metrics;

use crate::agent::Client;
use onrampd::wait::signalled;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Where it listens unless it is told.
pub const LISTEN: &str = "127.0.0.1:9473";
/// Longest request, in bytes.
const MAX_REQUEST: usize = 8192;
/// A request has to be there, and its answer taken, within this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections at the same time; more are closed.
const MAX_CLIENTS: usize = 16;

/// Serves until SIGINT or SIGTERM.
///
/// # Errors
/// It cannot listen there.
pub fn run(listen: SocketAddr, max_paths: usize, agent: &Path) -> io::Result<()> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{listen}: {e}"));
    let listener = TcpListener::bind(listen).map_err(named)?;
    let mut end = signalled(&[SIGINT, SIGTERM])?;
    println!("ready: http://{}/metrics", listener.local_addr()?);
    let agent: Arc<Path> = agent.into();
    thread::spawn(move || accept(&listener, max_paths, &agent));
    let _ = end.read(&mut [0]);
    Ok(())
}

fn accept(listener: &TcpListener, max_paths: usize, agent: &Arc<Path>) {
    let clients = Arc::new(());
    for stream in listener.incoming() {
        // With no descriptors left it would come round at once.
        let Ok(stream) = stream else {
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if Arc::strong_count(&clients) > MAX_CLIENTS {
            continue;
        }
        let (one, agent) = (clients.clone(), agent.clone());
        // One that fails has lost its client.
        let _ = thread::Builder::new().spawn(move || {
            let _ = serve(stream, max_paths, &agent);
            drop(one);
        });
    }
}

fn serve(mut stream: TcpStream, max_paths: usize, agent: &Path) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let answer = loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        let mut bytes = [0; 1024];
        let n = stream.read(&mut bytes)?;
        request.extend_from_slice(&bytes[..n]);
        if let Some(answer) = answer(&request, max_paths, agent) {
            break answer;
        }
        if n == 0 {
            return Ok(());
        }
    };
    stream.write_all(&answer)
}

/// The answer to a request, once it is complete, or cannot become one.
fn answer(request: &[u8], max_paths: usize, agent: &Path) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    let complete = match parsed.parse(request) {
        Ok(status) => status.is_complete(),
        Err(_) => return Some(response("400 Bad Request", "text/plain", "not understood\n", true)),
    };
    if !complete {
        return (request.len() > MAX_REQUEST).then(|| response("431 Too Long", "text/plain", "too long\n", true));
    }
    let body = parsed.method != Some("HEAD");
    let path = parsed.path.unwrap_or_default().split('?').next();
    Some(match (parsed.method, path) {
        (Some("GET" | "HEAD"), Some("/metrics")) => {
            let status = Client::connect(agent).and_then(|mut client| client.status(0, true)).ok();
            match metrics::text(status, max_paths) {
                Ok(text) => {
                    response("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", &text, body)
                }
                Err(e) => response("500 Failed", "text/plain", &format!("{e}\n"), body),
            }
        }
        (Some("GET" | "HEAD"), _) => response("404 Not Found", "text/plain", "see /metrics\n", body),
        _ => response("405 Not Allowed", "text/plain", "GET or HEAD\n", body),
    })
}

fn response(status: &str, kind: &str, text: &str, body: bool) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    let mut bytes = head.into_bytes();
    if body {
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}
