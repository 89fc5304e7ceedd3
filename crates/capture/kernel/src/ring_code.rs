//! Code that writes events into a set of rings whose memory is a block map, in the layout of the
//! crate `blkkin-ring`.
//!
//! Each processor has a ring. A program acquires its processor's ring by storing to the word
//! `OWNER`. An interrupt may arrive while the ring is owned, and run another program; that program
//! acquires one of the further rings, for which all processors compete. The programs that acquire a
//! processor's ring cannot be preempted, and an interrupt ends before the interrupted program
//! continues. So a load and a store suffice to acquire the ring, without a locked instruction.
//! Programs that can be preempted acquire it by a locked instruction, and keep it while they are
//! preempted; the processor's other programs use shared rings meanwhile.
//!
//! An event is written in place: [`RingCode::reserve`] acquires a ring and reserves space for the
//! largest event of its type, and [`RingCode::publish`] publishes as many bytes as were written.

use crate::assembler::Register::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use crate::assembler::{Address, Alu, Assembler, Helper, If, Label, Register, Size};
use crate::read_code::read_bytes;
use crate::redaction::integer;
use crate::redaction_code::RedactionCode;
use blkkin_control::RedactionMethod;
use blkkin_ring::{Shape, layout, packet};

/// Register with the address of the owned ring's control block.
pub(crate) const CONTROL: Register = R7;
/// Address of the event. Fields are at constant offsets from it; a string's size is added to it.
pub(crate) const EVENT: Register = R8;
/// Position of the event in the ring. A string's size is added to it.
const POSITION: Register = R9;

/// Slot of the frame with the index of the taken ring.
pub(crate) const RING_SLOT: Address = Address(R10, -8);
/// Slot of the frame with the event's time.
pub(crate) const TIME_SLOT: Address = Address(R10, -16);
/// End of the slots that this module uses.
pub(crate) const SLOTS_END: i16 = -16;

/// Flag of the kernel's ring buffer: wake the reader in any case.
const FORCE_WAKE: u64 = 2;

/// Preemption of a program by the kernel, which never moves a program to another processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preemption {
    Disabled,
    Possible,
}

/// Size of the largest event of a type, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Room {
    Bytes(usize),
    /// Slot of the frame with the number of bytes, which leaves room for a packet's header.
    Slot(Address),
}

/// Generator of code for one set of rings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingCode<'s> {
    pub(crate) shape: &'s Shape,
    /// Number of rings that belong to a processor.
    pub(crate) processors: usize,
    /// Number of rings that all processors share. They follow those of the processors.
    pub(crate) shared: usize,
    /// Descriptor of the block map with the rings, which are in discard mode.
    pub(crate) block: i32,
    /// Descriptor of the map by which the reader is woken.
    pub(crate) waker: i32,
    /// Descriptor of the memory of redactions, if fields are redacted.
    pub(crate) redaction: Option<i32>,
}

