//! The exporter against servers that fail in all documented ways: what arrives is decoded, and each span that was
//! pushed is accounted for.

mod accounts;
mod answers;
mod cuts;
mod disk;
mod grpc;
mod kill;
mod scribe;
mod server;
mod tls;
mod zipkin;
