//! From batches to files: a batch is read ([`batch`]), appended to the journal and published to the head ([`accept`]);
//! the head is written to a file ([`flush`]), and files are merged and expire ([`merge`]).

pub(crate) mod accept;
pub(crate) mod batch;
pub(crate) mod commit;
pub(crate) mod flush;
pub(crate) mod head;
pub(crate) mod merge;
pub(crate) mod record;
