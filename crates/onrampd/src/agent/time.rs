//! The time of day: for a coordinator on this host, and for chrony.

use super::{Agent, chrony};
use crate::clock;

impl Agent {
    /// Tells a coordinator on this host the time of day, and chrony how far the system clock is from
    /// that of the coordinator's host.
    pub(super) fn tell_the_time(&mut self) {
        let Some(clock) = self.settings().map(|s| s.clock) else { return };
        let (Some(sync), Some(fleet)) = (&self.sync, &self.config.fleet) else { return };
        let view = sync.view();
        let (monotonic, realtime) = clock::both();
        let instant = clock.map(|clock| chrony::Instant::new(&clock, self.reading(monotonic), realtime));
        let own = view.coordinator.is_some_and(|coordinator| fleet.is_ours(coordinator.ip()));
        sync.set_realtime(instant.zip(clock).filter(|_| own).map(|(instant, clock)| instant.realtime(&clock)));
        // Nobody follows himself.
        let (Some(chrony), false) = (&self.chrony, own) else { return };
        let Some((instant, reference)) = instant.zip(view.realtime) else { return };
        let offered = chrony.offer(realtime, instant.behind(&reference));
        let missing = std::mem::replace(&mut self.chrony_missing, offered.is_err());
        if let Err(e) = offered
            && !missing
        {
            self.problem(e.to_string());
        }
    }
}
