//! A filter expression bound to the event classes of the traces that are read.

use crate::event::Event;

/// A filter that can be asked about events.
#[derive(Clone, Debug)]
pub struct BoundFilter {}

impl BoundFilter {
    pub(crate) fn accepts(&mut self, _event: &mut Event<'_>) -> bool {
        true
    }
}
