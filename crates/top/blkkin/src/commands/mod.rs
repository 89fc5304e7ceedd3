//! The subcommands, a file each.

pub(crate) mod info;
pub(crate) mod view;
