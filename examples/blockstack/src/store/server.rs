//! The server of a store. Reads are answered at once. Changes that arrived together are appended to
//! the journal with one write, synced if required, applied, and answered.

use super::checkpoint::Journal;
use super::journal::{Change, OBJECT_SIZE, Record};
use super::objects::Objects;
use crate::address::Address;
use crate::event_loop::{ClientId, EventLoop, Turn, announce};
use crate::message::{self, Header, Kind, NextMessage};
use crate::tracing::{Span, copy_call, server_span};
use blkkin_trace::Endpoint;
use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;

const CLIENTS_MAX: usize = 8;
/// Total size of waiting changes at which they are committed, in bytes.
const BATCH_MAX: usize = 8 << 20;
const EIO: u32 = 5;
const EINVAL: u32 = 22;

pub(crate) struct Options {
    pub(crate) listen: Address,
    pub(crate) directory: PathBuf,
    pub(crate) name: String,
    /// Set if every write must be durable before it is answered.
    pub(crate) sync: bool,
    pub(crate) journal_size: u64,
    pub(crate) until_eof: bool,
}

/// A change or flush that waits for the commit.
struct PendingChange {
    client: ClientId,
    id: u64,
    kind: Kind,
    object: u64,
    offset: u32,
    length: u32,
    /// Range of the data to be written, within the batch.
    bytes: Range<usize>,
    span: Span<'static>,
    /// Span of the journal write during the commit, if the request is sampled.
    journal: Option<Span<'static>>,
}

struct Store {
    endpoint: &'static Endpoint<'static>,
    objects: Objects,
    journal: Journal,
    event_loop: EventLoop<()>,
    sync: bool,
    waiting: Vec<PendingChange>,
    /// Encoded records of the waiting changes.
    batch: Vec<u8>,
    /// Set if a waiting request requires that the journal is synced.
    is_sync_wanted: bool,
}

pub(crate) fn run(options: Options) -> io::Result<()> {
    // The name lives as long as the process, since any span may refer to it.
    let name: &'static str = Box::leak(options.name.into_boxed_str());
    let endpoint: &'static Endpoint<'static> = Box::leak(Box::new(Endpoint::named(name)));
    let objects_directory = options.directory.join("objects");
    let mut objects = Objects::open(objects_directory.clone())?;
    let journal_directory = options.directory.join("journal");
    let (journal, replayed) =
        Journal::open(&journal_directory, &objects_directory, &mut objects, options.journal_size)?;
    if replayed.records > 0 || replayed.torn > 0 {
        let _ = writeln!(
            io::stderr(),
            "blockstack {name}: {} records of the journal done again, {} of its files torn",
            replayed.records,
            replayed.torn
        );
    }
    let (event_loop, address) = EventLoop::listen(&options.listen, options.until_eof, CLIENTS_MAX)?;
    let mut store = Store {
        endpoint,
        objects,
        journal,
        event_loop,
        sync: options.sync,
        waiting: Vec::new(),
        batch: Vec::new(),
        is_sync_wanted: false,
    };
    announce(&address)?;
    loop {
        if store.event_loop.turn(None, |_| true, || (), None)? == Turn::End {
            return store.journal.sync();
        }
        for client in store.event_loop.client_ids() {
            store.serve(client);
        }
        store.commit();
        store.event_loop.send();
    }
}

