//! Drawings that fill the terminal, and its keys, by control sequences that all terminals of the
//! last decades know.

use crate::output::{EscapedOutput, raw_stdout};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcgetwinsize,
    tcsetattr,
};
use std::fs::File;
use std::io::{self, IsTerminal, Write};

/// Size of a terminal whose size is unknown: columns and rows.
const SIZE: (usize, usize) = (80, 24);
/// Enters the second screen, which leaves the first one as it is, and hides the cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
/// Shows the cursor, and returns to the first screen.
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";
/// Moves the cursor to the top left.
const HOME: &[u8] = b"\x1b[H";
/// Clears the rest of the line.
const CLEAR_LINE: &[u8] = b"\x1b[K";
/// Clears the rest of the screen.
const CLEAR_BELOW: &[u8] = b"\x1b[J";

/// Key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Letter(u8),
    Up,
    Down,
}

/// Terminal that shows drawings, until it is dropped.
pub(crate) struct Screen {
    out: EscapedOutput<File>,
    /// Attributes to restore; `None` if keys are not read.
    saved: Option<Termios>,
}

impl Screen {
    /// Begins to draw on standard output. With `keys`, keys are read from standard input if it is a
    /// terminal too, and the drawings leave the text before them as it is.
    pub(crate) fn open(keys: bool) -> io::Result<Screen> {
        let mut screen = Screen { out: raw_stdout()?, saved: None };
        if keys && is_foreground() {
            let saved = tcgetattr(io::stdin())?;
            let mut changed = saved.clone();
            // Ctrl-C still is a signal.
            changed.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            // A read returns at once what there is.
            changed.special_codes[SpecialCodeIndex::VMIN] = 0;
            changed.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(io::stdin(), OptionalActions::Now, &changed)?;
            screen.saved = Some(saved);
            screen.out.write_all(ENTER)?;
        }
        Ok(screen)
    }

    /// Returns true if keys are read.
    pub(crate) fn has_keys(&self) -> bool {
        self.saved.is_some()
    }

    /// Returns the number of columns and of rows.
    pub(crate) fn size() -> (usize, usize) {
        let size = tcgetwinsize(io::stdout()).ok();
        let size = size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        let (columns, rows) = size.unwrap_or(SIZE);
        (if columns == 0 { SIZE.0 } else { columns }, if rows == 0 { SIZE.1 } else { rows })
    }

    /// Replaces the drawing.
    pub(crate) fn draw(&mut self, text: &str) -> io::Result<()> {
        let mut bytes = HOME.to_vec();
        for (index, line) in text.lines().enumerate() {
            if index > 0 {
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(line.as_bytes());
            bytes.extend_from_slice(CLEAR_LINE);
        }
        bytes.extend_from_slice(CLEAR_BELOW);
        if !self.has_keys() {
            bytes.extend_from_slice(b"\r\n");
        }
        self.out.write_all(&bytes)?;
        self.out.flush()
    }

    /// Returns the keys that were pressed since the last call.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let mut bytes = [0; 256];
        let size = match self.has_keys() {
            true => rustix::io::read(io::stdin(), &mut bytes).unwrap_or(0),
            false => 0,
        };
        keys(&bytes[..size])
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(saved) = &self.saved {
            let _ = self.out.write_all(LEAVE);
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, saved);
        }
    }
}

/// Returns true if standard input is a terminal, and if this process may change it without being
/// stopped.
fn is_foreground() -> bool {
    let group = tcgetpgrp(io::stdin());
    io::stdin().is_terminal() && group.is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Returns the keys whose codes a terminal has sent. Codes of other keys are left out.
fn keys(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let [first, rest @ ..] = bytes {
        bytes = rest;
        if *first != b'\x1b' {
            keys.push(Key::Letter(*first));
            continue;
        }
        let [b'[' | b'O', rest @ ..] = bytes else { continue };
        // A sequence ends with a character that is no digit or separator.
        let end = rest.iter().position(|byte| matches!(byte, b'@'..=b'~'));
        match end.map(|end| rest[end]) {
            Some(b'A') => keys.push(Key::Up),
            Some(b'B') => keys.push(Key::Down),
            _ => {}
        }
        bytes = end.map_or(&[][..], |end| &rest[end + 1..]);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_keys_are_understood() {
        assert_eq!(keys(b"q\x1b[A\x1bOB"), [Key::Letter(b'q'), Key::Up, Key::Down]);
        assert_eq!(keys(b"\x1b[1;5Cs"), [Key::Letter(b's')]);
        assert_eq!(keys(b"\x1b[1;5"), []);
        assert_eq!(keys(b"\x1b"), []);
    }
}
