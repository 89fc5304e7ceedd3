//! The tracer's connection to its agent: messages, and wake-ups of the agent.

use super::catalog::Catalog;
use super::channel::Channel;
use super::detachment::Detachment;
use super::guard::Guard;
use super::machine::Machine;
use super::state::OwnEvent;
use crate::cpu_share::CpuShare;
use crate::event_type::EventTypes;
use crate::span_slots::SpanSlots;
use blkkin_control::current_span::SlotOffset;
use blkkin_control::limits::REASON_SIZE_MAX;
use blkkin_control::{
    AddChannel, Answer, Decoder, FromApplication, Hello, Messages, Opening, Received, Role,
    SpanSlot, ToApplication, Unavailable, Version, encode,
};
use blkkin_ring::Cells;
use blkkin_sys::SharedMemory;
use blkkin_sys::socket::Socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

/// Connection to an agent, with the channels that the agent has added.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Socket,
    decoder: Decoder<ToApplication>,
    catalog: Catalog,
    types: EventTypes,
    /// Read when the first rules come into force.
    machine: Option<Machine>,
    /// Places of threads' current spans, by process.
    slots: HashMap<u32, SlotOffset>,
    channels: Vec<Channel>,
    guard: Guard,
    /// Processes whose own work would cause further events: the agent and this one.
    ignored: [u32; 2],
    log: fn(&str),
}

