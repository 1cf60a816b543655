//! The connection to a coordinator: the preferred one, or the next that answers.

use crate::config::Fleet;
use crate::fleet::link::{self, Link};
use crate::fleet::pki;
use crate::fleet::wire::{self, FromCoordinator, FromHost, MAX_FROM_COORDINATOR, SPEAKS};
use crate::policy::Labels;
use onramp_clock::Correction;
use rustls::{ClientConfig, ClientConnection};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;
/// A coordinator that says nothing for so long after it was called does not answer.
const PATIENCE: u64 = 5 * SECOND;
/// One that has nothing to say says so in each round; the longest are a minute.
const SILENCE: u64 = 10 * SECOND;
/// After all coordinators were tried in vain.
const PAUSE: u64 = SECOND;
/// While another coordinator serves, the preferred ones are called this often.
const RETURN: u64 = 10 * SECOND;

/// Why none serves before one was called.
pub const UNANSWERED: &str = "no coordinator has answered yet";

/// This host's place in its fleet.
pub struct Membership {
    us: IpAddr,
    /// Where certificates are.
    folder: PathBuf,
    aliases: Vec<IpAddr>,
    labels: Labels,
    /// This host's stamps are the programs'.
    by_programs: bool,
    coordinators: Vec<SocketAddr>,
    tls: Arc<ClientConfig>,
    /// The one that serves.
    serving: Option<Call>,
    /// One that is called, and may serve soon.
    calling: Option<Call>,
    next: usize,
    next_at: u64,
    /// Time between two rounds, as far as it is known.
    window: u64,
    correction: Option<Correction>,
    trouble: String,
    /// Which coordinator has refused this host, where that is the trouble: that another one does not answer tells less.
    refused_by: Option<usize>,
}

struct Call {
    link: Link,
    which: usize,
    heard: u64,
}

impl Membership {
    /// Not connected yet.
    ///
    /// # Errors
    /// The host has not joined.
    pub fn new(fleet: &Fleet, by_programs: bool) -> io::Result<Self> {
        Ok(Self {
            us: fleet.address,
            folder: fleet.folder.clone(),
            aliases: fleet.aliases.clone(),
            labels: fleet.labels.clone(),
            by_programs,
            coordinators: fleet.coordinators.clone(),
            tls: pki::client(&fleet.folder)?,
            serving: None,
            calling: None,
            next: 0,
            next_at: 0,
            window: 0,
            correction: None,
            trouble: UNANSWERED.into(),
            refused_by: None,
        })
    }

    /// The coordinator that serves.
    #[must_use]
    pub fn coordinator(&self) -> Option<SocketAddr> {
        self.serving.as_ref().map(|call| self.coordinators[call.which])
    }

    /// Why none serves; empty while one does.
    #[must_use]
    pub fn trouble(&self) -> &str {
        &self.trouble
    }

    /// Descriptors to wait for, and whether also for room to write.
    pub fn waits(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let calls = self.serving.iter().chain(&self.calling);
        calls.map(|call| (call.link.as_fd(), call.link.wants_write()))
    }

    /// When there is something to do though nothing comes.
    #[must_use]
    pub fn due(&self) -> u64 {
        let silent = self.serving.as_ref().map_or(u64::MAX, |call| call.heard + self.silence());
        let called = self.calling.as_ref().map_or(self.next_at, |call| call.heard + PATIENCE);
        silent.min(called)
    }

    fn silence(&self) -> u64 {
        SILENCE + 3 * self.window
    }

    /// Correction this host goes by, for a coordinator that starts anew.
    pub fn corrected(&mut self, correction: Option<Correction>) {
        self.correction = correction;
    }

    /// Keeps the certificate that the coordinator has sent, and tells it so.
    ///
    /// # Errors
    /// It cannot be kept; the one before goes on.
    pub fn renew(&mut self, certificate: &str) -> io::Result<()> {
        self.tls = pki::keep_renewed(&self.folder, self.us, certificate)?;
        self.say(&FromHost::Renewed);
        Ok(())
    }

    /// Says something to the coordinator, if there is one.
    pub fn say(&mut self, what: &FromHost) {
        if let Some(call) = &mut self.serving
            && let Err(e) = call.link.say(what).and_then(|()| call.link.tend())
        {
            self.lost(e.to_string());
        }
    }

