//! Event types of probes on functions and raw tracepoints: how each argument is recorded, by the
//! function's prototype in the kernel's types.

use crate::btf::{Btf, BtfError, Function, Parameter, ValueForm};
use crate::error::{Error, ProbeRefusal};
use crate::event_type::{Integer, event_type};
use crate::frame::offset;
use crate::function_point::{FunctionPoint, FunctionProbe, ProcessScope};
use crate::record_type::TEXT_SIZE_MAX;
use crate::redaction::{self, FieldRedactions};
use blkkin_control::{EventType, FieldKind, Redaction, RedactionMethod};
use blkkin_sys::bpf::AttachPoint;

/// Maximum size of all texts of an event, in bytes.
const TEXTS_SIZE_MAX: usize = 12 << 10;
/// Registers of a call's arguments, in order: names of the fields of `struct pt_regs`.
const ARGUMENT_REGISTERS: [&str; 6] = ["di", "si", "dx", "cx", "r8", "r9"];
/// Register of a function's result.
const RESULT_REGISTER: &str = "ax";
/// Name of the field with a function's result.
const RESULT: &str = "ret";
/// Size in bytes of a register, and of an argument in a program's context.
const WORD_SIZE: u32 = 8;
/// Size in bytes of the largest structure that is passed in registers.
const REGISTERS_SIZE_MAX: u32 = 16;

/// Probe that is recorded.
#[derive(Clone, Debug)]
pub(crate) struct FunctionType {
    /// Id of the probe's events; 0 until it is assigned.
    pub(crate) id: u16,
    pub(crate) point: FunctionPoint,
    pub(crate) scope: ProcessScope,
    pub(crate) attach_point: AttachPoint,
    pub(crate) values: Vec<Value>,
    /// Maximum size of a text in an event, in bytes with its NUL.
    pub(crate) text_size: usize,
    redactions: FieldRedactions,
}

/// Argument or result that is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) name: String,
    pub(crate) source: ValueSource,
    pub(crate) kind: ValueKind,
}

/// Place from which a program gets a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueSource {
    /// Word of the program's context at this offset.
    Context(i16),
    /// Word with this index among a function's arguments.
    Argument(u32),
    /// Result of the function.
    Result,
}

/// Way in which a value is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Integer(Integer),
    /// Text in the kernel's memory.
    Text,
}

impl ValueKind {
    /// Returns the kind for a form; `None` for values that are not recorded: those that do not fit
    /// into a register.
    fn of(form: ValueForm) -> Option<ValueKind> {
        let integer = |bytes: u32, is_signed, is_hex| {
            let bytes = bytes as usize;
            matches!(bytes, 1 | 2 | 4 | 8).then_some(ValueKind::Integer(Integer {
                bytes,
                is_signed,
                is_hex,
            }))
        };
        match form {
            ValueForm::Integer { bytes, is_signed } => integer(bytes, is_signed, false),
            ValueForm::Structure { bytes } => integer(bytes, false, true),
            ValueForm::Pointer => Some(ValueKind::Integer(Integer::pointer())),
            ValueForm::Text => Some(ValueKind::Text),
            ValueForm::Nothing | ValueForm::Unknown => None,
        }
    }
}

