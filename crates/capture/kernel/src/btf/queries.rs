//! Queries that probes need: offsets of members, sizes, raw tracepoints, functions, and values of
//! enumerations.

use super::error::BtfError;
use super::file::{Btf, Member};
use super::kind::Kind;
use super::value::ValueForm;
use std::collections::HashSet;

/// Maximum number of typedefs, qualifiers and arrays between a member and the type that has its
/// size. More of them are taken for a cycle.
const STEPS_MAX: u32 = 64;
/// Maximum number of a function's parameters. eBPF programs can attach to functions with 12.
const PARAMETERS_MAX: usize = 64;
/// Size of a pointer in bytes.
const POINTER_BYTES: u32 = 8;
/// Prefix of the typedefs that describe raw tracepoints.
const TRACEPOINT_PREFIX: &str = "btf_trace_";

/// Position of a member in its structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPlace {
    /// Offset from the start of the structure in bytes.
    pub offset: u32,
    /// Size in bytes; 0 for flexible arrays.
    pub size: u32,
}

/// Position of a bit in a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BitPlace {
    /// Offset of the bit's byte from the start of the structure.
    pub(crate) offset: u32,
    /// Number of the bit in its byte; 0 is the lowest.
    pub(crate) bit: u32,
}

/// Raw tracepoint, to which eBPF programs attach by its type's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawTracepoint {
    /// Id of the typedef `btf_trace_NAME`.
    pub type_id: u32,
    /// Number of arguments, without the leading `void *` of the tracepoint's probes.
    pub arguments: usize,
}

/// Function of the kernel, to which eBPF programs attach by its type's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Id of the function.
    pub type_id: u32,
    /// Parameters in order. Variable arguments are a last parameter of type `...`.
    pub parameters: Vec<Parameter>,
    /// Form of the result.
    pub result: ValueForm,
}

impl Function {
    /// Returns true if the function has variable arguments.
    pub fn is_variadic(&self) -> bool {
        self.parameters.last().is_some_and(|last| last.type_text == "..." && last.name.is_empty())
    }
}

/// Parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name; empty for parameters without a name.
    pub name: String,
    /// Type in C notation.
    pub type_text: String,
    /// Form of the argument.
    pub form: ValueForm,
}

impl Btf {
    /// Returns the position of a member. `structure` is the name of a structure, a union, or a
    /// typedef of one. `path` is a member's name, or names separated by dots that lead into nested
    /// structures, such as `signal.live`. Members of anonymous structures and unions are found by
    /// their names alone.
    ///
    /// A path does not lead through pointers. Arrays have the position and size of the whole array.
    /// Bit fields are refused.
    pub fn field(&self, structure: &str, path: &str) -> Result<FieldPlace, BtfError> {
        let mut container = self.structure(structure)?;
        let mut bits = 0u64;
        let mut end = 0;
        loop {
            let rest = path.get(end..).unwrap_or_default();
            let name = rest.split('.').next().unwrap_or_default();
            end += name.len();
            // Path to the present member, for errors.
            let field = || path.get(..end).unwrap_or_default().to_owned();
            let Some(found) = self.member(container, name) else {
                return Err(BtfError::NoField { structure: structure.to_owned(), field: field() });
            };
            bits += found.bits;
            if self.is_bit_field(&found.member) || !bits.is_multiple_of(8) {
                return Err(BtfError::BitField { structure: structure.to_owned(), field: field() });
            }
            let type_id = found.member.type_id;
            if end >= path.len() {
                let offset = u32::try_from(bits / 8)
                    .map_err(|_| BtfError::Unexpected { type_id, expected: "below 4 GiB" })?;
                return Ok(FieldPlace { offset, size: self.size_of(type_id)? });
            }
            container = self.without_modifiers(type_id)?;
            if !self.record(container).is_some_and(|record| record.kind.has_members()) {
                return Err(BtfError::NotStructure {
                    structure: structure.to_owned(),
                    field: field(),
                    type_text: self.type_text(type_id),
                });
            }
            // The dot.
            end += 1;
        }
    }

    /// Returns the byte of a structure and the bit in it at which a member begins that is a bit
    /// field, or another member. `member` is a single name.
    pub(crate) fn bit(&self, structure: &str, member: &str) -> Result<BitPlace, BtfError> {
        let not_found =
            || BtfError::NoField { structure: structure.to_owned(), field: member.to_owned() };
        let found = self.member(self.structure(structure)?, member).ok_or_else(not_found)?;
        let type_id = found.member.type_id;
        let offset = u32::try_from(found.bits / 8)
            .map_err(|_| BtfError::Unexpected { type_id, expected: "below 4 GiB" })?;
        Ok(BitPlace { offset, bit: (found.bits % 8) as u32 })
    }

    /// Returns the size in bytes of a structure or union, or of a typedef of one.
    pub fn structure_size(&self, structure: &str) -> Result<u32, BtfError> {
        self.size_of(self.structure(structure)?)
    }

