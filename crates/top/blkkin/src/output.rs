//! Standard output and standard error: colour, width, escaped control characters, closed pipes.
//! Also formats counts, losses and words of shell commands as text.

use blkkin_reader::Stats;
use std::borrow::Cow;
use std::env;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless TERM is dumb; NO_COLOR means never, CLICOLOR_FORCE means always.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorChoice {
    /// Returns true if output to `stream` is coloured.
    pub(crate) fn applies(self, stream: &impl IsTerminal) -> bool {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        match self {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto if set("NO_COLOR") => false,
            ColorChoice::Auto if std::env::var_os("CLICOLOR_FORCE").is_some_and(|v| v != "0") => {
                true
            }
            ColorChoice::Auto => {
                stream.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
            }
        }
    }
}

/// Returns the columns of a line of standard output: `COLUMNS`, or else the width of the terminal,
/// or else 100; at least 20, at most 1000.
pub(crate) fn width() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    };
    told.or_else(terminal).unwrap_or(100).clamp(20, 1000)
}

/// Returns the path of this program, also after another release has replaced its file.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    let path = env::current_exe()?;
    let text = path.to_string_lossy();
    Ok(text.strip_suffix(" (deleted)").map_or(path.clone(), PathBuf::from))
}

/// Returns true if the locale's character set is UTF-8. The first set variable of `LC_ALL`,
/// `LC_CTYPE` and `LANG` decides, as in the C library.
pub(crate) fn locale_is_utf8() -> bool {
    let set = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Output stream that may be a terminal. On a terminal, C1 control characters (U+0080 to U+009F)
/// are written as escapes, since a terminal would obey them. They may occur in texts of traces,
/// requests and programs; other consumers get the bytes unchanged. All output with such texts
/// passes through this type, in pieces of whole characters.
#[derive(Debug)]
pub(crate) struct EscapedOutput<W> {
    out: W,
    is_terminal: bool,
}

impl<W: Write> Write for EscapedOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return self.out.write(bytes);
        }
        self.out.write_all(&without_controls(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Escapes C1 control characters, whether encoded as UTF-8 or as single bytes.
fn without_controls(bytes: &[u8]) -> Cow<'_, [u8]> {
    if !bytes.iter().any(|byte| matches!(byte, 0x80..=0x9f)) {
        return Cow::Borrowed(bytes);
    }
    let mut shown = Vec::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\u{80}'..='\u{9f}' => {
                    shown.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
                }
                _ => shown.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        for &byte in chunk.invalid() {
            match byte {
                0x80..=0x9f => shown.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
                _ => shown.push(byte),
            }
        }
    }
    Cow::Owned(shown)
}

/// Escapes control characters other than line feed and tab, for any kind of output.
pub(crate) fn message(text: &str) -> Cow<'_, str> {
    let is_escaped = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_escaped(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

/// Returns standard output without the standard library's line buffer, for writers of large pieces.
pub(crate) fn raw_stdout() -> io::Result<EscapedOutput<File>> {
    let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    Ok(EscapedOutput { is_terminal: out.is_terminal(), out })
}

/// Returns standard output, locked for this thread.
pub(crate) fn stdout() -> EscapedOutput<io::StdoutLock<'static>> {
    let out = io::stdout().lock();
    EscapedOutput { is_terminal: out.is_terminal(), out }
}

/// Returns standard error, locked for this thread, without styles.
pub(crate) fn stderr() -> EscapedOutput<io::StderrLock<'static>> {
    let out = io::stderr().lock();
    EscapedOutput { is_terminal: out.is_terminal(), out }
}

/// Returns standard error for styled text. Styles are removed unless standard error is a terminal
/// that can show them; `NO_COLOR`, `CLICOLOR` and `CLICOLOR_FORCE` override this.
pub(crate) fn styled_stderr() -> EscapedOutput<anstream::AutoStream<io::StderrLock<'static>>> {
    EscapedOutput { is_terminal: io::stderr().is_terminal(), out: anstream::stderr().lock() }
}

