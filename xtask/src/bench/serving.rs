//! Servers of spans that are measured, and the program that fills them and asks them: what `bench server`, `bench ui` and
//! `bench blockstack` have in common. Start at [`running::Running`].

pub(super) mod program;
pub(super) mod running;

use program::{OnDisk, Program};
use running::Running;
use std::path::Path;
use std::time::{Duration, Instant};

/// Files that stay as they are for so long are at rest.
const REST: Duration = Duration::from_secs(8);
const REST_QUICK: Duration = Duration::from_secs(4);
/// Who merges files needs more of a processor than this.
const IDLE_SHARE: f64 = 0.05;
const REST_AFTER_MAX: Duration = Duration::from_secs(240);

/// Waits until no file of a server's changes any more and none is being made; says what there is then, and whether
/// they did come to rest.
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
