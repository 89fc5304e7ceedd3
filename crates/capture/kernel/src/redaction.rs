//! Redaction of an event's fields: which fields are redacted and how, and the hash that replaces
//! texts. [`crate::redaction_code`] makes the code that redacts.

use crate::error::Error;
use crate::event_type::Integer;
use blkkin_control::rules::Pattern;
use blkkin_control::{EventType, FieldKind, Redaction, RedactionMethod, Scalar, Width};
use std::fmt;
use std::io;

/// Redactions that hold for the events of one type.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldRedactions(Vec<(Pattern, RedactionMethod)>);

impl FieldRedactions {
    /// Returns those of the redactions that hold for the events with this name.
    pub(crate) fn of(redactions: &[Redaction], event: &str) -> FieldRedactions {
        let redactions = redactions.iter().filter(|one| one.holds_for(event));
        FieldRedactions(redactions.map(|one| (Pattern::new(&one.field), one.method)).collect())
    }

    /// Returns the strictest redaction of a text or of bytes; `None` if it is recorded as it is.
    pub(crate) fn method(&self, field: &str) -> Option<RedactionMethod> {
        let fitting = self.0.iter().filter(|(pattern, _)| pattern.fits(field.as_bytes()));
        fitting.map(|(_, method)| *method).max()
    }

    /// Returns the description of the redacted events.
    pub(crate) fn redact(&self, event_type: EventType) -> EventType {
        let mut redacted = event_type;
        for index in 0..redacted.fields.len() {
            let field = &redacted.fields[index];
            let Some(method) = self.method(&field.name).filter(|_| is_redactable(&field.kind))
            else {
                continue;
            };
            let mut name = format!("{}_{}", field.name, method.word());
            while redacted.fields.iter().any(|other| other.name == name) {
                name.push('_');
            }
            let field = &mut redacted.fields[index];
            (field.name, field.kind) = (name, integer(method).field());
        }
        redacted
    }
}

/// Returns true for the kinds of fields that can be redacted: texts and bytes.
pub(crate) fn is_redactable(kind: &FieldKind) -> bool {
    let byte = Scalar::Unsigned { width: Width::Bits8, hex: true };
    match kind {
        FieldKind::String | FieldKind::Bytes => true,
        FieldKind::Array { of, .. } => *of == byte,
        _ => false,
    }
}

/// Returns the type of the integer that replaces a field.
pub(crate) fn integer(method: RedactionMethod) -> Integer {
    match method {
        RedactionMethod::Hash => Integer { bytes: 8, is_signed: false, is_hex: true },
        RedactionMethod::Length => Integer::unsigned(4),
    }
}

/// Returns the maximum size in bytes of a field in an event; `size` is that without a redaction.
pub(crate) fn size_max(method: Option<RedactionMethod>, size: usize) -> usize {
    method.map_or(size, |method| integer(method).bytes)
}

/// Key of the hash. Whoever has the key could hash guesses and compare them with a trace, so it is
/// neither shown nor stored.
#[derive(Clone, Copy)]
pub struct HashKey([u64; 2]);

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey(..)")
    }
}

impl HashKey {
    /// Returns a key from the kernel's random numbers.
    pub fn random() -> Result<HashKey, Error> {
        let words = blkkin_sys::random_words();
        let failed = || io::Error::other("the kernel has no random numbers yet");
        words.map(HashKey).ok_or_else(|| Error::Map("redaction", failed()))
    }

    /// Returns a key with these words, for hashes that can be computed again.
    pub const fn of_words(words: [u64; 2]) -> HashKey {
        HashKey(words)
    }

    /// Returns the four words with which the computation of a hash begins.
    pub(crate) fn state(self) -> [u64; 4] {
        let HashKey([first, second]) = self;
        [
            first ^ 0x736f_6d65_7073_6575,
            second ^ 0x646f_7261_6e64_6f6d,
            first ^ 0x6c79_6765_6e65_7261,
            second ^ 0x7465_6462_7974_6573,
        ]
    }

