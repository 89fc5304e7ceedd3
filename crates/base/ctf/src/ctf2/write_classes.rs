//! Writing of field classes as JSON objects.

use super::object::{Object, object_of_type, put};
use super::properties::{exponent_size, wide_integer_class};
use super::range_set::RangeSet;
use super::vocabulary::{BIT_ORDERS, BYTE_ORDERS, ENCODINGS, ROLES, role_belongs, word};
use crate::schema::*;
use serde_json::{Value, json};

/// Writer of field classes. `has_uuid` and `has_clock` decide which roles CTF 2 allows.
pub(super) struct ClassWriter {
    /// True if the trace has a UUID.
    pub(super) has_uuid: bool,
    /// True if the stream has a clock.
    pub(super) has_clock: bool,
}

/// Position of a class within its scope.
#[derive(Clone, Copy)]
struct Position {
    scope: Scope,
    /// True if the class is the first member of the scope's own structure.
    is_first: bool,
}

impl ClassWriter {
    /// Makes the JSON of a scope's field class; `None` if the scope has no class.
    pub(super) fn root(&self, class: &Option<FieldClass>, scope: Scope) -> Option<Value> {
        let inner = Position { scope, is_first: false };
        match class.as_ref()? {
            FieldClass::Struct(structure) => {
                let members = structure.members.iter().enumerate().map(|(index, member)| {
                    self.member(member, Position { scope, is_first: index == 0 })
                });
                Some(structure_of(members.collect(), structure.align))
            }
            class => Some(self.class(class, inner)),
        }
    }

    fn class(&self, class: &FieldClass, position: Position) -> Value {
        let inner = Position { is_first: false, ..position };
        match class {
            FieldClass::Int(int) => self.int(int, position),
            FieldClass::VarInt(int) => self.variable(int, position),
            FieldClass::Float(float) => self.float(float, position),
            FieldClass::String(string) => {
                let mut object = object_of_type("null-terminated-string");
                put_encoding(&mut object, string.encoding);
                Value::Object(object)
            }
            FieldClass::Text(text) => {
                let mut object = object_with_length("string", &text.length);
                put_encoding(&mut object, text.encoding);
                Value::Object(object)
            }
            FieldClass::Blob(blob) => {
                let mut object = object_with_length("blob", &blob.length);
                put(&mut object, "media-type", blob.media_type.as_deref());
                let allows = |role| role == Role::Uuid && matches!(blob.length, Length::Static(16));
                self.put_roles(&mut object, blob.roles, position, allows);
                Value::Object(object)
            }
            FieldClass::Struct(structure) => {
                let members = structure.members.iter().map(|member| self.member(member, inner));
                structure_of(members.collect(), structure.align)
            }
            FieldClass::Array(array) => {
                let mut object = object_with_length("array", &array.length);
                put(&mut object, "minimum-alignment", Some(array.align).filter(|&align| align > 1));
                put(&mut object, "element-field-class", Some(self.class(&array.element, inner)));
                Value::Object(object)
            }
            FieldClass::Optional(optional) => self.optional(optional, inner),
            FieldClass::Variant(variant) => self.variant(variant, inner),
        }
    }

    fn member(&self, member: &Member, position: Position) -> Value {
        json!({ "name": member.name, "field-class": self.class(&member.class, position) })
    }

    fn int(&self, int: &IntClass, position: Position) -> Value {
        // Of the integers, CTF 2 allows roles on unsigned ones only, and a role matters more than
        // the sign.
        let kind = match int.kind {
            IntKind::Signed if !int.roles.is_empty() => IntKind::Unsigned,
            IntKind::BitMap if int.mappings.as_deref().is_none_or(<[_]>::is_empty) => {
                IntKind::BitArray
            }
            kind => kind,
        };
        let name = match kind {
            IntKind::Unsigned => "fixed-length-unsigned-integer",
            IntKind::Signed => "fixed-length-signed-integer",
            IntKind::Bool => "fixed-length-boolean",
            IntKind::BitArray => "fixed-length-bit-array",
            IntKind::BitMap => "fixed-length-bit-map",
        };
        let mut object = bits(name, int.bits);
        match kind {
            IntKind::Unsigned | IntKind::Signed => {
                put_base(&mut object, int.base);
                put(&mut object, "mappings", int.mappings.as_deref().map(mappings));
                self.put_roles(&mut object, int.roles, position, |role| match role {
                    Role::Uuid => false,
                    Role::Magic => position.is_first && int.bits.size == 32,
                    _ => true,
                });
            }
            IntKind::BitMap => put(&mut object, "flags", int.mappings.as_deref().map(mappings)),
            IntKind::Bool | IntKind::BitArray => {}
        }
        Value::Object(object)
    }

