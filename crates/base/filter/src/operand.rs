//! Operands: the fields to which a filter refers. [`crate::Values`] identifies an [`Operand`] by
//! its index, so a host can bind each operand to a field of its own events in advance.

use crate::lexer::is_name;
use crate::quote::write_string;
use crate::tree::{Span, Type};
use std::fmt;

/// Reference to a field. [`crate::Filter::operands`] lists each distinct operand once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Scope in which the path starts.
    pub kind: OperandKind,
    /// Path to the field in the scope; empty for kind `Pseudo`. The first step is a name.
    pub path: Vec<Step>,
    /// Range of the operand's first mention in the filter's text.
    pub span: Span,
}

/// Scope in which an operand is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperandKind {
    /// Bare name: a field of the event's payload or, if the payload lacks the field, the
    /// pseudo-field with the same name ([`Operand::pseudo`]).
    Payload,
    /// `$ctx.NAME`: a field of the common or the specific context.
    Context,
    /// `$app.PROVIDER:TYPE`: a context field that an application provides. The name in the first
    /// step is `PROVIDER:TYPE`.
    AppContext,
    /// `$event.NAME`: a pseudo-field, even if the payload has a field of that name.
    Pseudo(PseudoField),
    /// `$env.NAME`: an entry of the trace's environment.
    Env,
    /// `$packet.NAME`: a field of the packet's context.
    Packet,
}

/// One step of the path from a scope to a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Name of the first field of the path, or of a structure's member: `.name` or `["name"]`.
    Name(String),
    /// `[index]`: an array's element, from 0.
    Index(u64),
}

/// Pseudo-field: a property of an event besides its payload; absent if it was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PseudoField {
    /// Name of the event's class, a string such as `provider:event`.
    Name,
    /// Time of the event in nanoseconds since 1970 (UTC).
    Time,
    /// Number of the CPU on which the event was recorded.
    Cpu,
    /// Severity level, from 0 (most severe) to 14; comparable with numbers and with words.
    Severity,
    /// Id of the process that recorded the event.
    Pid,
    /// Id of the thread that recorded the event.
    Tid,
    /// Name of the process that recorded the event, a string.
    Procname,
    /// Id of the stream that contains the event.
    Stream,
    /// Name of the trace that contains the event, a string.
    Trace,
}

impl PseudoField {
    /// List of all pseudo-fields, in the order of declaration.
    pub const ALL: [PseudoField; 9] = [
        PseudoField::Name,
        PseudoField::Time,
        PseudoField::Cpu,
        PseudoField::Severity,
        PseudoField::Pid,
        PseudoField::Tid,
        PseudoField::Procname,
        PseudoField::Stream,
        PseudoField::Trace,
    ];

    /// Returns the name by which filters refer to the pseudo-field, such as `procname`.
    pub fn name(self) -> &'static str {
        match self {
            PseudoField::Name => "name",
            PseudoField::Time => "time",
            PseudoField::Cpu => "cpu",
            PseudoField::Severity => "severity",
            PseudoField::Pid => "pid",
            PseudoField::Tid => "tid",
            PseudoField::Procname => "procname",
            PseudoField::Stream => "stream",
            PseudoField::Trace => "trace",
        }
    }

    /// Returns true if the pseudo-field exists only after the event has been recorded in a trace.
    pub fn is_late(self) -> bool {
        matches!(self, PseudoField::Time | PseudoField::Stream | PseudoField::Trace)
    }

    /// Returns the pseudo-field with this name, or `None`.
    pub fn from_name(name: &str) -> Option<PseudoField> {
        PseudoField::ALL.into_iter().find(|pseudo| pseudo.name() == name)
    }

    /// Returns the static type of the pseudo-field's value. The type of the severity is unknown,
    /// because the severity compares with numbers and with strings.
    pub fn ty(self) -> Type {
        match self {
            PseudoField::Name | PseudoField::Procname | PseudoField::Trace => Type::String,
            PseudoField::Time
            | PseudoField::Cpu
            | PseudoField::Pid
            | PseudoField::Tid
            | PseudoField::Stream => Type::Int,
            PseudoField::Severity => Type::Unknown,
        }
    }

    /// Returns the pseudo-field for the name of a context, such as `tid`; `None` for contexts that
    /// filters of recordings cannot use. LTTng's names, such as `vtid`, are accepted too.
    pub fn of_context(name: &str) -> Option<PseudoField> {
        Some(match name {
            "pid" | "vpid" => PseudoField::Pid,
            "tid" | "vtid" => PseudoField::Tid,
            "procname" => PseudoField::Procname,
            "cpu" | "cpu_id" => PseudoField::Cpu,
            _ => return None,
        })
    }
}

impl Operand {
    /// Returns the pseudo-field to which the operand may refer, if any. An operand of kind `Pseudo`
    /// always refers to the pseudo-field, a bare name only if the payload lacks a field with that
    /// name.
    pub fn pseudo(&self) -> Option<PseudoField> {
        match (self.kind, self.path.as_slice()) {
            (OperandKind::Pseudo(pseudo), _) => Some(pseudo),
            (OperandKind::Payload, [Step::Name(name)]) => PseudoField::from_name(name),
            _ => None,
        }
    }

    /// Returns the static type of the operand's value. Unless the kind is `Pseudo`, it is
    /// [`Type::Unknown`].
    pub fn ty(&self) -> Type {
        match self.kind {
            OperandKind::Pseudo(pseudo) => pseudo.ty(),
            _ => Type::Unknown,
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scope = match self.kind {
            OperandKind::Payload => "",
            OperandKind::Context => "$ctx.",
            OperandKind::AppContext => "$app.",
            OperandKind::Env => "$env.",
            OperandKind::Packet => "$packet.",
            OperandKind::Pseudo(pseudo) => return write!(f, "$event.{}", pseudo.name()),
        };
        f.write_str(scope)?;
        for (position, step) in self.path.iter().enumerate() {
            match step {
                Step::Name(name) if position == 0 => f.write_str(name)?,
                Step::Name(name) if is_name(name) => write!(f, ".{name}")?,
                Step::Name(name) => {
                    f.write_str(".")?;
                    write_string(f, [name.as_bytes()])?;
                }
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
