//! Calls between services: derived from requests ([`link_table`]), summed over files ([`ledger`]),
//! and reported for a time window ([`window`]).

pub(crate) mod ledger;
pub(crate) mod link_table;
pub(crate) mod refresh;
pub(crate) mod window;