impl Store {
    fn serve(&mut self, id: ClientId) {
        loop {
            if self.batch.len() > BATCH_MAX {
                self.commit();
            }
            let Some(client) = self.event_loop.client(id) else { return };
            let (unread, output) = client.link.unread_and_output();
            let message = match message::next(unread) {
                NextMessage::Whole(message) if !message.header.is_reply => message,
                NextMessage::Short(size) => return client.link.reserve(size),
                NextMessage::Whole(_) | NextMessage::Bad => return self.event_loop.drop_client(id),
            };
            let Header { kind, id: number, object, offset, length, fua, trace, .. } =
                message.header;
            let size = message.size;
            let is_within = offset <= u64::from(OBJECT_SIZE)
                && u64::from(length) <= u64::from(OBJECT_SIZE) - offset;
            if kind == Kind::List || kind != Kind::Flush && !is_within {
                Header::reply(kind, number, length, EINVAL).write(&[], output);
                client.link.consume(size);
                continue;
            }
            let offset = offset as u32;
            if kind == Kind::Read
                && self.waiting.iter().any(|it| it.changes(object, offset, length))
            {
                // A read must return the changes requested before it.
                self.commit();
                continue;
            }
            let span = server_span(copy_call(kind), self.endpoint, &trace);
            let trace = span.trace();
            let _entered = trace.enter();
            if kind == Kind::Read {
                let start = output.len();
                Header::reply(kind, number, length, 0).write(&[], output);
                let read = self.objects.read(object, u64::from(offset), length, output);
                if let Err(error) = read {
                    output.truncate(start);
                    let status = status_of(&error);
                    span.keyval("error", status);
                    Header::reply(kind, number, length, status).write(&[], output);
                }
                client.link.consume(size);
                continue;
            }
            let start = self.batch.len();
            let change = match kind {
                Kind::Write => Some(Change::Write(message.payload)),
                Kind::Zero => Some(Change::Zero(length)),
                _ => None,
            };
            if let Some(change) = change {
                let number = self.journal.next_record();
                Record { number, object, offset, change }.write(&mut self.batch);
            }
            // The data is the end of the record.
            let bytes = self.batch.len() - message.payload.len()..self.batch.len();
            debug_assert!(bytes.start >= start);
            self.is_sync_wanted |= self.sync || fua || kind == Kind::Flush;
            self.waiting.push(PendingChange {
                client: id,
                id: number,
                kind,
                object,
                offset,
                length,
                bytes,
                span,
                journal: None,
            });
            client.link.consume(size);
        }
    }

    /// Commits and answers all waiting changes and flushes.
    fn commit(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.span.is_followed()) {
            waiting.journal = Some(waiting.span.child("journal").span());
        }
        // The thread works for all requests of the batch, but shows one span only.
        let journal = self.waiting.iter().find_map(|waiting| waiting.journal.as_ref());
        let shown = journal.map(|span| span.trace());
        let entered = shown.as_ref().map(|trace| trace.enter());
        let journaled = self.write_journal();
        drop(entered);
        for waiting in &mut self.waiting {
            waiting.journal = None;
        }
        for waiting in self.waiting.drain(..) {
            let PendingChange { client, id, kind, object, offset, length, bytes, span, .. } =
                waiting;
            let change = match kind {
                Kind::Write => Some(Change::Write(&self.batch[bytes])),
                Kind::Zero => Some(Change::Zero(length)),
                _ => None,
            };
            let done = match (&journaled, change) {
                (Ok(()), Some(change)) => {
                    let apply = span.child("apply").span();
                    let _entered = apply.enter();
                    self.objects.apply(&Record { number: 0, object, offset, change })
                }
                (Ok(()), None) => Ok(()),
                (Err(error), _) => Err(io::Error::from(error.kind())),
            };
            let status = done.as_ref().map_or_else(status_of, |()| 0);
            if status != 0 {
                span.keyval("error", status);
            }
            let Some(client) = self.event_loop.client(client) else { continue };
            Header::reply(kind, id, length, status).write(&[], &mut client.link.output);
        }
        self.batch.clear();
        self.is_sync_wanted = false;
    }

    /// Writes the batch to the journal, and syncs the journal if a request requires that. All
    /// waiting requests depend on the write, so each sampled request has a separate span for it.
    fn write_journal(&mut self) -> io::Result<()> {
        if !self.batch.is_empty() {
            let changes = self.waiting.iter().filter(|waiting| waiting.kind != Kind::Flush);
            self.journal.append(&self.batch, changes.map(|waiting| waiting.object))?;
        }
        if self.is_sync_wanted { self.journal.sync() } else { Ok(()) }
    }
}

impl PendingChange {
    fn changes(&self, object: u64, offset: u32, length: u32) -> bool {
        let (end, own_end) = (offset + length, self.offset + self.length);
        self.kind != Kind::Flush && self.object == object && self.offset < end && offset < own_end
    }
}

fn status_of(error: &io::Error) -> u32 {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => 28,
        _ => EIO,
    }
}
