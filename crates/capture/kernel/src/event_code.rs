//! Programs that record events: each reserves space in a ring, writes the event's header, context
//! and fields, and publishes it.

use crate::assembler::Register::{R0, R1};
use crate::assembler::{Address, Alu, Assembler, If, Label, Size};
use crate::filter_code::{FieldTable, FilterCode, Functions};
use crate::frame::PROCESS;
use crate::redaction_code::RedactionCode;
use crate::ring_code::{self, FieldWriter, Preemption, RING_SLOT, RingCode, Room};

/// Size in bytes of an event's header and context.
const FIXED_SIZE: usize = blkkin_ring::HEADER_SIZE + 8;

/// Program that records events, while it is made.
pub(crate) struct EventCode<'c> {
    rings: &'c RingCode<'c>,
    preemption: Preemption,
    pub(crate) code: Assembler,
    /// Label of the program's end.
    pub(crate) end: Label,
    /// Label of the function that begins a sub-buffer.
    switch: Label,
    redaction: RedactionCode,
    /// Filters whose functions are not defined yet.
    filters: Vec<(Label, &'c FilterCode, FieldTable<'c>)>,
}

/// Id of an event, and the maximum size of its fields in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventSize {
    pub(crate) id: u16,
    pub(crate) fields_max: usize,
}

/// Slots of the frame with the id and the maximum size of an event, until it is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventSlots {
    pub(crate) id: Address,
    pub(crate) size: Address,
}

impl EventSlots {
    /// Stores the type of the event that the program will record.
    pub(crate) fn store(self, code: &mut Assembler, event: EventSize) {
        code.store_number(Size::Bits64, self.id, event.id.into());
        code.store_number(Size::Bits64, self.size, (FIXED_SIZE + event.fields_max) as i32);
    }
}

impl<'c> EventCode<'c> {
    /// Begins a program without instructions, around which the kernel disables preemption.
    pub(crate) fn new(rings: &'c RingCode<'c>) -> EventCode<'c> {
        EventCode::with_preemption(rings, Preemption::Disabled)
    }

    /// Begins a program without instructions.
    pub(crate) fn with_preemption(
        rings: &'c RingCode<'c>,
        preemption: Preemption,
    ) -> EventCode<'c> {
        let mut code = Assembler::default();
        let (end, switch) = (code.label(), code.label());
        let redaction = RedactionCode::new(&mut code, rings.redaction, RING_SLOT);
        EventCode { rings, preemption, code, end, switch, redaction, filters: Vec::new() }
    }

    /// Adds the code that ends the program if an event does not pass a filter. The fields are
    /// loaded by `fields`, with the value that `R6` has. `R0` to `R5` are lost.
    pub(crate) fn filter(&mut self, filter: &'c FilterCode, fields: FieldTable<'c>) {
        let EventCode { code, end, filters, .. } = self;
        let function = code.label();
        FilterCode::call(code, function);
        code.jump_if_number(If::Equal, R0, 0, *end);
        filters.push((function, filter, fields));
    }

    /// Adds the code that records an event, whose fields `write` adds. The process and the thread
    /// are those in [`PROCESS`]. If there is no space, the event is counted as lost, and the
    /// program ends. `R0` to `R5` and `R7` to `R9` are lost.
    pub(crate) fn record(
        &mut self,
        event: EventSize,
        write: impl FnOnce(&mut Assembler, &mut FieldWriter),
    ) {
        let mut fields = self.begin(Room::Bytes(FIXED_SIZE + event.fields_max), event.id);
        let EventCode { rings, code, .. } = self;
        write(code, &mut fields);
        RingCode::end_event(code, fields.size());
        rings.publish(code);
    }

    /// Adds the code that records an event of one of several types, as [`record`](Self::record).
    /// The program has [stored](EventSlots::store) the type. `select` adds the code that jumps to
    /// the label of the type, or to the last label for any other type, and `write` adds the fields
    /// of a type.
    ///
    /// The kernel's verifier examines what all types have in common once, unless the program lets
    /// it know the type: `select` must not use what the program knew when it stored the size.
    pub(crate) fn record_one_of<T>(
        &mut self,
        slots: EventSlots,
        types: &[T],
        select: impl FnOnce(&mut Assembler, &[Label], Label),
        mut write: impl FnMut(&mut Assembler, &T, &mut FieldWriter),
    ) {
        let fields = self.begin(Room::Slot(slots.size), 0);
        let EventCode { rings, code, end, .. } = self;
        code.load(Size::Bits64, R1, slots.id);
        RingCode::set_id(code, R1);
        let [is_written, is_none] = [(); 2].map(|()| code.label());
        let labels: Vec<Label> = types.iter().map(|_| code.label()).collect();
        select(code, &labels, is_none);
        for (one, label) in types.iter().zip(labels) {
            code.set(label);
            let mut fields = fields;
            write(code, one, &mut fields);
            RingCode::end_event(code, fields.size());
            code.jump(is_written);
        }
        code.set(is_none);
        ring_code::release(code);
        code.jump(*end);
        code.set(is_written);
        rings.publish(code);
    }

    /// Adds the code that reserves space for an event, and writes its header and context. Returns
    /// the writer of its fields.
    fn begin(&mut self, room: Room, id: u16) -> FieldWriter {
        let EventCode { rings, preemption, code, end, switch, redaction, .. } = self;
        rings.reserve(code, room, *preemption, *switch, *end);
        let mut fields = FieldWriter::after_header(*redaction);
        rings.header(code, id);
        code.load(Size::Bits64, R1, PROCESS);
        code.alu_number(Alu::ShiftRight, R1, 32);
        fields.register(code, 4, R1);
        code.load(Size::Bits64, R1, PROCESS);
        fields.register(code, 4, R1);
        fields
    }

    /// Ends a program that records no event.
    pub(crate) fn finish_unrecorded(mut self) -> Assembler {
        self.code.set(self.end);
        self.code.finish();
        self.code
    }

    /// Ends the program. It must record an event.
    pub(crate) fn finish(mut self) -> Assembler {
        self.code.set(self.end);
        self.code.finish();
        self.rings.define_switch(&mut self.code, self.switch);
        self.redaction.define(&mut self.code);
        let mut functions = Functions::default();
        for (function, filter, fields) in &self.filters {
            filter.define(&mut self.code, *function, &mut functions, fields);
        }
        functions.define(&mut self.code);
        self.code
    }
}
