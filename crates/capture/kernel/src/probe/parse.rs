//! Parser of the text of a probe.

use super::types::{KernelHook, Probe, ProbeError, ProcessMoment, TimerRate, UserPlace};
use blkkin_filter::suggest;
use std::str::FromStr;
use std::time::Duration;

/// Maximum length of a probe's text in bytes: that of a path and of a long symbol.
const TEXT_SIZE_MAX: usize = 40 << 10;

/// Words that tell the kind of a probe.
const KINDS: [&str; 12] = [
    "syscall",
    "tracepoint",
    "process",
    "raw",
    "kprobe",
    "kretprobe",
    "fentry",
    "fexit",
    "uprobe",
    "uretprobe",
    "usdt",
    "profile",
];
/// Subsystems of the kernel whose names are similar to those of a kind.
const SUBSYSTEMS: [&str; 5] = ["syscalls", "vsyscall", "ras", "kprobes", "uprobes"];
/// Range of timers' rates, in events a second.
const HERTZ: std::ops::RangeInclusive<u64> = 1..=10_000;
/// Range of timers' periods, in microseconds.
const MICROSECONDS: std::ops::RangeInclusive<u64> = 100..=3_600_000_000;
/// Maximum length in bytes of the text in an error.
const SHOWN_SIZE_MAX: usize = 200;

/// Returns true if the word before a colon is taken for a subsystem.
pub(super) fn is_subsystem(word: &str) -> bool {
    SUBSYSTEMS.contains(&word) || suggest(word, KINDS).is_none()
}

/// Returns true if a program needs no quotes in the text of a probe.
pub(super) fn is_plain_program(program: &str) -> bool {
    let rest = program.strip_prefix("pid:");
    let is_process = rest.is_some_and(|rest| !rest.is_empty() && is_number(rest));
    is_process || !program.is_empty() && !program.contains(':') && !program.starts_with('"')
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

impl FromStr for Probe {
    type Err = ProbeError;

    fn from_str(text: &str) -> Result<Probe, ProbeError> {
        probe(text)
    }
}

fn probe(text: &str) -> Result<Probe, ProbeError> {
    let mut parser = Parser { text, rest: text };
    if text.len() > TEXT_SIZE_MAX {
        return Err(parser.error("a text of at most 40 KiB"));
    }
    if let Some(at) = text.find(char::is_control) {
        parser.rest = &text[at..];
        return Err(parser.error("no control character"));
    }
    let Some((word, rest)) = text.split_once(':') else {
        let expected = "a kind of probe and a colon, such as `syscall:openat`";
        let suggestion = suggest(text, KINDS);
        if suggestion == Some(text) {
            parser.rest = "";
            return Err(parser.error("a colon and the place of the probe"));
        }
        return Err(ProbeError { suggestion, ..parser.error(expected) });
    };
    if !KINDS.contains(&word) {
        if !is_subsystem(word) {
            let expected = format!(
                "a kind of probe; a tracepoint of the subsystem `{word}` is `tracepoint:{word}:NAME`"
            );
            return Err(ProbeError { suggestion: suggest(word, KINDS), ..parser.error(&expected) });
        }
        return parser.tracepoint();
    }
    parser.rest = rest;
    match word {
        "syscall" => {
            Ok(Probe::SystemCall { name: parser.name("the name of a system call, or `*`")? })
        }
        "tracepoint" => parser.tracepoint(),
        "process" => parser.process_moment(),
        "raw" => Ok(Probe::RawTracepoint { name: parser.name("the name of a tracepoint")? }),
        "kprobe" => parser.kernel_function(KernelHook::Kprobe),
        "kretprobe" => parser.kernel_function(KernelHook::Kretprobe),
        "fentry" => parser.kernel_function(KernelHook::Fentry),
        "fexit" => parser.kernel_function(KernelHook::Fexit),
        "uprobe" => parser.user_instruction(),
        "uretprobe" => parser.user_return(),
        "usdt" => parser.usdt(),
        _ => parser.timer(),
    }
}

/// Text, and the part that is not parsed yet.
struct Parser<'t> {
    text: &'t str,
    rest: &'t str,
}

impl<'t> Parser<'t> {
    /// Returns the error that something else is expected at the start of the rest.
    fn error(&self, expected: &str) -> ProbeError {
        let at = self.text.len() - self.rest.len();
        let shown = self.text.floor_char_boundary(SHOWN_SIZE_MAX);
        ProbeError {
            text: self.text[..shown].to_owned(),
            position: self.text[..at].chars().count() + 1,
            expected: expected.to_owned(),
            suggestion: None,
        }
    }

