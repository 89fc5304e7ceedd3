//! [`Feature`]: parts of BlkKin that need something of the machine.

/// Feature of BlkKin that needs something of the machine. Features with the names of probes are
/// those kinds of probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Feature {
    /// The command `blkkin io`
    Io,
    /// `blkkin io --preload`, without rights
    Preload,
    /// Probes at system calls, syscall:NAME
    Syscall,
    /// Probes at tracepoints, SUBSYSTEM:EVENT
    Tracepoint,
    /// Probes at starts and ends of processes, process:NAME
    Process,
    /// Probes at raw tracepoints, raw:NAME
    Raw,
    /// Probes at kernel functions by breakpoints, kprobe:FUNCTION
    Kprobe,
    /// Probes at kernel functions with types, fentry:FUNCTION
    Fentry,
    /// Probes at functions of programs, uprobe:PROGRAM:SYMBOL
    Uprobe,
    /// Probes that programs contain, usdt:PROGRAM:PROVIDER:NAME
    Usdt,
    /// Clocks of the processors, profile:HZ
    Profile,
    /// The node's agent, for `blkkin session`, `event`, `status`
    Agent,
}

impl Feature {
    /// All features, in the order of the output.
    pub(super) const ALL: [Feature; 12] = [
        Feature::Io,
        Feature::Preload,
        Feature::Syscall,
        Feature::Tracepoint,
        Feature::Process,
        Feature::Raw,
        Feature::Kprobe,
        Feature::Fentry,
        Feature::Uprobe,
        Feature::Usdt,
        Feature::Profile,
        Feature::Agent,
    ];

    /// Returns the word on the command line.
    pub(super) fn word(self) -> &'static str {
        match self {
            Feature::Io => "io",
            Feature::Preload => "preload",
            Feature::Syscall => "syscall",
            Feature::Tracepoint => "tracepoint",
            Feature::Process => "process",
            Feature::Raw => "raw",
            Feature::Kprobe => "kprobe",
            Feature::Fentry => "fentry",
            Feature::Uprobe => "uprobe",
            Feature::Usdt => "usdt",
            Feature::Profile => "profile",
            Feature::Agent => "agent",
        }
    }
}
