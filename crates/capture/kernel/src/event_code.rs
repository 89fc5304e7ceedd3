//! Programs that record events: each reserves space in a ring, writes the event's header, context
//! and fields, and publishes it.

use crate::assembler::Register::{R0, R1};
use crate::assembler::{Alu, Assembler, If, Label, Size};
use crate::filter_code::{FieldTable, FilterCode, Functions};
use crate::frame::PROCESS;
use crate::redaction_code::RedactionCode;
use crate::ring_code::{FieldWriter, Preemption, RingCode};

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
        let redaction = RedactionCode::new(&mut code, rings.redaction);
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
        let EventCode { rings, preemption, code, end, switch, redaction, .. } = self;
        rings.reserve(code, FIXED_SIZE + event.fields_max, *preemption, *switch, *end);
        let mut fields = FieldWriter::after_header(*redaction);
        rings.header(code, event.id);
        code.load(Size::Bits64, R1, PROCESS);
        code.alu_number(Alu::ShiftRight, R1, 32);
        fields.register(code, 4, R1);
        code.load(Size::Bits64, R1, PROCESS);
        fields.register(code, 4, R1);
        write(code, &mut fields);
        *redaction = fields.redaction;
        rings.commit(code, fields.size());
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
