//! String patterns, in which `*` stands for any number of arbitrary bytes.
//!
//! A match takes time linear in the text's length, whatever the pattern. The pieces between the
//! stars are searched for in sequence, each with the algorithm of Knuth, Morris and Pratt.

use std::sync::Arc;

/// Pattern with at least one star. Clones share their memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Arc<Parts>);

#[derive(Debug, PartialEq, Eq)]
struct Parts {
    /// Piece before the first star, which starts every matching text; may be empty.
    first: Box<[u8]>,
    /// Non-empty pieces between the stars, in the order of the pattern.
    middle: Vec<Piece>,
    /// Piece after the last star, which ends every matching text; may be empty.
    last: Box<[u8]>,
}

impl Glob {
    /// Makes a pattern of `pieces`, separated by stars. Returns `None` for fewer than two pieces,
    /// since such a pattern has no star.
    pub fn new(pieces: &[impl AsRef<[u8]>]) -> Option<Glob> {
        let [first, middle @ .., last] = pieces else { return None };
        let middle = middle.iter().map(AsRef::as_ref).filter(|piece| !piece.is_empty());
        Some(Glob(Arc::new(Parts {
            first: first.as_ref().into(),
            middle: middle.map(Piece::new).collect(),
            last: last.as_ref().into(),
        })))
    }

    /// Iterates over the pieces before, between and after the stars. There are at least two pieces.
    /// Only the first and the last may be empty.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&*self.0.first)
            .chain(self.0.middle.iter().map(|piece| &*piece.bytes))
            .chain(std::iter::once(&*self.0.last))
    }

    /// Returns true if the pattern matches the whole of `text`.
    pub fn matches(&self, text: &[u8]) -> bool {
        let Parts { first, middle, last } = &*self.0;
        let ends = first.len() + last.len();
        if text.len() < ends || !starts_with(text, first) || !ends_with(text, last) {
            return false;
        }
        let mut rest = &text[first.len()..text.len() - last.len()];
        for piece in middle {
            match piece.find_end(rest) {
                Some(end) => rest = &rest[end..],
                None => return false,
            }
        }
        true
    }
}

// The functions check for an empty slice first. An empty box has no memory behind its address, and
// a comparison of zero bytes there by wide masked loads costs some processors 80 ns. Most patterns
// have one empty end.

fn starts_with(text: &[u8], first: &[u8]) -> bool {
    first.is_empty() || text.starts_with(first)
}

fn ends_with(text: &[u8], last: &[u8]) -> bool {
    last.is_empty() || text.ends_with(last)
}

/// Byte string with its precomputed search table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    bytes: Box<[u8]>,
    /// KMP failure function. Entry n - 1 is the length of the longest proper prefix of the first n
    /// bytes that is also a suffix of them. After a mismatch, this many bytes still match.
    fallback: Box<[usize]>,
}

impl Piece {
    fn new(bytes: &[u8]) -> Piece {
        let mut fallback = vec![0; bytes.len()];
        let mut matched = 0;
        for position in 1..bytes.len() {
            while matched > 0 && bytes[matched] != bytes[position] {
                matched = fallback[matched - 1];
            }
            matched += usize::from(bytes[matched] == bytes[position]);
            fallback[position] = matched;
        }
        Piece { bytes: bytes.into(), fallback: fallback.into() }
    }

    /// Returns the offset after the piece's first occurrence in `text`, or `None`.
    fn find_end(&self, text: &[u8]) -> Option<usize> {
        let mut matched = 0;
        for (position, byte) in text.iter().enumerate() {
            while matched > 0 && self.bytes[matched] != *byte {
                matched = self.fallback[matched - 1];
            }
            matched += usize::from(self.bytes[matched] == *byte);
            if matched == self.bytes.len() {
                return Some(position + 1);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    fn glob(pattern: &str) -> Glob {
        Glob::new(&pattern.split('*').collect::<Vec<_>>()).expect("the pattern has a star")
    }

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        let glob = glob(pattern);
        for text in matching {
            assert!(glob.matches(text.as_bytes()), "{pattern} should match {text}");
        }
        for text in others {
            assert!(!glob.matches(text.as_bytes()), "{pattern} should not match {text}");
        }
    }

    #[test]
    fn stars() {
        check("*", &["", "a", "*"], &[]);
        check("**", &["", "a"], &[]);
        check("foo*", &["foo", "foobar"], &["", "fo", "xfoo"]);
        check("*foo", &["foo", "barfoo", "foofoo"], &["", "fooo", "oo"]);
        check("a*a", &["aa", "aba", "aaa"], &["a", "", "ab"]);
        check("*b*", &["b", "abc", "bb"], &["", "a"]);
        check("a*b*c", &["abc", "aXbXc", "abbc"], &["ac", "acb", "ab"]);
        check("*ab*ab*", &["abab", "xabxabx"], &["ab", "aba", "abba"]);
        check("*aab*", &["aaab", "aaaab"], &["aaa", "ab"]);
        check("*abcabd*", &["abcabcabd"], &["abcabcab"]);
    }

    #[test]
    fn pieces_have_no_empty_middles() {
        let glob = glob("a***b*");
        let pieces: Vec<&[u8]> = glob.pieces().collect();
        assert_eq!(pieces, [b"a".as_slice(), b"b", b""]);
    }

    /// Matches by recursion over pattern and text. This is the reference for the test; it takes
    /// exponential time in bad cases.
    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => {
                naive(rest, text) || !text.is_empty() && naive(pattern, &text[1..])
            }
            ([a, pattern @ ..], [b, text @ ..]) => a == b && naive(pattern, text),
            _ => false,
        }
    }

    /// The matcher agrees with a recursive one for all patterns of up to five symbols `a`, `b` and
    /// `*`, and all texts of up to six letters `a` and `b`.
    #[test]
    fn agrees_with_the_obvious_matcher() {
        let words = |alphabet: &[u8], length_max: u32| -> Vec<Vec<u8>> {
            let size = alphabet.len();
            let word = |length: u32, mut number: usize| {
                let mut letter = || {
                    let letter = alphabet[number % size];
                    number /= size;
                    letter
                };
                (0..length).map(|_| letter()).collect()
            };
            (0..=length_max)
                .flat_map(|length| (0..size.pow(length)).map(move |number| word(length, number)))
                .collect::<Vec<Vec<u8>>>()
        };
        let texts = words(b"ab", 6);
        for pattern in words(b"ab*", 5) {
            let pieces: Vec<&[u8]> = pattern.split(|byte| *byte == b'*').collect();
            let Some(glob) = Glob::new(&pieces) else { continue };
            for text in &texts {
                assert_eq!(glob.matches(text), naive(&pattern, text), "{glob:?} {text:?}");
            }
        }
    }

    /// Matching takes linear time for hostile patterns. A matcher that backtracks would never end,
    /// and a quadratic one would take minutes.
    #[test]
    fn hostile_patterns_take_linear_time() {
        let text = vec![b'a'; 1 << 22];
        assert!(!glob("*a*a*a*a*a*a*a*a*b*a").matches(&text));
        let long = format!("*{}b*", "a".repeat(1 << 15));
        assert!(!glob(&long).matches(&text));
    }
}
