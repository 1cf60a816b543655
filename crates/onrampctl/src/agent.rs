//! Asks an agent by its socket.

use onrampd::effects::blocks::Block;
use onrampd::status::Status;
use onrampd::status::protocol::{History, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest answer a client reads, in bytes.
const MAX_REPLY: u64 = 16 << 20;
/// How long a client waits.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to an agent.
pub struct Client(BufReader<UnixStream>);

impl Client {
    /// Connects to the agent whose socket is at `path`.
    ///
    /// # Errors
    /// There is none.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Asks for the status with `flows` flows, and with histograms of one-way delays: its line of JSON.
    ///
    /// # Errors
    /// The agent has gone, or does not answer.
    pub fn line(&mut self, flows: usize, histograms: bool) -> io::Result<String> {
        self.send(&Request::Status { flows, histograms })
    }

    /// Sends a request; the answer's line, unless it says what is wrong.
    fn send(&mut self, request: &Request) -> io::Result<String> {
        let mut request = serde_json::to_vec(request)?;
        request.push(b'\n');
        self.0.get_mut().write_all(&request)?;
        let mut line = String::new();
        self.0.by_ref().take(MAX_REPLY).read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        #[derive(Deserialize)]
        struct Complaint {
            error: String,
        }
        match serde_json::from_str::<Complaint>(&line) {
            Ok(Complaint { error }) => Err(io::Error::other(error)),
            Err(_) => Ok(line),
        }
    }

    /// The answer to a request.
    ///
    /// # Errors
    /// The same, or what the agent says is wrong.
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> io::Result<T> {
        Ok(serde_json::from_str(&self.send(request)?)?)
    }

    /// The status, read.
    ///
    /// # Errors
    /// The same, or an answer that cannot be understood.
    pub fn status(&mut self, flows: usize, histograms: bool) -> io::Result<Status> {
        Ok(serde_json::from_str(&self.line(flows, histograms)?)?)
    }

    /// The blocks that ended after `since` and until `until`, in seconds since 1970.
    ///
    /// # Errors
    /// The same; an earlier version keeps none.
    pub fn history(&mut self, mut since: u64, until: u64) -> io::Result<Vec<Block>> {
        #[derive(Deserialize)]
        struct Answer {
            blocks: Vec<Block>,
            next: Option<u64>,
        }
        let mut blocks = Vec::new();
        loop {
            let line = self.send(&Request::History(History { since, until }))?;
            let answer = serde_json::from_str::<Answer>(&line);
            let answer =
                answer.map_err(|_| io::Error::other(format!("the agent keeps no history: {}", line.trim_end())))?;
            blocks.extend(answer.blocks);
            match answer.next.filter(|next| *next > since) {
                Some(next) => since = next,
                None => return Ok(blocks),
            }
        }
    }
}

/// Says why the agent at `socket` could not be asked.
#[must_use]
pub fn unanswered(socket: &Path, e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("{}: only root and the agent's group, onrampd, may ask it", socket.display())
        }
        _ if e.raw_os_error().is_some() => format!("no agent answers at {}: {e}", socket.display()),
        _ => e.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::{env, fs, process, thread};

    #[test]
    fn an_agent_that_says_what_is_wrong_is_heard() {
        let path = env::temp_dir().join(format!("onrampctl-busy-{}", process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let agent = thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            stream.read_line(&mut String::new()).unwrap();
            stream.get_mut().write_all(b"{\"error\":\"the agent is busy\"}\n").unwrap();
        });
        let e = Client::connect(&path).unwrap().status(0, false).unwrap_err();
        assert_eq!(unanswered(&path, &e), "the agent is busy");
        agent.join().unwrap();
        fs::remove_file(path).unwrap();
    }
}
