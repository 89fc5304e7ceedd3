//! What happens before `main` and at a regular end. The one module of this crate with unsafe code, which
//! is needed to have functions called that nobody calls: all that they do is elsewhere, and safe.

use crate::daemon;

/// Called by the C library when it has set itself up: by then a program's variables can be read, and
/// threads be made.
// SAFETY: this section holds pointers to such functions. They may be called at that time: what they use
// of the standard library needs nothing but the C library.
#[expect(unsafe_code)]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

/// Called by the C library when `main` has returned or `exit` was called, behind what the program has
/// registered.
// SAFETY: as above.
#[expect(unsafe_code)]
#[used]
#[unsafe(link_section = ".fini_array")]
static AFTER_MAIN: extern "C" fn() = after_main;

/// To be called where nobody who uses this crate can do without, so that linkers that take from archives
/// only what is asked for take these, too.
pub(crate) fn link() {
    std::hint::black_box([&BEFORE_MAIN, &AFTER_MAIN]);
}

extern "C" fn before_main() {
    daemon::before_main();
}

extern "C" fn after_main() {
    daemon::after_main();
}
