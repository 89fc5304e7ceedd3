//! `cargo xtask bench NAME`: the list of benches. A bench is a module with a function in
//! [`BENCHES`], which reports through a [`Report`].

mod agent;
mod blkkin;
mod blockstack;
mod c;
mod ctf;
mod goal;
mod journal;
mod large_packets;
mod live;
pub(crate) mod lttng;
mod machine;
mod options;
mod probes;
pub(crate) mod recipe;
mod recording;
mod report;
mod server;
mod serving;
mod sizes;
mod tracer;
mod wire;

use crate::measure::Table;
use crate::tools::{Outcome, is_ci};
use machine::{LOAD_AVERAGE_MAX, load_average};
use report::Report;
use std::process::ExitCode;

pub(crate) use options::Options;

struct Bench {
    name: &'static str,
    about: &'static str,
    run: fn(&Options, &mut Report) -> Result<(), String>,
}

const BENCHES: [Bench; 9] = [
    Bench {
        name: "blockstack",
        about: "what tracing costs a chain of block storage under fio, beside nbdkit",
        run: blockstack::run,
    },
    Bench {
        name: "ctf",
        about: "reading a trace that LTTng-UST recorded, beside babeltrace2",
        run: ctf::run,
    },
    Bench {
        name: "journal",
        about: "making records durable, beside writing the same bytes by hand",
        run: journal::run,
    },
    Bench {
        name: "live",
        about: "until a viewer at a relay prints an event, beside LTTng and babeltrace2",
        run: live::run,
    },
    Bench {
        name: "probes",
        about: "recording system calls: what it costs the traced program, beside bpftrace and perf",
        run: probes::run,
    },
    Bench {
        name: "server",
        about: "taking spans, keeping and finding them, beside Zipkin, DuckDB and ClickHouse's engine",
        run: server::run,
    },
    Bench {
        name: "tracer",
        about: "recording events: what it costs the traced program, beside LTTng-UST",
        run: tracer::run,
    },
    Bench {
        name: "ui",
        about: "showing large requests and searching many in a browser, beside Zipkin's pages",
        run: server::ui::run,
    },
    Bench {
        name: "wire",
        about: "decoding and encoding spans in each format, beside serde_json, prost and thrift",
        run: wire::run,
    },
];

pub(crate) fn run(options: &Options) -> Outcome {
    let Some(name) = &options.name else {
        let mut table = Table::new(&["bench"]);
        BENCHES
            .iter()
            .for_each(|bench| table.row(vec![format!("{}  {}", bench.name, bench.about)]));
        print!("{}", table.render());
        return Ok(ExitCode::SUCCESS);
    };
    let bench = BENCHES.iter().find(|bench| bench.name == name).ok_or_else(|| {
        let names: Vec<&str> = BENCHES.iter().map(|bench| bench.name).collect();
        format!("no bench `{name}`; there is {}", names.join(", "))
    })?;
    let mut report = Report::new(options.json);
    if load_average() > LOAD_AVERAGE_MAX {
        report.say(format!(
            "this machine is busy (load average {}): figures are not to be quoted",
            load_average()
        ));
    }
    (bench.run)(options, &mut report)?;
    let ok = report.finish(bench.name);
    // A goal that is not met is a result, not an error. In CI it is an error, except with
    // `--quick`, because the table is not read there.
    Ok(if ok || !is_ci() || options.quick { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
