//! System calls of a span as text: which of them are shown, and how.

use super::truncate::truncate_text;
use crate::errno::error_name;
use crate::info::table::Theme;
use blkkin_spans::Call;

/// Maximum number of system calls that are drawn below a span.
const SHOWN_MAX: usize = 10;
/// Maximum length of a call's name in characters.
const NAME_MAX: usize = 32;

/// Calls of a span that are drawn: the longest, in the order of their starts.
pub(super) struct ShownCalls<'c> {
    pub(super) shown: Vec<&'c Call<'c>>,
    /// Number of the other calls.
    pub(super) others: usize,
    /// Sum of the other calls' durations in nanoseconds.
    pub(super) others_ns: u64,
}

impl<'c> ShownCalls<'c> {
    pub(super) fn new(calls: &'c [Call<'c>]) -> ShownCalls<'c> {
        let mut shown: Vec<&Call<'_>> = calls.iter().collect();
        // The sort is stable, so that equal calls stay in their order.
        shown.sort_by_key(|call| std::cmp::Reverse(call.duration_ns));
        let others = shown.split_off(shown.len().min(SHOWN_MAX));
        let others_ns = others.iter().fold(0u64, |sum, call| sum.saturating_add(call.duration_ns));
        shown.sort_by_key(|call| call.start_ns);
        ShownCalls { shown, others: others.len(), others_ns }
    }
}

/// Returns a call as text: `pread64(fd=3, count=4096, pos=0) = 4096`. Its arguments are truncated
/// if the text would be longer than `length_max` characters.
pub(super) fn call_text(call: &Call<'_>, length_max: usize, theme: Theme) -> String {
    let name = theme.clean(call.name, NAME_MAX);
    let result = result_text(call);
    let others = name.chars().count() + "() = ".len() + result.chars().count();
    let arguments = theme.clean(call.arguments, length_max);
    let room = length_max.saturating_sub(others);
    let arguments = truncate_text(&arguments, room, theme.ascii);
    format!("{name}({arguments}) = {result}")
}

fn result_text(call: &Call<'_>) -> String {
    match (call.errno(), u32::try_from(call.result)) {
        (Some(errno), _) => error_name(errno),
        (None, Ok(number)) => number.to_string(),
        // An address.
        (None, Err(_)) => format!("{:#x}", call.result),
    }
}
