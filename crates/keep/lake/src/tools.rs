//! Operations on a store's directory outside of a running [`Lake`](crate::Lake): list, inspect,
//! adopt, copy.

pub(crate) mod adopt;
pub(crate) mod inspect;
pub(crate) mod listing;
pub(crate) mod stored;
