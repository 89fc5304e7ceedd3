//! Values of an event's fields, by the meaning of the field.

use crate::path::PATH_SIZE_MAX;
use crate::peer::ADDRESS_SIZE_MAX;
use blkkin_ctf::decode::{Node, NodeKind, Visitor};
use blkkin_ctf::schema::Scope;

/// Meaning of a field: an index of [`Values`], or [`IGNORED`] or [`UNBOUND`].
pub(crate) type Slot = u8;

pub(crate) const PID: Slot = 0;
pub(crate) const TID: Slot = 1;
/// Return value of the call.
pub(crate) const RET: Slot = 2;
pub(crate) const DURATION: Slot = 3;
pub(crate) const FD: Slot = 4;
pub(crate) const FD2: Slot = 5;
/// Requested count.
pub(crate) const COUNT: Slot = 6;
pub(crate) const OFFSET: Slot = 7;
/// Directory that a relative [`PATH`] starts from.
pub(crate) const DIRFD: Slot = 8;
/// Directory that a relative [`PATH2`] starts from.
pub(crate) const DIRFD2: Slot = 9;
pub(crate) const FLAGS: Slot = 10;
/// Command of `fcntl`, and its argument.
pub(crate) const COMMAND: Slot = 11;
pub(crate) const ARGUMENT: Slot = 12;
pub(crate) const WHENCE: Slot = 13;
/// Pointers to the offsets of input and output. With a null pointer, the file position is used.
pub(crate) const POINTER: Slot = 14;
pub(crate) const POINTER2: Slot = 15;
/// Process that was created.
pub(crate) const CHILD: Slot = 16;
/// Process whose state an event describes.
pub(crate) const OF_PID: Slot = 17;
/// Address family of a socket.
pub(crate) const FAMILY: Slot = 18;
/// Instance of io_uring, as an address in the kernel.
pub(crate) const RING: Slot = 19;
/// Request of io_uring, as an address in the kernel.
pub(crate) const REQUEST: Slot = 20;
/// Number that a program has given to a request of io_uring.
pub(crate) const USER_DATA: Slot = 21;
/// Operation code of a request of io_uring.
pub(crate) const OPCODE: Slot = 22;
/// Nanoseconds in which a request to a disk was queued.
pub(crate) const QUEUED: Slot = 23;
/// Nanoseconds in which a disk served a request.
pub(crate) const SERVED: Slot = 24;
/// Status of a request to a disk.
pub(crate) const ERROR: Slot = 25;
const NUMBERS: usize = 26;
pub(crate) const PATH: Slot = 26;
pub(crate) const PATH2: Slot = 27;
/// Name of a process.
pub(crate) const NAME: Slot = 28;
/// Working directory of a process.
pub(crate) const DIRECTORY: Slot = 29;
/// Label of a disk, or its number without one.
pub(crate) const DEVICE_NAME: Slot = 30;
/// Label of a disk's operation, or its number without one.
pub(crate) const OPERATION_NAME: Slot = 31;
/// Label of the system call that a thread makes, or its number without one.
pub(crate) const CALL_NAME: Slot = 32;
const TEXTS: usize = 7;
/// Socket address.
pub(crate) const ADDRESS: Slot = 33;
/// Byte of a socket address that is recorded as an array.
pub(crate) const ADDRESS_BYTE: Slot = 34;
/// Array of two descriptors, whose elements are [`FD`] and [`FD2`].
pub(crate) const DESCRIPTORS: Slot = 35;
/// Descriptor in an array of two descriptors.
pub(crate) const DESCRIPTOR: Slot = 36;
pub(crate) const IGNORED: Slot = 254;
/// Slot of a field that no event contained yet.
pub(crate) const UNBOUND: Slot = 255;

/// Fields of each event's context, in traces of the kernel and of programs.
const CONTEXT: &[(&str, Slot)] = &[("pid", PID), ("tid", TID), ("vpid", PID), ("vtid", TID)];

/// Values of one event's fields. The memory is reused for the next event.
#[derive(Debug, Default)]
pub(crate) struct Values {
    numbers: [u64; NUMBERS],
    /// Bit set of the slots that have a number in this event.
    present: u32,
    texts: [(u32, u32); TEXTS],
    text: String,
    address: Vec<u8>,
}

impl Values {
    pub(crate) fn clear(&mut self) {
        self.present = 0;
        self.texts = [(0, 0); TEXTS];
        self.text.clear();
        self.address.clear();
    }

    /// Returns an integer; negative ones are in two's complement with 64 bits.
    #[inline]
    pub(crate) fn number(&self, slot: Slot) -> Option<u64> {
        let index = usize::from(slot);
        (self.present >> slot & 1 == 1).then(|| self.numbers[index])
    }

    /// Returns a descriptor. The kernel uses the lower 32 bits of the argument only.
    #[inline]
    pub(crate) fn fd(&self, slot: Slot) -> Option<i32> {
        self.number(slot).map(|number| (number as u32).cast_signed())
    }

    /// Returns a process or thread id.
    #[inline]
    pub(crate) fn id(&self, slot: Slot) -> Option<u32> {
        u32::try_from(self.number(slot)?).ok()
    }

    /// Returns the flags of the call; 0 if the event lacks them.
    #[inline]
    pub(crate) fn flags(&self) -> u64 {
        self.number(FLAGS).unwrap_or(0)
    }

