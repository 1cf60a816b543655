//! The time of day: for the coordinator in this agent, and for chrony.

use super::{Agent, chrony};
use crate::clock;
use std::sync::PoisonError;

impl Agent {
    /// Tells the coordinator in this agent the time of day, and chrony how far the system
    /// clock is from that of the coordinator's host.
    pub(super) fn tell_the_time(&mut self) {
        if self.coordinator.is_none() && self.chrony.is_none() {
            return;
        }
        let (monotonic, realtime) = clock::both();
        let clock = self.settings().and_then(|s| s.clock);
        let instant = clock.map(|clock| chrony::Instant::new(&clock, self.reading(monotonic), realtime));
        if let Some(coordinator) = &self.coordinator {
            let told = instant.zip(clock).map(|(instant, clock)| instant.realtime(&clock));
            *coordinator.realtime.lock().unwrap_or_else(PoisonError::into_inner) = told;
        }
        let (Some(chrony), Some(sync), Some(fleet)) = (&self.chrony, &self.sync, &self.config.fleet) else { return };
        let view = sync.view();
        // Nobody follows himself.
        let own = view.coordinator.is_some_and(|c| c.ip() == fleet.address);
        let Some((instant, reference)) = instant.zip(view.realtime).filter(|_| !own) else { return };
        let offered = chrony.offer(realtime, instant.behind(&reference));
        let missing = std::mem::replace(&mut self.chrony_missing, offered.is_err());
        if let Err(e) = offered
            && !missing
        {
            self.problem(e.to_string());
        }
    }
}
