//! Writing of field classes as TSDL types. Start at [`Writer::structure`].

use super::frame::Frame;
use super::references::Purpose;
use super::spelling::{escaped, is_plain, quoted};
use super::{WriteError, Writer};
use crate::metadata::limits::DEPTH_MAX;
use crate::schema::{
    Base, Bits, BlobClass, ByteOrder, Encoding, FieldClass, FloatClass, IntClass, IntKind, Length,
    Mapping, Ranges, Role, Roles, StructClass, VariantClass,
};
use crate::tsdl::roles;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::rc::Rc;

const BYTE: &str = "integer { size = 8; align = 8; signed = false; encoding = ";

impl<'s> Writer<'s> {
    /// Writes `struct { … } align(…)`.
    pub(super) fn structure(&mut self, class: &'s StructClass) -> Result<(), WriteError> {
        let names = self.names(self.current, class)?;
        self.out.push_str("struct {\n");
        self.push(Frame::Struct { class, names: names.clone(), index: 0 })?;
        for (at, (member, written)) in class.members.iter().zip(&names.written).enumerate() {
            if let Some(Frame::Struct { index, .. }) = self.frames.last_mut() {
                *index = at;
            }
            self.field(&member.class, written, true)?;
        }
        self.pop();
        if class.align > 1 {
            self.check_align(class.align)?;
            write!(self.out, " align({})", class.align).ok();
        }
        Ok(())
    }

    /// Returns the clock of an integer; for a timestamp without a clock, the stream's clock.
    pub(super) fn clock_of(&self, int: &IntClass) -> Option<usize> {
        let is_timestamp = int.roles.has(Role::Timestamp) || int.roles.has(Role::PacketEnd);
        int.clock.or(self.own_clock.filter(|_| is_timestamp))
    }

    fn push(&mut self, frame: Frame<'s>) -> Result<(), WriteError> {
        self.frames.push(frame);
        self.indent += 1;
        match self.frames.len() > DEPTH_MAX {
            true => Err(self.fail(format!("nested more than {DEPTH_MAX} levels deep"))),
            false => Ok(()),
        }
    }

    /// Leaves the compound class that the last [`Self::push`] entered, and writes its closing
    /// brace.
    fn pop(&mut self) {
        self.frames.pop();
        self.indent -= 1;
        self.start_line();
        self.out.push('}');
    }

    /// Writes `type name[length];`.
    fn field(
        &mut self,
        class: &'s FieldClass,
        written: &str,
        is_member: bool,
    ) -> Result<(), WriteError> {
        let mut lengths = String::new();
        let mut inner = class;
        while let FieldClass::Array(array) = inner {
            if array.align > array.element.align() {
                return Err(self.fail(format!("array aligned on {} bits", array.align)));
            }
            self.length(&array.length, &mut lengths)?;
            inner = &array.element;
        }
        self.start_line();
        let name = (is_member && lengths.is_empty()).then_some(written);
        match inner {
            FieldClass::Int(int) => self.int(int, name)?,
            FieldClass::Float(float) => self.float(float)?,
            FieldClass::String(string) => match string.encoding {
                Encoding::Utf8 => self.out.push_str("string"),
                other => {
                    let encoding = self.encoding(other)?;
                    write!(self.out, "string {{ encoding = {encoding}; }}").ok();
                }
            },
            FieldClass::Text(text) => {
                let encoding = self.encoding(text.encoding)?;
                write!(self.out, "{BYTE}{encoding}; base = 10; }}").ok();
                self.length(&text.length, &mut lengths)?;
            }
            FieldClass::Blob(blob) => self.blob(blob, name, &mut lengths)?,
            FieldClass::Struct(structure) => self.structure(structure)?,
            FieldClass::Variant(variant) => self.variant(variant)?,
            FieldClass::VarInt(_) => return Err(self.fail("variable-length integer")),
            FieldClass::Optional(_) => return Err(self.fail("optional field")),
            // Not reached: the loop above descends through all arrays.
            FieldClass::Array(_) => (),
        }
        let name = escaped(written);
        writeln!(self.out, " {name}{lengths};").ok();
        Ok(())
    }

    fn length(&mut self, length: &'s Length, out: &mut String) -> Result<(), WriteError> {
        match length {
            Length::Static(length) => write!(out, "[{length}]").ok(),
            Length::Dynamic(field) => {
                let (path, _) = self.reference(field, Purpose::Length)?;
                write!(out, "[{path}]").ok()
            }
        };
        Ok(())
    }

