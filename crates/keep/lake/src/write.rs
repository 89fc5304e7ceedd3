//! The write path of a store. A batch is decoded ([`batch`]), appended to the journal and published
//! to the head ([`accept`]). The head is flushed to files ([`flush`]), which are merged and expire
//! ([`merge`]).

pub(crate) mod accept;
pub(crate) mod batch;
pub(crate) mod commit;
pub(crate) mod flush;
pub(crate) mod head;
pub(crate) mod merge;
pub(crate) mod record;
