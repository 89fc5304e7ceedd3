//! Functions of DataFusion that queries must not call. Start at [`leave_out_functions`].

use datafusion::prelude::SessionContext;

/// Names of functions whose output size is an argument (`repeat`, `lpad`, `range`). They allocate
/// the output in one step, before the memory limit can act. The output of all other functions grows
/// with their input, so the memory limit stops them.
const LEFT_OUT: [&str; 13] = [
    "array_repeat",
    "array_resize",
    "gen_series",
    "generate_series",
    "list_repeat",
    "list_resize",
    "lpad",
    "range",
    "repeat",
    "rpad",
    "space",
    "array_pad",
    "sequence",
];

/// Removes the functions of [`LEFT_OUT`] from a session.
pub(crate) fn leave_out_functions(context: &SessionContext) {
    for name in LEFT_OUT {
        context.deregister_udf(name);
    }
}

/// Returns whether [`leave_out_functions`] removes the function with this name.
pub(crate) fn is_left_out(function: &str) -> bool {
    LEFT_OUT.contains(&function)
}
