//! Undo file of an earlier agent, which may be half a file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onrampd::agent::undo::Undo;

fuzz_target!(|bytes: &[u8]| {
    if let Some(undo) = Undo::parse(bytes) {
        assert_eq!(Undo::parse(&undo.bytes()), Some(undo));
    }
});
