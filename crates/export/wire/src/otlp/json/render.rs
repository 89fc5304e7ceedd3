//! Renders lists, maps and events with attributes as plain JSON text.

use super::{any, list, pair};
use crate::error::{Reason, Result};
use crate::json::Reader;
use crate::render;
use blkkin_model::ValueRef;

impl<'t> Reader<'t> {
    /// Returns the name of an event, or `"name": {json}` if the event has attributes.
    pub(super) fn event_text(mut self, name: &'t str) -> Result<&'t str> {
        let (start, mut copy) = (self.at(), self);
        if !copy.open_list()? {
            return Ok(name);
        }
        let mut out = Vec::new();
        render::string(&mut out, name);
        out.extend_from_slice(b": ");
        self.render_pairs(&mut out, 1)?;
        self.rendered(out, start)
    }

    #[cold]
    pub(super) fn composite(mut self) -> Result<ValueRef<'t>> {
        let (start, mut out) = (self.at(), Vec::new());
        self.render_any(&mut out, 0)?;
        self.rendered(out, start).map(ValueRef::Str)
    }

    /// Checks the size of rendered text and stores the text in the arena.
    pub(super) fn rendered(&self, out: Vec<u8>, offset: usize) -> Result<&'t str> {
        self.check_rendered(&out, offset)?;
        Ok(self.arena().store(String::from_utf8(out).unwrap_or_default()))
    }

    fn check_rendered(&self, out: &[u8], offset: usize) -> Result<()> {
        let size_max = self.limits().text_bytes;
        if out.len() <= size_max {
            return Ok(());
        }
        Err(Reason::TooMany { what: "bytes", count_max: size_max as u64 }.at(offset))
    }

    /// Writes an attribute's value as JSON. `depth` is the nesting depth of the value.
    fn render_any(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        if depth > self.limits().depth {
            return Err(Reason::TooDeep.at(self.at()));
        }
        let start = out.len();
        if !self.null()? {
            self.object(&any::NAMES, &mut Default::default(), |reader, key| {
                if reader.null()? {
                    return Ok(());
                }
                // The last of several values applies.
                out.truncate(start);
                reader.render_one(out, key, depth)?;
                reader.check_rendered(out, reader.at())
            })?;
        }
        if out.len() == start {
            out.extend_from_slice(b"null");
        }
        Ok(())
    }

    fn render_one(&mut self, out: &mut Vec<u8>, key: usize, depth: usize) -> Result<()> {
        match key {
            any::STRING => render::string(out, self.text_or_null()?),
            any::INT => render::signed(out, self.integer()?),
            any::BOOL => out.extend_from_slice(if self.boolean()? { b"true" } else { b"false" }),
            any::DOUBLE => render::double(out, self.double()?),
            any::BYTES => {
                out.push(b'"');
                render::base64(out, self.bytes_of_base64()?);
                out.push(b'"');
            }
            any::ARRAY => {
                self.render_values(out, *b"[]", |reader, out| reader.render_any(out, depth + 1))?
            }
            _ => {
                self.render_values(out, *b"{}", |reader, out| reader.render_pair(out, depth + 1))?
            }
        }
        Ok(())
    }

    /// Writes the `values` of a list or map.
    fn render_values(
        &mut self,
        out: &mut Vec<u8>,
        [open, close]: [u8; 2],
        mut item: impl FnMut(&mut Self, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        out.push(open);
        let start = out.len();
        self.object(&list::NAMES, &mut Default::default(), |reader, _| {
            out.truncate(start);
            if reader.null()? {
                return Ok(());
            }
            reader.list(|reader| {
                if out.len() > start {
                    out.push(b',');
                }
                item(reader, out)
            })
        })?;
        out.push(close);
        Ok(())
    }

    /// Writes a list of attributes as a map.
    pub(super) fn render_pairs(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        out.push(b'{');
        let start = out.len();
        self.list(|reader| {
            if out.len() > start {
                out.push(b',');
            }
            reader.render_pair(out, depth)
        })?;
        out.push(b'}');
        Ok(())
    }

    fn render_pair(&mut self, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        let (mut name, mut value) = ("", None);
        self.object(&pair::NAMES, &mut Default::default(), |reader, key| {
            match key {
                pair::KEY => name = reader.text_or_null()?,
                _ => {
                    value = Some(*reader);
                    reader.skip()?;
                }
            }
            Ok(())
        })?;
        render::string(out, name);
        out.push(b':');
        match value {
            Some(mut value) => value.render_any(out, depth),
            None => {
                out.extend_from_slice(b"null");
                Ok(())
            }
        }
    }
}
