//! [`ProbeKind`]: kinds of probes, and the words that their names begin with.

/// Kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    /// System call of a process.
    SystemCall,
    /// Tracepoint, with the record that its format describes.
    Tracepoint,
    /// Start or end of a process.
    Process,
    /// Work of the kernel for a request: a wait of a thread, or a disk request.
    Request,
    /// State of the machine when a recording begins.
    State,
    /// Raw tracepoint, with arguments of the kernel's types.
    RawTracepoint,
    /// Function of the kernel, by a breakpoint.
    KernelFunction,
    /// Function of the kernel, with the types of its parameters.
    TypedFunction,
    /// Function of a program or library.
    UserFunction,
    /// Probe that a program's authors have put in (USDT).
    Usdt,
    /// Clock of each processor.
    Profile,
}

impl ProbeKind {
    /// All kinds, in the order of lists.
    pub const ALL: [ProbeKind; 11] = [
        ProbeKind::SystemCall,
        ProbeKind::Tracepoint,
        ProbeKind::Process,
        ProbeKind::Request,
        ProbeKind::State,
        ProbeKind::RawTracepoint,
        ProbeKind::KernelFunction,
        ProbeKind::TypedFunction,
        ProbeKind::UserFunction,
        ProbeKind::Usdt,
        ProbeKind::Profile,
    ];

    /// Returns the word for the kind. The names of all kinds but tracepoints begin with it.
    pub fn word(self) -> &'static str {
        match self {
            ProbeKind::SystemCall => "syscall",
            ProbeKind::Tracepoint => "tracepoint",
            ProbeKind::Process => "process",
            ProbeKind::Request => "request",
            ProbeKind::State => "state",
            ProbeKind::RawTracepoint => "raw",
            ProbeKind::KernelFunction => "kprobe",
            ProbeKind::TypedFunction => "fentry",
            ProbeKind::UserFunction => "uprobe",
            ProbeKind::Usdt => "usdt",
            ProbeKind::Profile => "profile",
        }
    }

    /// Returns the kind whose names begin with a word.
    pub fn of_word(word: &str) -> Option<ProbeKind> {
        let named = ProbeKind::ALL.into_iter().filter(|kind| *kind != ProbeKind::Tracepoint);
        named.into_iter().find(|kind| kind.word() == word)
    }

    /// Returns a name of this kind, or the form of such names.
    pub fn example(self) -> &'static str {
        match self {
            ProbeKind::SystemCall => "syscall:openat",
            ProbeKind::Tracepoint => "block:block_rq_issue",
            ProbeKind::Process => "process:exec",
            ProbeKind::Request => "request:wait",
            ProbeKind::State => "state:process",
            ProbeKind::RawTracepoint => "raw:sched_switch",
            ProbeKind::KernelFunction => "kprobe:vfs_unlink",
            ProbeKind::TypedFunction => "fentry:vfs_unlink",
            ProbeKind::UserFunction => "uprobe:PROGRAM:SYMBOL",
            ProbeKind::Usdt => "usdt:PROGRAM:PROVIDER:NAME",
            ProbeKind::Profile => "profile:HZ",
        }
    }

    /// Returns true if the pattern begins with this kind's word and a colon.
    pub(super) fn is_named_by(self, pattern: &str) -> bool {
        pattern.split_once(':').is_some_and(|(word, _)| word == self.word())
    }

    /// Returns false if the pattern matches no name of this kind, whatever names there are.
    pub(super) fn may_match(self, pattern: &str) -> bool {
        let literal = pattern.split('*').next().unwrap_or_default();
        let is_exact = literal.len() == pattern.len();
        match (self, literal.split_once(':')) {
            (ProbeKind::Tracepoint, Some((subsystem, _))) => {
                ProbeKind::of_word(subsystem).is_none()
            }
            (ProbeKind::Tracepoint, None) => !is_exact,
            (_, Some((word, _))) => word == self.word(),
            (_, None) => !is_exact && self.word().starts_with(literal),
        }
    }
}
