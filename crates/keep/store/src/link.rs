//! Which service calls which. Start at [`Link`].

use crate::Durations;

/// Calls of one service by another one, by the rules of Zipkin's dependency linker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link {
    /// Who calls.
    pub parent: String,
    /// Who is called.
    pub child: String,
    /// How often.
    pub calls: u64,
    /// How many of the calls failed.
    pub errors: u64,
    /// How long the calls took of which it is known.
    pub durations: Durations,
}
