//! Requests to the agent's status socket, which every process on its host may send.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onrampd::status::protocol;

fuzz_target!(|line: &[u8]| {
    if let Ok(protocol::Request::Status { flows, .. }) = protocol::parse(line) {
        assert!(flows <= protocol::MAX_FLOWS);
    }
});
