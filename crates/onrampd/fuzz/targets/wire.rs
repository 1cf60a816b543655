//! Messages of hosts and coordinators: one that parses is the same after it is written and parsed again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onrampd::fleet::wire::{FromCoordinator, FromHost, parse};

fuzz_target!(|line: &[u8]| {
    if let Ok(said) = parse::<FromHost>(line)
        && said.is_sound()
        && said != FromHost::Unknown
    {
        assert_eq!(parse(&again(&said)), Ok(said));
    }
    if let Ok(said) = parse::<FromCoordinator>(line)
        && said != FromCoordinator::Unknown
    {
        // Nobody says numbers that JSON has no words for.
        let _ = parse::<FromCoordinator>(&again(&said));
    }
});

fn again(said: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(said).expect("it is JSON")
}
