//! Congestion control that only the Linux kernel has: it runs on the cluster and
//! is not simulated.

use super::Settings;
use crate::config::Rule;
use crate::config::units::Rate;
use crate::network::config::EcnDefault;
use serde::{Deserialize, Serialize};

/// No parameters: the kernel's own defaults hold, unless `[linux] sysctl` changes them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {}

impl Settings for Config {
    fn resolve(&mut self, _: Rate) {}

    fn check(&self, _: Rule<'_>) {}

    fn min_rate(&self) -> Rate {
        Rate(0)
    }

    fn window(&self) -> bool {
        true
    }

    fn ecn_defaults(&self) -> Option<EcnDefault> {
        None
    }
}
