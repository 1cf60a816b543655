//! OR-ACKs as they travel from receiver to sender.

use core::mem::MaybeUninit;
use core::net::{Ipv4Addr, Ipv6Addr};

use crate::bindings::{
    ORACK_BAD_FAMILY, ORACK_BAD_LENGTH, ORACK_BAD_VERSION, ORACK_FAMILY_IPV4, ORACK_FAMILY_IPV6, ORACK_LEN_IPV4,
    ORACK_LEN_IPV6, ORACK_OK, ORACK_WIRE_IPV4, ORACK_WIRE_IPV6, ffi_orack_parse, ffi_orack_tag, ffi_orack_write, orack,
};

/// Size of an IPv4 flow's OR-ACK as an Ethernet frame without FCS.
pub const WIRE_IPV4: u32 = ORACK_WIRE_IPV4;
/// Size of an IPv6 flow's OR-ACK as an Ethernet frame without FCS.
pub const WIRE_IPV6: u32 = ORACK_WIRE_IPV6;
/// The longest UDP payload.
pub const MAX_LEN: usize = ORACK_LEN_IPV6 as usize;

/// Says when a data packet was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrAck {
    /// Addresses of the data packet.
    pub addresses: Addresses,
    /// Its source port.
    pub source_port: u16,
    /// Its destination port.
    pub destination_port: u16,
    /// Its IP protocol number.
    pub protocol: u8,
    /// Its sequence number.
    pub sequence: u32,
    /// When it was received, in nanoseconds of the receiver's clock.
    pub received_at: u64,
    /// Keyed tag over the rest; see [`OrAck::expected_tag`].
    pub tag: u64,
}

/// Source and destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Addresses {
    V4 { source: Ipv4Addr, destination: Ipv4Addr },
    V6 { source: Ipv6Addr, destination: Ipv6Addr },
}

/// Why a payload is not an OR-ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OrAckError {
    /// Shorter or longer than its address family calls for.
    #[error("an OR-ACK has {ORACK_LEN_IPV4} or {ORACK_LEN_IPV6} bytes to match its family, got {0}")]
    Length(usize),
    /// Another version of the format.
    #[error("unknown version of the OR-ACK format")]
    Version,
    /// Neither IPv4 nor IPv6.
    #[error("unknown address family")]
    Family,
}

impl OrAck {
    /// Writes the UDP payload into `buffer` and returns the part that was
    /// written.
    #[must_use]
    pub fn encode<'a>(&self, buffer: &'a mut [u8; MAX_LEN]) -> &'a [u8] {
        let raw = self.to_raw();
        // SAFETY: C writes no more than the length given and keeps no pointer.
        let len = unsafe { ffi_orack_write(buffer.as_mut_ptr(), MAX_LEN as u64, &raw) };
        debug_assert_ne!(len, 0, "family is known and the buffer long enough");
        &buffer[..len as usize]
    }

    /// Reads a UDP payload.
    ///
    /// # Errors
    ///
    /// Anything that is not understood is refused. The tag is not checked.
    pub fn decode(payload: &[u8]) -> Result<Self, OrAckError> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: C reads no more than the length given and keeps no pointer.
        let verdict = unsafe { ffi_orack_parse(payload.as_ptr(), payload.len() as u64, raw.as_mut_ptr()) };
        match verdict {
            // SAFETY: C has written every field if it says OK.
            ORACK_OK => Ok(Self::from_raw(unsafe { raw.assume_init_ref() })),
            ORACK_BAD_LENGTH => Err(OrAckError::Length(payload.len())),
            ORACK_BAD_VERSION => Err(OrAckError::Version),
            ORACK_BAD_FAMILY => Err(OrAckError::Family),
            other => unreachable!("orack_parse returned {other}"),
        }
    }

    /// The tag that this OR-ACK must carry between two hosts that share `key`:
    /// SipHash-2-4 of everything but the tag.
    #[must_use]
    pub fn expected_tag(&self, key: &[u8; 16]) -> u64 {
        let key = u128::from_le_bytes(*key);
        // SAFETY: a valid reference; C keeps no pointer.
        unsafe { ffi_orack_tag(&self.to_raw(), key as u64, (key >> 64) as u64) }
    }

    fn to_raw(self) -> orack {
        let (family, saddr, daddr) = match self.addresses {
            Addresses::V4 { source, destination } => (ORACK_FAMILY_IPV4, widen(source), widen(destination)),
            Addresses::V6 { source, destination } => (ORACK_FAMILY_IPV6, source.octets(), destination.octets()),
        };
        orack {
            time: self.received_at,
            tag: self.tag,
            saddr,
            daddr,
            seq: self.sequence,
            sport: self.source_port,
            dport: self.destination_port,
            protocol: self.protocol,
            family: family as u8,
            reserved: [0; 6],
        }
    }

    fn from_raw(raw: &orack) -> Self {
        let addresses = if u32::from(raw.family) == ORACK_FAMILY_IPV4 {
            Addresses::V4 { source: narrow(raw.saddr), destination: narrow(raw.daddr) }
        } else {
            Addresses::V6 { source: raw.saddr.into(), destination: raw.daddr.into() }
        };
        Self {
            addresses,
            source_port: raw.sport,
            destination_port: raw.dport,
            protocol: raw.protocol,
            sequence: raw.seq,
            received_at: raw.time,
            tag: raw.tag,
        }
    }
}

/// C keeps an IPv4 address in the first four of sixteen bytes.
fn widen(address: Ipv4Addr) -> [u8; 16] {
    let mut wide = [0; 16];
    wide[..4].copy_from_slice(&address.octets());
    wide
}

fn narrow([a, b, c, d, ..]: [u8; 16]) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use crate::bindings::ffi_siphash;

    /// From the table of SipHash's authors: key 00 01 … 0f, message 00 01 …
    #[test]
    fn siphash_gives_its_published_values() {
        let [k0, k1] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let hash = |words: &[u64], rest| {
            // SAFETY: C reads as many words as there are.
            unsafe { ffi_siphash(k0, k1, words.as_ptr(), words.len() as u64, rest) }
        };
        assert_eq!(hash(&[], 0x0100), 0x0d6c_8009_d9a9_4f5a);
        assert_eq!(hash(&[k0], 0x0908), 0x7a5d_bbc5_94dd_b9f3);
    }
}
