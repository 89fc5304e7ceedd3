//! Consumer for `blkkin view --count`.

use blkkin_reader::{Consumer, Event, Loss, PacketView, Stream, Trace, Unordered};
use std::ops::ControlFlow;

/// Consumer that ignores events, as the reader itself counts them.
#[derive(Debug)]
pub(super) struct Count;

impl Consumer for Count {
    fn event(&mut self, _: &mut Event<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn loss(&mut self, _: &Trace, _: &Stream, _: &Loss) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl Unordered for Count {
    const EVENTS: bool = false;

    fn packet(&mut self, _: &Trace, _: &Stream, _: &PacketView<'_>) {}
    #[inline]
    fn event(&mut self, _: &mut Event<'_>) {}
    fn loss(&mut self, _: &Trace, _: &Stream, _: &Loss) {}
}
