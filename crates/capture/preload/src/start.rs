//! Entry point before `main` and before the tracer's start, and the handler that updates switch and
//! state after each change of the tracer's rules.

use crate::{calls, clock, guard, state, switch, types};
use blkkin_trace::{daemon, registry};

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
    registry::on_undecided(|| {
        switch::undecide();
        state::forget();
    });
    registry::on_change(follow_rules);
}

/// Sets the switch after a change of the rules. The state is recorded first, so that it precedes
/// the first call in most cases.
fn follow_rules() {
    if registry::is_undecided() {
        return;
    }
    let is_on = types::has_wanted();
    if is_on {
        clock::measure();
    }
    state::record_if_new();
    switch::set(is_on);
}
