//! One end of a TLS connection: lines in, lines out, never waiting.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use rustls::pki_types::CertificateDer;
use rustls::{AlertDescription, CertificateError, Connection};
use serde::Serialize;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes of lines that wait for a peer who does not read.
const MAX_WAITING: usize = 80 << 20;
/// Longest line of a peer who has shown no certificate.
const LONGEST_OF_STRANGERS: usize = 4 << 10;

/// A connection to `coordinator`, which may not be made yet: from this host's address `from`, if one is
/// given.
///
/// # Errors
/// There is no way there, or `from` is no address of this host.
pub fn call(coordinator: SocketAddr, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let family = if coordinator.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    if let Some(from) = from {
        let not_ours = |e: Errno| io::Error::other(format!("{from} is no address of this host to call it from: {e}"));
        bind(&socket, &SocketAddr::new(from, 0)).map_err(not_ours)?;
    }
    match connect(&socket, &coordinator) {
        Err(e) if e != Errno::INPROGRESS => Err(e.into()),
        _ => Ok(TcpStream::from(socket)),
    }
}

/// One end of a connection.
pub struct Link {
    socket: TcpStream,
    tls: Connection,
    input: Vec<u8>,
    /// Where the search for the end of a line goes on.
    searched: usize,
    longest: usize,
    /// Bytes of lines that were said and have not left, but for what TLS adds.
    waiting: usize,
}

impl Link {
    /// A client's or a server's end; `socket` may still be connecting. Lines of up to `longest`
    /// bytes are read.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn new(socket: TcpStream, tls: impl Into<Connection>, longest: usize) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let mut tls = tls.into();
        tls.set_buffer_limit(Some(MAX_WAITING));
        Ok(Self { socket, tls, input: Vec::new(), searched: 0, longest, waiting: 0 })
    }

    /// Returns whether there is something to write.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        self.tls.wants_write()
    }

    /// Bytes of lines that wait for the other end to read, roughly.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The other end's certificate, once it has shown it.
    #[must_use]
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.peer_certificates().and_then(<[_]>::first)
    }

    /// Returns whether the other end is on this host.
    #[must_use]
    pub fn is_within_host(&self) -> bool {
        let ends = [self.socket.local_addr(), self.socket.peer_addr()].map(|end| end.ok().map(|end| end.ip()));
        ends[0].is_some() && ends[0] == ends[1]
    }

    /// Writes what can be written, and reads what has come.
    ///
    /// # Errors
    /// The connection is over. Lines that came before can still be taken.
    pub fn tend(&mut self) -> io::Result<()> {
        self.flush()?;
        loop {
            match self.tls.read_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(e) if is_later(&e) => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            }
            if let Err(e) = self.tls.process_new_packets() {
                // So that the other end learns why.
                let _ = self.flush();
                return Err(io::Error::new(io::ErrorKind::InvalidData, in_words(e)));
            }
            match self.tls.reader().read_to_end(&mut self.input) {
                Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(e) if is_later(&e) => {}
                Err(e) => return Err(e),
            }
            let longest = self.certificate().map_or(LONGEST_OF_STRANGERS, |_| self.longest);
            if self.end_of_line().is_none() && self.input.len() > longest {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"));
            }
            // Whole lines are taken first; whoever sends on waits.
            if self.input.len() > longest {
                break;
            }
        }
        self.flush()
    }

    /// Writes what can be written.
    ///
    /// # Errors
    /// The connection is over.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.waiting = self.waiting.saturating_sub(written),
                Err(e) if is_later(&e) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.waiting = 0;
        Ok(())
    }

    fn end_of_line(&mut self) -> Option<usize> {
        let end = self.input[self.searched..].iter().position(|b| *b == b'\n').map(|at| self.searched + at);
        self.searched = end.unwrap_or(self.input.len());
        end
    }

    /// The next whole line that has come, without its end.
    pub fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.end_of_line()?;
        let mut line: Vec<u8> = self.input.drain(..=end).collect();
        line.pop();
        self.searched = 0;
        Some(line)
    }

    /// Says something; it leaves with the next [`Self::flush`] or [`Self::tend`].
    ///
    /// # Errors
    /// The other end does not read.
    pub fn say(&mut self, what: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        self.waiting += line.len();
        self.tls.writer().write_all(&line)
    }
}

