//! Reply of the agent to one request, received item by item.

use crate::connection::Deadline;
use crate::conversation::Conversation;
use crate::error::Error;
use blkkin_control::{Received, Reply};

/// Maximum size of a reply in bytes. It keeps a caller who collects all items from running out of
/// memory.
const REPLY_SIZE_MAX: u64 = 256 << 20;

/// Iterator over the items of a reply, as they are received. The iterator ends after the last item
/// or after the first error. Items before an error are valid.
#[derive(Debug)]
pub struct Replies<'c> {
    conversation: &'c mut Conversation,
    /// Number of bytes that the connection had received when this iterator was made.
    start: u64,
    is_over: bool,
}

impl<'c> Replies<'c> {
    pub(crate) fn of(conversation: &'c mut Conversation) -> Replies<'c> {
        let start = conversation.connection.received;
        Replies { conversation, start, is_over: false }
    }

    /// Receives and drops the remaining items of the reply. Does not fail if the agent reports that
    /// the request failed.
    pub(crate) fn skip(self) -> Result<(), Error> {
        for reply in self {
            match reply {
                Ok(_) | Err(Error::Failed { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Receives the next item, including `Done` and `Failed`.
    fn receive(&mut self) -> Result<Reply, Error> {
        let Conversation { connection, decoder, patience, .. } = &mut *self.conversation;
        let deadline = Deadline::after(patience.item);
        loop {
            if connection.received - self.start > REPLY_SIZE_MAX {
                return Err(Error::ReplyTooLarge { address: connection.address.clone() });
            }
            // Items of kinds that only a newer agent defines are skipped.
            if let Received::Message { message, .. } = connection.receive(decoder, deadline)? {
                return Ok(message);
            }
        }
    }
}

impl Iterator for Replies<'_> {
    type Item = Result<Reply, Error>;

    fn next(&mut self) -> Option<Result<Reply, Error>> {
        if self.is_over {
            return None;
        }
        let reply = self.receive();
        self.is_over = matches!(reply, Ok(Reply::Done | Reply::Failed(_)) | Err(_));
        self.conversation.has_whole_reply = self.is_over && reply.is_ok();
        match reply {
            Ok(Reply::Done) => None,
            Ok(Reply::Failed(failed)) => {
                let address = self.conversation.connection.address.clone();
                Some(Err(Error::Failed { address, failed }))
            }
            reply => Some(reply),
        }
    }
}
