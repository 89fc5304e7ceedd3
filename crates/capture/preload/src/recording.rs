//! Recording of one call: start time, result and duration.

use crate::clock::StartTime;
use crate::switch;
use blkkin_trace::{EventType, Fields, Level};
use libc::{c_int, c_long, c_void};

/// Event type of a system call, with its number of fields.
#[derive(Debug)]
pub(crate) struct Call<const FIELDS: usize> {
    event: EventType,
}

impl<const FIELDS: usize> Call<FIELDS> {
    /// Returns the type for a name, `syscall:NAME`, and the names of all fields.
    pub(crate) const fn new(
        name: &'static str,
        fields: &'static [&'static str; FIELDS],
    ) -> Call<FIELDS> {
        Call { event: EventType::new(name, Level::Info, fields, ("", 0)) }
    }

    /// Returns the event type.
    pub(crate) const fn event(&'static self) -> &'static EventType {
        &self.event
    }

    /// Records a call that has returned.
    #[inline(always)]
    pub(crate) fn record<F: Fields>(&'static self, fields: F) {
        const { assert!(F::KINDS.len() == FIELDS, "a value for each field") };
        self.event.record(fields);
    }
}

/// A call that is being recorded. Has nothing to drop, because the thread may be cancelled in the
/// call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recording {
    start: StartTime,
}

impl Recording {
    /// Begins to record a call; `None` if the call is not recorded.
    #[inline(always)]
    pub(crate) fn begin(event: &'static EventType) -> Option<Recording> {
        (switch::is_decided_on() && event.is_enabled())
            .then(|| Recording { start: StartTime::now() })
    }

    /// Ends a call, right after it has returned.
    #[inline(always)]
    pub(crate) fn end(self, result: impl CallResult) -> Outcome {
        let duration = self.start.elapsed_ns();
        // SAFETY: the C library returns a pointer that is valid for the lifetime of this thread.
        let errno = unsafe { libc::__errno_location().read() };
        Outcome { ret: result.ret(errno), duration, errno }
    }
}

/// Result of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Result as the kernel returns it: a negative `errno` on failure.
    pub(crate) ret: i64,
    /// Duration in nanoseconds.
    pub(crate) duration: u64,
    errno: c_int,
}

impl Outcome {
    /// Returns true unless the call failed.
    pub(crate) fn is_success(&self) -> bool {
        !(-4095..0).contains(&self.ret)
    }

    /// Sets `errno` as the call has left it.
    #[inline(always)]
    pub(crate) fn restore_errno(&self) {
        // SAFETY: as in `Recording::end`.
        unsafe { libc::__errno_location().write(self.errno) };
    }
}

/// Type of a replaced function's result.
pub(crate) trait CallResult: Copy {
    /// Returns the kernel's result for the function's result and `errno`.
    fn ret(self, errno: c_int) -> i64;

    /// Returns the function's result for that of the C library's `syscall`.
    fn of_raw(result: c_long) -> Self;
}

impl CallResult for c_int {
    #[inline(always)]
    fn ret(self, errno: c_int) -> i64 {
        i64::from(self).ret(errno)
    }

    fn of_raw(result: c_long) -> Self {
        result as c_int
    }
}

impl CallResult for i64 {
    #[inline(always)]
    fn ret(self, errno: c_int) -> i64 {
        if self == -1 { -i64::from(errno) } else { self }
    }

    fn of_raw(result: c_long) -> Self {
        result
    }
}

#[cfg(target_pointer_width = "64")]
impl CallResult for isize {
    #[inline(always)]
    fn ret(self, errno: c_int) -> i64 {
        (self as i64).ret(errno)
    }

    fn of_raw(result: c_long) -> Self {
        result as isize
    }
}

impl CallResult for *mut c_void {
    #[inline(always)]
    fn ret(self, errno: c_int) -> i64 {
        self.addr().cast_signed().ret(errno)
    }

    fn of_raw(result: c_long) -> Self {
        std::ptr::without_provenance_mut(result as usize)
    }
}

/// For functions that return nothing.
impl CallResult for () {
    #[inline(always)]
    fn ret(self, _errno: c_int) -> i64 {
        0
    }

    fn of_raw(result: c_long) -> Self {
        let _ = result;
    }
}

/// Error number that `posix_fallocate` returns; 0 on success.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct ErrorNumber(pub(crate) c_int);

impl CallResult for ErrorNumber {
    #[inline(always)]
    fn ret(self, _errno: c_int) -> i64 {
        -i64::from(self.0)
    }

    fn of_raw(result: c_long) -> Self {
        // SAFETY: as in `Recording::end`.
        let errno = unsafe { libc::__errno_location().read() };
        ErrorNumber(if result < 0 { errno } else { 0 })
    }
}
