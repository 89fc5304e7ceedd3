//! Sending of messages in batches, until the sender gives up. Start at [`MessageSink`].

use super::options::Args;
use crate::interrupt::Interrupt;
use blkkin_scribe::{ClientOptions, DeliveryError, Entry, Sender, SenderOptions};
use std::ops::ControlFlow;
use std::time::Duration;

/// Time after Ctrl-C in which messages are still sent. Lines and growing traces are still read
/// meanwhile.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// Sender of messages, and their category.
pub(super) struct MessageSink {
    pub(super) sender: Sender<'static>,
    category: Vec<u8>,
    pub(super) gave_up: Option<DeliveryError>,
    interrupt: Interrupt,
}

impl MessageSink {
    pub(super) fn new(args: &Args, interrupt: &Interrupt) -> MessageSink {
        let client = ClientOptions::default();
        let patience = args.patience;
        let options = SenderOptions { client, patience, ..SenderOptions::default() };
        let asked = interrupt.clone();
        let sender = Sender::new(args.server.as_str(), options, move || asked.is_set_since(GRACE));
        let usual = if args.spans { "zipkin" } else { "" };
        let category = args.category.as_deref().unwrap_or(usual).as_bytes().to_vec();
        MessageSink { sender, category, gave_up: None, interrupt: interrupt.clone() }
    }

    pub(super) fn push(&mut self, message: &[u8]) -> ControlFlow<()> {
        let entry = Entry { category: &self.category, message };
        if self.gave_up.is_none() {
            self.gave_up = self.sender.push(entry).err();
        }
        self.flow()
    }

    pub(super) fn flush(&mut self) -> ControlFlow<()> {
        if self.gave_up.is_none() {
            self.gave_up = self.sender.flush().err();
        }
        self.flow()
    }

    /// Returns `Break` after the sender gave up, or [`GRACE`] after Ctrl-C.
    pub(super) fn flow(&self) -> ControlFlow<()> {
        match self.gave_up.is_some() || self.interrupt.is_set_since(GRACE) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}
