//! Operations on the directory of a store that no [`Lake`](crate::Lake) has open: list, inspect,
//! adopt and copy.

pub(crate) mod adopt;
pub(crate) mod inspect;
pub(crate) mod listing;
pub(crate) mod locked_store;