/// Writes a text to standard output and flushes it.
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Turns the error of a closed pipe into success.
pub(crate) fn ignore_closed_pipe(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Formats a count with its noun, in the plural unless the count is 1.
pub(crate) fn plural(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Wraps a text at blanks so that lines have at most `columns` characters, if words permit. Lines
/// after the first begin with `indent`. The last line has no line feed.
pub(crate) fn wrap(text: &str, columns: usize, indent: &str) -> String {
    let mut wrapped = String::new();
    let mut column = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > columns {
            wrapped.push('\n');
            wrapped.push_str(indent);
            column = indent.chars().count();
        } else if column > 0 {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += width;
    }
    wrapped
}

/// Returns the command that starts this program again. It is `blkkin` if a shell would find this
/// executable in `PATH`, or if the executable's path is unknown. Otherwise it is the path, such as
/// after `cargo run`, relative if the executable is below the current directory.
pub(crate) fn own_command() -> String {
    let named = || "blkkin".to_owned();
    let Ok(program) = env::current_exe() else { return named() };
    let path = env::var_os("PATH").unwrap_or_default();
    let current = env::current_dir().unwrap_or_default();
    own_command_of(&program, env::split_paths(&path), &current)
}

fn own_command_of(program: &Path, path: impl Iterator<Item = PathBuf>, current: &Path) -> String {
    // A shell starts the first match in `PATH`.
    let mut installed = path.map(|folder| folder.join("blkkin")).filter(|file| file.is_file());
    if installed.next().is_some_and(|file| file.canonicalize().is_ok_and(|file| file == program)) {
        return "blkkin".to_owned();
    }
    match program.strip_prefix(current) {
        // A shell searches `PATH` for a word without a slash.
        Ok(within) if within.components().count() == 1 => shell_word(&Path::new(".").join(within)),
        Ok(within) => shell_word(within),
        Err(_) => shell_word(program),
    }
}

/// Quotes a path for a shell if necessary.
pub(crate) fn shell_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._+-:,@%=".contains(letter);
    match !text.is_empty() && text.chars().all(is_plain) && !text.starts_with('-') {
        true => text.into_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// Describes the losses that the traces report; `None` without losses.
pub(crate) fn describe_losses(stats: &Stats) -> Option<String> {
    let unknown = |what: &str, count: u64| {
        format!("an unknown number of {what} at {}", plural(count, "place"))
    };
    let parts = [
        (stats.events_lost, plural(stats.events_lost, "event")),
        (stats.events_lost_unknown, unknown("events", stats.events_lost_unknown)),
        (stats.packets_lost, plural(stats.packets_lost, "packet")),
        (stats.packets_lost_unknown, unknown("packets", stats.packets_lost_unknown)),
    ];
    let parts: Vec<String> =
        parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Writes a log line of an agent to standard error, for people and for systemd's journal.
pub(crate) fn agent_log(line: &str) {
    let _ = writeln!(styled_stderr(), "blkkin agent: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_program_is_named_as_a_shell_finds_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("a path");
        let [built, bin, other] = ["target/release", "bin", "other"].map(|name| folder.join(name));
        for folder in [&built, &bin, &other] {
            std::fs::create_dir_all(folder).expect("a folder");
        }
        let program = built.join("blkkin");
        std::fs::write(&program, "").expect("a file");
        symlink(&program, bin.join("blkkin")).expect("a link");
        std::fs::write(other.join("blkkin"), "").expect("a file");
        let check = |path: &[&Path], current: &Path, expected: &str| {
            let path = path.iter().map(|folder| folder.to_path_buf());
            assert_eq!(own_command_of(&program, path, current), expected);
        };
        check(&[&bin], Path::new("/"), "blkkin");
        check(&[Path::new("/none"), &bin, &other], Path::new("/"), "blkkin");
        // Another executable is the first match.
        check(&[&other, &bin], &folder, "target/release/blkkin");
        check(&[], &folder, "target/release/blkkin");
        check(&[], &built, "./blkkin");
        check(&[], Path::new("/none"), &program.display().to_string());
    }

    #[test]
    fn long_lines_are_wrapped_at_blanks() {
        let check = |text: &str, columns, expected: &str| {
            assert_eq!(wrap(text, columns, "  "), expected);
        };
        check("one two three", 7, "one two\n  three");
        check("one two three", 13, "one two three");
        check("one  two", 3, "one\n  two");
        check("a-very-long-word b", 4, "a-very-long-word\n  b");
        check("", 4, "");
    }

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        let check = |path: &str, expected: &str| {
            assert_eq!(shell_word(Path::new(path)), expected);
        };
        check("/tmp/blkkin-demo-1", "/tmp/blkkin-demo-1");
        check("my traces", "'my traces'");
        check("it's", "'it'\\''s'");
        check("", "''");
        check("-rf", "'-rf'");
    }

    #[test]
    fn terminals_get_no_c1_controls() {
        fn check(bytes: &[u8], expected: &[u8]) {
            for (is_terminal, expected) in [(true, expected), (false, bytes)] {
                let mut shown = EscapedOutput { out: Vec::new(), is_terminal };
                shown.write_all(bytes).expect("to write to memory");
                assert_eq!(shown.out, expected, "{is_terminal} {bytes:?}");
            }
        }
        check(b"plain \x1b[1mbold\x1b[0m\n", b"plain \x1b[1mbold\x1b[0m\n");
        check("é – 大 🦀".as_bytes(), "é – 大 🦀".as_bytes());
        check(
            "a\u{9b}31mb\u{80}\u{9f}\u{a0}".as_bytes(),
            "a\\u009b31mb\\u0080\\u009f\u{a0}".as_bytes(),
        );
        check(b"a\x9bb\xc2", b"a\\x9bb\xc2");
        check("–\u{85}".as_bytes(), "–\\u0085".as_bytes());
    }

    #[test]
    fn messages_have_no_controls() {
        assert_eq!(message("two\nlines, é"), "two\nlines, é");
        assert_eq!(message("a\u{1b}[2Jb\u{9b}c\r"), "a\\u{1b}[2Jb\\u{9b}c\\r");
    }
}