    /// Does what can be done; returns what the coordinator said.
    pub fn tend(&mut self, now: u64) -> Vec<FromCoordinator> {
        let mut heard = Vec::new();
        let silence = self.silence();
        if let Some(call) = &mut self.serving {
            let open = call.tend(now, &mut heard);
            let silent = now.saturating_sub(call.heard) >= silence;
            if let Err(e) = open {
                self.lost(e);
            } else if silent {
                self.lost("says nothing".into());
            }
        }
        if let Some(call) = &mut self.calling {
            let mut first = Vec::new();
            let open = call.tend(now, &mut first);
            let late = now.saturating_sub(call.heard) >= PATIENCE;
            let refused = first.iter().find_map(|message| match message {
                FromCoordinator::Refused { reason } => Some(reason.clone()),
                _ => None,
            });
            match (open, refused) {
                (_, Some(reason)) => {
                    self.refused_by = None;
                    self.refused_by = self.not_this_one(now, &reason);
                    // What the one that served said last may have been lost with its connection.
                    if self.serving.is_none() {
                        heard.push(FromCoordinator::Refused { reason });
                    }
                }
                (Err(reason), None) => _ = self.not_this_one(now, &reason),
                (Ok(()), None) if late => _ = self.not_this_one(now, "does not answer"),
                (Ok(()), None) if first.is_empty() => {}
                (Ok(()), None) if !is_understood(&first[0]) => {
                    let older = "speaks an earlier version of the protocol";
                    self.not_this_one(now, &format!("{older}, and this host {SPEAKS}: upgrade the coordinator"));
                }
                // It speaks, so it serves.
                (Ok(()), None) => {
                    heard = first;
                    self.serving = self.calling.take();
                    self.trouble.clear();
                    self.refused_by = None;
                    self.next = 0;
                    self.next_at = now + RETURN;
                }
            }
        }
        if self.calling.is_none() && now >= self.next_at {
            self.call_next(now);
        }
        for message in &heard {
            if let FromCoordinator::Members { window, .. } = message {
                self.window = (*window).min(60 * SECOND);
            }
        }
        heard
    }

    fn call_next(&mut self, now: u64) {
        // Only those that are preferred to the one that serves.
        let end = self.serving.as_ref().map_or(self.coordinators.len(), |call| call.which);
        if self.next >= end {
            self.next = 0;
            self.next_at = now + if self.serving.is_some() { RETURN } else { PAUSE };
            return;
        }
        let which = self.next;
        self.next += 1;
        match self.call(which, now) {
            Ok(call) => self.calling = Some(call),
            Err(e) => _ = self.not_this_one(now, &e.to_string()),
        }
    }

    fn call(&self, which: usize, now: u64) -> io::Result<Call> {
        let address = self.coordinators[which];
        let socket = link::call(address, None)?;
        let _ = socket.set_nodelay(true);
        let tls = ClientConnection::new(self.tls.clone(), pki::coordinator()).map_err(io::Error::other)?;
        let mut link = Link::new(socket, tls, MAX_FROM_COORDINATOR)?;
        link.say(&FromHost::Hello {
            address: self.us,
            version: env!("CARGO_PKG_VERSION").into(),
            correction: self.correction,
            by_programs: self.by_programs,
            aliases: self.aliases.clone(),
            labels: self.labels.clone(),
            speaks: SPEAKS,
        })?;
        Ok(Call { link, which, heard: now })
    }

    /// The coordinator that was called does not serve: the next one is called at once. Returns which it was, if that is
    /// why none serves.
    fn not_this_one(&mut self, now: u64, reason: &str) -> Option<usize> {
        let which = self.calling.take().map_or(self.next.saturating_sub(1), |call| call.which);
        self.next_at = now;
        if self.serving.is_some() || self.refused_by.is_some_and(|by| by != which) {
            return None;
        }
        self.trouble = format!("coordinator {}: {reason}", self.coordinators[which]);
        self.refused_by = None;
        Some(which)
    }

    fn lost(&mut self, reason: String) {
        if let Some(call) = self.serving.take() {
            self.trouble = format!("coordinator {}: {reason}", self.coordinators[call.which]);
        }
        if self.calling.is_none() {
            self.next = 0;
            self.next_at = 0;
        }
    }
}

/// Returns whether the first that a coordinator says is by a protocol that is spoken here.
fn is_understood(first: &FromCoordinator) -> bool {
    matches!(first, FromCoordinator::Welcome { protocol } if (SPEAKS.oldest..=SPEAKS.newest).contains(protocol))
}

impl Call {
    /// Takes in what has come. An error says why the call is over.
    fn tend(&mut self, now: u64, heard: &mut Vec<FromCoordinator>) -> Result<(), String> {
        let open = self.link.tend();
        while let Some(line) = self.link.line() {
            self.heard = now;
            heard.push(wire::parse(&line)?);
        }
        open.map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => "closed the connection".into(),
            _ => e.to_string(),
        })
    }
}