    /// Writes an integer or enumeration. `name` is the written name of a structure's member.
    fn int(&mut self, int: &IntClass, name: Option<&str>) -> Result<(), WriteError> {
        let signed = match int.kind {
            IntKind::Unsigned => "false",
            IntKind::Signed => "true",
            IntKind::Bool => return Err(self.fail("boolean")),
            IntKind::BitArray => return Err(self.fail("array of bits")),
            IntKind::BitMap => return Err(self.fail("map of bits")),
        };
        if !(1..=64).contains(&int.bits.size) {
            return Err(self.fail(format!("integer of {} bits", int.bits.size)));
        }
        self.check_bits(&int.bits)?;
        let clock = self.clock_of(int);
        self.check_roles(int, clock, name)?;
        if int.mappings.is_some() {
            self.out.push_str("enum : ");
        }
        let (size, align) = (int.bits.size, int.bits.align);
        let base = match int.base {
            Base::Binary => 2,
            Base::Octal => 8,
            Base::Decimal => 10,
            Base::Hexadecimal => 16,
        };
        write!(
            self.out,
            "integer {{ size = {size}; align = {align}; signed = {signed}; \
             encoding = none; base = {base}; "
        )
        .ok();
        self.byte_order(int.bits.byte_order);
        if let Some(clock) = clock {
            let name = self.schema.clocks.get(clock).map_or("", |clock| clock.name.as_str());
            if !is_plain(name) {
                return Err(self.fail(format!("clock `{name}` cannot be named in the text")));
            }
            write!(self.out, "map = clock.{name}.value; ").ok();
        }
        self.out.push('}');
        match &int.mappings {
            Some(mappings) => self.mappings(mappings, int.kind),
            None => Ok(()),
        }
    }

    /// Rejects a field whose roles differ from those that a reader derives from its name and clock.
    fn check_roles(
        &self,
        int: &IntClass,
        clock: Option<usize>,
        name: Option<&str>,
    ) -> Result<(), WriteError> {
        let is_top = self.frames.len() == 1;
        let mut expected = Roles::NONE;
        if let Some(name) = name
            && int.kind == IntKind::Unsigned
            && let Some(role) = roles::reserved_role(self.current, is_top, name)
        {
            expected = role.into();
        }
        let mapped = IntClass { clock, mappings: None, ..*int };
        if roles::sets_clock(self.current, &mapped, self.own_clock) {
            expected = expected.with(Role::Timestamp);
        }
        if int.roles == expected {
            return Ok(());
        }
        let roles = int.roles;
        Err(self.fail(format!("its roles are {roles:?}, but its name and clock say {expected:?}")))
    }

    fn mappings(&mut self, mappings: &[Mapping], kind: IntKind) -> Result<(), WriteError> {
        let valid = match kind {
            IntKind::Signed => i128::from(i64::MIN)..=i128::from(i64::MAX),
            _ => 0..=i128::from(u64::MAX),
        };
        if mappings.is_empty() {
            return Err(self.fail("enumeration without labels"));
        }
        let mut seen = HashSet::new();
        self.out.push_str(" { ");
        for Mapping { label, ranges } in mappings {
            if ranges.0.is_empty() || !seen.insert(label) {
                return Err(self.fail(format!("label `{label}` is empty or there twice")));
            }
            let label = quoted(label);
            for (low, high) in &ranges.0 {
                if low > high || !valid.contains(low) || !valid.contains(high) {
                    return Err(self.fail(format!("label {label} of {low} to {high}")));
                }
                match low == high {
                    true => write!(self.out, "{label} = {low}, ").ok(),
                    false => write!(self.out, "{label} = {low} ... {high}, ").ok(),
                };
            }
        }
        self.out.push('}');
        Ok(())
    }

    fn float(&mut self, float: &FloatClass) -> Result<(), WriteError> {
        let (exponent, mantissa, align) = (float.exponent, float.mantissa, float.bits.align);
        let is_known = matches!(float.bits.size, 16 | 32 | 64 | 80 | 128);
        let sum = exponent.checked_add(mantissa);
        if !is_known || exponent == 0 || mantissa == 0 || sum != Some(float.bits.size) {
            return Err(self.fail(format!("floating point number of {} bits", float.bits.size)));
        }
        self.check_bits(&float.bits)?;
        write!(
            self.out,
            "floating_point {{ exp_dig = {exponent}; mant_dig = {mantissa}; align = {align}; "
        )
        .ok();
        self.byte_order(float.bits.byte_order);
        self.out.push('}');
        Ok(())
    }

