//! Tests of the server as its clients see it, over sockets on free ports, and of the settings with
//! which the server does not start.

mod assets;
mod blkkin_api;
mod calls;
mod grpc;
mod ingest;
mod limits;
mod scribe;
mod security;
mod support;
mod zipkin;
