//! Entry points before `main` and at exit. This is the only module of the crate with unsafe code,
//! which registers functions with the C library; the functions themselves are safe code elsewhere.

use crate::daemon;

/// Entry point before `main`, or in `dlopen` of a library that contains this crate. The C library
/// calls it once it has initialised itself: environment variables can then be read, and threads can
/// be started.
// SAFETY: this section holds pointers to such functions. They may be called at that time: the parts
// of the standard library that they use need nothing but the C library.
#[expect(unsafe_code)]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

/// Entry point at exit. The C library calls it when `main` has returned or `exit` was called, after
/// the handlers that the program registered. `dlclose` also calls it, if it unloads a library that
/// contains this crate.
// SAFETY: as above.
#[expect(unsafe_code)]
#[used]
#[unsafe(link_section = ".fini_array")]
static AFTER_MAIN: extern "C" fn() = after_main;

/// References both function pointers, so that a linker keeps their object file even if it takes
/// only referenced objects from an archive. Called by the registration of event types, which every
/// program that records events links.
pub(crate) fn link() {
    std::hint::black_box([&BEFORE_MAIN, &AFTER_MAIN]);
}

extern "C" fn before_main() {
    daemon::before_main();
}

extern "C" fn after_main() {
    daemon::after_main();
}
