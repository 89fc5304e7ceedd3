//! The core annotations as exported data: `extern const char *const CLIENT_SEND` and so on.

use std::ffi::{CStr, c_char};

/// A `const char *const` of C.
#[repr(transparent)]
#[derive(Debug)]
pub struct Word(*const c_char);

// SAFETY: it points to a literal, which nobody writes to and which lives as long as the program.
unsafe impl Sync for Word {}

impl Word {
    const fn new(literal: &'static CStr) -> Word {
        Word(literal.as_ptr())
    }
}

macro_rules! words {
    ($($name:ident = $literal:literal;)*) => {
        $(
            /// See `blkkin.h`.
            // SAFETY: the name is blkin's, and no other library defines it.
            #[unsafe(no_mangle)]
            pub static $name: Word = Word::new($literal);
        )*
    };
}

words! {
    CLIENT_SEND = c"cs";
    CLIENT_RECV = c"cr";
    SERVER_SEND = c"ss";
    SERVER_RECV = c"sr";
    WIRE_SEND = c"ws";
    WIRE_RECV = c"wr";
    CLIENT_SEND_FRAGMENT = c"csf";
    CLIENT_RECV_FRAGMENT = c"crf";
    SERVER_SEND_FRAGMENT = c"ssf";
    SERVER_RECV_FRAGMENT = c"srf";
}
