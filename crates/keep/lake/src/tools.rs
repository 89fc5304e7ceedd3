//! Operations on the directory of a store: list, inspect, adopt, copy and import. All except
//! listing require that no [`Lake`](crate::Lake) has the store open.

pub(crate) mod adopt;
pub(crate) mod inspect;
pub(crate) mod listing;
pub(crate) mod locked_store;