impl RingCode<'_> {
    /// Acquires a ring and sets [`EVENT`] to memory for an event of this size. If the ring is full,
    /// or no ring can be acquired, counts the event as lost and jumps to `lost`. `switch` is the
    /// label of [`define_switch`](Self::define_switch).
    pub(crate) fn reserve(
        &self,
        code: &mut Assembler,
        room: Room,
        preemption: Preemption,
        switch: Label,
        lost: Label,
    ) {
        let shape = self.shape;
        let processors = self.processors;
        let [shared, taken, begin, append, full, done] = [(); 6].map(|()| code.label());
        code.call(Helper::GetSmpProcessorId);
        code.jump_if_number(If::GreaterOrEqual, R0, processors as i32, shared);
        code.store(Size::Bits64, RING_SLOT, R0);
        code.alu_number(Alu::ShiftLeft, R0, layout::CONTROL_SIZE.trailing_zeros() as i32);
        code.block(CONTROL, self.block, shape.control_of(0));
        code.alu(Alu::Add, CONTROL, R0);
        acquire(code, preemption, shared);

        code.set(taken);
        code.load(Size::Bits64, POSITION, Address(CONTROL, layout::WRITE as i16));
        code.copy(R1, POSITION);
        code.alu_number(Alu::And, R1, shape.subbuffer_size as i32 - 1);
        // Events never reach the last byte of a sub-buffer, so only the ring's first position is at
        // the start of one.
        code.jump_if_number(If::Equal, R1, 0, begin);
        match room {
            Room::Bytes(bytes) => {
                debug_assert!(packet::SIZE + bytes < shape.subbuffer_size);
                code.alu_number(Alu::Add, R1, bytes as i32);
            }
            Room::Slot(slot) => {
                code.load(Size::Bits64, R2, slot);
                code.alu(Alu::Add, R1, R2);
            }
        }
        code.jump_if_number(If::Less, R1, shape.subbuffer_size as i32, append);
        code.set(begin);
        code.load(Size::Bits64, R1, RING_SLOT);
        code.call_local(switch);
        code.jump_if_number(If::NotEqual, R0, 0, full);
        code.load(Size::Bits64, POSITION, Address(CONTROL, layout::WRITE as i16));

        code.set(append);
        code.load(Size::Bits64, R1, RING_SLOT);
        self.address(code, EVENT, R1, POSITION);
        code.jump(done);

        code.set(full);
        count(code, layout::LOST);
        release(code);
        code.jump(lost);

        code.set(shared);
        for ring in processors..processors + self.shared {
            code.number(R1, ring as u64);
            code.store(Size::Bits64, RING_SLOT, R1);
            code.block(CONTROL, self.block, shape.control_of(ring));
            compare_exchange_owner(code);
            code.jump_if_number(If::Equal, R0, 0, taken);
        }
        self.count_unplaced(code, R2);
        code.jump(lost);
        code.set(done);
    }

    /// Counts an event as lost that has no ring. `control` and `R1` are lost.
    pub(crate) fn count_unplaced(&self, code: &mut Assembler, control: Register) {
        code.block(control, self.block, self.shape.control_of(0));
        code.number(R1, 1);
        code.atomic_add(Address(control, layout::UNPLACED as i16), R1);
    }

    /// Writes the event's header, with the current time. The time is in [`TIME_SLOT`], too.
    pub(crate) fn header(&self, code: &mut Assembler, id: u16) {
        code.store_number(Size::Bits16, Address(EVENT, 0), id.into());
        self.time(code);
        code.store(Size::Bits64, Address(EVENT, layout::TIME_AT as i16), R0);
        code.store(Size::Bits64, TIME_SLOT, R0);
    }

    /// Replaces the event's id by the low bytes of a register.
    pub(crate) fn set_id(code: &mut Assembler, id: Register) {
        code.store(Size::Bits16, Address(EVENT, 0), id);
    }

    /// Sets `R0` to the current time, or to the ring's last time if that is later: the clock that
    /// can be read in any interrupt may go back by some nanoseconds.
    fn time(&self, code: &mut Assembler) {
        let is_later = code.label();
        code.call(Helper::KtimeGetNs);
        code.load(Size::Bits64, R1, Address(CONTROL, layout::LAST_TIME as i16));
        code.jump_if(If::GreaterOrEqual, R0, R1, is_later);
        code.copy(R0, R1);
        code.set(is_later);
    }

    /// Ends an event that has `size` bytes in addition to its strings.
    pub(crate) fn end_event(code: &mut Assembler, size: usize) {
        code.alu_number(Alu::Add, POSITION, size as i32);
    }

    /// Publishes an event that has [ended](Self::end_event), releases the ring, and wakes the
    /// reader if it sleeps.
    pub(crate) fn publish(&self, code: &mut Assembler) {
        let is_awake = code.label();
        code.load(Size::Bits64, R1, TIME_SLOT);
        code.store(Size::Bits64, Address(CONTROL, layout::LAST_TIME as i16), R1);
        // The processor makes stores visible in their order, so a reader that sees the position
        // sees the event.
        code.store(Size::Bits64, Address(CONTROL, layout::WRITE as i16), POSITION);
        count(code, layout::RECORDED);
        release(code);
        code.block(R1, self.block, layout::SLEEPING);
        code.load(Size::Bits64, R2, Address(R1, 0));
        code.jump_if_number(If::Equal, R2, 0, is_awake);
        code.store_number(Size::Bits64, Address(R1, 0), 0);
        code.map(R1, self.waker);
        code.copy(R2, R10);
        code.alu_number(Alu::Add, R2, TIME_SLOT.1.into());
        code.number(R3, 8);
        code.number(R4, FORCE_WAKE);
        code.call(Helper::RingbufOutput);
        code.set(is_awake);
    }

    /// Sets `to` to the address of a position in a ring. `ring` is lost.
    fn address(&self, code: &mut Assembler, to: Register, ring: Register, position: Register) {
        code.alu_number(Alu::Mul, ring, self.shape.ring_size() as i32);
        code.block(to, self.block, self.shape.data_of(0).start);
        code.alu(Alu::Add, to, ring);
        code.copy(ring, position);
        code.alu_number(Alu::And, ring, self.shape.ring_size() as i32 - 1);
        code.alu(Alu::Add, to, ring);
    }

    /// Defines a function that leaves the sub-buffer of the ring `R1` and begins the next. Its
    /// result is 0, or 1 if the reader still needs the next one.
    pub(crate) fn define_switch(&self, code: &mut Assembler, switch: Label) {
        let shape = self.shape;
        let size = shape.subbuffer_size as i32;
        let (is_first, no_room) = (code.label(), code.label());
        let (ring, to, from_used) = (Address(R10, -8), Address(R10, -16), Address(R10, -24));
        let discarded = Address(R10, -32);
        code.set(switch);
        code.jump_if_number(If::GreaterOrEqual, R1, shape.rings as i32, no_room);
        code.store(Size::Bits64, ring, R1);
        code.alu_number(Alu::ShiftLeft, R1, layout::CONTROL_SIZE.trailing_zeros() as i32);
        code.block(CONTROL, self.block, shape.control_of(0));
        code.alu(Alu::Add, CONTROL, R1);
        code.load(Size::Bits64, POSITION, Address(CONTROL, layout::WRITE as i16));
        // The next position, and the used bytes of the sub-buffer before it.
        let has_next = code.label();
        code.copy(R2, POSITION);
        code.copy(R3, POSITION);
        code.alu_number(Alu::And, R3, size - 1);
        code.store(Size::Bits64, from_used, R3);
        code.jump_if_number(If::Equal, R3, 0, has_next);
        code.alu(Alu::Sub, R2, R3);
        code.alu_number(Alu::Add, R2, size);
        code.set(has_next);
        code.store(Size::Bits64, to, R2);
        code.load(Size::Bits64, R3, Address(CONTROL, layout::READ as i16));
        code.alu_number(Alu::Add, R2, size);
        code.alu(Alu::Sub, R2, R3);
        code.jump_if_number(If::Greater, R2, shape.ring_size() as i32, no_room);
        self.time(code);
        code.copy(R6, R0);
        code.load(Size::Bits64, R2, Address(CONTROL, layout::LOST as i16));
        code.load(Size::Bits64, R3, Address(CONTROL, layout::UNPLACED as i16));
        code.alu(Alu::Add, R2, R3);
        code.store(Size::Bits64, discarded, R2);

        code.load(Size::Bits64, R4, from_used);
        code.jump_if_number(If::Equal, R4, 0, is_first);
        code.alu(Alu::Sub, POSITION, R4);
        code.load(Size::Bits64, R1, ring);
        self.address(code, EVENT, R1, POSITION);
        code.store(Size::Bits64, Address(EVENT, packet::LAST_TIME as i16), R6);
        code.alu_number(Alu::ShiftLeft, R4, 3);
        code.store(Size::Bits64, Address(EVENT, packet::CONTENT_SIZE as i16), R4);
        code.number(R4, 8 * shape.subbuffer_size as u64);
        code.store(Size::Bits64, Address(EVENT, packet::PACKET_SIZE as i16), R4);
        code.store(Size::Bits64, Address(EVENT, packet::DISCARDED as i16), R2);

        code.set(is_first);
        code.load(Size::Bits64, POSITION, to);
        code.load(Size::Bits64, R1, ring);
        self.address(code, EVENT, R1, POSITION);
        self.begin(code, PacketFields { time: R6, ring, discarded });
        code.store(Size::Bits64, Address(CONTROL, layout::LAST_TIME as i16), R6);
        code.alu_number(Alu::Add, POSITION, packet::SIZE as i32);
        code.store(Size::Bits64, Address(CONTROL, layout::WRITE as i16), POSITION);
        code.number(R0, 0);
        code.exit();
        code.set(no_room);
        code.number(R0, 1);
        code.exit();
    }

    /// Writes the header of the packet at [`EVENT`], whose position is [`POSITION`]. The bytes are
    /// those of [`packet::Header`], with words for what is known only when the code runs.
    fn begin(&self, code: &mut Assembler, fields: PacketFields) {
        let shape = self.shape;
        let header = packet::Header {
            uuid: shape.uuid,
            stream: shape.stream,
            cpu: 0,
            first_time: 0,
            last_time: 0,
            content_size: packet::SIZE as u64,
            packet_size: shape.subbuffer_size as u64,
            number: 0,
            discarded: 0,
        };
        let bytes = header.to_bytes();
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        for at in [0, 8, 16, packet::CONTENT_SIZE, packet::PACKET_SIZE] {
            code.number(R2, word(at));
            code.store(Size::Bits64, Address(EVENT, at as i16), R2);
        }
        code.load(Size::Bits64, R2, fields.ring);
        code.store(Size::Bits64, Address(EVENT, packet::INSTANCE as i16), R2);
        code.store(Size::Bits32, Address(EVENT, packet::CPU as i16), R2);
        code.store(Size::Bits64, Address(EVENT, packet::FIRST_TIME as i16), fields.time);
        code.store(Size::Bits64, Address(EVENT, packet::LAST_TIME as i16), fields.time);
        code.copy(R2, POSITION);
        code.number(R3, shape.start);
        code.alu(Alu::Sub, R2, R3);
        code.alu_number(Alu::ShiftRight, R2, shape.subbuffer_size.trailing_zeros() as i32);
        code.store(Size::Bits64, Address(EVENT, packet::NUMBER as i16), R2);
        code.load(Size::Bits64, R2, fields.discarded);
        code.store(Size::Bits64, Address(EVENT, packet::DISCARDED as i16), R2);
    }
}