impl FunctionType {
    /// Returns the type for a probe, without an id, with those of the redactions that hold for it.
    pub(crate) fn new(
        probe: &FunctionProbe,
        redactions: &[Redaction],
        btf: &Btf,
    ) -> Result<FunctionType, Error> {
        let (attach_point, values) = match &probe.point {
            FunctionPoint::RawTracepoint(name) => {
                let parameters = btf.tracepoint_parameters(name).map_err(|error| match error {
                    BtfError::NotFound { .. } => refused(probe, ProbeRefusal::NoTracepoint),
                    error => error.into(),
                })?;
                (AttachPoint::UntypedTracepoint, tracepoint_values(&parameters))
            }
            FunctionPoint::Entry(name) => {
                let function = typed_function(probe, btf, name)?;
                let values = argument_values(&function.parameters);
                (AttachPoint::FunctionEntry(function.type_id), values)
            }
            FunctionPoint::Exit(name) => {
                let function = typed_function(probe, btf, name)?;
                let mut values = argument_values(&function.parameters);
                // A result is recorded as `ret`, whatever the arguments are called.
                values.iter_mut().filter(|value| value.name == RESULT).for_each(|value| {
                    value.name = format!("{RESULT}_argument");
                });
                values.extend(value(RESULT.to_owned(), ValueSource::Result, function.result));
                (AttachPoint::FunctionExit(function.type_id), values)
            }
            FunctionPoint::Kprobe { function, offset: 0 } => {
                let registers = argument_registers(btf)?;
                let values = match btf.function(function) {
                    Some(function) => register_values(&function.parameters, &registers),
                    None => raw_registers(&registers, |index| format!("arg{index}")),
                };
                (AttachPoint::Instruction, values)
            }
            FunctionPoint::Kprobe { .. } => {
                let registers = argument_registers(btf)?;
                let name = |index: usize| ARGUMENT_REGISTERS[index].to_owned();
                (AttachPoint::Instruction, raw_registers(&registers, name))
            }
            FunctionPoint::Kretprobe(name) => {
                let form = btf.function(name).map_or(ValueForm::Pointer, |found| found.result);
                let source = ValueSource::Context(offset(btf, "pt_regs", RESULT_REGISTER)?);
                let result = value(RESULT.to_owned(), source, form);
                (AttachPoint::Instruction, result.into_iter().collect())
            }
        };
        let redactions = FieldRedactions::of(redactions, &probe.point.to_string());
        let is_text = |value: &&Value| {
            value.kind == ValueKind::Text && redactions.method(&value.name).is_none()
        };
        let texts = values.iter().filter(is_text).count();
        let text_size = (TEXTS_SIZE_MAX / texts.max(1)).min(TEXT_SIZE_MAX);
        let FunctionProbe { point, scope } = probe.clone();
        Ok(FunctionType { id: 0, point, scope, attach_point, values, text_size, redactions })
    }

    /// Returns the redaction of a text; `None` if it is recorded as it is.
    pub(crate) fn redaction(&self, text: &str) -> Option<RedactionMethod> {
        self.redactions.method(text)
    }

    /// Returns the maximum size of the fields in an event, in bytes.
    pub(crate) fn size_max(&self) -> usize {
        let sizes = self.values.iter().map(|value| match value.kind {
            ValueKind::Integer(integer) => integer.bytes,
            ValueKind::Text => redaction::size_max(self.redaction(&value.name), self.text_size),
        });
        sizes.sum()
    }

    /// Returns the description of the probe's events.
    pub(crate) fn event_type(&self) -> EventType {
        let fields = self.values.iter().map(|value| {
            let kind = match value.kind {
                ValueKind::Integer(integer) => integer.field(),
                ValueKind::Text => FieldKind::String,
            };
            (&*value.name, kind)
        });
        self.redactions.redact(event_type(self.id, self.point.to_string(), fields))
    }
}

fn refused(probe: &FunctionProbe, refusal: ProbeRefusal) -> Error {
    Error::Probe { probe: probe.point.to_string(), refusal }
}

/// Returns a function to which programs with types can attach.
fn typed_function(probe: &FunctionProbe, btf: &Btf, name: &str) -> Result<Function, Error> {
    let function = btf.function(name);
    let function = function.ok_or_else(|| refused(probe, ProbeRefusal::NoTypedFunction))?;
    match function.is_variadic() {
        true => Err(refused(probe, ProbeRefusal::Arguments)),
        false => Ok(function),
    }
}

fn value(name: String, source: ValueSource, form: ValueForm) -> Option<Value> {
    ValueKind::of(form).map(|kind| Value { name, source, kind })
}

/// Returns the name of a parameter, which is made of its index if it has none.
fn name_of(parameter: &Parameter, index: usize) -> String {
    match &*parameter.name {
        "" => format!("arg{index}"),
        name => name.to_owned(),
    }
}

/// Returns the values of a raw tracepoint, each of which is a word of the context.
fn tracepoint_values(parameters: &[Parameter]) -> Vec<Value> {
    let values = parameters.iter().enumerate().filter_map(|(index, parameter)| {
        let source = ValueSource::Context(i16::try_from(index * WORD_SIZE as usize).ok()?);
        value(name_of(parameter, index), source, parameter.form)
    });
    values.collect()
}

/// Returns the values of a function's arguments.
fn argument_values(parameters: &[Parameter]) -> Vec<Value> {
    let mut word = 0;
    let mut values = Vec::new();
    for (index, parameter) in parameters.iter().enumerate() {
        let source = ValueSource::Argument(word);
        values.extend(value(name_of(parameter, index), source, parameter.form));
        word += parameter.form.size().div_ceil(WORD_SIZE).max(1);
    }
    values
}

