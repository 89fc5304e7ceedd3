//! Pointers to the next definitions of the replaced functions: those that the program would call
//! without this library, usually the C library's.
//!
//! A pointer is to a raw system call until [`NextDefinition::resolve`]. Functions of other
//! libraries that run before this library's start may call replaced functions, at a time when the
//! dynamic linker should not be called.

use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Pointer to the next definition of one function.
#[derive(Debug)]
pub(crate) struct NextDefinition {
    function: AtomicPtr<()>,
    name: &'static CStr,
}

impl NextDefinition {
    /// Returns a pointer to `raw`, which makes the system call, for the function `name`.
    pub(crate) const fn new(name: &'static CStr, raw: *const ()) -> NextDefinition {
        NextDefinition { function: AtomicPtr::new(raw.cast_mut()), name }
    }

    /// Returns the function, which has the type of this pointer's function in the C library.
    #[inline(always)]
    pub(crate) fn get(&self) -> *const () {
        // Relaxed: code is not initialised by this process.
        self.function.load(Ordering::Relaxed)
    }

    /// Finds the next definition. Without one, as of a function that is newer than the C library,
    /// the pointer stays as it is.
    pub(crate) fn resolve(&self) {
        // SAFETY: the name ends with a NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if !found.is_null() {
            self.function.store(found.cast(), Ordering::Relaxed);
        }
    }
}
