//! Certificates, whose authority is checked before.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onrampd::fleet::pki::Identity;
use rustls_pki_types::CertificateDer;

fuzz_target!(|bytes: &[u8]| {
    let _ = Identity::of(&CertificateDer::from(bytes));
});