    /// Returns the hash of a text or of bytes: SipHash-2-4.
    pub fn hash(self, bytes: &[u8]) -> u64 {
        let mut state = self.state();
        let mut add = |word: u64| {
            state[3] ^= word;
            round(&mut state);
            round(&mut state);
            state[0] ^= word;
        };
        let mut chunks = bytes.chunks_exact(8);
        chunks.by_ref().for_each(|chunk| add(little_endian(chunk)));
        add((bytes.len() as u64) << 56 | little_endian(chunks.remainder()));
        state[2] ^= 0xff;
        (0..4).for_each(|_| round(&mut state));
        state.into_iter().fold(0, |hash, word| hash ^ word)
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn round([v0, v1, v2, v3]: &mut [u64; 4]) {
    *v0 = v0.wrapping_add(*v1);
    *v1 = v1.rotate_left(13) ^ *v0;
    *v0 = v0.rotate_left(32);
    *v2 = v2.wrapping_add(*v3);
    *v3 = v3.rotate_left(16) ^ *v2;
    *v0 = v0.wrapping_add(*v3);
    *v3 = v3.rotate_left(21) ^ *v0;
    *v2 = v2.wrapping_add(*v1);
    *v1 = v1.rotate_left(17) ^ *v2;
    *v2 = v2.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_type::event_type;

    /// The vectors that the authors of SipHash have published: the key and the input are the bytes
    /// 0, 1, 2 and so on.
    #[test]
    fn the_hash_is_siphash() {
        let key = HashKey::of_words([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        let input: Vec<u8> = (0..15).collect();
        let expected = [
            (0, 0x726f_db47_dd0e_0e31),
            (1, 0x74f8_39c5_93dc_67fd),
            (2, 0x0d6c_8009_d9a9_4f5a),
            (7, 0xab02_00f5_8b01_d137),
            (8, 0x93f5_f579_9a93_2462),
            (15, 0xa129_ca61_49be_45e5),
        ];
        for (length, hash) in expected {
            assert_eq!(key.hash(&input[..length]), hash, "{length} bytes");
        }
        assert_eq!(format!("{key:?}"), "HashKey(..)");
    }

    fn redaction(events: Option<&str>, text: &str) -> Redaction {
        Redaction { events: events.map(str::to_owned), ..text.parse().unwrap() }
    }

    #[test]
    fn the_strictest_redaction_of_an_event_holds() {
        let all = [
            redaction(None, "file*=hash"),
            redaction(Some("syscall:open*"), "filename=length"),
            redaction(Some("syscall:open*"), "name=hash"),
        ];
        let open = FieldRedactions::of(&all, "syscall:openat");
        assert_eq!(open.method("filename"), Some(RedactionMethod::Length));
        assert_eq!(open.method("name"), Some(RedactionMethod::Hash));
        assert_eq!(open.method("other"), None);
        let exec = FieldRedactions::of(&all, "process:exec");
        assert_eq!(exec.method("filename"), Some(RedactionMethod::Hash));
        assert_eq!(exec.method("name"), None);
    }

    #[test]
    fn texts_and_bytes_are_replaced_in_the_description() {
        let byte = Integer { bytes: 1, is_signed: false, is_hex: true };
        let fields = [
            ("fd", Integer::signed(4).field()),
            ("path", FieldKind::String),
            ("path_hash", Integer::unsigned(4).field()),
            ("address", byte.array(16)),
            ("words", Integer::unsigned(8).array(2)),
            ("data", FieldKind::Bytes),
        ];
        let all = [redaction(None, "*=hash"), redaction(None, "data=length")];
        let before = event_type(0, "a:b".to_owned(), fields.clone());
        let after = FieldRedactions::of(&all, "a:b").redact(before);
        let found: Vec<(&str, &FieldKind)> =
            after.fields.iter().map(|field| (&*field.name, &field.kind)).collect();
        let hash = Integer { bytes: 8, is_signed: false, is_hex: true }.field();
        let expected = [
            ("fd", &fields[0].1),
            ("path_hash_", &hash),
            ("path_hash", &fields[2].1),
            ("address_hash", &hash),
            ("words", &fields[4].1),
            ("data_length", &Integer::unsigned(4).field()),
        ];
        assert_eq!(found, expected);
    }
}
