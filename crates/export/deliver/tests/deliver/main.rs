//! Tests of the exporter against servers that fail in all documented ways: arriving batches are
//! decoded, and each pushed span is accounted for. Tests whose names begin with a promise, such as
//! `d1_`, are more thorough with the environment variables that `cargo xtask torture` sets.

mod accounts;
mod answers;
mod clock;
mod cut_connections;
mod disk;
mod faults;
mod full;
mod grpc;
mod kill;
mod kill_sweep;
mod program_run;
mod refused_batches;
mod scribe;
mod server;
mod tls;
mod zipkin;