    /// Consumes characters of a name in the kernel, and stars.
    fn word(&mut self, expected: &str) -> Result<String, ProbeError> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.$*".contains(c);
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        if end == 0 {
            return Err(self.error(expected));
        }
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(word.to_owned())
    }

    /// Consumes a name in the kernel, which ends the text.
    fn name(&mut self, expected: &str) -> Result<String, ProbeError> {
        let name = self.word(expected)?;
        self.end("a letter, a digit, `_`, `-`, `.`, `$`, `*`, or the end")?;
        Ok(name)
    }

    fn end(&self, expected: &str) -> Result<(), ProbeError> {
        match self.rest.is_empty() {
            true => Ok(()),
            false => Err(self.error(expected)),
        }
    }

    fn colon(&mut self, expected: &str) -> Result<(), ProbeError> {
        self.rest = self.rest.strip_prefix(':').ok_or_else(|| self.error(expected))?;
        Ok(())
    }

    fn tracepoint(&mut self) -> Result<Probe, ProbeError> {
        let subsystem = self.word("the subsystem of a tracepoint, such as `sched`")?;
        self.colon("`:` and the name of a tracepoint")?;
        let name = self.name("the name of a tracepoint, or `*`")?;
        Ok(Probe::Tracepoint { subsystem, name })
    }

    fn process_moment(&mut self) -> Result<Probe, ProbeError> {
        Ok(Probe::Process(match self.rest {
            "fork" => ProcessMoment::Fork,
            "exec" => ProcessMoment::Exec,
            "exit" => ProcessMoment::Exit,
            _ => return Err(self.error("`fork`, `exec` or `exit`")),
        }))
    }

    fn kernel_function(&mut self, hook: KernelHook) -> Result<Probe, ProbeError> {
        let function = self.word("the name of a function of the kernel")?;
        let mut offset = 0;
        if hook == KernelHook::Kprobe && self.rest.starts_with('+') {
            if function.contains('*') {
                return Err(self.error("the end, because an offset needs one function"));
            }
            self.rest = &self.rest[1..];
            offset = self.number()?;
        }
        self.end(match hook {
            KernelHook::Kprobe => "a letter, a digit, `_`, `.`, `$`, `*`, `+`, or the end",
            _ => "the end; only `kprobe` has an offset",
        })?;
        Ok(Probe::KernelFunction { hook, function, offset })
    }

    /// Consumes a number of bytes, decimal or hexadecimal, which ends the text.
    fn number(&mut self) -> Result<u64, ProbeError> {
        let error = self.error("a number of bytes, such as 8 or 0x8");
        let number = match self.rest.strip_prefix("0x") {
            Some(digits) => hexadecimal(digits),
            None => {
                Some(self.rest).filter(|rest| is_number(rest)).and_then(|rest| rest.parse().ok())
            }
        };
        self.rest = "";
        number.ok_or(error)
    }

    /// Consumes a program and the colon after it.
    fn program(&mut self) -> Result<String, ProbeError> {
        let expected = "the path or the name of a program";
        if self.rest.starts_with('"') {
            return self.quoted_program();
        }
        let digits = self.rest.strip_prefix("pid:");
        let end = match digits {
            Some(digits) => "pid:".len() + digits.find(':').unwrap_or(digits.len()),
            None => self.rest.find(':').unwrap_or(self.rest.len()),
        };
        let (program, rest) = self.rest.split_at(end);
        if program.is_empty() {
            return Err(self.error(expected));
        }
        if digits.is_some() && !is_plain_program(program) {
            self.rest = &self.rest["pid:".len()..];
            return Err(self.error("the number of a process after `pid:`"));
        }
        self.rest = rest;
        self.colon("`:` and a place in the program")?;
        Ok(program.to_owned())
    }

    fn quoted_program(&mut self) -> Result<String, ProbeError> {
        let mut program = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '"' if program.is_empty() => {
                    return Err(self.error("the path or the name of a program in the quotes"));
                }
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    self.colon("`:` and a place in the program")?;
                    return Ok(program);
                }
                '\\' => match characters.next() {
                    Some((_, escaped @ ('"' | '\\'))) => program.push(escaped),
                    _ => {
                        self.rest = &self.rest[at..];
                        return Err(self.error("`\\\"` or `\\\\` for a quote or a backslash"));
                    }
                },
                character => program.push(character),
            }
        }
        self.rest = "";
        Err(self.error("a closing quote"))
    }

    fn user_instruction(&mut self) -> Result<Probe, ProbeError> {
        let program = self.program()?;
        if let Some(digits) = self.rest.strip_prefix("0x") {
            let address = hexadecimal(digits);
            let address = address.ok_or_else(|| self.error("an address of at most 64 bits"))?;
            return Ok(Probe::UserInstruction { program, place: UserPlace::Address(address) });
        }
        let (symbol, offset) = self.symbol()?;
        Ok(Probe::UserInstruction { program, place: UserPlace::Function { symbol, offset } })
    }

    fn user_return(&mut self) -> Result<Probe, ProbeError> {
        let program = self.program()?;
        let start = self.rest;
        let (symbol, offset) = self.symbol()?;
        if offset != 0 || start.starts_with("0x") {
            self.rest = &start[start.len().min(symbol.len())..];
            return Err(self.error("the end; a return has neither offset nor address"));
        }
        Ok(Probe::UserReturn { program, symbol })
    }

    /// Consumes the name of a function and an offset. A plus sign that no letter or digit follows
    /// belongs to the name, as in C++ `operator+(int)`.
    fn symbol(&mut self) -> Result<(String, u64), ProbeError> {
        let text = self.rest;
        if text.is_empty() {
            return Err(self.error("the name of a function"));
        }
        let is_offset =
            |plus: &usize| text[plus + 1..].starts_with(|c: char| c.is_ascii_alphanumeric());
        let Some(plus) = text.rfind('+').filter(is_offset) else {
            self.rest = "";
            return Ok((text.to_owned(), 0));
        };
        let symbol = &text[..plus];
        if symbol.is_empty() {
            return Err(self.error("the name of a function"));
        }
        self.rest = &text[plus + 1..];
        let offset = self.number()?;
        if symbol.contains('*') {
            self.rest = &text[plus..];
            return Err(self.error("the end, because an offset needs one function"));
        }
        Ok((symbol.to_owned(), offset))
    }

    fn usdt(&mut self) -> Result<Probe, ProbeError> {
        let program = self.program()?;
        let end = self.rest.find(':').unwrap_or(self.rest.len());
        let (provider, rest) = self.rest.split_at(end);
        if provider.is_empty() {
            return Err(self.error("the provider of a USDT probe, or `*`"));
        }
        self.rest = rest;
        self.colon("`:` and the name of a USDT probe")?;
        if self.rest.is_empty() || self.rest.starts_with(':') {
            return Err(self.error("the name of a USDT probe, or `*`"));
        }
        let name = self.rest;
        if let Some(at) = name.find(':') {
            self.rest = &name[at..];
            return Err(self.error("the end after the name of a USDT probe"));
        }
        Ok(Probe::Usdt { program, provider: provider.to_owned(), name: name.to_owned() })
    }

    fn timer(&mut self) -> Result<Probe, ProbeError> {
        let expected = "a rate such as `99hz` (1 to 10,000) or a period such as `10ms` \
                        (100us to 3600s)";
        let start = self.rest;
        let error = self.error(expected);
        let end = start.find(|c: char| !c.is_ascii_digit()).unwrap_or(start.len());
        let (digits, unit) = start.split_at(end);
        let number: u64 = digits.parse().map_err(|_| error.clone())?;
        let micros = match unit {
            "" | "hz" => {
                let hertz = u32::try_from(number).ok().filter(|_| HERTZ.contains(&number));
                return hertz.map(|hertz| Probe::Timer(TimerRate::Hertz(hertz))).ok_or(error);
            }
            "us" => Some(number),
            "ms" => number.checked_mul(1_000),
            "s" => number.checked_mul(1_000_000),
            _ => {
                self.rest = unit;
                return Err(self.error("`hz`, `us`, `ms` or `s`"));
            }
        };
        let micros = micros.filter(|micros| MICROSECONDS.contains(micros)).ok_or(error)?;
        Ok(Probe::Timer(TimerRate::Period(Duration::from_micros(micros))))
    }
}

/// Returns a hexadecimal number of at most 64 bits.
fn hexadecimal(digits: &str) -> Option<u64> {
    let is_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| is_digits)
}
