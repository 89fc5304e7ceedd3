//! Arguments of probes, with types in C notation.

use super::Listing;
use super::kind::ProbeKind;
use super::probe::{ArgumentRole, ListedArgument, ListedProbe};
use crate::btf::Parameter;
use crate::call_type::REQUEST_CALL_PREFIX;
use crate::event_format::{FieldKind, FormatField};
use crate::inability::Inability;
use crate::state::StateKind;
use crate::{process_code, request_code};
use blkkin_control::{EventType, FieldKind as EventField, Width};

impl Listing {
    /// Returns the arguments of a probe in their order. Kinds without described arguments have
    /// none, such as functions of programs.
    pub fn arguments(&self, probe: &ListedProbe) -> Result<Vec<ListedArgument>, Inability> {
        let (first, rest) = probe.name.split_once(':').unwrap_or_default();
        match probe.kind {
            ProbeKind::SystemCall => self.of_system_call(rest),
            ProbeKind::Tracepoint => {
                let format = self.tracefs()?.format(first, rest);
                let format = format?;
                Ok(format.own_fields().iter().map(of_field).collect())
            }
            ProbeKind::Process => Ok(of_event(process_code::event_types(), &probe.name)),
            ProbeKind::Request => match probe.name.strip_prefix(REQUEST_CALL_PREFIX) {
                Some(call) => {
                    let ids = of_fields(request_code::span_fields());
                    Ok(ids.into_iter().chain(self.of_system_call(call)?).collect())
                }
                None => Ok(of_event(request_code::event_types(&[]), &probe.name)),
            },
            ProbeKind::State => {
                Ok(of_event(StateKind::ALL.map(|kind| kind.event_type(0)), &probe.name))
            }
            ProbeKind::RawTracepoint => {
                let parameters = self.btf()?.tracepoint_parameters(rest);
                let parameters = parameters?;
                Ok(of_parameters(parameters))
            }
            ProbeKind::KernelFunction | ProbeKind::TypedFunction => {
                // Functions without types, or of modules, are not described.
                let function = self.btf().ok().and_then(|btf| btf.function(rest));
                Ok(function.map(|function| of_parameters(function.parameters)).unwrap_or_default())
            }
            ProbeKind::Usdt => Ok(probe.usdt_arguments.clone()),
            ProbeKind::UserFunction | ProbeKind::Profile => Ok(Vec::new()),
        }
    }

    fn of_system_call(&self, name: &str) -> Result<Vec<ListedArgument>, Inability> {
        let call = self.tracefs()?.system_call(name)?;
        let call = call.ok_or_else(|| Inability::absent(format!("no system call {name}")))?;
        let arguments = call.arguments.into_iter();
        let arguments = arguments.map(|one| ListedArgument::new(one.name, one.type_text));
        let results = [("ret", "long", ArgumentRole::Result), {
            ("duration", "unsigned long", ArgumentRole::Duration)
        }];
        let results = results.map(|(name, type_text, role)| ListedArgument {
            role,
            ..ListedArgument::new(name, type_text)
        });
        Ok(arguments.chain(results).collect())
    }
}

/// Returns the field of a tracepoint's record. The kernel declares an array by its element's type.
fn of_field(field: &FormatField) -> ListedArgument {
    let suffix = match field.kind {
        FieldKind::Plain => String::new(),
        FieldKind::Array(count) => format!("[{count}]"),
        FieldKind::FlexibleArray | FieldKind::DynamicArray | FieldKind::RelativeDynamicArray => {
            "[]".to_owned()
        }
    };
    ListedArgument::new(&*field.name, format!("{}{suffix}", field.type_text))
}

fn of_parameters(parameters: Vec<Parameter>) -> Vec<ListedArgument> {
    let parameters = parameters.into_iter().enumerate();
    let argument = |(index, parameter): (usize, Parameter)| match parameter.name.as_str() {
        "" => ListedArgument::new(format!("arg{index}"), parameter.type_text),
        _ => ListedArgument::new(parameter.name, parameter.type_text),
    };
    parameters.map(argument).collect()
}

fn of_event<const N: usize>(types: [EventType; N], name: &str) -> Vec<ListedArgument> {
    let fields = types.into_iter().filter(|one| one.name == name).flat_map(|one| one.fields);
    of_fields(fields.map(|field| (field.name, field.kind)))
}

fn of_fields(
    fields: impl IntoIterator<Item = (impl Into<String>, EventField)>,
) -> Vec<ListedArgument> {
    let argument = |(name, kind): (_, EventField)| {
        let type_text = match kind {
            EventField::Signed { width: Width::Bits32, .. } => "int",
            EventField::Signed { .. } => "long",
            EventField::Unsigned { width: Width::Bits32, .. } => "unsigned int",
            EventField::Unsigned { .. } => "unsigned long",
            EventField::Enum { .. } => "enum",
            _ => "const char *",
        };
        ListedArgument::new(name, type_text)
    };
    fields.into_iter().map(argument).collect()
}
