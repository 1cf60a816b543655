//! OR-ACKs and probes: what is read is written as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onramp_core::orack::{MAX_LEN, OrAck};
use onramp_core::orprobe::{LEN, OrProbe};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(ack) = OrAck::decode(bytes) {
        let mut buffer = [0; MAX_LEN];
        assert_eq!(OrAck::decode(ack.encode(&mut buffer)), Ok(ack));
        let _ = ack.expected_tag(&[7; 16]);
    }
    if let Some(payload) = bytes.first_chunk::<LEN>()
        && let Some(probe) = OrProbe::decode(payload)
    {
        assert_eq!(OrProbe::decode(&probe.encode()), Some(probe));
    }
});