    fn variable(&self, int: &VarIntClass, position: Position) -> Value {
        let is_signed = int.signed && int.roles.is_empty();
        let mut object = object_of_type(match is_signed {
            true => "variable-length-signed-integer",
            false => "variable-length-unsigned-integer",
        });
        put_base(&mut object, int.base);
        put(&mut object, "mappings", int.mappings.as_deref().map(mappings));
        let allows = |role| !matches!(role, Role::Uuid | Role::Magic);
        self.put_roles(&mut object, int.roles, position, allows);
        Value::Object(object)
    }

    fn float(&self, float: &FloatClass, position: Position) -> Value {
        if exponent_size(float.bits.size) == Some(float.exponent) {
            return Value::Object(bits("fixed-length-floating-point-number", float.bits));
        }
        // CTF 2 has the formats of IEEE 754 only, so other floats, such as the x87's 80 bits,
        // become bits.
        if float.bits.size <= 64 {
            return Value::Object(bits("fixed-length-bit-array", float.bits));
        }
        match wide_integer_class(float.bits) {
            Some(class) => self.class(&class, position),
            None => {
                let bit = bits("fixed-length-bit-array", Bits { size: 1, align: 1, ..float.bits });
                json!({
                    "type": "static-length-array",
                    "length": float.bits.size,
                    "minimum-alignment": float.bits.align,
                    "element-field-class": bit,
                })
            }
        }
    }

    fn optional(&self, optional: &OptionalClass, inner: Position) -> Value {
        let mut object = object_of_type("optional");
        put(&mut object, "selector-field-location", Some(location(&optional.selector)));
        if let Some(selectors) = &optional.ranges {
            let selectors = clip_to_64_bits(selectors);
            if selectors.is_empty() {
                return structure_of(Vec::new(), 1);
            }
            put(&mut object, "selector-field-ranges", Some(ranges(&selectors)));
        }
        put(&mut object, "field-class", Some(self.class(&optional.content, inner)));
        Value::Object(object)
    }

    fn variant(&self, variant: &VariantClass, inner: Position) -> Value {
        let mut taken = RangeSet::default();
        let mut options = Vec::new();
        for option in &variant.options {
            let mut selectors = clip_to_64_bits(&option.ranges);
            let is_free = selectors.iter().all(|&(low, high)| taken.overlap(low, high).is_none());
            let free: Vec<_> =
                selectors.iter().flat_map(|&(low, high)| taken.insert(low, high)).collect();
            if !is_free {
                selectors = free;
            }
            // CTF 2 requires a selector value for each option, CTF 1.8 does not.
            if selectors.is_empty() {
                continue;
            }
            let mut object = Object::new();
            put(&mut object, "name", option.name.as_deref());
            put(&mut object, "selector-field-ranges", Some(ranges(&selectors)));
            put(&mut object, "field-class", Some(self.class(&option.class, inner)));
            options.push(Value::Object(object));
        }
        if options.is_empty() {
            return structure_of(Vec::new(), 1);
        }
        let mut object = object_of_type("variant");
        put(&mut object, "selector-field-location", Some(location(&variant.selector)));
        put(&mut object, "options", Some(options));
        Value::Object(object)
    }

