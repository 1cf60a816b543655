//! A small HTTP server for commands that show the agent's state: GET and HEAD, one request a connection. Requests,
//! connections and the time that each takes are bounded.

use onrampd::wait::signalled;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Longest request, in bytes.
const MAX_REQUEST: usize = 8192;
/// A request has to be there, and its answer taken, within this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections at the same time; more are closed.
const MAX_CLIENTS: usize = 16;

/// A request by GET or HEAD.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Path, without the query.
    pub path: &'a str,
    /// Query: the text after the question mark.
    pub query: &'a str,
    /// The header `Host`; none where it is missing, or there are several.
    pub host: Option<&'a str>,
    /// This end of the connection.
    pub local: IpAddr,
}

impl Request<'_> {
    /// Value of a key of the query, as it is written there.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        self.query.split('&').filter_map(|pair| pair.split_once('=')).find(|(k, _)| *k == key).map(|(_, value)| value)
    }

    /// Returns whether `Host` names this host by a loopback name, or by the address that was connected to. A web site
    /// whose name is made to point here (DNS rebinding) has its own name in `Host`.
    #[must_use]
    pub fn is_for_this_host(&self) -> bool {
        let Some(host) = self.host else { return false };
        let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, rest)) => (name, rest.strip_prefix(':').unwrap_or(rest)),
            None => host.split_once(':').unwrap_or((host, "")),
        };
        let is_ours = |address: IpAddr| address.is_loopback() || address == self.local.to_canonical();
        let is_name = name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_ours);
        is_name && port.bytes().all(|c| c.is_ascii_digit())
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Status line after the version: "200 OK".
    pub status: &'static str,
    /// `Content-Type`.
    pub kind: &'static str,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
    /// Body; left out of the answer to HEAD.
    pub body: String,
}

impl Answer {
    /// An answer without further headers.
    pub fn new(status: &'static str, kind: &'static str, body: impl Into<String>) -> Self {
        Self { status, kind, headers: Vec::new(), body: body.into() }
    }

    /// A line of text.
    pub fn line(status: &'static str, text: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{text}\n"))
    }

    fn bytes(self, body: bool) -> Vec<u8> {
        let mut head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n",
            self.status,
            self.kind,
            self.body.len()
        );
        self.headers.iter().for_each(|(name, value)| head.extend([*name, ": ", value.as_str(), "\r\n"]));
        head.push_str("\r\n");
        if body {
            head.push_str(&self.body);
        }
        head.into_bytes()
    }
}

/// Binds to `listen`; an error names the address.
///
/// # Errors
/// It cannot listen there.
pub fn bind(listen: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(listen).map_err(|e| io::Error::new(e.kind(), format!("{listen}: {e}")))
}

/// Serves until SIGINT or SIGTERM, and says that it does, with the page to look at.
///
/// # Errors
/// Signals cannot be caught.
pub fn serve(
    listener: TcpListener,
    page: &str,
    answer: impl Fn(&Request<'_>) -> Answer + Send + Sync + 'static,
) -> io::Result<()> {
    let mut end = signalled(&[SIGINT, SIGTERM])?;
    println!("ready: http://{}{page}", listener.local_addr()?);
    thread::spawn(move || accept(&listener, &Arc::new(answer)));
    let _ = end.read(&mut [0]);
    Ok(())
}

fn accept<A: Fn(&Request<'_>) -> Answer + Send + Sync + 'static>(listener: &TcpListener, answer: &Arc<A>) {
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
        let (one, answer) = (clients.clone(), answer.clone());
        // One that fails has lost its client.
        let _ = thread::Builder::new().spawn(move || {
            let _ = converse(stream, &*answer);
            drop(one);
        });
    }
}

fn converse(mut stream: TcpStream, answer: &impl Fn(&Request<'_>) -> Answer) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    stream.set_write_timeout(Some(PATIENCE))?;
    let local = stream.local_addr()?.ip();
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
        if let Some(answer) = reply(&request, local, answer) {
            break answer;
        }
        if n == 0 {
            return Ok(());
        }
    };
    // A reader that takes a little at a time does not stay for longer than others.
    let until = Instant::now() + PATIENCE;
    let mut rest = &answer[..];
    while !rest.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(rest)? {
            0 => return Ok(()),
            n => rest = &rest[n..],
        }
    }
    Ok(())
}

/// The answer to a request, once it is complete, or cannot become one.
fn reply(request: &[u8], local: IpAddr, answer: &impl Fn(&Request<'_>) -> Answer) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    let complete = match parsed.parse(request) {
        Ok(status) => status.is_complete(),
        Err(_) => return Some(Answer::line("400 Bad Request", "not understood").bytes(true)),
    };
    if !complete {
        return (request.len() > MAX_REQUEST).then(|| Answer::line("431 Too Long", "too long").bytes(true));
    }
    let body = parsed.method != Some("HEAD");
    if !matches!(parsed.method, Some("GET" | "HEAD")) {
        let mut refusal = Answer::line("405 Not Allowed", "GET or HEAD");
        refusal.headers.push(("Allow", "GET, HEAD".into()));
        return Some(refusal.bytes(body));
    }
    let target = parsed.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut hosts = parsed.headers.iter().filter(|h| h.name.eq_ignore_ascii_case("host"));
    let host = hosts.next().filter(|_| hosts.next().is_none()).and_then(|h| std::str::from_utf8(h.value).ok());
    Some(answer(&Request { path, query, host, local }).bytes(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(host: Option<&'static str>) -> Request<'static> {
        Request { path: "/", query: "a=1&since=7&b", host, local: [10, 0, 0, 1].into() }
    }

    #[test]
    fn only_names_of_this_host_are_for_it() {
        for host in [
            "localhost",
            "LocalHost:9474",
            "127.0.0.1:9474",
            "127.9.9.9",
            "[::1]:9474",
            "[::1]",
            "10.0.0.1:9474",
            "10.0.0.1",
        ] {
            assert!(request(Some(host)).is_for_this_host(), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:9474",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.2",
            "127.0.0.1:9474@evil.example",
            "[::1",
            "[::1]x",
            "[fd09::2]:9474",
        ] {
            assert!(!request(Some(host)).is_for_this_host(), "{host}");
        }
        assert!(!request(None).is_for_this_host());
    }

    #[test]
    fn a_query_has_values() {
        let of = |key| request(None).value(key).map(str::to_owned);
        assert_eq!([of("since").as_deref(), of("b").as_deref(), of("c").as_deref()], [Some("7"), None, None]);
    }

    #[test]
    fn head_has_no_body_and_two_hosts_are_none() {
        let asked = |text: &str| {
            let answer = |r: &Request<'_>| Answer::line("200 OK", r.host.unwrap_or("none"));
            reply(text.as_bytes(), [127, 0, 0, 1].into(), &answer).map(|bytes| String::from_utf8(bytes).unwrap())
        };
        assert_eq!(asked("GET / HTTP/1.1\r\nHost: a\r\n"), None, "its end has not come");
        assert!(asked("GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap().ends_with("\r\n\r\na\n"));
        assert!(asked("GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n").unwrap().ends_with("none\n"));
        assert!(asked("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap().ends_with("Connection: close\r\n\r\n"));
        assert!(asked("POST / HTTP/1.1\r\n\r\n").unwrap().starts_with("HTTP/1.1 405"));
    }
}
