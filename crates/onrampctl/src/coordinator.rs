//! Short conversations of commands with a coordinator: to join, and to ask how the fleet is.

use onrampd::fleet::link::{Link, call};
use onrampd::fleet::pki::{self, Authority, Newcomer, Token};
use onrampd::fleet::wire::{self, Fleet, FromCoordinator, FromHost, MAX_FROM_COORDINATOR, Progress};
use onrampd::wait::{ready, wait};
use rustls::{ClientConfig, ClientConnection};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);

/// Joins the token's fleet as `address`; certificates go to `folder`. Returns the fleet's coordinators, as far as the one of
/// the token tells of them.
///
/// # Errors
/// The coordinator does not answer or refuses, or the host has joined before.
pub fn join(token: &Token, address: IpAddr, folder: &Path) -> io::Result<Vec<SocketAddr>> {
    let newcomer = Newcomer::new(folder)?;
    let [public_key, pair_key] = [newcomer.public_key(), &newcomer.pair_key()].map(hex::encode);
    let request =
        FromHost::Join { secret: hex::encode(token.secret), address, public_key, pair_key, speaks: wire::SPEAKS };
    match ask(token.coordinator, Some(address), Newcomer::client(token)?, &request)? {
        FromCoordinator::Joined { certificate, authority, coordinators } => {
            newcomer.store(folder, token, &certificate, &authority).map(|()| coordinators)
        }
        other => Err(unexpected(token.coordinator, other)),
    }
}

/// Asks the first of `coordinators` that answers how the fleet is.
///
/// # Errors
/// None answers, or this host has not joined and is no coordinator.
pub fn fleet(coordinators: &[SocketAddr], folder: &Path) -> io::Result<Fleet> {
    // A coordinator that is no member asks as what it is.
    let as_coordinator = || Authority::open(folder)?.client();
    let tls = pki::client(folder).or_else(|e| as_coordinator().map_err(|_| e))?;
    let mut last = io::Error::other("there is no coordinator");
    for &coordinator in coordinators {
        match ask(coordinator, None, tls.clone(), &FromHost::Fleet) {
            Ok(FromCoordinator::Fleet(fleet)) => return Ok(fleet),
            Ok(other) => last = unexpected(coordinator, other),
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// Has another coordinator keep what the operator has said.
///
/// # Errors
/// It does not answer, or cannot.
pub fn tell(coordinator: SocketAddr, authority: &Authority, what: &FromHost) -> io::Result<()> {
    match ask(coordinator, None, authority.client()?, what)? {
        FromCoordinator::Kept => Ok(()),
        other => Err(unexpected(coordinator, other)),
    }
}

/// How far the policy has come, by those of `coordinators` that answer within `patience`. All are asked at once.
#[must_use]
pub fn progress(coordinators: &[SocketAddr], authority: &Authority, patience: Duration) -> Vec<Progress> {
    let asked = |at: SocketAddr| match ask_within(at, None, authority.client().ok()?, &FromHost::Progress, patience) {
        Ok(FromCoordinator::Progress(progress)) => Some(progress),
        _ => None,
    };
    thread::scope(|scope| {
        let asked: Vec<_> = coordinators.iter().map(|at| scope.spawn(|| asked(*at))).collect();
        asked.into_iter().filter_map(|thread| thread.join().ok()?).collect()
    })
}

fn unexpected(coordinator: SocketAddr, said: FromCoordinator) -> io::Error {
    match said {
        FromCoordinator::Refused { reason } => io::Error::other(format!("coordinator {coordinator}: {reason}")),
        _ => io::Error::other(format!("coordinator {coordinator}: does not answer what it was asked")),
    }
}

/// One question, one answer. With `from`, it is asked from this host's address of that name.
fn ask(
    coordinator: SocketAddr,
    from: Option<IpAddr>,
    tls: Arc<ClientConfig>,
    question: &FromHost,
) -> io::Result<FromCoordinator> {
    ask_within(coordinator, from, tls, question, PATIENCE)
}

fn ask_within(
    coordinator: SocketAddr,
    from: Option<IpAddr>,
    tls: Arc<ClientConfig>,
    question: &FromHost,
    patience: Duration,
) -> io::Result<FromCoordinator> {
    // Without the code of the error: that would look as if the agent had not answered.
    let named = |e: io::Error| io::Error::other(format!("coordinator {coordinator}: {e}"));
    let socket = call(coordinator, from).map_err(named)?;
    let tls = ClientConnection::new(tls, pki::coordinator()).map_err(io::Error::other)?;
    let mut link = Link::new(socket, tls, MAX_FROM_COORDINATOR)?;
    link.say(question)?;
    let begun = Instant::now();
    loop {
        let open = link.tend();
        if let Some(line) = link.line() {
            return wire::parse(&line).map_err(|e| named(io::Error::other(e)));
        }
        open.map_err(named)?;
        let left = patience.checked_sub(begun.elapsed()).ok_or_else(|| named(io::ErrorKind::TimedOut.into()))?;
        wait([ready(link.as_fd(), link.wants_write())].into_iter(), left.as_nanos() as u64)?;
    }
}
