//! Whole declarations of metadata. Viewers of live sessions need each part of the metadata to
//! consist of whole declarations, but producers cut it at any byte.

/// Text of metadata that grows, with the position of a scanner for the ends of declarations.
#[derive(Debug, Default)]
pub struct Declarations {
    text: Vec<u8>,
    /// Length of the whole declarations at the text's start, in bytes.
    whole: usize,
    scanned: usize,
    /// Set if a declaration has begun after the whole ones.
    has_rest: bool,
    depth: u32,
    state: LexicalState,
}

/// State of a scanner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LexicalState {
    #[default]
    Code,
    /// After a `/` that may begin a comment.
    Slash,
    Comment,
    /// In a comment, after a `*` that may end it.
    CommentStar,
    LineComment,
    Quotes(u8),
    /// After a backslash in quotes.
    Escape(u8),
}

impl Declarations {
    /// Appends text, cut off at any byte.
    pub fn append(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
        for (offset, byte) in self.text.iter().enumerate().skip(self.scanned) {
            self.state = match (self.state, byte) {
                (LexicalState::Code | LexicalState::Slash, b'"' | b'\'') => {
                    self.has_rest = true;
                    LexicalState::Quotes(*byte)
                }
                (LexicalState::Slash, b'*') => LexicalState::Comment,
                (LexicalState::Slash, b'/') => LexicalState::LineComment,
                (LexicalState::Code, b'/') => LexicalState::Slash,
                (LexicalState::Code | LexicalState::Slash, _) => {
                    match byte {
                        b'{' => self.depth = self.depth.saturating_add(1),
                        b'}' => self.depth = self.depth.saturating_sub(1),
                        b';' if self.depth == 0 => self.whole = offset + 1,
                        _ => {}
                    }
                    self.has_rest =
                        self.whole != offset + 1 && (self.has_rest || !byte.is_ascii_whitespace());
                    LexicalState::Code
                }
                (LexicalState::Comment, b'*') => LexicalState::CommentStar,
                (LexicalState::CommentStar, b'*') => LexicalState::CommentStar,
                (LexicalState::CommentStar, b'/') => LexicalState::Code,
                (LexicalState::CommentStar, _) => LexicalState::Comment,
                (LexicalState::LineComment, b'\n') => LexicalState::Code,
                (LexicalState::Quotes(_), b'\n') => LexicalState::Code,
                (LexicalState::Quotes(quote), byte) if *byte == quote => LexicalState::Code,
                (LexicalState::Quotes(quote), b'\\') => LexicalState::Escape(quote),
                (LexicalState::Escape(quote), _) => LexicalState::Quotes(quote),
                (state, _) => state,
            };
        }
        self.scanned = self.text.len();
    }

    /// Returns true if only white space and comments follow the whole declarations.
    pub fn is_whole(&self) -> bool {
        !self.has_rest && matches!(self.state, LexicalState::Code | LexicalState::LineComment)
    }

    /// Returns the text.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the size in bytes of the whole declarations at the text's start.
    pub fn whole_size(&self) -> usize {
        self.whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_end_outside_of_braces_texts_and_comments() {
        for (text, whole) in [
            ("", 0),
            ("a;", 2),
            ("a; b", 2),
            ("struct { a; } b; c", 16),
            ("trace { a = \"};\"; };", 20),
            ("trace { a = '\\'}; ;'; };", 24),
            ("/* a; */ b;", 11),
            ("/* a; **/ b;", 12),
            ("// a;\nb;", 8),
            ("a / b;", 6),
            ("} a;", 4),
        ] {
            for cut in 0..=text.len() {
                let mut declarations = Declarations::default();
                declarations.append(&text.as_bytes()[..cut]);
                assert!(declarations.whole_size() <= cut);
                declarations.append(&text.as_bytes()[cut..]);
                assert_eq!(declarations.whole_size(), whole, "{text:?} cut at {cut}");
                assert_eq!(declarations.text(), text.as_bytes());
            }
        }
    }

    #[test]
    fn comments_need_no_declaration() {
        for (text, is_whole) in [
            ("", true),
            ("a;", true),
            ("a; \n// b", true),
            ("a; /* b */ ", true),
            ("a; /* b ", false),
            ("a; b", false),
            ("a; \"b\" /* c */", false),
            ("a; /", false),
            ("a { b; }", false),
        ] {
            let mut declarations = Declarations::default();
            declarations.append(text.as_bytes());
            assert_eq!(declarations.is_whole(), is_whole, "{text:?}");
        }
    }
}
