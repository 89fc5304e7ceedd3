//! The agent's log. Lines that programs and commands cause are rate-limited for each user, so that
//! no user can fill a log file or displace lines of other users.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Writer of log lines, with a rate limit for each user.
#[derive(Debug)]
pub(crate) struct Log {
    write: fn(&str),
    users: RefCell<HashMap<u32, Window>>,
}

/// Rate-limit window of one user.
#[derive(Debug)]
struct Window {
    begun: Instant,
    lines: u32,
    left_out: u64,
}

const WINDOW: Duration = Duration::from_secs(10);
/// Maximum number of lines about one user in a window.
const LINES_MAX: u32 = 20;
/// Number of stored rate-limit windows that triggers the removal of expired windows.
const USERS_MAX: usize = 1024;

impl Log {
    pub(crate) fn new(write: fn(&str)) -> Log {
        Log { write, users: RefCell::default() }
    }

    /// Writes a line about the agent itself.
    pub(crate) fn line(&self, line: &str) {
        (self.write)(line);
    }

    /// Writes a line that a user has caused, unless the user's rate limit is exceeded.
    pub(crate) fn about(&self, uid: u32, line: &str) {
        self.about_at(uid, line, Instant::now());
    }

    fn about_at(&self, uid: u32, line: &str, now: Instant) {
        let mut users = self.users.borrow_mut();
        if users.len() >= USERS_MAX && !users.contains_key(&uid) {
            let expired = users.extract_if(|_, window| now >= window.begun + WINDOW);
            expired.for_each(|(uid, window)| self.write_left_out(uid, &window));
        }
        let window = users.entry(uid).or_insert(Window { begun: now, lines: 0, left_out: 0 });
        if now >= window.begun + WINDOW {
            self.write_left_out(uid, window);
            *window = Window { begun: now, lines: 0, left_out: 0 };
        }
        if window.lines >= LINES_MAX {
            window.left_out += 1;
            return;
        }
        window.lines += 1;
        (self.write)(line);
    }

    /// Writes the number of lines that an expired window has left out.
    fn write_left_out(&self, uid: u32, window: &Window) {
        let left_out = window.left_out;
        if left_out > 0 {
            (self.write)(&format!("user {uid}: {left_out} more lines like those before"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[test]
    fn lines_about_a_user_are_limited() {
        static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let log = Log::new(|line| LINES.lock().push(line.to_owned()));
        let begun = Instant::now();
        for number in 0..10_000 {
            log.about_at(7, &format!("nonsense {number}"), begun);
        }
        log.about_at(8, "another", begun);
        log.about_at(7, "later", begun + WINDOW);
        let lines = LINES.lock();
        assert_eq!(lines.len(), LINES_MAX as usize + 3);
        let expected = ["another", "user 7: 9980 more lines like those before", "later"];
        assert_eq!(lines[LINES_MAX as usize..], expected);
    }

    #[test]
    fn lines_left_out_are_counted_when_a_window_is_removed() {
        static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let log = Log::new(|line| LINES.lock().push(line.to_owned()));
        let begun = Instant::now();
        for uid in 0..USERS_MAX as u32 {
            log.about_at(uid, "a line", begun);
        }
        for _ in 0..LINES_MAX {
            log.about_at(7, "a line", begun);
        }
        LINES.lock().clear();
        log.about_at(u32::MAX, "a line of a new user", begun + WINDOW);
        let expected = ["user 7: 1 more lines like those before", "a line of a new user"];
        assert_eq!(*LINES.lock(), expected);
    }
}