/// Meaning of a TLS error here.
fn in_words(e: rustls::Error) -> String {
    match e {
        // Those of today say so of no time.
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }
            | CertificateError::Expired
            | CertificateError::ExpiredContext { .. },
        ) => "has a certificate by an earlier version: upgrade the coordinator".into(),
        rustls::Error::InvalidCertificate(_) => {
            "is of another fleet: its certificate is not by the same authority".into()
        }
        rustls::Error::AlertReceived(AlertDescription::UnknownCA | AlertDescription::DecryptError) => {
            "does not accept the certificate: it is of another fleet".into()
        }
        e => e.to_string(),
    }
}

/// Nothing can be done now, also because the connection is not made yet.
fn is_later(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::super::pki::{self, Authority};
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::net::TcpListener;
    use std::sync::{Arc, OnceLock};

    const LONGEST: usize = 1_000;

    /// Both ends of a connection, the server's first.
    fn ends() -> [Link; 2] {
        type Tls = (Arc<rustls::ServerConfig>, Arc<rustls::ClientConfig>);
        static TLS: OnceLock<Tls> = OnceLock::new();
        let (server, client) = TLS.get_or_init(|| {
            let folder = std::env::temp_dir().join(format!("orlink{}", std::process::id()));
            pki::found(&folder, [10, 0, 0, 1].into()).unwrap();
            let tls = (Authority::open(&folder).unwrap().server().unwrap(), pki::client(&folder).unwrap());
            std::fs::remove_dir_all(folder).unwrap();
            tls
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let called = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let server = rustls::ServerConnection::new(server.clone()).unwrap();
        let client = rustls::ClientConnection::new(client.clone(), pki::coordinator()).unwrap();
        [Link::new(accepted, server, LONGEST).unwrap(), Link::new(called, client, LONGEST).unwrap()]
    }

    /// Reads what arrives of `bytes` until the connection ends: lines, and how it ends.
    fn sent(bytes: &[u8]) -> (Vec<Vec<u8>>, String) {
        let [mut server, mut client] = ends();
        client.tls.writer().write_all(bytes).unwrap();
        let (mut lines, mut closed) = (Vec::new(), false);
        loop {
            // Its end has nothing to tell.
            let _ = client.tend();
            if !client.tls.is_handshaking() && !closed {
                closed = true;
                client.tls.send_close_notify();
            }
            let open = server.tend();
            lines.extend(std::iter::from_fn(|| server.line()));
            if let Err(e) = open {
                return (lines, e.to_string());
            }
        }
    }

    #[test]
    fn an_earlier_versions_certificate_is_none_of_another_fleet() {
        let said = |e| in_words(rustls::Error::InvalidCertificate(e));
        assert!(said(CertificateError::NotValidYet).contains("upgrade the coordinator"));
        assert!(said(CertificateError::UnknownIssuer).contains("another fleet"));
    }

    #[test]
    fn a_line_of_the_longest_is_read_and_a_longer_one_ends_the_connection() {
        let line = [vec![b'x'; LONGEST], vec![b'\n']].concat();
        let (lines, _) = sent(&line);
        assert!(lines == [&line[..LONGEST]]);
        let (lines, end) = sent(&[&b"first\n"[..], &[b'x'; 100 * LONGEST]].concat());
        assert_eq!((lines, end.as_str()), (vec![b"first".to_vec()], "a line is too long"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn lines_arrive_whole_and_in_order(lines in vec(vec(any::<u8>().prop_filter("no end", |b| *b != b'\n'), 0..LONGEST), 0..40)) {
            let bytes: Vec<u8> = lines.iter().flat_map(|line| line.iter().copied().chain([b'\n'])).collect();
            prop_assert_eq!(sent(&bytes).0, lines);
        }
    }
}
