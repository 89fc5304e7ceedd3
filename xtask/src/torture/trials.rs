//! The list of trials: tests of a file, their kind of build, and their amounts of work.

/// Tests that together check one promise of BlkKin.
pub(super) struct Trial {
    pub(super) promise: &'static str,
    pub(super) description: &'static str,
    pub(super) package: &'static str,
    /// Name of the file of tests; empty for unit tests.
    pub(super) file: &'static str,
    /// Names of the tests, or parts of the names; empty for all tests of the file.
    pub(super) tests: &'static [&'static str],
    pub(super) amounts: &'static [Amount],
    pub(super) build: Build,
    /// Set if the trial runs in a guest.
    pub(super) in_guest: bool,
}

/// Kind of build that a trial's tests need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Build {
    Ordinary,
    /// Build with loom's atomics and threads.
    Models,
    /// Build with ThreadSanitizer, which reports data races. ThreadSanitizer cannot observe
    /// assembly, so rings are written with locks. It does not observe memory accesses inside the
    /// standard library either.
    Threads,
    /// Build with AddressSanitizer, which reports accesses to memory outside of an allocation, or
    /// after its release.
    Addresses,
}

/// Amount of work of a test, set by an environment variable.
pub(super) struct Amount {
    pub(super) variable: &'static str,
    pub(super) per_minute: u64,
    pub(super) maximum: u64,
}

impl Amount {
    /// Returns the variable and its value for a run of `minutes`.
    pub(super) fn for_minutes(&self, minutes: u64) -> (&'static str, u64) {
        (self.variable, self.maximum.min(self.per_minute.saturating_mul(minutes.max(1))))
    }
}

const fn amount(variable: &'static str, a_minute: u64, most: u64) -> Amount {
    Amount { variable, per_minute: a_minute, maximum: most }
}

/// Creates an amount that does not depend on the duration of the run.
const fn fixed(variable: &'static str, most: u64) -> Amount {
    Amount { variable, per_minute: most, maximum: most }
}

const fn end_to_end(
    promise: &'static str,
    what: &'static str,
    tests: &'static [&'static str],
    amounts: &'static [Amount],
) -> Trial {
    part(promise, what, of("blkkin", "promises"), tests, amounts)
}

/// Creates a trial of the server's stored spans.
const fn stored(
    promise: &'static str,
    what: &'static str,
    tests: &'static [&'static str],
    amounts: &'static [Amount],
) -> Trial {
    part(promise, what, of("blkkin-server", "stored"), tests, amounts)
}

/// File of tests in a package.
struct TestFile {
    package: &'static str,
    file: &'static str,
}

const fn of(package: &'static str, file: &'static str) -> TestFile {
    TestFile { package, file }
}

const fn part(
    promise: &'static str,
    what: &'static str,
    test_file: TestFile,
    tests: &'static [&'static str],
    amounts: &'static [Amount],
) -> Trial {
    let TestFile { package, file } = test_file;
    Trial {
        promise,
        description: what,
        package,
        file,
        tests,
        amounts,
        build: Build::Ordinary,
        in_guest: false,
    }
}

/// Creates a trial of the tests of a file, in another kind of build.
const fn built(
    build: Build,
    what: &'static str,
    package: &'static str,
    file: &'static str,
    tests: &'static [&'static str],
) -> Trial {
    Trial { build, ..part("L8", what, of(package, file), tests, &[]) }
}

/// Seconds for each of several hostile tests. Their sum must be below the timeout of a trial.
const HOSTILE: Amount = amount("TEST_HOSTILE_SECONDS", 2, 200);

