//! What the agent is asked by everybody on its host.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onrampd::status::protocol;

fuzz_target!(|line: &[u8]| {
    if let Ok(protocol::Request::Status { flows, .. }) = protocol::parse(line) {
        assert!(flows <= protocol::MAX_FLOWS);
    }
});
