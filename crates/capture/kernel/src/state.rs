//! State of the machine when a recording begins, as events: processes with their names, parents and
//! directories, their threads, open files and mapped programs, and the disks. With them a reader on
//! any machine knows what a process, a descriptor, an address or a device meant.

mod fields;
mod read;
mod writer;

pub(crate) use fields::StateRedaction;
pub use writer::{StateStream, StateWriter};

use crate::event_type::{Integer, event_type};
use blkkin_control::{EventType, FieldKind};
use fields::Fields;

/// Kind of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StateKind {
    /// A process, with its parent, its name and its directory.
    Process,
    /// An open descriptor of a process.
    File,
    /// A thread of a process, with its name.
    Thread,
    /// A program or library in the memory of a process.
    Map,
    /// A disk or a partition, with its number, name and size.
    Disk,
}

impl StateKind {
    /// All kinds, in the order in which they are recorded.
    pub const ALL: [StateKind; 5] =
        [StateKind::Process, StateKind::File, StateKind::Thread, StateKind::Map, StateKind::Disk];

    /// Returns the name of the events.
    pub fn event_name(self) -> &'static str {
        match self {
            StateKind::Process => "state:process",
            StateKind::File => "state:file",
            StateKind::Thread => "state:thread",
            StateKind::Map => "state:map",
            StateKind::Disk => "state:disk",
        }
    }

    /// Returns the kind of the events with a name.
    pub(crate) fn of_event(name: &str) -> Option<StateKind> {
        StateKind::ALL.into_iter().find(|kind| kind.event_name() == name)
    }

    /// Returns the description of the events.
    pub fn event_type(self, id: u16) -> EventType {
        let (unsigned, long) = (|| Integer::unsigned(4).field(), || Integer::unsigned(8).field());
        let address = || Integer::pointer().field();
        let text = || FieldKind::String;
        let fields = match self {
            StateKind::Process => vec![
                ("of_pid", unsigned()),
                ("parent", unsigned()),
                ("name", text()),
                ("cwd", text()),
            ],
            StateKind::File => {
                vec![("of_pid", unsigned()), ("fd", Integer::signed(4).field()), ("path", text())]
            }
            StateKind::Thread => {
                vec![("of_pid", unsigned()), ("of_tid", unsigned()), ("name", text())]
            }
            StateKind::Map => vec![
                ("of_pid", unsigned()),
                ("start", address()),
                ("end", address()),
                ("offset", address()),
                ("path", text()),
            ],
            StateKind::Disk => vec![("device", unsigned()), ("size", long()), ("name", text())],
        };
        event_type(id, self.event_name().to_owned(), fields)
    }
}

/// State as the fields of one event.
pub(crate) struct StateEvent<'e> {
    pub(crate) kind: StateKind,
    /// The process; 0 for a disk.
    pub(crate) pid: u32,
    pub(crate) fields: &'e [u8],
}

/// Passes the state of a process to `take`, in the order of the kinds; disks are not a part of it.
/// Leaves out the parts that this process is not permitted to read.
pub(crate) fn of_process(
    pid: u32,
    kinds: &[StateKind],
    redaction: &StateRedaction,
    mut take: impl FnMut(&StateEvent<'_>),
) {
    let mut fields = Fields::new(redaction);
    let mut take =
        |kind, fields: &Fields<'_>| take(&StateEvent { kind, pid, fields: fields.bytes() });
    let has = |kind| kinds.contains(&kind);
    if has(StateKind::Process) {
        let Some(process) = read::process(pid) else { return };
        fields.begin(StateKind::Process.event_name()).number(pid).number(process.parent);
        fields.text("name", &process.name).text("cwd", &process.directory);
        take(StateKind::Process, &fields);
    }
    if has(StateKind::File) {
        for (descriptor, path) in read::files(pid) {
            fields
                .begin(StateKind::File.event_name())
                .number(pid)
                .number(descriptor.cast_unsigned());
            fields.text("path", &path);
            take(StateKind::File, &fields);
        }
    }
    if has(StateKind::Thread) {
        for (thread, name) in read::threads(pid) {
            fields
                .begin(StateKind::Thread.event_name())
                .number(pid)
                .number(thread)
                .text("name", &name);
            take(StateKind::Thread, &fields);
        }
    }
    if has(StateKind::Map) {
        for map in read::maps(pid) {
            fields.begin(StateKind::Map.event_name()).number(pid).long(map.start).long(map.end);
            fields.long(map.offset).text("path", &map.path);
            take(StateKind::Map, &fields);
        }
    }
}

/// Passes the disks of the machine to `take`.
pub(crate) fn of_disks(redaction: &StateRedaction, mut take: impl FnMut(&StateEvent<'_>)) {
    let mut fields = Fields::new(redaction);
    for disk in read::disks() {
        fields
            .begin(StateKind::Disk.event_name())
            .number(disk.device)
            .long(disk.size)
            .text("name", &disk.name);
        take(&StateEvent { kind: StateKind::Disk, pid: 0, fields: fields.bytes() });
    }
}
