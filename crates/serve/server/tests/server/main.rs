//! Tests of the server as its clients see it: each test starts a server on free ports and connects
//! to it over sockets.

mod assets;
mod calls;
mod grpc;
mod ingest;
mod limits;
mod own;
mod scribe;
mod security;
mod support;
mod zipkin;
