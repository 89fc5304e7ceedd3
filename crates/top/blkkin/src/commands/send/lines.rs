//! `blkkin send --lines`: each line of a text is a message, without its end.

use super::{Args, Messages};
use crate::exit::{Error, Exit};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// A line is no longer than a server takes; what is, is left out as a whole.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// A line that came waits no longer for others.
const WAIT: Duration = Duration::from_millis(200);

/// What is read ahead.
const LINES_AHEAD: usize = 1000;

type Lines = Receiver<io::Result<Vec<u8>>>;

pub(super) fn send(args: &Args, messages: &mut Messages) -> Result<Exit, Error> {
    for path in &args.input.paths {
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

/// Reads in a thread, which may wait for what never comes.
fn read(path: &Path) -> io::Result<Lines> {
    let file = match path.as_os_str() == "-" {
        true => File::from(io::stdin().as_fd().try_clone_to_owned()?),
        false => File::open(path)?,
    };
    let (tell, lines) = sync_channel(LINES_AHEAD);
    thread::Builder::new().name("lines".to_owned()).spawn(move || {
        let mut reader = BufReader::with_capacity(64 << 10, file);
        loop {
            let mut line = Vec::new();
            // One more than permitted, so that it is seen to be too large.
            let limit = LINE_BYTES_MAX + 1;
            let read = reader.by_ref().take(limit).read_until(b'\n', &mut line);
            let is_cut = line.len() as u64 == limit && !line.ends_with(b"\n");
            let sent = match read {
                Ok(0) => return,
                Ok(_) => {
                    if line.last() == Some(&b'\n') {
                        line.pop();
                    }
                    tell.send(Ok(line))
                }
                Err(error) => {
                    let _ = tell.send(Err(error));
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