    /// Returns a raw tracepoint by its name, such as `sched_switch`.
    pub fn raw_tracepoint(&self, name: &str) -> Result<RawTracepoint, BtfError> {
        let typedef = format!("{TRACEPOINT_PREFIX}{name}");
        let found = self.find(&typedef, |kind| kind == Kind::Typedef);
        let type_id = found
            .ok_or_else(|| BtfError::NotFound { expected: "tracepoint", name: name.to_owned() })?;
        let expected = "a pointer to a tracepoint's function";
        let arguments =
            self.probe_arguments(type_id).ok_or(BtfError::Unexpected { type_id, expected })?;
        Ok(RawTracepoint { type_id, arguments })
    }

    /// Returns the arguments of a raw tracepoint, without the leading `void *` of its probes. The
    /// names are those of a function that the kernel's macros generate for each tracepoint; without
    /// such a function they are `arg0` and so on.
    pub fn tracepoint_parameters(&self, name: &str) -> Result<Vec<Parameter>, BtfError> {
        let tracepoint = self.raw_tracepoint(name)?;
        let generated = ["__traceiter_", "__bpf_trace_", "__probestub_"];
        let named = generated.iter().find_map(|prefix| {
            let parameters = self.function(&format!("{prefix}{name}"))?.parameters;
            // Types of modules might have a function of the same name.
            (parameters.len() == tracepoint.arguments + 1).then_some(parameters)
        });
        let parameters = match named {
            Some(parameters) => parameters,
            None => self.tracepoint_prototype(tracepoint.type_id).unwrap_or_default(),
        };
        let mut parameters: Vec<Parameter> = parameters.into_iter().skip(1).collect();
        let unnamed = parameters.iter_mut().enumerate().filter(|(_, one)| one.name.is_empty());
        unnamed.for_each(|(index, parameter)| parameter.name = format!("arg{index}"));
        Ok(parameters)
    }

    /// Returns the parameters of the functions that a tracepoint calls. `typedef` is the id of its
    /// type.
    fn tracepoint_prototype(&self, typedef: u32) -> Option<Vec<Parameter>> {
        let pointer = self.record(self.record(typedef)?.size_or_type)?;
        self.parameters_of(pointer.size_or_type)
    }

    /// Returns the names of the raw tracepoints in this file, in the order of their types.
    pub fn raw_tracepoints(&self) -> impl Iterator<Item = &str> {
        self.own_ids().filter_map(|type_id| {
            let record = self.record(type_id).filter(|record| record.kind == Kind::Typedef)?;
            let name = self.name(record.name_offset).strip_prefix(TRACEPOINT_PREFIX)?;
            self.probe_arguments(type_id).map(|_| name)
        })
    }

    /// Returns a function by its name; `None` if there is no such function, or if it has more than
    /// 64 parameters.
    pub fn function(&self, name: &str) -> Option<Function> {
        let type_id = self.find(name, |kind| kind == Kind::Function)?;
        let prototype = self.record(type_id)?.size_or_type;
        let parameters = self.parameters_of(prototype)?;
        let result = self.value_form(self.record(prototype)?.size_or_type);
        Some(Function { type_id, parameters, result })
    }

    /// Returns the parameters of a prototype; `None` if the type is not a prototype or has more
    /// than 64 parameters.
    pub(super) fn parameters_of(&self, prototype: u32) -> Option<Vec<Parameter>> {
        let prototype = self.record(prototype)?;
        if prototype.kind != Kind::Prototype || prototype.count as usize > PARAMETERS_MAX {
            return None;
        }
        let parameters = prototype.parameters().map(|parameter| {
            let name = self.name(parameter.name_offset).to_owned();
            let (type_text, form) = match (parameter.type_id, name.as_str()) {
                (0, "") => ("...".to_owned(), ValueForm::Unknown),
                (type_id, _) => (self.type_text(type_id), self.value_form(type_id)),
            };
            Parameter { name, type_text, form }
        });
        Some(parameters.collect())
    }

