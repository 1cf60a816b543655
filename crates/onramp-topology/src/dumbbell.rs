//! Two switches with one link between them.

use super::{Link, Listed, at_least_one, few_enough, names, possible};
use onramp_config::units::{Rate, Span, US};
use serde::{Deserialize, Serialize};

/// Sizes of the dumbbell: hosts `h0` to `h(left-1)` are on `s0`, the rest on `s1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Hosts on the first switch. Default 2.
    pub left: u32,
    /// Hosts on the second switch. Default 2.
    pub right: u32,
    /// Rate of host links. Default 100 Gb/s.
    pub host_rate: Rate,
    /// Rate of the link between the switches. Default 100 Gb/s.
    pub bottleneck_rate: Rate,
    /// Delay of host links. Default 1 us.
    pub host_delay: Span,
    /// Delay of the link between the switches. Default 1 us.
    pub bottleneck_delay: Span,
}

impl Default for Config {
    fn default() -> Self {
        let rate = Rate(100_000_000_000);
        Self {
            left: 2,
            right: 2,
            host_rate: rate,
            bottleneck_rate: rate,
            host_delay: Span(US),
            bottleneck_delay: Span(US),
        }
    }
}

pub(super) fn links(c: &Config) -> Listed {
    at_least_one(&[("left", c.left), ("right", c.right)])?;
    few_enough(u128::from(c.left) + u128::from(c.right) + 1)?;
    possible(
        &[("host_rate", c.host_rate), ("bottleneck_rate", c.bottleneck_rate)],
        &[("host_delay", c.host_delay), ("bottleneck_delay", c.bottleneck_delay)],
    )?;
    let hosts = c.left + c.right;
    let side = |host| if host < c.left { hosts } else { hosts + 1 };
    let host = |a| Link { a, b: side(a), rate: c.host_rate, delay: c.host_delay };
    let mut links: Vec<Link> = (0..hosts).map(host).collect();
    links.push(Link { a: hosts, b: hosts + 1, rate: c.bottleneck_rate, delay: c.bottleneck_delay });
    Ok((names(hosts, &[("s", 2)]), hosts as usize, links))
}
