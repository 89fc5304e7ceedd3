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

const fn amount(variable: &'static str, per_minute: u64, maximum: u64) -> Amount {
    Amount { variable, per_minute, maximum }
}

/// Creates an amount that does not depend on the duration of the run.
const fn fixed(variable: &'static str, maximum: u64) -> Amount {
    amount(variable, maximum, maximum)
}

/// Creates a trial of all tests of a file in a package.
const fn trial(
    promise: &'static str,
    description: &'static str,
    package: &'static str,
    file: &'static str,
) -> Trial {
    Trial {
        promise,
        description,
        package,
        file,
        tests: &[],
        amounts: &[],
        build: Build::Ordinary,
        in_guest: false,
    }
}

/// Creates a trial of whole programs.
const fn end_to_end(promise: &'static str, description: &'static str) -> Trial {
    trial(promise, description, "blkkin", "promises")
}

/// Creates a trial of the server's stored spans.
const fn stored(promise: &'static str, description: &'static str) -> Trial {
    trial(promise, description, "blkkin-server", "stored")
}

impl Trial {
    /// Limits the trial to tests with these names, or parts of names.
    const fn tests(self, tests: &'static [&'static str]) -> Trial {
        Trial { tests, ..self }
    }

    const fn amounts(self, amounts: &'static [Amount]) -> Trial {
        Trial { amounts, ..self }
    }

    const fn build(self, build: Build) -> Trial {
        Trial { build, ..self }
    }

    /// Moves the trial into a guest.
    const fn in_guest(self) -> Trial {
        Trial { in_guest: true, ..self }
    }
}

/// Seconds for each of several hostile tests. Their sum must be below the timeout of a trial.
const HOSTILE: Amount = amount("TEST_HOSTILE_SECONDS", 2, 200);

