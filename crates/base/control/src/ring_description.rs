//! Description of a set of rings, stored in the rings' own memory: what a reader needs besides the
//! rings and the program's [`catalog`](crate::catalog) to make a CTF trace of the rings, when
//! neither the program nor the agent can be asked any longer.
//!
//! The agent writes the description into the header page of the rings before it passes the memory
//! to the program. Nothing reads it while the program and the agent run:
//!
//! ```text
//! 0   magic "blkdescr"
//! 8   size of the encoded description in bytes, u64
//! 16  checksum of the encoded description (FNV-1a), u64
//! 24  a [`RingDescription`], encoded as in messages
//! ```
//!
//! A newer agent may append fields; a reader skips bytes that it does not know.

use crate::channel::{Context, contexts};
use crate::encoding::{Flag, List, Number, Record, RecordForm};
use crate::fault::{Fault, Reason};
use crate::limits::{FIELD_NAME_SIZE_MAX, MESSAGE_SIZE_MAX, PROGRAM_SIZE_MAX};
use crate::text::{FIELD_NAME, Letters, NAME, Text};
use crate::wire::{Reader, Writer};

const MAGIC: &[u8; 8] = b"blkdescr";
const HEADER_SIZE: usize = 24;
/// Maximum number of variables of a trace's environment.
const VARIABLES_MAX: usize = 64;
const PROGRAM: Text = Text::new(Letters::Line, PROGRAM_SIZE_MAX);
const CLOCK: Text = Text::new(Letters::Identifier, FIELD_NAME_SIZE_MAX);
const VALUE: Text = Text::new(Letters::Lines, MESSAGE_SIZE_MAX);

record! {
    /// Description of a set of rings: the session, channel and program, the clock of the events,
    /// and the environment of the trace.
    pub struct RingDescription {
        /// Name of the session that records the events.
        pub session: String = NAME,
        /// Name of the channel, whose number is the id of the rings' stream class.
        pub channel: String = NAME,
        /// Contexts that precede the fields of each event.
        pub contexts: Vec<Context> = contexts(),
        /// Set if the events are of the kernel.
        pub is_kernel: bool = Flag,
        /// Name of the program.
        pub program: String = PROGRAM,
        /// Process id, as the agent sees it.
        pub pid: u32 = Number,
        /// [Identity](crate::catalog::IDENTITY) of the program's catalog; 0 if it has none.
        pub catalog: u64 = Number,
        /// Name of the clock.
        pub clock: String = CLOCK,
        /// Ticks of the clock per second.
        pub frequency: u64 = Number,
        /// Seconds from 1970 to a reading of 0; a negative number is in two's complement.
        pub offset_seconds: u64 = Number,
        /// Ticks to add to `offset_seconds`.
        pub offset_ticks: u64 = Number,
        /// Environment of the trace.
        pub environment: Vec<Variable> = List { count_min: 0, count_max: VARIABLES_MAX, of: RecordForm },
    }
}

record! {
    /// Variable of a trace's environment.
    pub struct Variable {
        /// Name of the variable.
        pub name: String = FIELD_NAME,
        /// Value of the variable.
        pub value: VariableValue = RecordForm,
    }
}

choice! {
    /// Value of a variable of a trace's environment.
    pub enum VariableValue {
        /// Text, such as a host's name.
        0 "text" Text {
            /// The text.
            text: String = VALUE,
        },
        /// Integer, such as a process id.
        1 "number" Number {
            /// The integer in two's complement.
            number: u64 = Number,
        },
    }
}

impl RingDescription {
    /// Encodes the description with its magic number and checksum. Leaves out the environment if
    /// the result would exceed `size_max` bytes. Returns an error if a text is invalid, or if the
    /// rest is too large.
    pub fn to_block(&self, size_max: usize) -> Result<Vec<u8>, Fault> {
        let block = self.encode()?;
        if block.len() <= size_max {
            return Ok(block);
        }
        let block = RingDescription { environment: Vec::new(), ..self.clone() }.encode()?;
        match block.len() <= size_max {
            true => Ok(block),
            false => {
                let reason = Reason::TooLong { size: block.len(), size_max };
                Err(Fault { message: "RingDescription", field: "contexts", reason })
            }
        }
    }

    fn encode(&self) -> Result<Vec<u8>, Fault> {
        let mut body = Vec::new();
        self.write(&mut Writer::new("RingDescription", &mut body))?;
        let mut block = MAGIC.to_vec();
        block.extend_from_slice(&(body.len() as u64).to_le_bytes());
        block.extend_from_slice(&checksum(&body).to_le_bytes());
        block.append(&mut body);
        Ok(block)
    }

    /// Decodes a description from bytes that start with its magic number; the bytes may be
    /// arbitrary. Returns `None` if they have no description, or a damaged one.
    pub fn from_block(bytes: &[u8]) -> Option<RingDescription> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_SIZE>()?;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&header[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let body = rest.get(..usize::try_from(word(8)).ok()?)?;
        if header[..8] != *MAGIC || checksum(body) != word(16) {
            return None;
        }
        RingDescription::read(&mut Reader::new("RingDescription", body, None)).ok()
    }
}

/// Returns the 64-bit FNV-1a checksum.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Form;
    use crate::tests::Random;

    #[test]
    fn descriptions_round_trip_and_every_changed_byte_is_noticed() {
        let mut random = Random::new(3);
        for _ in 0..50 {
            let description: RingDescription = RecordForm.make(&mut random);
            let block = description.to_block(usize::MAX).unwrap();
            assert_eq!(RingDescription::from_block(&block).as_ref(), Some(&description));
            let mut longer = block.clone();
            longer.resize(block.len() + 100, 7);
            assert_eq!(RingDescription::from_block(&longer).as_ref(), Some(&description));
            for _ in 0..20 {
                let mut bad = block.clone();
                let at = random.below(block.len());
                bad[at] ^= 1 << random.below(8);
                assert_eq!(RingDescription::from_block(&bad), None, "{at}");
            }
            let cut = random.below(block.len());
            assert_eq!(RingDescription::from_block(&block[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn a_large_environment_is_left_out() {
        let value = VariableValue::Text { text: "x".repeat(4000) };
        let variable = Variable { name: "long".to_owned(), value };
        let mut description: RingDescription = RecordForm.make(&mut Random::new(3));
        description.contexts.clear();
        description.environment = vec![variable];
        let block = description.to_block(3000).unwrap();
        let found = RingDescription::from_block(&block).unwrap();
        description.environment.clear();
        assert_eq!(found, description);
        assert!(description.to_block(HEADER_SIZE).is_err());
    }
}