    /// Returns a text; `None` if it is absent or empty.
    #[inline]
    pub(crate) fn text(&self, slot: Slot) -> Option<&str> {
        let &(start, end) = self.texts.get(usize::from(slot - PATH))?;
        self.text.get(start as usize..end as usize).filter(|text| !text.is_empty())
    }

    /// Returns the bytes of the socket address; empty if it is absent.
    pub(crate) fn address(&self) -> &[u8] {
        &self.address
    }

    fn set_number(&mut self, slot: Slot, value: u64) {
        self.numbers[usize::from(slot)] = value;
        self.present |= 1 << slot;
    }

    fn set_text(&mut self, slot: Slot, value: &str) {
        let value = &value[..value.floor_char_boundary(PATH_SIZE_MAX)];
        let start = self.text.len();
        self.text.push_str(value);
        self.texts[usize::from(slot - PATH)] = (start as u32, self.text.len() as u32);
    }

    fn add_address(&mut self, bytes: &[u8]) {
        let room = ADDRESS_SIZE_MAX - self.address.len();
        self.address.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// Visitor that copies the values of an event's fields into their slots, and binds fields to slots
/// when it receives them first.
pub(crate) struct ValueVisitor<'v> {
    pub(crate) values: &'v mut Values,
    /// Slot of each field, by node id.
    pub(crate) slots: &'v mut [Slot],
    pub(crate) nodes: &'v [Node],
    /// Names of the payload's fields for the event's class.
    pub(crate) fields: &'static [(&'static str, Slot)],
}

impl ValueVisitor<'_> {
    #[inline]
    fn slot(&mut self, node: &Node) -> Slot {
        match self.slots.get(node.id as usize) {
            Some(&UNBOUND) => self.bind(node),
            Some(&slot) => slot,
            None => IGNORED,
        }
    }

    #[cold]
    fn bind(&mut self, node: &Node) -> Slot {
        let slot = self.find_slot(node);
        self.slots[node.id as usize] = slot;
        slot
    }

    fn find_slot(&self, node: &Node) -> Slot {
        let parent = |node: &Node| self.nodes.get(node.parent? as usize);
        let Some(above) = parent(node) else { return IGNORED };
        let is_member = |node: &Node| parent(node).is_some_and(|above| above.parent.is_none());
        let named = |node: &Node| {
            let name = node.name.as_deref()?;
            let fields = match node.scope {
                Scope::Payload => self.fields,
                _ => CONTEXT,
            };
            match (fields.iter().find(|field| field.0 == name), name) {
                (Some(field), _) => Some(field.1),
                (None, "ret") if node.scope == Scope::Payload => Some(RET),
                (None, "duration") if node.scope == Scope::Payload => Some(DURATION),
                (None, _) => None,
            }
        };
        let is_member_array = |node: &Node| matches!(node.kind, NodeKind::Array) && is_member(node);
        if is_member(node) {
            return named(node).unwrap_or(IGNORED);
        }
        match named(above) {
            Some(ADDRESS) if is_member_array(above) => ADDRESS_BYTE,
            Some(DESCRIPTORS) if is_member_array(above) => DESCRIPTOR,
            _ => IGNORED,
        }
    }

    /// Receives an integer, whose 64 bits are `bits`.
    #[inline]
    fn integer(&mut self, node: &Node, bits: u64, value: i128) {
        match self.slot(node) {
            slot if usize::from(slot) < NUMBERS => self.values.set_number(slot, bits),
            slot @ DEVICE_NAME..=CALL_NAME => self.set_label(slot, node, value),
            ADDRESS_BYTE => self.values.add_address(&[bits as u8]),
            DESCRIPTOR if self.values.number(FD).is_none() => self.values.set_number(FD, bits),
            DESCRIPTOR => self.values.set_number(FD2, bits),
            _ => {}
        }
    }

    #[cold]
    fn set_label(&mut self, slot: Slot, node: &Node, value: i128) {
        let labels = match &node.kind {
            NodeKind::Int { labels, .. } | NodeKind::VarInt { labels, .. } => labels.as_ref(),
            _ => None,
        };
        match labels.and_then(|labels| labels.of(value).next()) {
            Some(label) => self.values.set_text(slot, label),
            None => self.values.set_text(slot, &value.to_string()),
        }
    }
}

impl Visitor for ValueVisitor<'_> {
    fn restart(&mut self) {
        self.values.clear();
    }

    #[inline]
    fn unsigned(&mut self, node: &Node, value: u64) {
        self.integer(node, value, value.into());
    }

    #[inline]
    fn signed(&mut self, node: &Node, value: i64) {
        self.integer(node, value.cast_unsigned(), value.into());
    }

    fn string(&mut self, node: &Node, value: &[u8]) {
        match self.slot(node) {
            ADDRESS => self.values.add_address(value),
            slot @ PATH..=DIRECTORY => {
                // A longer text is cut off anyway.
                let value = &value[..value.len().min(4 * PATH_SIZE_MAX)];
                match &node.kind {
                    NodeKind::String(encoding) if encoding.unit_size() > 1 => {
                        self.values.set_text(slot, &encoding.decode(value));
                    }
                    _ => self.values.set_text(slot, &String::from_utf8_lossy(value)),
                }
            }
            _ => {}
        }
    }

    fn blob(&mut self, node: &Node, value: &[u8]) {
        if self.slot(node) == ADDRESS {
            self.values.add_address(value);
        }
    }
}
