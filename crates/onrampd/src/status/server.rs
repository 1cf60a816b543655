//! Answers on the agent's socket without ever waiting for a client.

use crate::status::protocol::{self, MAX_REQUEST, Request};
use std::fs::{self, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Clients at the same time; one more, and the one silent for longest is let go.
const MAX_CLIENTS: usize = 32;
/// A client silent for so long is let go.
const MAX_SILENCE: Duration = Duration::from_secs(10);

/// The socket and who is connected.
pub struct Server {
    path: PathBuf,
    listener: UnixListener,
    clients: Vec<Client>,
}

struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    last: Instant,
}

impl Server {
    /// Opens the socket. One that a crashed agent left is replaced.
    ///
    /// # Errors
    /// Another agent answers there, or the socket cannot be made.
    pub fn open(path: &Path) -> io::Result<Self> {
        if UnixStream::connect(path).is_ok() {
            let taken = "another agent answers there: give each its own `socket`";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, taken));
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        match fs::symlink_metadata(path) {
            Ok(found) if !std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()) => {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is something that is no socket"));
            }
            Ok(_) => fs::remove_file(path)?,
            Err(_) => {}
        }
        let listener = UnixListener::bind(path)?;
        // Its own user's, that is root's or onrampd's, and its group's: who asks sees every flow of the host.
        fs::set_permissions(path, Permissions::from_mode(0o660))?;
        listener.set_nonblocking(true)?;
        Ok(Self { path: path.into(), listener, clients: Vec::new() })
    }

    /// Descriptors to wait for, and whether for room to write.
    pub fn waits(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let clients = self.clients.iter().map(|c| (c.stream.as_fd(), !c.output.is_empty()));
        [(self.listener.as_fd(), false)].into_iter().chain(clients)
    }

    /// Takes in what has come and sends what can be sent. `answer` makes a reply's line.
    pub fn tend(&mut self, answer: &mut dyn FnMut(Request) -> Vec<u8>) {
        let now = Instant::now();
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.clients.len() >= MAX_CLIENTS {
                let oldest = self.clients.iter().enumerate().min_by_key(|(_, c)| c.last).map(|(i, _)| i);
                oldest.map(|i| self.clients.swap_remove(i));
            }
            let client = Client { stream, input: Vec::new(), output: Vec::new(), written: 0, last: now };
            self.clients.push(client);
        }
        self.clients
            .retain_mut(|client| client.tend(now, answer).is_ok() && now.duration_since(client.last) < MAX_SILENCE);
    }
}

impl Client {
    /// An error means: let it go.
    fn tend(&mut self, now: Instant, answer: &mut dyn FnMut(Request) -> Vec<u8>) -> io::Result<()> {
        self.send(now)?;
        if !self.output.is_empty() {
            return Ok(());
        }
        let mut bytes = [0; MAX_REQUEST];
        match self.stream.read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => self.input.extend_from_slice(&bytes[..n]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
        // One request at a time: the next waits until the answer is out.
        let Some(end) = self.input.iter().position(|b| *b == b'\n') else {
            let too_long = self.input.len() > MAX_REQUEST;
            return if too_long { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) };
        };
        self.last = now;
        self.output = match protocol::parse(&self.input[..end]) {
            Ok(request) => answer(request),
            Err(error) => serde_json::json!({ "error": error }).to_string().into_bytes(),
        };
        self.output.push(b'\n');
        self.input.drain(..=end);
        self.send(now)
    }

    fn send(&mut self, now: Instant) -> io::Result<()> {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => (self.written, self.last) = (self.written + n, now),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};

    fn server(name: &str) -> (Server, PathBuf) {
        let path = std::env::temp_dir().join(format!("onrampd-{name}-{}.sock", std::process::id()));
        (Server::open(&path).unwrap(), path)
    }

    fn answer(request: Request) -> Vec<u8> {
        let Request::Status { flows, .. } = request else { return Vec::new() };
        vec![b'x'; flows]
    }

    #[test]
    fn requests_are_answered_in_turn_and_nonsense_is_named() {
        let (mut server, path) = server("turn");
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(b"{\"get\":\"status\",\"flows\":3}\nnonsense\n{\"get\":\"status\",\"flows\":1}\n").unwrap();
        (0..4).for_each(|_| server.tend(&mut answer));
        let lines: Vec<String> = BufReader::new(client).lines().take(3).map(Result::unwrap).collect();
        assert_eq!((lines[0].as_str(), lines[2].as_str()), ("xxx", "x"));
        assert!(lines[1].contains("error"), "{}", lines[1]);
        drop(server);
        assert!(!path.exists());
    }

    #[test]
    fn a_client_that_never_ends_its_line_is_let_go() {
        let (mut server, path) = server("line");
        let mut client = UnixStream::connect(path).unwrap();
        client.write_all(&[b'a'; 2 * MAX_REQUEST + 1]).unwrap();
        (0..4).for_each(|_| server.tend(&mut answer));
        assert!(server.clients.is_empty());
    }

    #[test]
    fn clients_that_do_not_read_cannot_pile_up() {
        let (mut server, path) = server("pile");
        let clients: Vec<UnixStream> = (0..2 * MAX_CLIENTS).map(|_| UnixStream::connect(&path).unwrap()).collect();
        for mut client in &clients {
            client.write_all(b"{\"get\":\"status\",\"flows\":1000}\n").unwrap();
        }
        server.tend(&mut answer);
        assert_eq!(server.clients.len(), MAX_CLIENTS);
        assert!(Server::open(&path).is_err(), "it is in use");
    }
}