pub(super) const TRIALS: &[Trial] = &[
    end_to_end(
        "L1",
        "programs are not affected by dead, stopped or slow agents, or by a full disk",
    )
    .tests(&["l1_"])
    .amounts(&[
        fixed("TEST_EVENTS", 5_000_000),
        fixed("TEST_TIMED", 200_000),
        amount("TEST_FULL", 1, 20),
    ]),
    end_to_end("D10", "each command that ends or shows a recording reports its losses")
        .tests(&["d10_"]),
    end_to_end("L2", "agents restart").tests(&["l2_"]).amounts(&[amount(
        "TEST_RESTARTS",
        10,
        1000,
    )]),
    trial("L2", "agents are killed at any moment", "blkkin", "recording")
        .tests(&["killed_agents"])
        .amounts(&[amount("TEST_KILLS", 20, 1000)]),
    end_to_end("L3", "programs are killed").tests(&["l3_"]).amounts(&[amount(
        "TEST_DEATHS",
        20,
        1000,
    )]),
    trial("L3", "writers of one ring are killed", "blkkin-ring", "kill"),
    trial(
        "L4",
        "programs fork, execute others, become daemons, load plugins",
        "blkkin-capi",
        "programs",
    )
    .tests(&["life"]),
    trial("L4", "forks, signal handlers, confined threads", "blkkin-trace", "daemon")
        .tests(&["fork", "signal", "confined", "threads", "child"]),
    end_to_end("L5", "many threads and processes")
        .tests(&["l5_"])
        .amounts(&[fixed("TEST_THREADS", 10_000), fixed("TEST_PROCESSES", 1000)]),
    end_to_end("L6", "programs are moved between processors")
        .tests(&["l6_programs", "l6_a_processor"])
        .amounts(&[amount("TEST_MOVES", 500, 10_000)]),
    end_to_end("L6", "processors are turned off and on, in a guest")
        .tests(&["l6_processors"])
        .amounts(&[amount("TEST_HOTPLUG", 20, 1000)])
        .in_guest(),
    end_to_end("L7", "events that are only in memory survive").tests(&["l7_"]),
    end_to_end("L10", "programs older than the agent, short programs, and children are recorded")
        .tests(&["l10_"])
        .amounts(&[
            amount("TEST_ARRIVALS", 2, 20),
            amount("TEST_SHORT", 20, 500),
            amount("TEST_CHILDREN", 100, 2000),
        ]),
    trial("L8", "many threads and signals write to one ring", "blkkin-ring", "storm"),
    trial("L8", "rings behave as their model", "blkkin-ring", "model"),
    trial("L8", "all interleavings of a few events", "blkkin-ring", "")
        .tests(&["models"])
        .build(Build::Models),
    trial("L8", "data races: rings with locks, slots", "blkkin-ring", "").build(Build::Threads),
    trial("L8", "data races: types, rules, ids", "blkkin-trace", "").build(Build::Threads),
    trial("L8", "data races: events", "blkkin-trace", "events").build(Build::Threads),
    trial("L8", "data races: spans", "blkkin-trace", "spans").build(Build::Threads),
    trial("L8", "memory: rings", "blkkin-ring", "").build(Build::Addresses),
    trial("L8", "memory: slots", "blkkin-ring", "slot").build(Build::Addresses),
    trial("L8", "memory: rings with random contents", "blkkin-ring", "hostile")
        .build(Build::Addresses),
    trial("L8", "memory: types, rules, ids", "blkkin-trace", "").build(Build::Addresses),
    trial("L8", "memory: pointers from C", "blkkin-capi", "").build(Build::Addresses),
    end_to_end("L11", "many programs of one event each take little memory")
        .tests(&["l11_"])
        .amounts(&[fixed("TEST_SMALL", 1000)]),
    trial("L11", "a ring reuses its pages while its reader keeps up", "blkkin-ring", "lazy")
        .tests(&["l11_"]),
    trial("L11", "agents restart while rings hold many events", "blkkin-agent", "successors")
        .tests(&["l11_"]),
    trial("L9", "signal handlers record on small stacks", "blkkin-trace", "daemon").tests(&["l9_"]),
    stored("D1", "servers are killed in each system call")
        .tests(&["d1_"])
        .amounts(&[fixed("TEST_POINTS", 4000), amount("TEST_BATCHES", 22, 120)]),
    stored("D2", "power is cut while servers write")
        .tests(&["d2_"])
        .amounts(&[fixed("TEST_IMAGES", 500)]),
    stored("D3", "files of a store are damaged").tests(&["d3_"]).amounts(&[amount(
        "TEST_DAMAGES",
        60,
        2000,
    )]),
    stored("D4", "disks and file systems of servers are full")
        .tests(&["d4_"])
        .amounts(&[amount("TEST_FAULTS", 60, 2000), fixed("TEST_SIZES", 11)]),
    stored("D5", "system calls of servers fail")
        .tests(&["d5_"])
        .amounts(&[amount("TEST_FAULTS", 60, 2000), fixed("TEST_FAILURES", 30)]),
    trial("D1", "Scribe daemons are killed in each system call", "blkkin-scribed", "stored")
        .tests(&["d1_"])
        .amounts(&[fixed("TEST_POINTS", 4000), amount("TEST_BATCHES", 26, 100)]),
    trial("D1", "exporters are killed in each system call", "blkkin-deliver", "deliver")
        .tests(&["d1_"])
        .amounts(&[fixed("TEST_POINTS", 4000), amount("TEST_BATCHES", 26, 100)]),
    trial("D4", "disks and file systems of Scribe daemons are full", "blkkin-scribed", "stored")
        .tests(&["d4_"])
        .amounts(&[amount("TEST_FAULTS", 20, 200), amount("TEST_SIZES", 1, 8)]),
    trial("D4", "disks and file systems of exporters are full", "blkkin-deliver", "deliver")
        .tests(&["d4_"])
        .amounts(&[amount("TEST_FAULTS", 20, 200), amount("TEST_SIZES", 1, 20)]),
    trial("D5", "system calls of Scribe daemons fail", "blkkin-scribed", "stored")
        .tests(&["d5_"])
        .amounts(&[amount("TEST_FAULTS", 20, 200), fixed("TEST_FAILURES", 24)]),
    trial("D5", "system calls of exporters fail", "blkkin-deliver", "deliver")
        .tests(&["d5_"])
        .amounts(&[amount("TEST_FAULTS", 20, 200), fixed("TEST_FAILURES", 24)]),
    end_to_end(
        "D6",
        "stores over their size limit, and clients that read no answer, take bounded memory",
    )
    .tests(&["d6_"])
    .amounts(&[amount("TEST_SECONDS", 8, 3600)]),
    trial("D6", "exporters whose destination is unreachable", "blkkin-deliver", "dead_sink")
        .amounts(&[amount("TEST_TIMES", 2, 1000)]),
    trial("D7", "destinations refuse batches", "blkkin-deliver", "deliver").tests(&["d7_"]),
    trial("D1", "writers of a journal are killed", "blkkin-journal", "kill"),
    trial("D2", "power is cut while journals are written", "blkkin-journal", "")
        .tests(&["power", "journal_and_model"])
        .amounts(&[amount("TEST_SEEDS", 3000, 300_000)]),
    trial("D2", "power is cut while a store is written", "blkkin-lake", "faults")
        .tests(&["outlive_the_power"])
        .amounts(&[amount("TEST_POINTS", 100, 5000)]),
    trial("D3", "damaged files of a store are quarantined", "blkkin-lake", "faults")
        .tests(&["damage"]),
    trial("D3", "bytes of a journal are flipped", "blkkin-journal", "").tests(&["damage"]),
    trial("D9", "files of a store are missing or foreign", "blkkin-lake", "absence"),
    trial("D9", "commands report damaged stores", "blkkin", "store"),
    trial("D4", "file systems of journals are full", "blkkin-journal", "full"),
    trial("D5", "each operation of a journal fails", "blkkin-journal", "").tests(&["faults"]),
    trial(
        "H1",
        "programs write random bytes to rings, catalogs and sockets",
        "blkkin-agent",
        "hostile",
    )
    .amounts(&[HOSTILE, amount("TEST_SHARE_SECONDS", 1, 20)]),
    trial("H1", "a ring is read while its contents change at random", "blkkin-ring", "hostile"),
    trial("H2", "programs send forged numbers", "blkkin-agent", "hostile").tests(&["forged"]),
    end_to_end("H2", "other users' sessions and programs are out of reach").tests(&["h2_other"]),
    end_to_end("H2", "process ids are reused").tests(&["h2_who"]).amounts(&[amount(
        "TEST_NUMBERS",
        20,
        1000,
    )]),
    end_to_end("H3", "the number of connections is limited")
        .tests(&["h3_more_connections"])
        .amounts(&[fixed("TEST_CONNECTIONS", 6000)]),
    end_to_end("H3", "the number of event types is limited").tests(&["h3_more_types"]),
    trial(
        "H3",
        "the numbers of sessions, channels and types are limited",
        "blkkin-agent",
        "hostile",
    )
    .tests(&["quotas"]),
    trial(
        "N8",
        "descriptors from programs block when they are read or closed",
        "blkkin-agent",
        "waiting",
    )
    .tests(&["n8_"]),
    trial(
        "N9",
        "long snapshots, rules, types and lists do not block the agent",
        "blkkin-agent",
        "waiting",
    )
    .tests(&["n9_"]),
    trial("N9", "slow queries do not block a server", "blkkin-server", "slow"),
    trial(
        "N7",
        "expanded batches with shared texts take bounded memory",
        "blkkin-lake",
        "expanded",
    ),
    trial("N9", "snapshots of rings with random contents", "blkkin-agent", "").tests(&["n9_"]),
    end_to_end("K2", "namespaces, frozen cgroups, idle agents").tests(&["k2_"]).amounts(&[amount(
        "TEST_IDLE_SECONDS",
        5,
        60,
    )]),
    end_to_end("C1", "servers, agents and programs in time namespaces").tests(&["c1_"]),
    trial("C1", "the clock of a store jumps; extreme times are stored", "blkkin-lake", "clock"),
    trial("C1", "the clocks of an agent restart and jump", "blkkin-agent", "").tests(&["clock"]),
    trial("C1", "clocks jump between two exporters", "blkkin-deliver", "deliver")
        .tests(&["clock::"]),
    trial("D8", "spans are marked if their ends may be lost", "blkkin-spans", "")
        .tests(&["losses::"]),
    trial("D8", "losses are shown with their times", "blkkin-server", "server")
        .tests(&["drops_are_told"]),
    trial("D8", "spans of traces are marked if their ends may be lost", "blkkin", "spans")
        .tests(&["ends_that"]),
    end_to_end("P1", "the privileges of the agent are limited").tests(&["p1_"]),
    trial("P1", "an intruder in the agent is confined", "blkkin-agent", "").tests(&["confine"]),
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
