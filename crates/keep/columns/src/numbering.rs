//! [`Numbering`]: text ids shared by all blocks that are being written. The text ids of each block
//! are mapped to shared ids, and shared ids to the dictionary codes of a column chunk.

use crate::block::{Block, Row};
use crate::dictionary::{TextId, Texts};
use crate::index::DICTIONARY_MAX;
use crate::layout::{Layout, ValueType};
use crate::schema::TAGS;
use crate::tag_layout::layout_text;
use crate::value_text::write_value;
use std::cell::Cell;

/// Block, with the shared text ids ([`Numbering`]) of its texts, of its endpoints' fields, and of
/// its layouts in text form.
pub(crate) struct NumberedBlock<'b> {
    pub(crate) block: &'b Block,
    pub(crate) texts: Vec<TextId>,
    pub(crate) endpoints: Vec<NumberedEndpoint>,
    pub(crate) layouts: Vec<NumberedLayout>,
    /// Shared id of the decimal text of each number in the block, if it is an integer; 0 until the
    /// text is interned, and for floating-point numbers.
    pub(crate) numbers: Vec<Cell<TextId>>,
}

#[derive(Clone, Copy)]
pub(crate) struct NumberedEndpoint {
    pub(crate) service: TextId,
    pub(crate) ipv4: TextId,
    pub(crate) ipv6: TextId,
    pub(crate) port: u16,
}

pub(crate) struct NumberedLayout {
    pub(crate) text: TextId,
    /// Number of tags of each origin, in the order of [`TAGS`].
    pub(crate) counts: [u32; TAGS.len()],
}

impl NumberedLayout {
    pub(crate) fn new(layout: Layout<'_>, texts: &mut Texts) -> NumberedLayout {
        let of = |origin| layout.iter().filter(|shape| shape.origin == origin).count() as u32;
        NumberedLayout {
            text: texts.intern(&layout_text(layout)),
            counts: TAGS.map(|(origin, ..)| of(origin)),
        }
    }
}

impl<'b> NumberedBlock<'b> {
    pub(crate) fn new(block: &'b Block, texts: &mut Texts) -> NumberedBlock<'b> {
        let of_block: Vec<TextId> =
            (0..block.texts()).map(|id| texts.intern(block.text(id as u32))).collect();
        let endpoints = (0..block.endpoints())
            .map(|id| {
                let entry = block.endpoint_entry(id as u32);
                let mut address = |text: Option<String>| text.map_or(0, |text| texts.intern(&text));
                NumberedEndpoint {
                    service: of_block[entry.service as usize],
                    ipv4: address(entry.ipv4.map(|address| address.to_string())),
                    ipv6: address(entry.ipv6.map(|address| address.to_string())),
                    port: entry.port,
                }
            })
            .collect();
        let layouts = (0..block.layouts())
            .map(|id| NumberedLayout::new(block.layout(id as u32), texts))
            .collect();
        let numbers = vec![Cell::new(0); block.numbers()];
        NumberedBlock { block, texts: of_block, endpoints, layouts, numbers }
    }
}

impl NumberedBlock<'_> {
    #[inline]
    pub(crate) fn local(&self, row: Row) -> &NumberedEndpoint {
        &self.endpoints[self.block.local_id(row) as usize]
    }

    #[inline]
    pub(crate) fn remote(&self, row: Row) -> &NumberedEndpoint {
        &self.endpoints[self.block.remote_id(row) as usize]
    }
}

/// Interned texts of the blocks that are being written, with their dictionary codes in the current
/// column chunk.
pub(crate) struct Numbering {
    pub(crate) texts: Texts,
    /// Latest dictionary code of each text, with the number of the dictionary that it belongs to:
    /// pairs of dictionary number and code. `column` is the number of the current dictionary.
    pub(crate) numbers: Vec<(u32, u32)>,
    pub(crate) column: u32,
    pub(crate) scratch: String,
}

impl Default for Numbering {
    fn default() -> Numbering {
        Numbering { texts: Texts::new(), numbers: Vec::new(), column: 0, scratch: String::new() }
    }
}

impl Numbering {
    /// Builds the dictionary of a column chunk, sorted by text if `in_order`, and replaces each
    /// text id by the text's dictionary code. If the dictionary would have too many texts for the
    /// number of values or too many bytes, returns `None` and leaves the ids unchanged.
    pub(crate) fn dictionary(
        &mut self,
        texts: &mut [TextId],
        in_order: bool,
    ) -> Option<Vec<TextId>> {
        self.column = self.column.wrapping_add(1);
        if self.column == 0 {
            self.numbers.fill((0, 0));
            self.column = 1;
        }
        self.numbers.resize(self.texts.len().max(self.numbers.len()), (0, 0));
        let most = (texts.len() / 8).max(64);
        let mut dictionary = Vec::new();
        let mut bytes = 0;
        for text in texts.iter() {
            let number = &mut self.numbers[*text as usize];
            if number.0 != self.column {
                *number = (self.column, dictionary.len() as u32);
                bytes += self.texts.get(*text).len();
                if dictionary.len() >= most || bytes > DICTIONARY_MAX {
                    return None;
                }
                dictionary.push(*text);
            }
        }
        if in_order {
            dictionary.sort_unstable_by_key(|text| self.texts.get(*text));
            for (text, number) in dictionary.iter().zip(0..) {
                self.numbers[*text as usize].1 = number;
            }
        }
        for text in texts {
            *text = self.numbers[*text as usize].1;
        }
        Some(dictionary)
    }

    /// Returns the shared id of a tag value's text. Interns the text if it is new.
    pub(crate) fn value(&mut self, of: &NumberedBlock<'_>, kind: ValueType, value: u32) -> TextId {
        if kind == ValueType::Str {
            return of.texts[value as usize];
        }
        let known = of.numbers.get(value as usize).filter(|_| kind == ValueType::Int);
        if let Some(text) = known.map(Cell::get).filter(|text| *text != 0) {
            return text;
        }
        self.scratch.clear();
        write_value(of.block.value(kind, value), &mut self.scratch);
        let text = self.texts.intern(&self.scratch);
        if let Some(known) = known {
            known.set(text);
        }
        text
    }
}
