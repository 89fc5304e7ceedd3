//! Tests of the server as its clients see it: each test starts a server on free ports and connects
//! to it over sockets.

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
