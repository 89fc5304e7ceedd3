//! Calls between services: found in requests ([`link_table`]), summed over files ([`ledger`]), and answered for a time
//! window ([`window`]).

pub(crate) mod ledger;
pub(crate) mod link_table;
pub(crate) mod refresh;
pub(crate) mod window;
