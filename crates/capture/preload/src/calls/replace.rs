//! Macros that define the replacement of a function.

/// Defines replacements of functions:
///
/// ```text
/// in super;                                    the module with names that arguments use
/// fn [NAME ...](ARGUMENTS) -> RESULT;          all names have the same signature
/// raw SYSTEM CALL;                             used until the next definition is known
/// record TYPE |outcome| [VALUES OF FIELDS];    without result and duration
/// ```
macro_rules! replace {
    (in $outer:tt; $(
        fn [$($name:ident)+] $arguments:tt -> $result:ty;
        raw $raw:expr;
        record $call:ident |$outcome:ident| $fields:tt;
    )*) => {
        $($(
            replace_if! {
                in $outer;
                fn $name $arguments -> $result;
                if true;
                raw $raw;
                record $call |$outcome| $fields;
            }
        )+)*

        /// Pointers to the next definitions.
        pub(super) static NEXT: &[&crate::next::NextDefinition] = &[$($(&$name::NEXT),+),*];
    };
}

/// Defines one replacement, which records a call only under a condition on its arguments.
macro_rules! replace_if {
    (
        in $outer:tt;
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty;
        if $condition:expr;
        raw $raw:expr;
        record $call:ident |$outcome:ident| [$($field:expr),* $(,)?];
    ) => {
        mod $name {
            #![allow(unused_imports, reason = "each function uses some of them")]
            #![allow(unused_variables, reason = "not all arguments are recorded")]
            #![allow(unused_unsafe, reason = "few fields are read from the program's memory")]
            #![allow(clippy::too_many_arguments, reason = "those of the replaced function")]

            use $outer::*;
            use crate::fields::{Address, Descriptors, Flags, Path, Pointer, WideFlags};
            use crate::next::NextDefinition;
            use crate::recording::{CallResult, Recording};
            use crate::{switch, types};
            use std::ffi::CStr;

            /// A variadic function is called like one with all of its arguments: the calling
            /// conventions of Linux pass them in the same registers.
            type Function = unsafe extern "C-unwind" fn($($type),*) -> $result;

            const NAME: &CStr =
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name"),
                };

            pub(super) static NEXT: NextDefinition = NextDefinition::new(NAME, raw as Function as *const ());

            unsafe extern "C-unwind" fn raw($($argument: $type),*) -> $result {
                // SAFETY: by the program's promise. The system call is that of the function.
                <$result as CallResult>::of_raw(unsafe { $raw })
            }

            // SAFETY: the name is that of the replaced function, whose contract this one fulfils.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[cfg_attr(test, allow(dead_code, reason = "tests are not recorded"))]
            pub(crate) unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
                // SAFETY: the pointer is to a definition of this function.
                let next: Function = unsafe { std::mem::transmute(NEXT.get()) };
                let is_recorded = switch::is_on() && $condition;
                // SAFETY: by the program's promise.
                unsafe {
                    match is_recorded {
                        true => record(next, $($argument),*),
                        false => next($($argument),*),
                    }
                }
            }

            #[inline(never)]
            unsafe fn record(next: Function, $($argument: $type),*) -> $result {
                let Some(recording) = Recording::begin(types::$call.event()) else {
                    // SAFETY: by the program's promise.
                    return unsafe { next($($argument),*) };
                };
                // SAFETY: by the program's promise.
                let result = unsafe { next($($argument),*) };
                let $outcome = &recording.end(result);
                // SAFETY: the fields are arguments of the call that has ended.
                let fields = unsafe { ($($field,)* $outcome.ret, $outcome.duration) };
                types::$call.record(fields);
                $outcome.restore_errno();
                result
            }
        }
    };
}

/// Makes a system call by the C library's `syscall`.
macro_rules! syscall {
    ($number:ident $(, $argument:expr)* $(,)?) => {
        libc::syscall(libc::$number, $($argument),*)
    };
}

pub(crate) use {replace, replace_if, syscall};
