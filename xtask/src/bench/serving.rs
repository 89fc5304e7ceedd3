//! Span servers to measure, and the program that sends spans to them and queries them. `bench
//! server`, `bench ui` and `bench blockstack` share both. Start at [`running::Running`].

pub(super) mod program;
pub(super) mod running;

use program::{OnDisk, Program};
use running::Running;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time without a change after which a store's files are at rest.
const REST: Duration = Duration::from_secs(8);
const REST_QUICK: Duration = Duration::from_secs(4);
/// Maximum processor time of a server that is not merging files, as a fraction of one CPU.
const IDLE_SHARE: f64 = 0.05;
const REST_AFTER_MAX: Duration = Duration::from_secs(240);

/// Waits until the files of a server's store, in `folder`, are at rest. Returns their numbers and
/// sizes, and whether they were at rest before the time limit.
pub(super) fn wait_for_rest(
    program: &Program,
    server: &Running,
    folder: &Path,
    is_quick: bool,
) -> Result<(OnDisk, bool), String> {
    let rest = if is_quick { REST_QUICK } else { REST };
    let start = Instant::now();
    let mut last = OnDisk::default();
    while start.elapsed() < REST_AFTER_MAX {
        let before = server.cpu_seconds()?;
        std::thread::sleep(rest);
        let now = OnDisk::of(program, folder)?;
        let is_idle = server.cpu_seconds()? - before <= IDLE_SHARE * rest.as_secs_f64();
        if is_idle && now == last {
            return Ok((now, true));
        }
        last = now;
    }
    Ok((last, false))
}
