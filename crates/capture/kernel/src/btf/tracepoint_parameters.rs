//! Parameters of raw tracepoints. The typedef of a raw tracepoint has only their types; their names
//! are those of a function that the kernel's macros generate for each tracepoint.

use super::error::BtfError;
use super::file::Btf;
use super::queries::Parameter;

/// Prefixes of the generated functions. Each has the tracepoint's parameters after a `void *`; which
/// of them a kernel describes depends on its configuration.
const FUNCTION_PREFIXES: [&str; 3] = ["__traceiter_", "__bpf_trace_", "__probestub_"];

impl Btf {
    /// Returns the parameters of a raw tracepoint, such as `sched_switch`. If the kernel does not
    /// describe their names, they are called `arg0` and so on.
    pub fn raw_tracepoint_parameters(&self, name: &str) -> Result<Vec<Parameter>, BtfError> {
        let tracepoint = self.raw_tracepoint(name)?;
        let named = FUNCTION_PREFIXES.iter().find_map(|prefix| {
            let mut parameters = self.function(&format!("{prefix}{name}"))?.parameters;
            if parameters.len() != tracepoint.arguments + 1 {
                return None;
            }
            parameters.remove(0);
            Some(parameters)
        });
        if let Some(mut parameters) = named {
            for (index, parameter) in parameters.iter_mut().enumerate() {
                if parameter.name.is_empty() {
                    parameter.name = format!("arg{index}");
                }
            }
            return Ok(parameters);
        }
        let pointer = self.record(tracepoint.type_id).map(|typedef| typedef.size_or_type);
        let prototype = pointer.and_then(|pointer| self.record(pointer)).map(|it| it.size_or_type);
        let prototype = prototype.and_then(|prototype| self.record(prototype));
        let types = prototype.into_iter().flat_map(|prototype| prototype.parameters()).skip(1);
        let parameters = types.enumerate().map(|(index, parameter)| Parameter {
            name: format!("arg{index}"),
            type_text: self.type_text(parameter.type_id),
        });
        Ok(parameters.collect())
    }
}
