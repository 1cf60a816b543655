//! A fleet: hosts that know each other and synchronise their clocks.
//!
//! One of them has a coordinator ([`coordinator`], pure; [`serve`] has its sockets). It
//! tells who is a member and who probes whom, has all hosts report at once what their
//! probes say, and returns each host's correction. It keeps nothing that matters: after a
//! restart it takes the fleet's time over from its hosts.
//!
//! Hosts and coordinator talk in lines of JSON ([`wire`]) over TLS with certificates on
//! both sides ([`pki`], [`link`]); a token admits a new host. Two hosts derive the key of their OR-ACKs and probes
//! by themselves ([`pairs`]).

pub mod coordinator;
pub mod link;
pub mod lists;
pub mod pairs;
pub mod pki;
pub mod policies;
pub mod serve;
pub mod tokens;
pub mod wire;

/// A fleet's folder for a test, which goes with this; it is not made.
#[cfg(test)]
pub(crate) struct Folder(pub(crate) std::path::PathBuf);

#[cfg(test)]
impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("orfleet{}{name}", std::process::id())))
    }
}

#[cfg(test)]
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Result of probes that a test may have made.
#[cfg(test)]
pub(crate) fn fit(base: u64, offset: i64) -> onramp_clock::EdgeFit {
    let (delay, residual, sigma, drift_sigma, noise) = (5e3, 10.0, 20.0, 1e-9, 5.0);
    let (drift, queue, points, seen) = (0.0, 0.0, 9, 10);
    onramp_clock::EdgeFit { base, offset, drift, delay, residual, sigma, drift_sigma, noise, queue, points, seen }
}