/// Returns the offsets of the registers of arguments in `struct pt_regs`.
fn argument_registers(btf: &Btf) -> Result<[i16; 6], Error> {
    let mut offsets = [0; 6];
    for (to, name) in offsets.iter_mut().zip(ARGUMENT_REGISTERS) {
        *to = offset(btf, "pt_regs", name)?;
    }
    Ok(offsets)
}

/// Returns the values of the arguments that the calling convention passes in registers.
fn register_values(parameters: &[Parameter], registers: &[i16]) -> Vec<Value> {
    let mut values = Vec::new();
    let mut free = registers;
    for (index, parameter) in parameters.iter().enumerate() {
        let size = parameter.form.size();
        let count = size.div_ceil(WORD_SIZE) as usize;
        // Larger structures are on the stack, and so is an argument for which too few registers
        // are left. Both leave the registers to the following arguments.
        if size == 0 || size > REGISTERS_SIZE_MAX || count > free.len() {
            continue;
        }
        let source = ValueSource::Context(free[0]);
        values.extend(value(name_of(parameter, index), source, parameter.form));
        free = &free[count..];
    }
    values
}

/// Returns the values of registers without types.
fn raw_registers(registers: &[i16], name: impl Fn(usize) -> String) -> Vec<Value> {
    let one = |(index, register): (usize, &i16)| {
        value(name(index), ValueSource::Context(*register), ValueForm::Pointer)
    };
    registers.iter().enumerate().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTER: ValueForm = ValueForm::Pointer;

    fn parameters(forms: &[ValueForm]) -> Vec<Parameter> {
        let parameter = |(index, form): (usize, &ValueForm)| Parameter {
            name: if index == 1 { String::new() } else { format!("p{index}") },
            type_text: String::new(),
            form: *form,
        };
        forms.iter().enumerate().map(parameter).collect()
    }

    fn texts(values: &[Value]) -> Vec<String> {
        let text = |value: &Value| {
            let source = match value.source {
                ValueSource::Context(offset) => format!("at {offset}"),
                ValueSource::Argument(index) => format!("argument {index}"),
                ValueSource::Result => "result".to_owned(),
            };
            let kind = match value.kind {
                ValueKind::Integer(Integer { bytes, is_signed, is_hex }) => {
                    let sign = if is_signed { "signed" } else { "unsigned" };
                    format!("{sign} {bytes}{}", if is_hex { " hex" } else { "" })
                }
                ValueKind::Text => "text".to_owned(),
            };
            format!("{}: {source}, {kind}", value.name)
        };
        values.iter().map(text).collect()
    }

    /// Structures use as many registers as they have words. Larger structures, and those for which
    /// too few registers are left, are on the stack.
    #[test]
    fn registers_are_assigned_as_by_compilers() {
        let registers = [10, 20, 30, 40, 50, 60];
        let structure = |bytes| ValueForm::Structure { bytes };
        let short = ValueForm::Integer { bytes: 2, is_signed: true };
        let forms = [structure(4), structure(24), structure(16), short, POINTER, POINTER, POINTER];
        let expected = [
            "p0: at 10, unsigned 4 hex",
            "p3: at 40, signed 2",
            "p4: at 50, unsigned 8 hex",
            "p5: at 60, unsigned 8 hex",
        ];
        assert_eq!(texts(&register_values(&parameters(&forms), &registers)), expected);
        let forms = [POINTER, POINTER, POINTER, POINTER, POINTER, structure(16), ValueForm::Text];
        let found = texts(&register_values(&parameters(&forms), &registers));
        assert_eq!(found[1], "arg1: at 20, unsigned 8 hex");
        assert_eq!(found[5..], ["p6: at 60, text"]);
    }

    /// Words of arguments of structures are counted, also if they are not recorded.
    #[test]
    fn words_of_arguments_are_counted() {
        let forms = [ValueForm::Structure { bytes: 16 }, ValueForm::Text, ValueForm::Unknown];
        let values = argument_values(&parameters(&forms));
        assert_eq!(texts(&values), ["arg1: argument 2, text"]);
        let values = tracepoint_values(&parameters(&[POINTER, ValueForm::Text]));
        assert_eq!(texts(&values), ["p0: at 0, unsigned 8 hex", "arg1: at 8, text"]);
    }
}
