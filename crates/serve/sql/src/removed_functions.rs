//! Functions of DataFusion that queries must not call. Start at [`remove_functions`].

use datafusion::prelude::SessionContext;

/// Names of functions whose output size is an argument (`repeat`, `lpad`, `range`). They allocate
/// the output in one step, before the memory limit can act. The output of all other functions grows
/// with their input, so the memory limit stops them.
const REMOVED: [&str; 13] = [
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

/// Removes the functions of [`REMOVED`] from a session.
pub(crate) fn remove_functions(context: &SessionContext) {
    for name in REMOVED {
        context.deregister_udf(name);
    }
}

/// Returns whether [`remove_functions`] removes the function with this name.
pub(crate) fn is_removed(function: &str) -> bool {
    REMOVED.contains(&function)
}
