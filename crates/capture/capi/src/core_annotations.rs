//! Zipkin's core annotations as exported data: `extern const char *const CLIENT_SEND` and so on.

use std::ffi::{CStr, c_char};

/// A core annotation, exported to C as `const char *const`.
#[repr(transparent)]
#[derive(Debug)]
pub struct CoreAnnotation(*const c_char);

// SAFETY: it points to a literal, which is never written to and lives as long as the program.
unsafe impl Sync for CoreAnnotation {}

impl CoreAnnotation {
    const fn new(literal: &'static CStr) -> CoreAnnotation {
        CoreAnnotation(literal.as_ptr())
    }
}

macro_rules! core_annotations {
    ($($name:ident = $literal:literal;)*) => {
        $(
            /// Core annotation of Zipkin; see `blkkin.h`.
            // SAFETY: the name is blkin's, and no other library defines it.
            #[unsafe(no_mangle)]
            pub static $name: CoreAnnotation = CoreAnnotation::new($literal);
        )*
    };
}

core_annotations! {
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
