//! Fuzzes the greeting of a client at a relay: a greeting is complete after all of its bytes and
//! not before, and is encoded as it was decoded.
#![no_main]

use blkkin_secure::Greeting;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match Greeting::decode(bytes) {
        Ok(Some((greeting, size))) => {
            let mut encoded = Vec::new();
            greeting.encode(&mut encoded).expect("a token of permitted length");
            assert_eq!(encoded, bytes[..size]);
            assert_eq!(Greeting::decode(&bytes[..size - 1]), Ok(None));
        }
        Ok(None) => assert!(bytes.len() < 6 + 4096),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