    /// Returns the names of the functions in this file, in the order of their types. Several
    /// functions may have the same name.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.own_ids().filter_map(|type_id| {
            let record = self.record(type_id).filter(|record| record.kind == Kind::Function)?;
            Some(self.name(record.name_offset))
        })
    }

    /// Returns a value of an enumeration. An empty name of the enumeration stands for all
    /// enumerations without a name. Returns `None` if there is no such enumeration or value, or if
    /// the value exceeds `i64`.
    pub fn enum_value(&self, enumeration: &str, name: &str) -> Option<i64> {
        match enumeration {
            "" => (1..self.end_id())
                .filter(|type_id| self.type_name(*type_id).is_empty())
                .find_map(|type_id| self.value(type_id, name)),
            _ => self.value(self.find(enumeration, Kind::is_enumeration)?, name),
        }
    }

    fn value(&self, type_id: u32, name: &str) -> Option<i64> {
        let mut values = self.record(type_id)?.values();
        values.find(|value| self.name(value.name_offset) == name)?.value
    }

    /// Returns the number of arguments of a tracepoint whose typedef has this id.
    fn probe_arguments(&self, typedef: u32) -> Option<usize> {
        let pointer = self.record(self.record(typedef)?.size_or_type)?;
        let prototype = self.record(pointer.size_or_type)?;
        let is_function = pointer.kind == Kind::Pointer && prototype.kind == Kind::Prototype;
        (prototype.count as usize).checked_sub(1).filter(|_| is_function)
    }

    /// Returns the structure or union with this name, or that a typedef with this name stands for.
    fn structure(&self, name: &str) -> Result<u32, BtfError> {
        let expected = "structure";
        if let Some(type_id) = self.find(name, Kind::has_members) {
            return Ok(type_id);
        }
        let typedef = self.find(name, |kind| kind == Kind::Typedef);
        let type_id = typedef.map(|typedef| self.without_modifiers(typedef)).transpose()?;
        type_id
            .filter(|id| self.record(*id).is_some_and(|record| record.kind.has_members()))
            .ok_or_else(|| BtfError::NotFound { expected, name: name.to_owned() })
    }

    /// Finds a member by its name in a structure and its anonymous members. Each structure is
    /// searched once, so that the work is linear in the size of the file.
    fn member(&self, structure: u32, name: &str) -> Option<FoundMember> {
        let mut seen = HashSet::from([structure]);
        let mut pending = vec![Container { type_id: structure, bits: 0 }];
        while let Some(container) = pending.pop() {
            for member in self.record(container.type_id).into_iter().flat_map(|it| it.members()) {
                let bits = container.bits + u64::from(member.bit_offset);
                let own_name = self.name(member.name_offset);
                if own_name == name && !name.is_empty() {
                    return Some(FoundMember { member, bits });
                }
                if !own_name.is_empty() {
                    continue;
                }
                let Ok(type_id) = self.without_modifiers(member.type_id) else { continue };
                let has_members =
                    self.record(type_id).is_some_and(|record| record.kind.has_members());
                if has_members && seen.insert(type_id) {
                    pending.push(Container { type_id, bits });
                }
            }
        }
        None
    }

    /// Returns true for bit fields, in both of their forms: the size is in the member or in its
    /// type.
    fn is_bit_field(&self, member: &Member) -> bool {
        let integer = self.without_modifiers(member.type_id).ok();
        let record = integer.and_then(|type_id| self.record(type_id));
        let is_partial =
            record.filter(|record| record.kind == Kind::Integer).is_some_and(|record| {
                let encoding = record.data_word(0);
                let (first, count) = ((encoding >> 16) & 0xff, encoding & 0xff);
                first != 0 || u64::from(count) != u64::from(record.size_or_type) * 8
            });
        member.bit_field_size != 0 || is_partial
    }

    /// Returns the size of a type in bytes.
    pub(super) fn size_of(&self, type_id: u32) -> Result<u32, BtfError> {
        let expected = "a type with a size below 4 GiB";
        let unexpected = || BtfError::Unexpected { type_id, expected };
        let (mut current, mut count) = (type_id, 1u32);
        for _ in 0..STEPS_MAX {
            let record = self.record(current).ok_or_else(unexpected)?;
            let size = match record.kind {
                Kind::Integer
                | Kind::Float
                | Kind::Structure
                | Kind::Union
                | Kind::Enumeration
                | Kind::Enumeration64 => record.size_or_type,
                Kind::Pointer => POINTER_BYTES,
                Kind::Array => {
                    count = count.checked_mul(record.data_word(2)).ok_or_else(unexpected)?;
                    current = record.data_word(0);
                    continue;
                }
                kind if kind.is_modifier() => {
                    current = record.size_or_type;
                    continue;
                }
                _ => return Err(unexpected()),
            };
            return count.checked_mul(size).ok_or_else(unexpected);
        }
        Err(BtfError::Cycle { type_id })
    }

    /// Follows typedefs and qualifiers to the type that they stand for.
    pub(super) fn without_modifiers(&self, type_id: u32) -> Result<u32, BtfError> {
        let mut current = type_id;
        for _ in 0..STEPS_MAX {
            match self.record(current).filter(|record| record.kind.is_modifier()) {
                Some(record) => current = record.size_or_type,
                None => return Ok(current),
            }
        }
        Err(BtfError::Cycle { type_id })
    }
}

/// Structure that a search for a member enters.
struct Container {
    type_id: u32,
    /// Offset in bits from the start of the outermost structure.
    bits: u64,
}

/// Member that a search found.
struct FoundMember {
    member: Member,
    /// Offset in bits from the start of the structure that was searched.
    bits: u64,
}
