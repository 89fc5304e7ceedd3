//! `blkkin service log`: messages of a recorder's process.

use super::recorder::Recorder;
use crate::conversation::print;
use crate::exit::{Error, Exit, note};
use crate::interrupt::Interrupt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::time::Duration;

/// Show the messages of a recorder
///
/// Recorders that systemd starts write to the journal: `journalctl -u blkkin-recorder@NAME`.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin service log web\n  \
        blkkin service log web -n 100 --follow",
    after_help = crate::help::EXIT_HELP
)]
pub(super) struct Log {
    /// Name of the recorder
    #[arg(value_name = "NAME")]
    name: String,

    /// Number of the last lines to show
    #[arg(short = 'n', long, value_name = "COUNT", default_value = "20")]
    lines: usize,

    /// Go on with new lines, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
}

/// Pause before the log is read again.
const PAUSE: Duration = Duration::from_millis(200);
/// Maximum number of bytes at the log's end that are looked at for lines.
const TAIL_MAX: u64 = 1 << 20;

pub(super) fn run(args: &Log) -> Result<Exit, Error> {
    let recorder = Recorder::existing(&args.name)?;
    let path = recorder.log_path();
    let failed =
        |error: io::Error| Error::failed(format!("cannot read {}: {error}", path.display()));
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let name = recorder.name();
            note(&format!("recorder `{name}` has no messages here; the journal may have some"));
            return Ok(Exit::Ok);
        }
        Err(error) => return Err(failed(error)),
    };
    let size = file.metadata().map_err(failed)?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(TAIL_MAX))).map_err(failed)?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(failed)?;
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let shown = lines.get(lines.len().saturating_sub(args.lines)..).unwrap_or_default();
    print(&shown.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    let interrupt = Interrupt::listen()?;
    while args.follow && !interrupt.is_set() {
        std::thread::sleep(PAUSE);
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        print(&String::from_utf8_lossy(&text))?;
    }
    Ok(Exit::Ok)
}