/// Registers and stack slots with the values of a packet header's fields that are known only when
/// the code runs.
struct PacketFields {
    time: Register,
    ring: Address,
    discarded: Address,
}

/// Acquires the processor's ring, or jumps to `in_use`.
fn acquire(code: &mut Assembler, preemption: Preemption, in_use: Label) {
    match preemption {
        Preemption::Possible => {
            compare_exchange_owner(code);
            code.jump_if_number(If::NotEqual, R0, 0, in_use);
        }
        Preemption::Disabled => {
            code.load(Size::Bits64, R1, Address(CONTROL, layout::OWNER as i16));
            code.jump_if_number(If::NotEqual, R1, 0, in_use);
            code.store_number(Size::Bits64, Address(CONTROL, layout::OWNER as i16), 1);
        }
    }
}

/// Acquires a ring atomically, if it is free. `R0` is then 0.
fn compare_exchange_owner(code: &mut Assembler) {
    code.number(R0, 0);
    code.number(R1, 1);
    code.atomic_compare_exchange(Address(CONTROL, layout::OWNER as i16), R1);
}

/// Increments a word of the taken ring's control.
fn count(code: &mut Assembler, word: usize) {
    code.load(Size::Bits64, R1, Address(CONTROL, word as i16));
    code.alu_number(Alu::Add, R1, 1);
    code.store(Size::Bits64, Address(CONTROL, word as i16), R1);
}

