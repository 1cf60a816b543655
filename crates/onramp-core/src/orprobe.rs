//! Probes, with which two hosts compare their clocks, and their answers.

use core::mem::MaybeUninit;
use core::net::IpAddr;

use crate::bindings::{
    ORPROBE_ANSWER, ORPROBE_FOLLOW_UP, ORPROBE_LEN, ORPROBE_PROBE, ffi_orprobe_parse, ffi_orprobe_tag,
    ffi_orprobe_write, orprobe,
};

/// The length of the UDP payload.
pub const LEN: usize = ORPROBE_LEN as usize;

/// Which of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A probe.
    #[default]
    Probe,
    /// Its answer.
    Answer,
    /// When the answer left, where it could not say so itself.
    FollowUp,
}

/// A probe, its answer, or what follows that. Times are nanoseconds of the uncorrected clock of the
/// host that wrote them; 0 until then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrProbe {
    /// Which of the three.
    pub kind: Kind,
    /// Number of the pair.
    pub pair: u32,
    /// Second of the pair.
    pub second: bool,
    /// When the probe was made, by which the one that made it knows it again.
    pub sent: u64,
    /// When it arrived.
    pub received: u64,
    /// When the answer left.
    pub returned: u64,
    /// Keyed tag over the rest; see [`OrProbe::expected_tag`]. 0: has not left yet.
    pub tag: u64,
}

impl OrProbe {
    /// The UDP payload.
    #[must_use]
    pub fn encode(&self) -> [u8; LEN] {
        let mut payload = [0; LEN];
        // SAFETY: C writes LEN bytes and keeps no pointer.
        unsafe { ffi_orprobe_write(payload.as_mut_ptr(), &self.to_raw()) };
        payload
    }

    /// Reads a UDP payload. Anything that is not understood is none; the tag is not checked.
    #[must_use]
    pub fn decode(payload: &[u8; LEN]) -> Option<Self> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: C reads LEN bytes and keeps no pointer.
        let understood = unsafe { ffi_orprobe_parse(payload.as_ptr(), raw.as_mut_ptr()) } != 0;
        // SAFETY: C has written every field if it understood.
        understood.then(|| Self::from_raw(unsafe { raw.assume_init_ref() }))
    }

    /// The tag that it must carry between two hosts that share `key`: SipHash-2-4 of
    /// everything but the tag, and of both addresses.
    #[must_use]
    pub fn expected_tag(&self, source: IpAddr, destination: IpAddr, key: &[u8; 16]) -> u64 {
        let key = u128::from_le_bytes(*key);
        let [source, destination] = [source, destination].map(wide);
        // SAFETY: valid references and 16 bytes each; C keeps no pointer.
        unsafe {
            ffi_orprobe_tag(&self.to_raw(), source.as_ptr(), destination.as_ptr(), key as u64, (key >> 64) as u64)
        }
    }

    fn to_raw(self) -> orprobe {
        orprobe {
            sent: self.sent,
            received: self.received,
            returned: self.returned,
            tag: self.tag,
            pair: self.pair,
            kind: match self.kind {
                Kind::Probe => ORPROBE_PROBE as u8,
                Kind::Answer => ORPROBE_ANSWER as u8,
                Kind::FollowUp => ORPROBE_FOLLOW_UP as u8,
            },
            second: self.second.into(),
            reserved: [0; 2],
        }
    }

    fn from_raw(raw: &orprobe) -> Self {
        Self {
            kind: Kind::from_raw(raw.kind),
            pair: raw.pair,
            second: raw.second != 0,
            sent: raw.sent,
            received: raw.received,
            returned: raw.returned,
            tag: raw.tag,
        }
    }
}

impl Kind {
    /// By its number, which C has checked.
    #[must_use]
    pub fn from_raw(kind: u8) -> Self {
        match u32::from(kind) {
            ORPROBE_ANSWER => Self::Answer,
            ORPROBE_FOLLOW_UP => Self::FollowUp,
            _ => Self::Probe,
        }
    }
}

/// As IPv6; IPv4 as ::ffff:a.b.c.d.
fn wide(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
    .octets()
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv6Addr;

    #[test]
    fn ipv4_is_tagged_as_mapped_ipv6() {
        let v4: IpAddr = [10, 0, 0, 1].into();
        let v6 = IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0x0a00, 1));
        let probe = OrProbe { pair: 1, sent: 2, ..OrProbe::default() };
        assert_eq!(probe.expected_tag(v4, v4, &[1; 16]), probe.expected_tag(v6, v6, &[1; 16]));
    }
}
