//! Extraction of an event's values. The meaning of an event class is determined once; for later
//! events of a class without meaning, the extractor makes only two table lookups.

use crate::calls::{self, Call};
use crate::values::{
    CALL_NAME, CHILD, COUNT, DEVICE_NAME, DIRECTORY, ERROR, FD, FLAGS, NAME, OF_PID, OFFSET,
    OPCODE, OPERATION_NAME, PATH, QUEUED, REQUEST, RING, SERVED, Slot, UNBOUND, USER_DATA,
    ValueVisitor, Values,
};
use blkkin_reader::{Event, Trace};

/// Meaning of an event class.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meaning {
    Call(&'static Call),
    Fork,
    Exec,
    Exit,
    /// State of a process at the start of the recording.
    ProcessState,
    /// Open descriptor at the start of the recording.
    FileState,
    /// Submission of a request of io_uring.
    UringSubmit,
    /// Completion of a request of io_uring.
    UringComplete,
    /// Completion of a request to a disk.
    DiskRequest,
}

impl Meaning {
    fn of(name: &str) -> Option<Meaning> {
        if let Some(call) = name.strip_prefix("syscall:") {
            return calls::find(call).map(Meaning::Call);
        }
        match name {
            "process:fork" => Some(Meaning::Fork),
            "process:exec" => Some(Meaning::Exec),
            "process:exit" => Some(Meaning::Exit),
            "state:process" => Some(Meaning::ProcessState),
            "state:file" => Some(Meaning::FileState),
            "uring:submit" => Some(Meaning::UringSubmit),
            "uring:complete" => Some(Meaning::UringComplete),
            "disk:request" => Some(Meaning::DiskRequest),
            _ => None,
        }
    }

    /// Returns the names of the payload's fields, with their slots.
    fn fields(self) -> &'static [(&'static str, Slot)] {
        match self {
            Meaning::Call(call) => call.fields,
            Meaning::Fork => &[("child", CHILD)],
            Meaning::Exec => &[("name", NAME)],
            Meaning::Exit => &[],
            Meaning::ProcessState => &[("of_pid", OF_PID), ("name", NAME), ("cwd", DIRECTORY)],
            Meaning::FileState => &[("of_pid", OF_PID), ("fd", FD), ("path", PATH)],
            Meaning::UringSubmit => &[
                ("ring", RING),
                ("request", REQUEST),
                ("user_data", USER_DATA),
                ("opcode", OPCODE),
                ("flags", FLAGS),
                ("fd", FD),
                ("offset", OFFSET),
                ("length", COUNT),
            ],
            Meaning::UringComplete => {
                &[("ring", RING), ("request", REQUEST), ("user_data", USER_DATA), ("flags", FLAGS)]
            }
            Meaning::DiskRequest => &[
                ("device", DEVICE_NAME),
                ("operation", OPERATION_NAME),
                ("sector", OFFSET),
                ("bytes", COUNT),
                ("queued", QUEUED),
                ("served", SERVED),
                ("error", ERROR),
                ("call", CALL_NAME),
            ],
        }
    }
}

/// Error for an event whose fields are damaged. The reader reports the damage.
#[derive(Debug)]
pub(crate) struct Damaged;

/// Extractor of values from events.
#[derive(Debug, Default)]
pub(crate) struct Extractor {
    /// Classes of each trace, indexed by the reader's trace number.
    traces: Vec<Option<TraceClasses>>,
    values: Values,
}

/// Event classes and fields of one trace.
#[derive(Debug)]
struct TraceClasses {
    /// Meanings, indexed by stream class and event class.
    meanings: Vec<Vec<Option<Meaning>>>,
    /// Slots of fields, by node id of the decoder.
    slots: Vec<Slot>,
}

impl Extractor {
    /// Returns the meaning and the values of an event; `None` if the event has no meaning.
    #[inline]
    pub(crate) fn read(
        &mut self,
        event: &mut Event<'_>,
    ) -> Result<Option<(Meaning, &Values)>, Damaged> {
        let trace = event.trace();
        if self.traces.len() <= trace.id {
            self.traces.resize_with(trace.id + 1, || None);
        }
        let classes = self.traces[trace.id].get_or_insert_with(|| TraceClasses::new(trace));
        let stream = classes.meanings.get(event.stream().class);
        let meaning = stream.and_then(|events| *events.get(event.class_index())?);
        let Some(meaning) = meaning else { return Ok(None) };
        self.values.clear();
        let mut visitor = ValueVisitor {
            values: &mut self.values,
            slots: &mut classes.slots,
            nodes: trace.decoder().nodes(),
            fields: meaning.fields(),
        };
        match event.visit(&mut visitor) {
            true => Ok(Some((meaning, &self.values))),
            false => Err(Damaged),
        }
    }
}

impl TraceClasses {
    fn new(trace: &Trace) -> TraceClasses {
        let streams = trace.schema().streams.iter();
        let meaning = |name: &Option<_>| Meaning::of(name.as_deref().unwrap_or_default());
        TraceClasses {
            meanings: streams
                .map(|stream| stream.events.iter().map(|event| meaning(&event.name)).collect())
                .collect(),
            slots: vec![UNBOUND; trace.decoder().nodes().len()],
        }
    }
}
