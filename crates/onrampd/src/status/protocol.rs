//! The agent's socket: a line of JSON asks, a line of JSON answers. Nothing can be changed
//! through it, so everybody on the host may ask.
//!
//! `{"get":"status"}`, or with the flows held longest: `{"get":"status","flows":20}`.

use crate::status::Status;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest request, in bytes.
pub const MAX_REQUEST: usize = 1024;
/// Most flows told of in one answer.
pub const MAX_FLOWS: usize = 1000;
/// Longest answer a client reads, in bytes.
const MAX_REPLY: u64 = 16 << 20;
/// How long a client waits.
const PATIENCE: Duration = Duration::from_secs(5);

/// A client's question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "get", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// The status.
    Status {
        /// With so many flows.
        #[serde(default)]
        flows: usize,
    },
}

/// Reads a request.
///
/// # Errors
/// Says what is wrong with it, as the reply does.
pub fn parse(line: &[u8]) -> Result<Request, String> {
    let text = std::str::from_utf8(line).map_err(|_| "a request is a line of UTF-8".to_string())?;
    let request = serde_json::from_str(text).map_err(|e| format!("no request: {e}: such as {{\"get\":\"status\"}}"))?;
    let Request::Status { flows } = request;
    Ok(Request::Status { flows: flows.min(MAX_FLOWS) })
}

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

    /// Asks for the status with `flows` flows: its line of JSON.
    ///
    /// # Errors
    /// The agent has gone, or does not answer.
    pub fn line(&mut self, flows: usize) -> io::Result<String> {
        let mut request = serde_json::to_vec(&Request::Status { flows })?;
        request.push(b'\n');
        self.0.get_mut().write_all(&request)?;
        let mut line = String::new();
        self.0.by_ref().take(MAX_REPLY).read_line(&mut line)?;
        if line.ends_with('\n') { Ok(line) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// The same, read.
    ///
    /// # Errors
    /// The same, or an answer that cannot be understood.
    pub fn status(&mut self, flows: usize) -> io::Result<Status> {
        Ok(serde_json::from_str(&self.line(flows)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn requests_are_read_and_bounded() {
        assert_eq!(parse(br#"{"get":"status"}"#), Ok(Request::Status { flows: 0 }));
        assert_eq!(parse(br#"{"get":"status","flows":5}"#), Ok(Request::Status { flows: 5 }));
        assert_eq!(parse(br#"{"get":"status","flows":99999999}"#), Ok(Request::Status { flows: MAX_FLOWS }));
        for bad in [&b""[..], b"status", b"{}", br#"{"get":"stop"}"#, br#"{"get":"status","flows":-1}"#, b"\xff"] {
            assert!(parse(bad).is_err());
        }
        assert!(parse(br#"{"get":"status","set":1}"#).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_refused(bytes in vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn any_json_is_a_request_or_refused(text in r#"[\[\]{}":,0-9a-z]{0,60}"#) {
            let _ = parse(text.as_bytes());
        }
    }
}
