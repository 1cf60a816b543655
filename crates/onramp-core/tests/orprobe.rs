//! Probes: what is written is read again, and nothing else is understood.

use onramp_core::orprobe::{Kind, LEN, OrProbe};
use proptest::prelude::*;
use std::net::IpAddr;

fn any_probe() -> impl Strategy<Value = OrProbe> {
    let kind = prop_oneof![Just(Kind::Probe), Just(Kind::Answer), Just(Kind::FollowUp)];
    (kind, any::<bool>(), any::<u32>(), any::<[u64; 4]>()).prop_map(|(kind, second, pair, times)| {
        let [sent, received, returned, tag] = times;
        OrProbe { kind, pair, second, sent, received, returned, tag }
    })
}

proptest! {
    #[test]
    fn a_probe_comes_back_as_it_was(probe in any_probe()) {
        prop_assert_eq!(OrProbe::decode(&probe.encode()), Some(probe));
    }

    #[test]
    fn any_bytes_are_understood_in_one_way_or_not_at_all(payload in any::<[u8; LEN]>()) {
        if let Some(probe) = OrProbe::decode(&payload) {
            prop_assert_eq!(probe.encode(), payload);
        }
    }

    #[test]
    fn the_tag_covers_every_bit(probe in any_probe(), key in any::<[u8; 16]>(), bit in 0usize..32 * 8) {
        let (us, them): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let tag = probe.expected_tag(us, them, &key);
        prop_assert_ne!(tag, 0);
        let mut changed = probe.encode();
        changed[bit / 8] ^= 1 << (bit % 8);
        if let Some(other) = OrProbe::decode(&changed) {
            prop_assert_ne!(other.expected_tag(us, them, &key), tag);
        }
        prop_assert_ne!(probe.expected_tag(them, us, &key), tag);
    }
}
