//! What the daemon answers to one request.

use crate::connection::Deadline;
use crate::{Client, Error};
use blkkin_control::{Received, Reply};

/// Bytes of a reply, at most: who keeps its items must not run out of memory.
const REPLY_SIZE_MAX: u64 = 256 << 20;

/// The items of a reply, as they come. Ends behind the last one, or with the first error. What was
/// given until then holds.
#[derive(Debug)]
pub struct Replies<'c> {
    client: &'c mut Client,
    /// How many bytes had come before.
    start: u64,
    is_over: bool,
}

impl<'c> Replies<'c> {
    pub(crate) fn of(client: &'c mut Client) -> Replies<'c> {
        let start = client.connection.received;
        Replies { client, start, is_over: false }
    }

    /// Takes what is left. A failure is of no interest any more.
    pub(crate) fn pass_over(self) -> Result<(), Error> {
        for reply in self {
            match reply {
                Ok(_) | Err(Error::Failed { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next item, `Done` and `Failed` among them.
    fn receive(&mut self) -> Result<Reply, Error> {
        let Client { connection, decoder, patience, .. } = &mut *self.client;
        let deadline = Deadline::after(patience.item);
        loop {
            if connection.received - self.start > REPLY_SIZE_MAX {
                return Err(Error::TooMuch { address: connection.address.clone() });
            }
            // What a newer daemon adds is passed over.
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
        self.client.is_in_step = self.is_over && reply.is_ok();
        match reply {
            Ok(Reply::Done) => None,
            Ok(Reply::Failed(failed)) => {
                let address = self.client.address().to_owned();
                Some(Err(Error::Failed { address, failed }))
            }
            reply => Some(reply),
        }
    }
}
