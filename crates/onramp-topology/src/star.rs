//! All hosts on one switch (paper Fig. 1).

use super::{Link, Listed, at_least_one, few_enough, names, possible};
use onramp_config::units::{Rate, Span, US};
use serde::{Deserialize, Serialize};

/// Size of the star.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Hosts.
    pub hosts: u32,
    /// Rate of every link. Default 100 Gb/s.
    #[serde(default = "default_rate")]
    pub host_rate: Rate,
    /// Delay of every link. Default 1 us.
    #[serde(default = "default_delay")]
    pub link_delay: Span,
}

fn default_rate() -> Rate {
    Rate(100_000_000_000)
}

fn default_delay() -> Span {
    Span(US)
}

pub(super) fn links(c: &Config) -> Listed {
    at_least_one(&[("hosts", c.hosts)])?;
    few_enough(c.hosts.into())?;
    possible(&[("host_rate", c.host_rate)], &[("link_delay", c.link_delay)])?;
    let link = |a| Link { a, b: c.hosts, rate: c.host_rate, delay: c.link_delay };
    Ok((names(c.hosts, &[("s", 1)]), c.hosts as usize, (0..c.hosts).map(link).collect()))
}