/// Releases the ring that the program owns.
pub(crate) fn release(code: &mut Assembler) {
    code.store_number(Size::Bits64, Address(CONTROL, layout::OWNER as i16), 0);
}

/// Writer of an event's fields, in order, into the space that [`RingCode::reserve`] has reserved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldWriter {
    /// Offset of the next field, without the strings before it.
    offset: usize,
    redaction: RedactionCode,
}

impl FieldWriter {
    /// Returns a writer that starts after the event's header.
    pub(crate) fn after_header(redaction: RedactionCode) -> FieldWriter {
        FieldWriter { offset: layout::HEADER_SIZE, redaction }
    }

    /// Returns the size of the event without its strings, for [`RingCode::end_event`].
    pub(crate) fn size(&self) -> usize {
        self.offset
    }

    /// Writes the low bytes of a register.
    pub(crate) fn register(&mut self, code: &mut Assembler, bytes: usize, register: Register) {
        code.store(Size::of_bytes(bytes), Address(EVENT, self.offset as i16), register);
        self.offset += bytes;
    }

    /// Writes a string of at most `size_max` bytes with its NUL, from the address in `R3`, or its
    /// redaction. `helper` reads strings of a program or of the kernel. A string that cannot be
    /// read is empty.
    pub(crate) fn string(
        &mut self,
        code: &mut Assembler,
        redaction: Option<RedactionMethod>,
        size_max: usize,
        helper: Helper,
    ) {
        if let Some(method) = redaction {
            self.redaction.string(code, method, size_max, helper);
            return self.register(code, integer(method).bytes, R0);
        }
        let (is_read, is_bounded) = (code.label(), code.label());
        code.copy(R1, EVENT);
        code.alu_number(Alu::Add, R1, self.offset as i32);
        code.number(R2, size_max as u64);
        code.call(helper);
        code.jump_if_number(If::GreaterSigned, R0, 0, is_read);
        code.store_number(Size::Bits8, Address(EVENT, self.offset as i16), 0);
        code.number(R0, 1);
        code.set(is_read);
        // Older verifiers do not know the helper's maximum.
        code.jump_if_number(If::LessOrEqual, R0, size_max as i32, is_bounded);
        code.number(R0, 1);
        code.set(is_bounded);
        code.alu(Alu::Add, EVENT, R0);
        code.alu(Alu::Add, POSITION, R0);
    }

