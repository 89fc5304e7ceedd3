//! Cases of the bench: system calls that the load program makes, and their number. Start at
//! [`cases`].

/// Number of calls of each thread in a measurement.
pub(super) const COUNT: u64 = 2_000_000;
pub(super) const COUNT_QUICK: u64 = 200_000;

/// Minimum number of calls for a recorder that gets only a fraction of them.
const COUNT_MIN: u64 = 2_000;

/// An operation of the load program.
#[derive(Debug)]
pub(super) struct Call {
    /// Argument of `benches/probes/calls.c`.
    pub(super) name: &'static str,
    /// Description for the table.
    pub(super) title: &'static str,
    pub(super) subject: Subject,
    /// System calls of one operation that are recorded, each made once.
    pub(super) system_calls: &'static [SystemCall],
}

/// Events of an operation that recorders record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    SystemCalls,
    /// Call of a function, recorded by a uprobe.
    Function,
    /// USDT probe.
    Usdt,
    /// Waits of threads for a request; the load has none, so nothing is recorded.
    Waits,
}

/// A system call with the arguments that peers record, named as in the kernel's event format.
#[derive(Debug)]
pub(super) struct SystemCall {
    pub(super) name: &'static str,
    pub(super) numbers: &'static [&'static str],
    /// Argument that points to a string.
    pub(super) text: Option<&'static str>,
}

pub(super) const READ: Call = Call {
    name: "read",
    title: "read, 1 byte",
    subject: Subject::SystemCalls,
    system_calls: &[SystemCall { name: "read", numbers: &["fd", "count"], text: None }],
};

const PWRITE: Call = Call {
    name: "pwrite",
    title: "pwrite, 4 KiB in memory",
    subject: Subject::SystemCalls,
    system_calls: &[SystemCall { name: "pwrite64", numbers: &["fd", "count", "pos"], text: None }],
};

const LSEEK: Call = Call {
    name: "lseek",
    title: "lseek",
    subject: Subject::SystemCalls,
    system_calls: &[SystemCall { name: "lseek", numbers: &["fd", "offset", "whence"], text: None }],
};

const OPEN: Call = Call {
    name: "open",
    title: "open and close",
    subject: Subject::SystemCalls,
    system_calls: &[
        SystemCall { name: "openat", numbers: &["dfd", "flags", "mode"], text: Some("filename") },
        SystemCall { name: "close", numbers: &["fd"], text: None },
    ],
};

pub(super) const HIT: Call = Call {
    name: "hit",
    title: "function with a uprobe",
    subject: Subject::Function,
    system_calls: &[],
};

pub(super) const USDT: Call =
    Call { name: "usdt", title: "USDT probe", subject: Subject::Usdt, system_calls: &[] };

pub(super) const SWITCH: Call = Call {
    name: "switch",
    title: "wake-up and answer, about 4 events of the scheduler",
    subject: Subject::Waits,
    system_calls: &[],
};

/// Number of the scheduler's events in one [`SWITCH`]: two threads are woken, and run.
pub(super) const SWITCH_EVENTS: f64 = 4.0;

/// Divisor of the number of operations that take microseconds.
const SLOW: u64 = 5;

/// One kind of call in a number of threads.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) call: &'static Call,
    pub(super) threads: u64,
    /// Number of operations of each thread.
    pub(super) count: u64,
}

/// Returns all cases, with `count` operations of each thread.
pub(super) fn cases(count: u64) -> Vec<Case> {
    let case = |call, threads| Case { call, threads, count };
    let mut cases =
        vec![case(&READ, 1), case(&READ, 2), case(&PWRITE, 1), case(&LSEEK, 1), case(&OPEN, 1)];
    cases.extend([&HIT, &USDT, &SWITCH].map(|call| case(call, 1).fraction(SLOW)));
    cases
}

impl Case {
    /// Returns the number of recordable system calls, or other events, in one measurement.
    pub(super) fn attempted(&self) -> u64 {
        let events = match self.call.subject {
            Subject::SystemCalls => self.call.system_calls.len() as u64,
            Subject::Function | Subject::Usdt => 1,
            Subject::Waits => 0,
        };
        self.count * self.threads * events
    }

    /// Returns the case with a fraction of its operations, for slow recorders.
    pub(super) fn fraction(&self, divisor: u64) -> Case {
        let count = (self.count / divisor).max(COUNT_MIN.min(self.count));
        Case { count, ..self.clone() }
    }

    pub(super) fn title(&self) -> String {
        match self.threads {
            1 => self.call.title.to_owned(),
            threads => format!("{}, {threads} threads", self.call.title),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_recorders_get_fewer_operations() {
        let case = Case { call: &OPEN, threads: 2, count: 200_000 };
        assert_eq!(case.attempted(), 800_000);
        assert_eq!(case.fraction(1).count, 200_000);
        assert_eq!(case.fraction(20).count, 10_000);
        assert_eq!(case.fraction(1_000).count, 2_000);
        assert_eq!(Case { count: 100, ..case }.fraction(1_000).count, 100);
    }
}
