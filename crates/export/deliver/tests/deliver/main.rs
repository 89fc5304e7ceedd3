//! The exporter against servers that fail in all documented ways: what arrives is decoded, and each span that was
//! pushed is accounted for. Tests whose names begin with a promise, such as `d1_`, do more if environment variables say so,
//! as `cargo xtask torture` does.

mod accounts;
mod answers;
mod clock;
mod cuts;
mod disk;
mod faults;
mod full;
mod grpc;
mod kill;
mod life;
mod poison;
mod scribe;
mod server;
mod sweep;
mod tls;
mod zipkin;
