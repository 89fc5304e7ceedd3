//! System calls of a request, each below the span that made it.

use crate::open_request::{ActivityKind, StoredActivity};
use crate::resolver::Resolver;

/// System call of a thread that showed a span. Its time is part of the span's own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Name of the system call.
    pub name: &'a str,
    /// Arguments as text, such as `fd=3, count=4096`; without pointers.
    pub arguments: &'a str,
    /// Result: a negative error number if the call failed.
    pub result: i64,
    /// Start, in nanoseconds since 1970.
    pub start_ns: u64,
    /// Duration in nanoseconds; 0 if unknown.
    pub duration_ns: u64,
    /// Id of the thread; `None` if unknown.
    pub thread: Option<u32>,
}

impl Call<'_> {
    /// Returns the end of the call, in nanoseconds since 1970.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }

    /// Returns the error number of a call that failed.
    pub fn errno(&self) -> Option<i32> {
        let errno = i32::try_from(self.result.checked_neg()?).ok()?;
        (1..=ERRNO_MAX).contains(&errno).then_some(errno)
    }
}

/// Maximum number of an error of the kernel.
const ERRNO_MAX: i32 = 4095;

/// Returns the system calls among the activities of a span, in the order of their starts. The
/// correction of skew moved the span by `moved` nanoseconds.
pub(crate) fn calls<'a>(
    activities: &[StoredActivity],
    moved: i64,
    resolver: Resolver<'a>,
) -> Vec<Call<'a>> {
    let of_calls = activities.iter().filter_map(|activity| match activity.kind {
        ActivityKind::Call { result, arguments } => Some((activity, result, arguments)),
        _ => None,
    });
    let mut calls: Vec<Call<'_>> = of_calls
        .map(|(activity, result, arguments)| Call {
            name: resolver.get(activity.detail),
            arguments: resolver.get(arguments),
            result,
            start_ns: activity.end.saturating_sub(activity.first).saturating_add_signed(moved),
            duration_ns: activity.first,
            thread: activity.thread,
        })
        .collect();
    calls.sort_by_key(|call| call.start_ns);
    calls
}
