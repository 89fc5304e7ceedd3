//! Channel options that `channel create` and `record` share.

use crate::values;

/// Limits of a channel's events: the time that they wait for space in a full ring, and their size.
#[derive(clap::Args, Debug)]
pub(crate) struct EventLimits {
    /// Let programs wait up to TIME for room in a full ring before an event is lost: 500us, 20ms,
    /// 2s, or inf [1s without a TIME]
    ///
    /// After a timeout during which the agent read nothing, no event waits until the agent reads
    /// again, so a stopped agent delays each thread of a program at most once. With inf, programs
    /// wait as long as the agent reads. No event waits longer than 10 seconds for an agent that
    /// does not read.
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1s",
        value_parser = values::blocking
    )]
    pub(crate) blocking: Option<u32>,

    /// Shorten the longest strings of an event larger than SIZE bytes, 512 to 1M [default: 64K, or
    /// what a sub-buffer holds]
    ///
    /// A shortened string ends with its original length, such as `...[cut: 100000 bytes]`.
    #[arg(long, value_name = "SIZE", value_parser = values::string_max)]
    pub(crate) string_max: Option<u32>,
}
