//! Multi store: writes all messages to each of several stores, its children. A write succeeds if
//! all children succeed or, with `is_any`, if at least one child does.

use super::progress::{BatchProgress, sync_all};
use super::store::{Failure, Store, WriteCounts};
use crate::messages::Batch;

pub(super) struct Multi {
    children: Vec<Box<dyn Store>>,
    is_any: bool,
    parts: BatchProgress,
}

impl Multi {
    pub(super) fn new(children: Vec<Box<dyn Store>>, is_any: bool) -> Multi {
        let parts = BatchProgress::new(children.len());
        Multi { children, is_any, parts }
    }
}

impl Store for Multi {
    fn write(&mut self, batch: &Batch) -> Result<WriteCounts, Failure> {
        self.parts.begin(batch);
        let (mut failure, mut successes) = (None, 0);
        for (number, child) in self.children.iter_mut().enumerate() {
            match self.parts.once(number, || child.write(batch)) {
                Ok(()) => successes += 1,
                Err(failed) => failure = Some(failed),
            }
        }
        match failure {
            Some(failure) if !self.is_any || successes == 0 => Err(failure),
            Some(_) => {
                let missed = self.children.len() as u64 - successes;
                let mut wrote = self.parts.finish();
                wrote.lost += missed * batch.count;
                wrote.bytes_lost += missed * batch.payload_bytes;
                Ok(wrote)
            }
            None => Ok(self.parts.finish()),
        }
    }

    fn sync(&mut self) -> Result<(), Failure> {
        sync_all(self.children.iter_mut())
    }
}
