//! Requirements of a host that takes part in a fleet.

use super::Check;
use crate::agent::{Client, unanswered};
use crate::hosts::hosts;
use crate::{coordinator, setup};
use nix::unistd::geteuid;
use onrampd::config::quantity::show_time;
use onrampd::config::{Config, Fleet};
use onrampd::fleet::pki;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;

pub(super) fn all(config: &Config, fleet: &Fleet) -> [Check; 4] {
    [certificates(fleet), port(config, fleet), coordinator(fleet), agent(config)]
}

/// The agent's clock, which takes the fleet.
fn agent(config: &Config) -> Check {
    let name = "agent";
    match Client::connect(&config.socket).and_then(|mut client| client.status(0, false)) {
        Ok(status) if status.clock.known => {
            let uncertainty = status
                .clock
                .uncertainty_ns
                .map_or(String::new(), |ns| format!(" within {} (1σ)", show_time(ns as i64)));
            Check::ok(name, format!("runs, mode {}, and knows the fleet's time{uncertainty}", status.mode))
        }
        Ok(status) => {
            let found = format!("runs, mode {}, without the fleet's time: {}", status.mode, status.clock.reason);
            Check::warn(name, found, "see onrampctl status, and docs/runbooks.md")
        }
        Err(e) if is_denied(&e.to_string()) => Check::warn(name, unanswered(&config.socket, &e), AS_ROOT),
        Err(_) => Check::ok(name, "does not run"),
    }
}

const AS_ROOT: &str = "run the doctor as root";

fn is_denied(why: &str) -> bool {
    why.contains("Permission denied")
}

fn certificates(fleet: &Fleet) -> Check {
    let name = "certificates";
    match pki::check(&fleet.folder, fleet.address) {
        Err(e) if is_denied(&e.to_string()) => Check::fail(name, e.to_string(), AS_ROOT),
        Err(e) => Check::fail(name, e.to_string(), "join, or remove the folder and the configuration and join anew"),
        Ok(()) => match unreadable(fleet) {
            Some((group, file)) => {
                let found = format!("the group {group} cannot read {}", file.display());
                Check::fail(name, found, format!("chgrp {group} {0} && chmod g+rX {0}", file.display()))
            }
            None => Check::ok(name, format!("of {}, in {}", fleet.address, fleet.folder.display())),
        },
    }
}

/// Returns a file or folder that agent or coordinator cannot read, and the group that should.
fn unreadable(fleet: &Fleet) -> Option<(&'static str, PathBuf)> {
    let coordinators = setup::coordinators_group(fleet.listen.is_some());
    let folders = [(setup::AGENT, fleet.folder.clone()), (coordinators, pki::coordinators(&fleet.folder))];
    folders.into_iter().find_map(|(group, folder)| Some((group, setup::unreadable(&folder, group)?)))
}

fn port(config: &Config, fleet: &Fleet) -> Check {
    let name = "probes";
    let at = SocketAddr::new(fleet.address, config.port);
    match UdpSocket::bind(at) {
        Ok(_) => Check::ok(name, format!("UDP {at} is free")),
        Err(e) if e.kind() == io::ErrorKind::AddrInUse && Client::connect(&config.socket).is_ok() => {
            Check::ok(name, format!("UDP {at}, by the running agent"))
        }
        Err(e) if e.kind() == io::ErrorKind::AddrInUse && !geteuid().is_root() => {
            Check::warn(name, format!("UDP {at} is in use: by the agent, or by another program"), AS_ROOT)
        }
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
            Check::fail(name, format!("UDP {at} is taken by another program"), "see ss -ulpn, or set port on all hosts")
        }
        Err(e) if e.kind() == io::ErrorKind::AddrNotAvailable => {
            let mend = "see ip address; a certificate is bound to the address, so join anew if it has changed";
            Check::fail(name, format!("{} is not an address of this host", fleet.address), mend)
        }
        Err(e) => Check::fail(name, format!("UDP {at}: {e}"), "see ip address"),
    }
}

fn coordinator(fleet: &Fleet) -> Check {
    let name = "coordinator";
    let mut answer = Err(io::Error::other("there is no coordinator"));
    let mut silent = None;
    for at in &fleet.coordinators {
        let said = coordinator::fleet(std::slice::from_ref(at), &fleet.folder);
        silent = silent.or(said.is_err().then_some(at));
        answer = answer.or(said);
    }
    match answer {
        Ok(found) => {
            let known = found.hosts.iter().filter(|h| h.uncertainty_ns.is_some()).count();
            let found = format!("{known} of {} synchronised", hosts(found.hosts.len()));
            match silent {
                None => Check::ok(name, found),
                Some(at) => {
                    let found = format!("{found}; {at} does not answer");
                    Check::warn(name, found, "start the coordinator there: it could not take over")
                }
            }
        }
        Err(e) if is_denied(&e.to_string()) => Check::fail(name, e.to_string(), AS_ROOT),
        // As a coordinator says of a host that was removed, or whose certificate has expired.
        Err(e) if e.to_string().contains("join anew") => {
            let mend = "stop the agent, move the configuration and what is in the folder fleet, but for coordinator, away; \
                        onrampctl join; then put labels and rules back into the configuration";
            Check::fail(name, e.to_string(), mend)
        }
        Err(e) => {
            let mend = match fleet.listen {
                Some(_) => "start the agent, in which it runs".into(),
                None if pki::is_coordinator(&fleet.folder) => "systemctl enable --now onrampd-coordinator".into(),
                None => format!(
                    "start onrampd-coordinator there (the agent, if it runs in that), and let firewalls pass TCP {}",
                    fleet.coordinators[0].port()
                ),
            };
            Check::warn(name, e.to_string(), mend)
        }
    }
}
