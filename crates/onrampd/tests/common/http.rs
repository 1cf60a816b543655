//! Programs that serve HTTP, and what asks them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Ends with this.
pub struct Program(pub Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program that says where it serves `page`.
pub fn serving(mut command: Command, page: &str) -> (Program, SocketAddr) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let at = line.trim().strip_prefix("ready: http://").and_then(|l| l.strip_suffix(page)).expect(&line);
    (Program(child), at.parse().unwrap())
}

/// The whole answer to some bytes.
pub fn ask(at: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // It may answer, and close, before all has come.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

pub fn get(at: SocketAddr, path: &str) -> String {
    ask(at, format!("GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n").as_bytes())
}
