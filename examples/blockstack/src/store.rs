//! An object store: objects in files, and a journal before them. What is to be written goes to the [`journal`]
//! first, and then to the object's file; [`server`] does both for all requests that came together.

mod checkpoint;
mod journal;
mod objects;
pub(crate) mod server;
