//! The parsed and checked filter, and the errors with which hosts refuse a filter.

use crate::error::FilterError;
use crate::fault::Fault;
use crate::operand::{Operand, OperandKind, PseudoField};
use crate::program::Program;
use crate::severity::Severity;
use crate::suggest::suggest;
use crate::tree::{Node, Span};
use crate::value::Values;
use crate::{check, eval, parser};

/// Maximum size of a filter's text, in bytes.
pub const FILTER_SIZE_MAX: usize = 64 << 10;

/// Parsed and checked condition on events, independent of any trace.
#[derive(Clone, Debug)]
pub struct Filter {
    text: String,
    root: Node,
    operands: Vec<Operand>,
    /// Compiled program, if the tree is higher than [`HEIGHT_MAX`]; `None` for all other trees.
    program: Option<Program>,
}

/// Maximum height of a tree that is evaluated by recursion. Recursion is twice as fast as a
/// program, and uses some 200 bytes of stack per level of the tree.
const HEIGHT_MAX: usize = 4;

impl Filter {
    /// Parses and checks a filter. An error states its position in `text`.
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        if text.len() > FILTER_SIZE_MAX {
            let message = format!(
                "the filter has {} bytes; at most {FILTER_SIZE_MAX} are accepted",
                text.len()
            );
            return Err(FilterError::new("", Fault::new(Span::default(), message)));
        }
        let (program, root, operands) = parser::parse(text)
            .and_then(check::check)
            .and_then(|(root, operands)| {
                let is_high = root.height() > HEIGHT_MAX;
                let program = is_high.then(|| Program::new(&root)).transpose()?;
                Ok((program, root, operands))
            })
            .map_err(|fault| FilterError::new(text, fault))?;
        Ok(Filter { text: text.to_string(), root, operands, program })
    }

    /// Parses and checks a filter for events that are about to be recorded. Refuses operands that
    /// such events lack: time, stream, trace, environment and packet. A bare `time`, `stream` or
    /// `trace` is accepted, as a field of the payload, if the filter tests it by `has`.
    pub fn parse_for_recording(text: &str) -> Result<Filter, FilterError> {
        let filter = Filter::parse(text)?;
        let tested = filter.root.tested_operands();
        let missing = filter.operands.iter().enumerate().find(|(index, operand)| {
            match (operand.kind, operand.pseudo()) {
                (OperandKind::Env | OperandKind::Packet, _) => true,
                (OperandKind::Payload, Some(pseudo)) => pseudo.is_late() && !tested.contains(index),
                (_, Some(pseudo)) => pseudo.is_late(),
                _ => false,
            }
        });
        let Some((_, operand)) = missing else { return Ok(filter) };
        let message = format!("`{operand}` does not exist while events are recorded");
        let is_payload = matches!(operand.kind, OperandKind::Payload);
        let hint = match is_payload {
            true => format!(
                "use it with `blkkin view --filter`; for a field of that name write \
                 `has({operand}) && …`"
            ),
            false => "use it with `blkkin view --filter`".to_owned(),
        };
        Err(FilterError::unsupported(&filter, operand.span, message, Some(hint)))
    }

    /// Returns the text from which the filter was parsed. All spans refer to this text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the root of the typed tree.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// Returns the distinct fields to which the filter refers, in the order of their first
    /// mentions. The tree refers to a field by its index in this list.
    pub fn operands(&self) -> &[Operand] {
        &self.operands
    }

    /// Returns true if an event with these values matches the filter.
    pub fn eval(&self, values: &(impl Values + ?Sized)) -> bool {
        match &self.program {
            None => eval::evaluate(&self.root, values),
            Some(program) => program.matches(values),
        }
    }
}

impl FilterError {
    /// Makes the error for an operand that the host cannot bind, because no event has such a field.
    /// `candidates` are the names of existing fields, in the form used in filters.
    pub fn unknown_field<'c>(
        filter: &Filter,
        operand: usize,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> FilterError {
        let Some(unknown) = filter.operands().get(operand) else {
            return FilterError::new(
                filter.text(),
                Fault::new(Span::default(), format!("there is no operand {operand}")),
            );
        };
        let what = match unknown.kind {
            OperandKind::Payload | OperandKind::Pseudo(_) => "field",
            OperandKind::Context | OperandKind::AppContext => "context",
            OperandKind::Env => "environment entry",
            OperandKind::Packet => "packet field",
        };
        let name = unknown.to_string();
        let mut fault = Fault::new(unknown.span, format!("unknown {what} `{name}`"));
        // A misspelt severity level parses as a field.
        let uses_severity =
            filter.operands().iter().any(|operand| operand.pseudo() == Some(PseudoField::Severity));
        let levels = Severity::words().filter(|_| uses_severity).map(|word| -> &'c str { word });
        if let Some(nearest) = suggest(&name, candidates.into_iter().chain(levels)) {
            fault = fault.hint(format!("did you mean `{nearest}`?"));
        }
        FilterError::new(filter.text(), fault)
    }

    /// Makes the error for a part of a valid filter that the host does not support.
    pub fn unsupported(
        filter: &Filter,
        span: Span,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> FilterError {
        FilterError::new(filter.text(), Fault { hint, ..Fault::new(span, message) })
    }
}
