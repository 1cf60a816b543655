//! The configuration: any text is one, or some lines of what is wrong.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onrampd::config::load;
use std::path::Path;

fuzz_target!(|text: &str| {
    if let Err(mistakes) = load(text, "fuzz.toml", Path::new("")) {
        assert!(!mistakes.is_empty());
        assert!(mistakes.iter().all(|m| m.to_string().starts_with("fuzz.toml")));
    }
});
