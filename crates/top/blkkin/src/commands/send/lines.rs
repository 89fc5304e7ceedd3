//! `blkkin send --lines`: sends each line of a text, without its line feed, as a message.

use super::messages::MessageSink;
use crate::exit::{Error, Exit};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// Maximum length of a line in bytes: the sender's limit for a message with its category. The
/// sender omits a longer line as a whole.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// Maximum time that a line waits for further lines before its batch is sent.
const WAIT: Duration = Duration::from_millis(200);

/// Maximum number of lines that are read but not in a batch yet.
const LINES_AHEAD: usize = 1000;

type Lines = Receiver<io::Result<Vec<u8>>>;

pub(super) fn send(paths: &[PathBuf], messages: &mut MessageSink) -> Result<Exit, Error> {
    for path in paths {
        let failed =
            |error: io::Error| Error::failed(format!("cannot read {}: {error}", path.display()));
        let lines = read(path).map_err(failed)?;
        loop {
            match lines.recv_timeout(WAIT) {
                Ok(line) => {
                    if messages.push(&line.map_err(failed)?).is_break() {
                        return Ok(Exit::Ok);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    if messages.flush().is_break() {
                        return Ok(Exit::Ok);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    }
    Ok(Exit::Ok)
}

/// Starts a thread that reads a file, as a read may block for ever. Returns the receiver of its
/// lines.
fn read(path: &Path) -> io::Result<Lines> {
    let file = match path.as_os_str() == "-" {
        true => File::from(io::stdin().as_fd().try_clone_to_owned()?),
        false => File::open(path)?,
    };
    let (print_totals, lines) = sync_channel(LINES_AHEAD);
    thread::Builder::new().name("lines".to_owned()).spawn(move || {
        let mut reader = BufReader::with_capacity(64 << 10, file);
        loop {
            let mut line = Vec::new();
            // One byte more than the limit shows that a line is too long.
            let limit = LINE_BYTES_MAX + 1;
            let read = reader.by_ref().take(limit).read_until(b'\n', &mut line);
            let is_cut = line.len() as u64 == limit && !line.ends_with(b"\n");
            let sent = match read {
                Ok(0) => return,
                Ok(_) => {
                    if line.last() == Some(&b'\n') {
                        line.pop();
                    }
                    print_totals.send(Ok(line))
                }
                Err(error) => {
                    let _ = print_totals.send(Err(error));
                    return;
                }
            };
            if sent.is_err() || (is_cut && reader.skip_until(b'\n').is_err()) {
                return;
            }
        }
    })?;
    Ok(lines)
}