impl Connection {
    /// Connects to the agent at `path`, and sends it the catalog. All probes together may take
    /// `budget`.
    pub(super) fn open(path: &Path, budget: CpuShare, log: fn(&str)) -> io::Result<Connection> {
        let socket = Socket::connect(path)?;
        let peer = socket.peer()?;
        if peer.uid != 0 && peer.uid != blkkin_sys::user_id() {
            return Err(io::Error::other("the agent runs as another user"));
        }
        let hello = Hello {
            version: Version::OURS,
            role: Role::Kernel,
            program: "kernel".to_owned(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
        };
        send(&socket, &Opening::Hello(hello), &[])?;
        let mut opening = Decoder::<Answer>::new();
        loop {
            match opening.take().map_err(invalid)? {
                Some(Received::Message { message: Answer::Welcome(_), .. }) => break,
                Some(Received::Message { message: Answer::Refused(refused), .. }) => {
                    return Err(io::Error::other(refused.reason));
                }
                Some(Received::Unknown { .. }) => {}
                None => receive(&socket, &mut opening)?,
            }
        }
        let catalog = Catalog::create()?;
        send(&socket, &FromApplication::Catalog, &[catalog.file().as_fd()])?;
        Ok(Connection {
            decoder: opening.followed_by(),
            socket,
            catalog,
            types: EventTypes::default(),
            machine: None,
            slots: HashMap::new(),
            channels: Vec::new(),
            guard: Guard::new(budget, log),
            ignored: [peer.pid, std::process::id()],
            log,
        })
    }

    /// Handles messages and wake-ups, and guards the machine against costly probes, until the agent
    /// closes the connection or the pipe `start`.
    pub(super) fn serve(&mut self, start: BorrowedFd<'_>) -> io::Result<()> {
        loop {
            let sources = [self.socket.as_fd(), start].into_iter();
            let sources = sources.chain(self.channels.iter().map(Channel::waker));
            let mut polled: Vec<PollFd<'_>> =
                sources.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let now = Instant::now();
            let time =
                self.guard.deadline().map(|deadline| deadline.saturating_duration_since(now));
            let time = time.and_then(|time| Timespec::try_from(time).ok());
            match poll(&mut polled, time.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
            drop(polled);
            for (channel, is_ready) in self.channels.iter().zip(&ready[2..]) {
                if *is_ready {
                    channel.wake()?;
                }
            }
            if ready[1] {
                return Ok(());
            }
            if ready[0] {
                match receive(&self.socket, &mut self.decoder) {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                    received => received?,
                }
                self.handle_messages()?;
            }
            self.detach_costly_probes()?;
        }
    }

    /// Detaches probes that have taken too much processor time, and reports it to the agent, in the
    /// log and in the trace.
    fn detach_costly_probes(&mut self) -> io::Result<()> {
        let Some(excess) = self.guard.step(&self.channels, Instant::now()) else { return Ok(()) };
        let number = excess.group.channel;
        let Some(channel) = find(&mut self.channels, number) else { return Ok(()) };
        let Some((probes, missed)) = channel.detach(excess.group.serial) else { return Ok(()) };
        let detachment = Detachment { probes, excess };
        if let Ok(id) = self.types.add(Detachment::event_type()) {
            self.catalog.describe(self.types.all());
            let pid = std::process::id();
            let recorded = channel.record(&OwnEvent { id, pid, fields: &detachment.fields() });
            recorded.unwrap_or_else(|error| (self.log)(&format!("the trace: {error}")));
        }
        self.handle_changed_probes();
        let reasons = missed.into_iter().chain([detachment.to_string()]);
        reasons.into_iter().try_for_each(|reason| self.report(number, reason))
    }

    /// Tells the guard that other probes are attached than before.
    fn handle_changed_probes(&mut self) {
        self.guard.handle_change(&self.channels, Instant::now());
    }

    fn handle_messages(&mut self) -> io::Result<()> {
        while let Some(received) = self.decoder.take().map_err(invalid)? {
            if let Received::Message { message, descriptors } = received {
                self.handle(message, descriptors)?;
            }
        }
        Ok(())
    }

    fn handle(&mut self, message: ToApplication, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        match message {
            ToApplication::AddChannel(added) => self.add_channel(&added, descriptors),
            ToApplication::RemoveChannel(number) => {
                self.channels.retain(|channel| channel.number != number);
                self.handle_changed_probes();
                Ok(())
            }
            ToApplication::KernelRule(rule) => {
                if let Some(channel) = find(&mut self.channels, rule.channel) {
                    channel.add_rule(rule);
                }
                Ok(())
            }
            ToApplication::Apply(number) => self.apply(number),
            ToApplication::RecordState(number) => self.repeat_state(number),
            ToApplication::SpanSlot(slot) => {
                self.set_span_slot(slot);
                Ok(())
            }
            ToApplication::Ping(number) => self.send(&FromApplication::Pong(number), &[]),
            // These are for programs.
            ToApplication::Rule(_)
            | ToApplication::Sampling(_)
            | ToApplication::Pong(_)
            | ToApplication::KeepChannel(_)
            | ToApplication::Release(_) => Ok(()),
        }
    }

    /// Makes the rings of a channel, and passes them to the agent.
    fn add_channel(&mut self, added: &AddChannel, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        let Ok([memory, eventfd]) = <[OwnedFd; 2]>::try_from(descriptors) else {
            return Err(invalid("two descriptors are needed"));
        };
        let shape = Cells::new(SharedMemory::map(memory.as_fd())?).shape().map_err(invalid)?;
        match Channel::new(added.channel, &shape, eventfd, &self.channels) {
            Ok(channel) => {
                let message = FromApplication::KernelRings(added.channel);
                send(&self.socket, &message, &[channel.memory()])?;
                self.channels.push(channel);
                Ok(())
            }
            Err(error) => self.report(added.channel, error.to_string()),
        }
    }

    /// Puts the rules of a channel in force.
    fn apply(&mut self, number: u32) -> io::Result<()> {
        let Some(channel) = find(&mut self.channels, number) else { return Ok(()) };
        let machine = match &mut self.machine {
            Some(machine) => machine,
            none => match Machine::read() {
                Ok(machine) => {
                    for (process, offset) in &self.slots {
                        insert_slot(&machine.slots, *process, *offset, self.log);
                    }
                    none.insert(machine)
                }
                Err(error) => return self.report(number, error.to_string()),
            },
        };
        let unavailable = channel.apply(machine, &mut self.types, &self.ignored);
        self.catalog.describe(self.types.all());
        let recorded = channel.record_state();
        let failed = recorded.err().map(|error| format!("the state of processes: {error}"));
        self.handle_changed_probes();
        unavailable.into_iter().chain(failed).try_for_each(|reason| self.report(number, reason))
    }

    /// Records the state of the machine once more into a channel.
    fn repeat_state(&mut self, number: u32) -> io::Result<()> {
        let Some(channel) = find(&mut self.channels, number) else { return Ok(()) };
        match channel.repeat_state() {
            Ok(()) => Ok(()),
            Err(error) => self.report(number, format!("the state of processes: {error}")),
        }
    }

    /// Sets or removes the place of the current spans of a process.
    fn set_span_slot(&mut self, slot: SpanSlot) {
        let SpanSlot { process, offset } = slot;
        let table = self.machine.as_ref().map(|machine| &machine.slots);
        let offset = SlotOffset::decode(offset);
        match offset {
            Some(offset) => self.slots.insert(process, offset),
            None => self.slots.remove(&process),
        };
        match (table, offset) {
            (Some(table), Some(offset)) => insert_slot(table, process, offset, self.log),
            (Some(table), None) => {
                table.remove(process);
                // Another process may have waited for the entry.
                let mut others = self.slots.iter();
                let other = others.find(|(other, _)| SpanSlots::share_entry(**other, process));
                if let Some((process, offset)) = other {
                    table.insert(*process, *offset);
                }
            }
            (None, _) => {}
        }
    }

    /// Reports to the agent and in the log that events cannot be recorded.
    fn report(&self, channel: u32, mut reason: String) -> io::Result<()> {
        (self.log)(&reason);
        while reason.len() > REASON_SIZE_MAX {
            reason.pop();
        }
        self.send(&FromApplication::Unavailable(Unavailable { channel, reason }), &[])
    }

    fn send(&self, message: &FromApplication, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        send(&self.socket, message, descriptors)
    }
}

/// Adds a process to the table, or logs that it has no entry.
fn insert_slot(table: &SpanSlots, process: u32, offset: SlotOffset, log: fn(&str)) {
    if !table.insert(process, offset) {
        log(&format!(
            "process {process}: its entry in the table of current spans is in use, so that the \
             kernel's events of its requests are not recorded"
        ));
    }
}

fn find(channels: &mut [Channel], number: u32) -> Option<&mut Channel> {
    channels.iter_mut().find(|channel| channel.number == number)
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Sends a message, and waits while the socket has no space.
fn send<M: Messages>(
    socket: &Socket,
    message: &M,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut frame = Vec::new();
    encode(message, &mut frame).map_err(|error| invalid(error.to_string()))?;
    let (mut rest, mut descriptors) = (&frame[..], descriptors);
    while !rest.is_empty() {
        match socket.send(rest, descriptors) {
            Ok(sent) => {
                rest = &rest[sent.min(rest.len())..];
                descriptors = &[];
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(socket, PollFlags::OUT)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits for bytes and passes them to a decoder. Fails with `UnexpectedEof` if the agent has closed
/// the connection.
fn receive<M: Messages>(socket: &Socket, decoder: &mut Decoder<M>) -> io::Result<()> {
    let (mut bytes, mut descriptors) = ([0; 16 << 10], Vec::new());
    loop {
        match socket.receive(&mut bytes, &mut descriptors) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(size) => {
                decoder.feed(&bytes[..size], descriptors);
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(socket, PollFlags::IN)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn wait(socket: &Socket, events: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::new(socket, events)], None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