pub(super) const TRIALS: &[Trial] = &[
    end_to_end(
        "L1",
        "a program does not notice how its agent is, nor that the disk is full",
        &["l1_"],
        &[
            fixed("TEST_EVENTS", 5_000_000),
            fixed("TEST_TIMED", 200_000),
            amount("TEST_FULL", 1, 20),
        ],
    ),
    end_to_end(
        "D10",
        "what was lost is told by each command that ends or shows a recording",
        &["d10_"],
        &[],
    ),
    end_to_end("L2", "agents are started anew", &["l2_"], &[amount("TEST_RESTARTS", 10, 1000)]),
    part(
        "L2",
        "agents are killed at any moment",
        of("blkkin", "recording"),
        &["killed_agents"],
        &[amount("TEST_KILLS", 20, 1000)],
    ),
    end_to_end("L3", "programs are killed", &["l3_"], &[amount("TEST_DEATHS", 20, 1000)]),
    part("L3", "writers of one ring are killed", of("blkkin-ring", "kill"), &[], &[]),
    part(
        "L4",
        "programs fork, execute, become daemons, load plugins",
        of("blkkin-capi", "programs"),
        &["life"],
        &[],
    ),
    part(
        "L4",
        "forks, signal handlers, confined threads",
        of("blkkin-trace", "daemon"),
        &["fork", "signal", "confined", "threads", "child"],
        &[],
    ),
    end_to_end(
        "L5",
        "many threads and processes",
        &["l5_"],
        &[fixed("TEST_THREADS", 10_000), fixed("TEST_PROCESSES", 1000)],
    ),
    end_to_end(
        "L6",
        "programs are moved between processors",
        &["l6_programs", "l6_a_processor"],
        &[amount("TEST_MOVES", 500, 10_000)],
    ),
    Trial {
        in_guest: true,
        ..end_to_end(
            "L6",
            "processors are turned off and on, in a guest",
            &["l6_processors"],
            &[amount("TEST_HOTPLUG", 20, 1000)],
        )
    },
    end_to_end("L7", "the last records are in memory alone", &["l7_"], &[]),
    end_to_end(
        "L10",
        "programs older than the agent, short ones, and children",
        &["l10_"],
        &[
            amount("TEST_ARRIVALS", 2, 20),
            amount("TEST_SHORT", 20, 500),
            amount("TEST_CHILDREN", 100, 2000),
        ],
    ),
    part("L8", "threads and signals beyond number", of("blkkin-ring", "storm"), &[], &[]),
    part("L8", "rings as their model has them", of("blkkin-ring", "model"), &[], &[]),
    built(Build::Models, "all orders of a few events", "blkkin-ring", "", &["models"]),
    built(Build::Threads, "data races: rings with locks, slots", "blkkin-ring", "", &[]),
    built(Build::Threads, "data races: types, rules, ids", "blkkin-trace", "", &[]),
    built(Build::Threads, "data races: events", "blkkin-trace", "events", &[]),
    built(Build::Threads, "data races: spans", "blkkin-trace", "spans", &[]),
    built(Build::Addresses, "memory: rings", "blkkin-ring", "", &[]),
    built(Build::Addresses, "memory: slots", "blkkin-ring", "slot", &[]),
    built(Build::Addresses, "memory: scribbled rings", "blkkin-ring", "hostile", &[]),
    built(Build::Addresses, "memory: types, rules, ids", "blkkin-trace", "", &[]),
    built(Build::Addresses, "memory: C's pointers", "blkkin-capi", "", &[]),
    end_to_end(
        "L11",
        "many programs of one event each take little memory",
        &["l11_"],
        &[fixed("TEST_SMALL", 1000)],
    ),
    part("L11", "a ring that is read in time is reused", of("blkkin-ring", "lazy"), &["l11_"], &[]),
    part("L11", "rings that hold much", of("blkkin-agent", "successors"), &["l11_"], &[]),
    part(
        "L9",
        "signal handlers record on small stacks",
        of("blkkin-trace", "daemon"),
        &["l9_"],
        &[],
    ),
    stored(
        "D1",
        "servers are killed in each system call",
        &["d1_"],
        &[fixed("TEST_POINTS", 4000), amount("TEST_BATCHES", 22, 120)],
    ),
    stored("D2", "the power of servers' disks is cut", &["d2_"], &[fixed("TEST_IMAGES", 500)]),
    stored("D3", "files of a store are damaged", &["d3_"], &[amount("TEST_DAMAGES", 60, 2000)]),
    stored(
        "D4",
        "servers on disks and file systems that are full",
        &["d4_"],
        &[amount("TEST_FAULTS", 60, 2000), fixed("TEST_SIZES", 11)],
    ),
    stored(
        "D5",
        "system calls of servers fail",
        &["d5_"],
        &[amount("TEST_FAULTS", 60, 2000), fixed("TEST_FAILURES", 30)],
    ),
    part(
        "D1",
        "daemons of Scribe's are killed in each system call",
        of("blkkin-scribed", "stored"),
        &["d1_"],
        &[fixed("TEST_POINTS", 4000), amount("TEST_BATCHES", 26, 100)],
    ),
    part(
        "D1",
        "exporters are killed in each system call",
        of("blkkin-deliver", "deliver"),
        &["d1_"],
        &[fixed("TEST_POINTS", 4000), amount("TEST_BATCHES", 26, 100)],
    ),
    part(
        "D4",
        "daemons of Scribe's on disks and file systems that are full",
        of("blkkin-scribed", "stored"),
        &["d4_"],
        &[amount("TEST_FAULTS", 20, 200), amount("TEST_SIZES", 1, 8)],
    ),
    part(
        "D4",
        "exporters on disks and file systems that are full",
        of("blkkin-deliver", "deliver"),
        &["d4_"],
        &[amount("TEST_FAULTS", 20, 200), amount("TEST_SIZES", 1, 20)],
    ),
    part(
        "D5",
        "system calls of Scribe's daemons fail",
        of("blkkin-scribed", "stored"),
        &["d5_"],
        &[amount("TEST_FAULTS", 20, 200), fixed("TEST_FAILURES", 24)],
    ),
    part(
        "D5",
        "system calls of exporters fail",
        of("blkkin-deliver", "deliver"),
        &["d5_"],
        &[amount("TEST_FAULTS", 20, 200), fixed("TEST_FAILURES", 24)],
    ),
    end_to_end(
        "D6",
        "more than a server may keep, and what nobody takes, with little memory",
        &["d6_"],
        &[amount("TEST_SECONDS", 8, 3600)],
    ),
    part(
        "D6",
        "exporters of which nobody takes anything",
        of("blkkin-deliver", "dead_sink"),
        &[],
        &[amount("TEST_TIMES", 2, 1000)],
    ),
    part("D7", "batches that nobody wants", of("blkkin-deliver", "deliver"), &["d7_"], &[]),
    part("D1", "writers of a journal are killed", of("blkkin-journal", "kill"), &[], &[]),
    part(
        "D2",
        "power is cut while journals are written",
        of("blkkin-journal", ""),
        &["power", "journal_and_model"],
        &[amount("TEST_SEEDS", 3000, 300_000)],
    ),
    part(
        "D2",
        "power is cut while a store is written",
        of("blkkin-lake", "faults"),
        &["outlive_the_power"],
        &[amount("TEST_POINTS", 100, 5000)],
    ),
    part(
        "D3",
        "damaged files of a store are put aside",
        of("blkkin-lake", "faults"),
        &["damage"],
        &[],
    ),
    part("D3", "bytes of a journal are flipped", of("blkkin-journal", ""), &["damage"], &[]),
    part("D9", "files of a store are missing or foreign", of("blkkin-lake", "absence"), &[], &[]),
    part("D9", "commands on damaged stores", of("blkkin", "store"), &[], &[]),
    part("D4", "journals on full file systems", of("blkkin-journal", "full"), &[], &[]),
    part("D5", "each operation of a journal fails", of("blkkin-journal", ""), &["faults"], &[]),
    part(
        "H1",
        "rings, catalogs and sockets are scribbled on",
        of("blkkin-agent", "hostile"),
        &[],
        &[HOSTILE, amount("TEST_SHARE_SECONDS", 1, 20)],
    ),
    part("H1", "a reader beside a scribbler", of("blkkin-ring", "hostile"), &[], &[]),
    part("H2", "forged numbers", of("blkkin-agent", "hostile"), &["forged"], &[]),
    end_to_end("H2", "other users", &["h2_other"], &[]),
    end_to_end(
        "H2",
        "processes that have the number of one that is gone",
        &["h2_who"],
        &[amount("TEST_NUMBERS", 20, 1000)],
    ),
    end_to_end(
        "H3",
        "connections without number",
        &["h3_more_connections"],
        &[fixed("TEST_CONNECTIONS", 6000)],
    ),
    end_to_end("H3", "event types without number", &["h3_more_types"], &[]),
    part(
        "H3",
        "sessions, channels and types without number",
        of("blkkin-agent", "hostile"),
        &["quotas"],
        &[],
    ),
    part(
        "N8",
        "what is handed over cannot be closed, or does not answer",
        of("blkkin-agent", "waiting"),
        &["n8_"],
        &[],
    ),
    part(
        "N9",
        "snapshots, rules, types and lists without end, in the agent",
        of("blkkin-agent", "waiting"),
        &["n9_"],
        &[],
    ),
    part("N9", "slow questions to a server", of("blkkin-server", "slow"), &[], &[]),
    part("N7", "what spans share, in memory", of("blkkin-lake", "expanded"), &[], &[]),
    part("N9", "snapshots of wild rings", of("blkkin-agent", ""), &["n9_"], &[]),
    end_to_end(
        "K2",
        "namespaces, frozen groups, idleness",
        &["k2_"],
        &[amount("TEST_IDLE_SECONDS", 5, 60)],
    ),
    end_to_end("C1", "servers, agents and programs in time namespaces", &["c1_"], &[]),
    part(
        "C1",
        "a store's clock jumps, times at the ends of time",
        of("blkkin-lake", "clock"),
        &[],
        &[],
    ),
    part("C1", "the agent's clocks begin anew and jump", of("blkkin-agent", ""), &["clock"], &[]),
    part(
        "C1",
        "clocks jump between two exporters",
        of("blkkin-deliver", "deliver"),
        &["clock::"],
        &[],
    ),
    part("D8", "spans whose ends may be lost", of("blkkin-spans", ""), &["losses::"], &[]),
    part("D8", "drops have their times", of("blkkin-server", "server"), &["drops_are_told"], &[]),
    part(
        "D8",
        "spans whose ends may be lost, in traces",
        of("blkkin", "spans"),
        &["ends_that"],
        &[],
    ),
    end_to_end("P1", "what the agent may do", &["p1_"], &[]),
    part("P1", "what is left to who finds a way in", of("blkkin-agent", ""), &["confine"], &[]),
];

#[cfg(test)]
mod tests {
    use super::TRIALS;
    use crate::test_programs::testing::{has_test_file, package_folders};

    /// Every trial names an existing file of tests, as a trial of a missing file would test
    /// nothing.
    #[test]
    fn trials_have_files() {
        let packages = package_folders();
        for trial in TRIALS {
            let folder = packages.get(trial.package).expect(trial.package);
            let found = match trial.file {
                "" => folder.join("src/lib.rs").is_file(),
                file => has_test_file(folder, file),
            };
            assert!(found, "{} {}", trial.package, trial.file);
        }
    }
}