    /// Writes bytes with their number before them, from the address in `R3`, or their redaction.
    /// The number is in `R2`; at most `size_max` bytes are written. `helper` reads memory of a
    /// program or of the kernel. `slot` is a free slot of the frame. Bytes that cannot be read are
    /// left out.
    pub(crate) fn bytes(
        &mut self,
        code: &mut Assembler,
        redaction: Option<RedactionMethod>,
        size_max: usize,
        helper: Helper,
        slot: Address,
    ) {
        if let Some(method) = redaction {
            self.redaction.bytes(code, method, size_max, helper, slot);
            return self.register(code, integer(method).bytes, R0);
        }
        let length = Address(EVENT, self.offset as i16);
        self.offset += 4;
        read_bytes(code, size_max, helper, slot, |code| {
            code.copy(R1, EVENT);
            code.alu_number(Alu::Add, R1, self.offset as i32);
        });
        code.store(Size::Bits32, length, R0);
        code.alu(Alu::Add, EVENT, R0);
        code.alu(Alu::Add, POSITION, R0);
    }

    /// Writes the addresses of a stack with their number before them, at most `count_max`.
    /// `context` holds the context that the kernel passes to the program, and `flags` are those of
    /// the helper. A stack that the kernel does not know is empty.
    pub(crate) fn stack(
        &mut self,
        code: &mut Assembler,
        count_max: usize,
        context: Register,
        flags: u64,
    ) {
        let (size_max, is_known, is_bounded) = (8 * count_max, code.label(), code.label());
        let count = Address(EVENT, self.offset as i16);
        self.offset += 4;
        code.copy(R1, context);
        code.copy(R2, EVENT);
        code.alu_number(Alu::Add, R2, self.offset as i32);
        code.number(R3, size_max as u64);
        code.number(R4, flags);
        code.call(Helper::GetStack);
        code.jump_if_number(If::GreaterSigned, R0, 0, is_known);
        code.number(R0, 0);
        code.set(is_known);
        // Older verifiers do not know the helper's maximum.
        code.jump_if_number(If::LessOrEqual, R0, size_max as i32, is_bounded);
        code.number(R0, 0);
        code.set(is_bounded);
        code.copy(R1, R0);
        code.alu_number(Alu::ShiftRight, R1, 3);
        code.store(Size::Bits32, count, R1);
        code.alu(Alu::Add, EVENT, R0);
        code.alu(Alu::Add, POSITION, R0);
    }

    /// Writes an array of `size` bytes, from the kernel's address in `R3`, or its redaction. An
    /// array that cannot be read is all zeros.
    pub(crate) fn array(
        &mut self,
        code: &mut Assembler,
        redaction: Option<RedactionMethod>,
        size: usize,
    ) {
        if let Some(method) = redaction {
            self.redaction.array(code, method, size);
            return self.register(code, integer(method).bytes, R0);
        }
        code.copy(R1, EVENT);
        code.alu_number(Alu::Add, R1, self.offset as i32);
        code.number(R2, size as u64);
        code.call(Helper::ProbeReadKernel);
        self.offset += size;
    }
}
