//! Fields that filters can use: how the code of a probe's filter loads each of them. A kind of
//! probe makes a [`FieldTable`] of its events.

use crate::assembler::{Address, Assembler, Helper};
use crate::event_type::Integer;

/// Fields of an event type, as filters see them.
pub(crate) struct FieldTable<'f> {
    /// Name of the event type, such as `syscall:openat`.
    pub(crate) event: String,
    /// Slots of the frame that the loaders need, besides [`crate::frame::PROCESS`]. They must have
    /// been written before the filter runs.
    pub(crate) slots: Vec<Address>,
    /// Names and loaders, in the order of the event.
    pub(crate) fields: Vec<(&'f str, FieldLoader<'f>)>,
}

/// Loader of a field.
pub(crate) struct FieldLoader<'f> {
    pub(crate) form: FieldForm,
    /// Adds the code that loads the field, as the form demands. In it, `R6` is the register that
    /// [`crate::event_code::EventCode::filter`] passes, and slots of the frame have their values.
    /// It may change `R0` to `R5`, and the slots for scratch.
    pub(crate) load: Box<dyn Fn(&mut Assembler) + 'f>,
}

/// Form of a field, and what its loader leaves in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FieldForm {
    /// Integer in the low bytes of `R1`; the other bits have no meaning.
    Integer(Integer),
    /// Floating-point number, which programs in the kernel cannot compare. A filter that uses it is
    /// refused.
    Float,
    /// Array of integers in `R1`, the first in its lowest bits.
    Word { element: Integer, count: usize },
    /// Array of integers in the memory of the kernel at the address in `R3`.
    Array { element: Integer, count: usize },
    /// Text with a NUL at the address in `R3`. At most `size_max` bytes are recorded, with the
    /// NUL. `helper` reads it.
    Text { size_max: usize, helper: Helper },
    /// Bytes whose number is in `R2`, and whose address is in `R3`. At most `size_max` bytes are
    /// recorded. `helper` reads them.
    Bytes { size_max: usize, helper: Helper },
}

impl<'f> FieldTable<'f> {
    pub(crate) fn find(&self, name: &str) -> Option<&FieldLoader<'f>> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, loader)| loader)
    }
}

impl<'f> FieldLoader<'f> {
    pub(crate) fn new(form: FieldForm, load: impl Fn(&mut Assembler) + 'f) -> FieldLoader<'f> {
        FieldLoader { form, load: Box::new(load) }
    }
}
