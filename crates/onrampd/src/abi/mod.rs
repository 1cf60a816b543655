//! Types that the eBPF programs and the agent share, from `datapath/bpf/onramp_abi.h`, and
//! that the gate and the agent share, from `datapath/sch_onramp/pkt_sched_onramp.h`.

#[rustfmt::skip]
#[expect(missing_docs, non_camel_case_types, reason = "all that C has, by its name there")]
mod bindings;

pub use bindings::*;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address as the programs have it: IPv6, in network byte order.
impl From<IpAddr> for or_address {
    fn from(address: IpAddr) -> Self {
        let v6 = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let octets = v6.octets();
        let word = |at: usize| u32::from_ne_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]]);
        Self { word: [word(0), word(4), word(8), word(12)] }
    }
}

impl From<or_address> for IpAddr {
    fn from(address: or_address) -> Self {
        let mut octets = [0; 16];
        for (to, word) in octets.chunks_exact_mut(4).zip(address.word) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        let v6 = Ipv6Addr::from(octets);
        v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), |v4: Ipv4Addr| IpAddr::V4(v4))
    }
}

impl or_clock {
    /// Difference of the clock to the one that shows `time`, as the programs reckon.
    #[must_use]
    pub fn at(&self, time: u64) -> i64 {
        let elapsed = i128::from(time.wrapping_sub(self.base).cast_signed());
        self.offset + ((elapsed * i128::from(self.drift)) >> 32) as i64
    }
}

impl or_path {
    /// A path nothing is known of.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            owd: 0,
            owd_at: 0,
            least: 0,
            least_since: 0,
            renewed: 0,
            held_until: 0,
            or_acks: 0,
            owd_sum: 0,
            windows: [or_window { number: 0, least: 0, held: 0, or_acks: 0, refused: 0 }; 2],
            histogram: [0; 64],
            shorter: 0,
            reserved: 0,
        }
    }

    /// The least one-way delay, if there was an OR-ACK.
    #[must_use]
    pub fn least(&self) -> Option<i64> {
        (self.or_acks > 0).then_some(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_there_and_back() {
        for text in ["10.0.0.2", "2001:db8::1", "255.255.255.255", "::1"] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(IpAddr::from(or_address::from(address)), address);
        }
        assert_eq!(or_address::from(IpAddr::from([10, 0, 0, 2])).word[2], 0xffff_u32.to_be());
    }
}
