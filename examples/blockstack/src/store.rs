//! An object store: objects in files, with a write-ahead journal. Changes are appended to the
//! [`journal`] and then applied to the object's file. [`server`] does both for a batch of requests
//! that arrived together.

mod checkpoint;
mod journal;
mod objects;
pub(crate) mod server;
