//! Tokens: what is read is written as a token that is the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onrampd::fleet::pki::Token;

fuzz_target!(|text: &str| {
    if let Ok(token) = text.parse::<Token>() {
        assert_eq!(token.to_string().parse(), Ok(token));
    }
});
