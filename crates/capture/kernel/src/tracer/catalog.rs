//! The catalog of the kernel's event types: memory in which the agent finds their descriptions.

use blkkin_control::EventType;
use blkkin_control::catalog::{
    self, COUNT, DESCRIPTIONS, IDENTITY, MAGIC, REFUSED, SIZE, encode_word, word_of,
};
use blkkin_sys::SharedMemory;
use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

/// Catalog of this process, and the position at which the next description is written.
#[derive(Debug)]
pub(super) struct Catalog {
    file: File,
    memory: SharedMemory,
    described: usize,
    end: usize,
}

impl Catalog {
    pub(super) fn create() -> io::Result<Catalog> {
        let (file, memory) = SharedMemory::create_sparse(c"blkkin-catalog", SIZE)?;
        for (place, word) in [0, 8].into_iter().zip(MAGIC) {
            memory.word(place).store(word, Ordering::Relaxed);
        }
        let [identity] = blkkin_sys::random_words().unwrap_or_default();
        memory.word(IDENTITY).store(identity, Ordering::Relaxed);
        Ok(Catalog { file, memory, described: 0, end: DESCRIPTIONS })
    }

    /// Returns the file that is passed to the agent.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Describes the types that `types` has in addition to those of the last call. A type for which
    /// there is no space is counted as refused, and its events cannot be read.
    pub(super) fn describe(&mut self, types: &[EventType]) {
        for event_type in types.iter().skip(self.described) {
            let bytes = catalog::encode(event_type).filter(|bytes| self.end + bytes.len() <= SIZE);
            match bytes {
                Some(bytes) => {
                    let place = self.end..self.end + bytes.len();
                    self.memory.copy_in(place.start, &bytes);
                    self.end = place.end;
                    let word = self.memory.word(word_of(event_type.index as usize));
                    word.store(encode_word(&place), Ordering::Release);
                }
                None => {
                    self.memory.word(REFUSED).fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        self.described = self.described.max(types.len());
        self.memory.word(COUNT).store(self.described as u64, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_type::{Integer, event_type};

    #[test]
    fn the_agent_can_decode_the_descriptions() {
        let mut catalog = Catalog::create().unwrap();
        let event = |index: u16| {
            let fields = [("number", Integer::unsigned(4).field())];
            event_type(index, format!("syscall:call{index}"), fields)
        };
        let types: Vec<EventType> = (0..3).map(event).collect();
        catalog.describe(&types[..2]);
        catalog.describe(&types);
        let memory = &catalog.memory;
        assert_eq!(memory.word(COUNT).load(Ordering::Relaxed), 3);
        for event_type in &types {
            let word = memory.word(word_of(event_type.index as usize)).load(Ordering::Relaxed);
            let place = catalog::decode_word(word).unwrap();
            let mut bytes = vec![0; place.len()];
            memory.copy_out(place.start, &mut bytes);
            assert_eq!(catalog::decode(&bytes).unwrap(), *event_type);
        }
    }

    #[test]
    fn types_beyond_the_space_are_counted() {
        let mut catalog = Catalog::create().unwrap();
        let name = "n".repeat(200);
        let types: Vec<EventType> =
            (0..4000).map(|index| event_type(index, format!("{name}:{index}"), [])).collect();
        catalog.describe(&types);
        let refused = catalog.memory.word(REFUSED).load(Ordering::Relaxed);
        assert!(refused > 0 && refused < 4000, "{refused}");
        assert_eq!(catalog.memory.word(COUNT).load(Ordering::Relaxed), 4000);
    }
}
