//! Batches that are there before the clock starts. Start at [`make`].

use crate::format::Format;
use crate::numbers::Numbers;
use crate::requests;
use crate::template::Template;

/// Numbers of the requests that batches are made of. They are far apart, so that each time in a batch is of one request
/// only; and of a year that all formats write with as many digits as this one.
pub(crate) const NUMBERS: Numbers =
    Numbers { seed: 0x0b1c, origin_ns: 1_100_000_000_000_000_000, step_ns: 600_000_000_000 };

/// So many batches, each of so many requests, in a format.
pub(crate) fn make(format: Format, host: &str, batches: u64, requests: u64) -> Vec<Template> {
    let one = |batch: u64| {
        let first = batch * requests;
        let made: Vec<_> =
            (first..first + requests).map(|number| requests::request(&NUMBERS, number)).collect();
        Template::new(format, host, &NUMBERS, first, &made)
    };
    (0..batches).map(one).collect()
}
