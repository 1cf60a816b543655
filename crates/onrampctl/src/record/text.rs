//! Text of a recording: comments that say how it was made, a line for each flow, and comments that say how it ended.

use super::time::Line;
use onrampd::abi;
use onrampd::datapath::Recorded;
use ring::hmac;
use std::fmt::Write as _;
use std::net::IpAddr;

/// The first line, of this version.
pub const FIRST: &str = "# onramp recording 1";
/// Names of the columns.
pub const COLUMNS: &str =
    "source,destination,source_port,destination_port,began_ns,ended_ns,bytes,again,packets,next,ended";

/// How addresses are written.
pub enum Addresses {
    /// As they are.
    Plain,
    /// As a hash by this key, which is the same on all hosts.
    Hashed(hmac::Key),
}

impl Addresses {
    /// With the key of a file, if there is one.
    #[must_use]
    pub fn new(key: Option<&[u8]>) -> Self {
        key.map_or(Self::Plain, |key| Self::Hashed(hmac::Key::new(hmac::HMAC_SHA256, key)))
    }

    /// As recordings name it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if matches!(self, Self::Plain) { "plain" } else { "hashed" }
    }

    /// An address, 64 bits of its hash.
    #[must_use]
    pub fn show(&self, address: IpAddr) -> String {
        match self {
            Self::Plain => address.to_string(),
            Self::Hashed(key) => hex::encode(&hmac::sign(key, address.to_string().as_bytes()).as_ref()[..8]),
        }
    }
}

/// The line of a flow.
#[must_use]
pub fn row(flow: &Recorded, addresses: &Addresses, line: &Line) -> String {
    let tuple = &flow.flow;
    let [source, destination] = [tuple.source, tuple.destination].map(|address| addresses.show(IpAddr::from(address)));
    let busy = &flow.busy;
    let ended = match flow.how {
        abi::OR_ENDED_ACKED => "acked",
        abi::OR_ENDED_RESET => "reset",
        abi::OR_ENDED_FOLLOWED => "followed",
        abi::OR_ENDED_CAME => "came",
        _ => "open",
    };
    let mut text = format!("{source},{destination},{},{},", tuple.sport, tuple.dport);
    let end = line.time(flow.ended);
    // What came began elsewhere.
    let began = if flow.how == abi::OR_ENDED_CAME { end } else { line.time(busy.began) };
    // Writing to a string does not fail.
    let _ = writeln!(text, "{began},{end},{},{},{},{},{ended}", busy.bytes, busy.again, busy.packets, busy.next);
    text
}

#[cfg(test)]
mod tests {
    use super::super::time::Look;
    use super::*;
    use onrampd::abi::{or_busy, or_tuple};

    #[test]
    fn a_flow_is_a_line_and_its_addresses_can_be_hidden() {
        let [us, them]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let flow = Recorded {
            flow: or_tuple {
                source: us.into(),
                destination: them.into(),
                sport: 5_000,
                dport: 80,
                protocol: 6,
                reserved: [0; 3],
            },
            how: abi::OR_ENDED_ACKED,
            reserved: 0,
            ended: 3_000,
            busy: or_busy {
                began: 1_000,
                last: 2_000,
                acked: 3_000,
                heard: 3_000,
                bytes: 4_000,
                again: 7,
                packets: 3,
                next: 4_001,
                state: 0,
                flags: 0,
            },
        };
        let line = Line::new(Look { at: 0, ahead: 500 });
        let plain = row(&flow, &Addresses::Plain, &line);
        assert_eq!(plain, "10.0.0.1,10.0.0.2,5000,80,1500,3500,4000,7,3,4001,acked\n");
        assert_eq!(plain.split(',').count(), COLUMNS.split(',').count());
        let hashed = |key: &[u8]| row(&flow, &Addresses::new(Some(key)), &line);
        assert!(!hashed(b"one").contains("10.0.0"));
        assert_eq!(hashed(b"one"), hashed(b"one"));
        assert_ne!(hashed(b"one"), hashed(b"another"));
    }
}
