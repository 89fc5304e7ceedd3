//! A span of the `tracing` crate through our layer.

use super::paced::Place;
use crate::bench::Report;

pub(super) fn measure(_: &mut Report, _: &Place<'_>, _: bool) -> Result<(), String> {
    Ok(())
}
