//! Functions of DataFusion that queries must not call.

use datafusion::prelude::SessionContext;

/// Functions whose output size is an argument (`repeat`, `lpad`, `range`). They allocate it in one
/// step, before the memory limit can act. All other functions grow with their input, so the memory
/// limit ends them.
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

/// Whether DataFusion has a function that [`leave_out_functions`] removes.
pub(crate) fn is_left_out(function: &str) -> bool {
    LEFT_OUT.contains(&function)
}
