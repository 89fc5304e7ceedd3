//! Entry point before `main`, and before the tracer's start.

use crate::{calls, clock, guard, switch};
use blkkin_trace::daemon;

/// Entry point that the C library calls before those of libraries without a priority, so before the
/// tracer's own.
// SAFETY: this section holds pointers to such functions. The function uses only the dynamic linker
// and the C library, which are initialised.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array.00100")]
static BEFORE_TRACER: extern "C" fn() = prepare;

#[cfg_attr(test, allow(dead_code, reason = "tests are not recorded"))]
extern "C" fn prepare() {
    calls::resolve();
    clock::start();
    daemon::on_own_work(guard::mark_own_work);
    switch::prepare();
}
