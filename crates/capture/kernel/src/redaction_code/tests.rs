//! The kernel computes the lengths and hashes of the texts that it would otherwise record.

use crate::error::Error;
use crate::redaction::{HashKey, is_redactable};
use crate::testing::{EventProbe, RecordedEvent, permitted_probes};
use blkkin_control::Redaction;
use blkkin_sys::testing::Random;
use std::collections::BTreeSet;

fn redacted(probe: &EventProbe, redaction: &str, key: HashKey) -> EventProbe {
    let redactions: [Redaction; 1] = [redaction.parse().unwrap()];
    match probe.redacted(&redactions, key) {
        Ok(redacted) => redacted,
        Err(Error::Load { log, error, .. }) => panic!("{error}\n{log}"),
        Err(error) => panic!("{error}"),
    }
}

fn contains(packet: &[u8], content: &[u8]) -> bool {
    packet.windows(content.len()).any(|window| window == content)
}

/// An event is recorded as it is, with lengths, and with hashes; the three are compared.
#[test]
fn fields_are_replaced_by_their_lengths_and_hashes() {
    const ROUNDS: usize = 300;
    let Some(probes) = permitted_probes("fields_are_replaced_by_their_lengths_and_hashes") else {
        return;
    };
    let (mut random, key) = (Random::new(5), HashKey::random().unwrap());
    let mut lengths = BTreeSet::new();
    for (mut plain, context) in probes {
        let mut hashed = redacted(&plain, "*=hash", key);
        let mut measured = redacted(&plain, "*=length", key);
        let sealed = [&hashed, &measured].map(|probe| probe.event_type().clone());
        let of = plain.event_type().clone();
        assert!(sealed.iter().all(|of| of.fields.iter().all(|field| !is_redactable(&field.kind))));
        for _ in 0..ROUNDS {
            let mut event = context(&mut random);
            let [plain, hashed, measured] = [&mut plain, &mut hashed, &mut measured]
                .map(|probe| probe.record(&mut event.bytes).unwrap());
            let plain = RecordedEvent::new(&of, &[], &plain);
            let hashes = RecordedEvent::new(&sealed[0], &[], &hashed);
            let numbers = RecordedEvent::new(&sealed[1], &[], &measured);
            for field in &of.fields {
                let content = plain.content(&field.name).unwrap();
                if !is_redactable(&field.kind) {
                    assert_eq!(hashes.content(&field.name), Some(content), "{}", field.name);
                    assert_eq!(numbers.content(&field.name), Some(content), "{}", field.name);
                    continue;
                }
                let hash = hashes.content(&format!("{}_hash", field.name));
                assert_eq!(hash, Some(&key.hash(content).to_le_bytes()[..]), "{}", field.name);
                let length = numbers.content(&format!("{}_length", field.name));
                let expected = (content.len() as u32).to_le_bytes();
                assert_eq!(length, Some(&expected[..]), "{}", field.name);
                // Other contents may be a part of an integer.
                if content.iter().filter(|byte| **byte == b'a').count() >= 4 {
                    assert!(!contains(&hashed, content) && !contains(&measured, content));
                }
                lengths.insert(content.len());
            }
        }
    }
    assert!(lengths.len() > 20, "{lengths:?}");
}

/// Texts of all lengths up to the longest path, and what cannot be read.
#[test]
fn the_longest_texts_are_hashed() {
    let Some(probes) = permitted_probes("the_longest_texts_are_hashed") else { return };
    let key = HashKey::of_words([1, 2]);
    let mut probe = redacted(&probes[1].0, "filename=hash", key);
    let mut measured = redacted(&probes[1].0, "filename=length", key);
    let types = [&probe, &measured].map(|probe| probe.event_type().clone());
    let mut check = |pointer: u64, expected: &[u8]| {
        let mut context = [0; 64];
        context[..8].copy_from_slice(&pointer.to_le_bytes());
        let packet = probe.record(&mut context).unwrap();
        let hash = RecordedEvent::new(&types[0], &[], &packet).content("filename_hash").unwrap();
        assert_eq!(hash, key.hash(expected).to_le_bytes(), "{} bytes", expected.len());
        let packet = measured.record(&mut context).unwrap();
        let length = RecordedEvent::new(&types[1], &[], &packet).content("filename_length");
        assert_eq!(length, Some(&(expected.len() as u32).to_le_bytes()[..]));
    };
    for length in (0..40).chain(4080..=4095) {
        let text: Vec<u8> = (0..length).map(|index| (index % 255) as u8 + 1).collect();
        let stored = [&text[..], b"\0"].concat();
        check(stored.as_ptr().expose_provenance() as u64, &text);
    }
    // A longer text is cut off, as it is when it is recorded.
    let long = vec![b'a'; 5000];
    check(long.as_ptr().expose_provenance() as u64, &long[..4095]);
    check(8, b"");
}
