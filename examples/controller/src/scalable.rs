//! Scalable TCP (Kelly, CCR'03), as the kernel's `tcp_scalable.c` has it: the window grows by a packet for every
//! hundred acknowledged, and shrinks by a part at a loss.

use onramp_sim::cc::tcp::custom::Start;
use onramp_sim::cc::tcp::{Controller, Window};
use serde::Deserialize;
use std::sync::Arc;

/// Keys of the scenario's `[transport]`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Parameters {
    /// Acknowledged packets that the window grows for by one at least. Default 100.
    every: u32,
    /// Part of the window that a loss takes: one in so many packets. Default 8.
    part: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { every: 100, part: 8 }
    }
}

/// One connection's.
#[derive(Debug)]
struct Scalable(Parameters);

/// Reads the parameters; with them a connection's controller is made when it opens.
pub fn factory(keys: &toml::Table) -> Result<Start, String> {
    let parameters: Parameters = keys.clone().try_into().map_err(|e: toml::de::Error| e.message().to_string())?;
    if parameters.every == 0 || parameters.part < 2 {
        return Err("every must be above 0, part above 1".into());
    }
    Ok(Arc::new(move |_, _| Box::new(Scalable(parameters))))
}

impl Controller for Scalable {
    fn ssthresh(&mut self, w: &Window) -> u32 {
        (w.cwnd - w.cwnd / self.0.part).max(2)
    }

    fn grow(&mut self, w: &mut Window, _ack: u64, acked: u32) {
        if !w.is_limited() {
            return;
        }
        let mut acked = acked;
        if w.in_slow_start() {
            acked = w.slow_start(acked);
        }
        if acked > 0 {
            w.avoid(w.cwnd.min(self.0.every), acked);
        }
    }
}
