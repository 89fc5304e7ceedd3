//! The subcommands, a file each.

pub(crate) mod agent;
pub(crate) mod convert;
pub(crate) mod cut;
pub(crate) mod info;
pub(crate) mod merge;
pub(crate) mod record;
pub(crate) mod view;
mod write;
