//! Tells the eBPF programs mode, clocks and peers.

use super::effects::Effects;
use super::off::SWITCHED_OFF;
use super::{Agent, BRIDGE, Error};
use crate::abi;
use crate::bounds::Limits;
use crate::clock::now;
use crate::config::{Config, GateKind, MAX_PEERS, Mode, Parent, Peer};
use crate::gate::program::Program;
use crate::gate::{self, Gate, install};
use crate::net::acker;
use crate::sync::{Settings, Sync};
use std::collections::HashMap;
use std::net::IpAddr;
use tracing::warn;

pub(super) fn not_renewed(why: &str) -> String {
    format!("this host's certificate is not renewed, the one before goes on: {why}")
}

/// A fleet that is larger than the programs' maps, as a problem.
fn left_out() -> String {
    format!("the fleet has more than {MAX_PEERS} addresses: nothing is measured or held to the others")
}

fn not_yours(alias: &IpAddr) -> String {
    format!(
        "fleet.aliases: {alias} is another host's, or not vouched for: see onrampctl fleet alias, on the coordinator"
    )
}

impl Agent {
    /// Chooses what is to hold packets, if any are to be held; once there is something, that stays.
    pub(super) fn choose_gate(&mut self) -> Result<(), Error> {
        if self.config.mode == Mode::Observe || !matches!(self.gate, Gate::None) {
            return Ok(());
        }
        // Queues may be added later.
        let mut places = 0;
        for name in self.config.interfaces.clone() {
            let found = acker::find(&mut self.socket, &name)?.ok_or(Error::NoInterface(name))?;
            places += if self.config.parent == Parent::Root { 1 } else { found.queues.max(1) };
        }
        let (datapath, socket) = (&mut self.datapath, &mut self.socket);
        let acker = self.acker.as_ref().map_or(0, |(index, _)| *index);
        let inherited = self.legacy.as_ref().map_or(&[][..], |legacy| &legacy.maps);
        let program = || Ok(Program::load(&datapath.shared()?, inherited, places)?);
        let module = || Ok(install::try_module(socket, acker)?);
        (self.gate, self.choice) =
            gate::choose::<_, Error>(self.config.gate.kind, self.config.parent, program, module)?;
        Ok(())
    }

    /// Mode in force: as configured, if there is a gate and it is not switched off.
    pub(super) fn mode(&self) -> Mode {
        if self.off || matches!(self.gate, Gate::None) { Mode::Observe } else { self.config.mode }
    }

    /// Reads this host's uncorrected clock.
    pub(super) fn reading(&self, now: u64) -> u64 {
        now.wrapping_add_signed(self.test_clock.at(now))
    }

    /// Clock and peers by the synchronisation of clocks, in a fleet.
    pub(super) fn settings(&self) -> Option<Settings> {
        let (sync, fleet) = (self.sync.as_ref()?, self.config.fleet.as_ref()?);
        let mut settings = sync.view().settings(fleet, self.reading(now()));
        if settings.clock.is_none()
            && let Some(told) = self.told.as_ref().filter(|_| now() - self.started < BRIDGE)
        {
            settings.clock = told.clock;
            settings.peers.clone_from(&told.peers);
        }
        Some(settings)
    }

    /// Has nothing held where that is in vain, and T follow paths that have become longer.
    fn bound(&mut self, peers: &mut [Peer]) -> Result<(), Error> {
        let now = now();
        if self.bounds.are_due(now) {
            self.look_at_paths(peers, now)?;
        }
        for peer in peers {
            peer.free = self.bounds.free(&peer.address).is_some();
            peer.renewed = self.bounds.renewed(&peer.address);
        }
        Ok(())
    }

    fn look_at_paths(&mut self, peers: &[Peer], now: u64) -> Result<(), Error> {
        let paths: HashMap<_, _> = self.datapath.paths()?.into_iter().collect();
        self.bounds.keep(|peer| paths.contains_key(peer));
        for peer in peers {
            let Some(path) = paths.get(&peer.address) else { continue };
            let limits = Limits {
                threshold: peer.threshold(&self.config, path),
                follows: self.config.auto_threshold,
                uncertainty: peer.uncertainty,
                max_share: self.config.max_share,
            };
            // The status has it with the path.
            if let Some(reason) = self.bounds.look(peer.address, path, &limits, now) {
                warn!(peer = %peer.address, "nothing is held to {}: {reason}", peer.address);
            }
        }
        Ok(())
    }

    /// Tells the programs what they are to do.
    pub(super) fn tell(&mut self) -> Result<(), Error> {
        let acker = self.acker.as_ref().map_or(0, |(index, _)| *index);
        let view = self.sync.as_ref().map(Sync::view).unwrap_or_default();
        let mut standing: Vec<String> = view.not_yours.iter().map(not_yours).collect();
        standing.extend(view.not_renewed.as_deref().map(not_renewed));
        standing.extend(view.without_key);
        standing.extend(view.policy_not_kept);
        standing.extend(self.off.then(|| SWITCHED_OFF.to_owned()));
        standing.extend(self.effects.as_ref().and_then(Effects::not_kept));
        let gate = (self.config.mode, &self.gate, self.config.gate.kind);
        if let (Mode::Enforce, Gate::None, GateKind::Auto) = gate {
            standing.push(format!("nothing is held: {}", self.choice.why));
        }
        let (clock, mut peers) = match self.settings() {
            Some(settings) => {
                standing.extend((settings.left_out > 0).then(left_out));
                (settings.clock, settings.peers)
            }
            None => (self.config.own_clock(), self.config.peers.clone()),
        };
        self.stand(standing);
        // A clock that is not known is withdrawn before anything else.
        let told = Config { mode: self.mode(), ..self.config.clone() };
        let mut config = told.for_programs(acker, clock, self.test_clock);
        if told.mode == Mode::Enforce && matches!(self.gate, Gate::Program(_)) {
            config.flags |= abi::OR_FOLLOW_UP as u16;
        }
        self.set_scope()?;
        self.datapath.set_config(&config)?;
        self.bound(&mut peers)?;
        Ok(self.datapath.set_peers(&peers)?)
    }
}