    /// Writes the UUID of the packet header, or an integer wider than 64 bits.
    fn blob(
        &mut self,
        blob: &BlobClass,
        name: Option<&str>,
        lengths: &mut String,
    ) -> Result<(), WriteError> {
        let is_top = self.frames.len() == 1;
        let is_uuid = name.is_some_and(|name| roles::is_uuid(self.current, is_top, name));
        match blob {
            BlobClass { length: Length::Static(16), roles, .. }
                if is_uuid && *roles == Role::Uuid.into() =>
            {
                write!(self.out, "{BYTE}none; base = 10; }}").ok();
                lengths.push_str("[16]");
                Ok(())
            }
            BlobClass { length: Length::Static(length), media_type: None, roles }
                if *length > 8 && *length <= u64::MAX / 8 && roles.is_empty() =>
            {
                let size = length * 8;
                write!(self.out, "integer {{ size = {size}; align = 8; signed = false; }}").ok();
                Ok(())
            }
            _ => Err(self.fail("bytes that are neither a UUID nor a wide integer")),
        }
    }

    /// Writes `variant <tag> { … }`.
    fn variant(&mut self, class: &'s VariantClass) -> Result<(), WriteError> {
        let (tag, tag_class) = self.reference(&class.selector, Purpose::Tag)?;
        let labels = self.labels(tag_class);
        writeln!(self.out, "variant <{tag}> {{").ok();
        self.push(Frame::Variant { class, index: 0 })?;
        let mut seen = HashSet::new();
        for (at, option) in class.options.iter().enumerate() {
            if let Some(Frame::Variant { index, .. }) = self.frames.last_mut() {
                *index = at;
            }
            let name = option.name.as_deref().unwrap_or_default();
            if labels.get(name) != Some(&&option.ranges) {
                let message = format!("option `{name}` has other values than its tag's label");
                return Err(self.fail(message));
            }
            let is_unmapped =
                matches!(&option.class, FieldClass::Int(int) if self.clock_of(int).is_none());
            let is_misleading = is_unmapped && roles::is_timestamp_name(self.current, name);
            if !is_plain(name) || !seen.insert(name) || is_misleading {
                return Err(self.fail(format!("`{name}` cannot be the name of an option")));
            }
            self.field(&option.class, name, false)?;
        }
        self.pop();
        Ok(())
    }

    /// Returns the ranges of values of an enumeration's labels, by label.
    fn labels(&mut self, tag: &'s IntClass) -> Rc<HashMap<&'s str, &'s Ranges>> {
        let collect = || {
            let mappings = tag.mappings.as_deref().into_iter().flatten();
            Rc::new(mappings.map(|mapping| (mapping.label.as_str(), &mapping.ranges)).collect())
        };
        self.labels.entry(std::ptr::from_ref(tag)).or_insert_with(collect).clone()
    }

    fn byte_order(&mut self, byte_order: ByteOrder) {
        if byte_order != self.schema.trace.byte_order {
            self.out.push_str(match byte_order {
                ByteOrder::Little => "byte_order = le; ",
                ByteOrder::Big => "byte_order = be; ",
            });
        }
    }

    fn encoding(&self, encoding: Encoding) -> Result<&'static str, WriteError> {
        match encoding {
            Encoding::Utf8 => Ok("UTF8"),
            Encoding::Ascii => Ok("ASCII"),
            other => Err(self.fail(format!("text encoded as {other:?}"))),
        }
    }

    fn check_bits(&self, bits: &Bits) -> Result<(), WriteError> {
        if bits.bit_order != bits.byte_order.usual_bit_order() {
            return Err(self.fail("bit order that does not go with the byte order"));
        }
        self.check_align(bits.align)
    }

    fn check_align(&self, align: u64) -> Result<(), WriteError> {
        match align.is_power_of_two() {
            true => Ok(()),
            false => Err(self.fail(format!("alignment {align} is no power of two"))),
        }
    }
}