    fn put_roles(
        &self,
        object: &mut Object,
        roles: Roles,
        position: Position,
        allows: impl Fn(Role) -> bool,
    ) {
        let is_allowed = |role| {
            let surroundings_allow = match role {
                Role::Uuid => self.has_uuid,
                Role::Timestamp | Role::PacketEnd => self.has_clock,
                _ => true,
            };
            surroundings_allow && role_belongs(role, position.scope) && allows(role)
        };
        let names = ROLES.iter().filter(|&&(_, role)| roles.has(role) && is_allowed(role));
        let names: Vec<&str> = names.map(|&(name, _)| name).collect();
        put(object, "roles", Some(names).filter(|names| !names.is_empty()));
    }
}

fn structure_of(members: Vec<Value>, align: u64) -> Value {
    let mut object = object_of_type("structure");
    put(&mut object, "member-classes", Some(members).filter(|members| !members.is_empty()));
    put(&mut object, "minimum-alignment", Some(align).filter(|&align| align > 1));
    Value::Object(object)
}

/// Makes the object of a string, blob or array class, with its static or dynamic length. `name` is
/// the last part of the class's type.
fn object_with_length(name: &str, length: &Length) -> Object {
    match length {
        Length::Static(count) => {
            let mut object = object_of_type(&format!("static-length-{name}"));
            put(&mut object, "length", Some(*count));
            object
        }
        Length::Dynamic(field) => {
            let mut object = object_of_type(&format!("dynamic-length-{name}"));
            put(&mut object, "length-field-location", Some(location(field)));
            object
        }
    }
}

fn bits(name: &str, bits: Bits) -> Object {
    let mut object = object_of_type(name);
    put(&mut object, "length", Some(bits.size));
    put(&mut object, "byte-order", Some(word(bits.byte_order, &BYTE_ORDERS)));
    if bits.bit_order != bits.byte_order.usual_bit_order() {
        put(&mut object, "bit-order", Some(word(bits.bit_order, &BIT_ORDERS)));
    }
    put(&mut object, "alignment", Some(bits.align).filter(|&align| align > 1));
    object
}

fn put_base(object: &mut Object, base: Base) {
    let base = match base {
        Base::Binary => Some(2),
        Base::Octal => Some(8),
        Base::Decimal => None,
        Base::Hexadecimal => Some(16),
    };
    put(object, "preferred-display-base", base);
}

fn put_encoding(object: &mut Object, encoding: Encoding) {
    if !matches!(encoding, Encoding::Utf8 | Encoding::Ascii) {
        put(object, "encoding", Some(word(encoding, &ENCODINGS)));
    }
}

fn location(field: &FieldRef) -> Value {
    json!({ "origin": field.scope.ctf2_name(), "path": field.path })
}

/// Makes the object of labels with their ranges. Repeated labels become one label with all ranges.
/// Labels without a value of at most 64 bits are left out.
fn mappings(mappings: &[Mapping]) -> Value {
    let mut object = Object::new();
    for mapping in mappings {
        let selectors = clip_to_64_bits(&mapping.ranges);
        if selectors.is_empty() {
            continue;
        }
        let all = object.entry(mapping.label.clone()).or_insert_with(|| json!([]));
        if let (Value::Array(all), Value::Array(more)) = (all, ranges(&selectors)) {
            all.extend(more);
        }
    }
    Value::Object(object)
}

/// Clips the ranges to integers of 64 bits: fields have no other values.
fn clip_to_64_bits(ranges: &Ranges) -> Vec<(i128, i128)> {
    let (min, max) = (i128::from(i64::MIN), i128::from(u64::MAX));
    let cut = ranges.0.iter().map(|&(low, high)| (low.max(min), high.min(max)));
    cut.filter(|(low, high)| low <= high).collect()
}

fn ranges(ranges: &[(i128, i128)]) -> Value {
    ranges.iter().map(|&(low, high)| Value::from_iter([number(low), number(high)])).collect()
}

/// Converts an integer to JSON; [`clip_to_64_bits`] has limited it to 64 bits.
fn number(number: i128) -> Value {
    match u64::try_from(number) {
        Ok(number) => number.into(),
        Err(_) => i64::try_from(number).unwrap_or(i64::MIN).into(),
    }
}
