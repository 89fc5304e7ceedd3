//! [`PageReader`]: reads single pages, verifies their checksums and decompresses them.

use crate::decode;
use crate::error::Error;
use crate::index::Page;
use crate::read_at::ReadAt;
use std::io;
use std::ops::Range;
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

/// Binary logarithm of the maximum decompressed size in bytes of a page whose levels are
/// decompressed as a stream. Larger pages are decompressed whole, since a stream could need a
/// window as large as the page.
const STREAMED_LOG_MAX: u32 = 20;

/// Reader of pages, with reusable buffers and one decompression context.
pub(crate) struct PageReader {
    context: DCtx<'static>,
    stored: Vec<u8>,
    body: Vec<u8>,
}

impl PageReader {
    pub(crate) fn new() -> Result<PageReader, Error> {
        let mut context = DCtx::create();
        context.set_parameter(DParameter::WindowLogMax(STREAMED_LOG_MAX)).map_err(zstd_error)?;
        Ok(PageReader { context, stored: Vec::new(), body: Vec::new() })
    }

    /// Returns the memory of the buffers in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.stored.capacity() + self.body.capacity()
    }

    /// Verifies the checksum of a page, and returns the decompressed body.
    pub(crate) fn read(&mut self, source: &impl ReadAt, page: &Page) -> Result<&[u8], Error> {
        let damaged = |reason| Error::Damaged { offset: page.offset, reason };
        self.load(source, page)?;
        self.body.clear();
        self.body.reserve(page.raw as usize);
        self.context
            .decompress(&mut self.body, &self.stored[page.header.into()..])
            .map_err(|_| damaged("a page cannot be decompressed"))?;
        if self.body.len() == page.raw as usize {
            Ok(&self.body)
        } else {
            Err(damaged("a page is not as long as it should be"))
        }
    }

    /// Returns the first list of levels of a page, preceded by the list's length. If the levels
    /// have a zstd block of their own, the other sections of the page are not decompressed. A page
    /// too large for streaming is returned whole.
    pub(crate) fn read_levels(
        &mut self,
        source: &impl ReadAt,
        page: &Page,
    ) -> Result<&[u8], Error> {
        if page.raw > 1 << STREAMED_LOG_MAX {
            return self.read(source, page);
        }
        let damaged = |reason| Error::Damaged { offset: page.offset, reason };
        self.load(source, page)?;
        self.context.reset(ResetDirective::SessionOnly).map_err(zstd_error)?;
        let mut input = InBuffer::around(&self.stored[page.header.into()..]);
        self.body.clear();
        let mut end = size_of::<u32>();
        while self.body.len() < end {
            let start = self.body.len();
            self.body.resize(end, 0);
            let mut output = OutBuffer::around_pos(&mut self.body[..], start);
            while output.pos() < end {
                let before = (output.pos(), input.pos);
                self.context
                    .decompress_stream(&mut output, &mut input)
                    .map_err(|_| damaged("a page cannot be decompressed"))?;
                if (output.pos(), input.pos) == before {
                    return Err(damaged("a page is not as long as it should be"));
                }
            }
            let length = decode::ByteReader(&self.body).u32().map_err(damaged)?;
            if length > page.raw {
                return Err(damaged("it ends early"));
            }
            end = size_of::<u32>() + length as usize;
        }
        Ok(&self.body)
    }

    /// Reads the stored bytes of a page and verifies their checksum.
    fn load(&mut self, source: &impl ReadAt, page: &Page) -> Result<(), Error> {
        self.stored.clear();
        self.stored.resize(page.len() as usize, 0);
        source.read_at(page.offset, &mut self.stored)?;
        if crc32c::crc32c(&self.stored) != page.crc {
            let reason = "a page is not what its checksum says";
            return Err(Error::Damaged { offset: page.offset, reason });
        }
        Ok(())
    }
}

fn zstd_error(code: usize) -> Error {
    Error::Io(io::Error::other(zstd::zstd_safe::get_error_name(code)))
}

/// Returns the CRC-32C of a byte range of the source.
pub(crate) fn crc(source: &impl ReadAt, mut bytes: Range<u64>) -> Result<u32, Error> {
    let mut buffer = vec![0; 1 << 16];
    let mut crc = 0;
    while !bytes.is_empty() {
        let part = (bytes.end - bytes.start).min(buffer.len() as u64) as usize;
        source.read_at(bytes.start, &mut buffer[..part])?;
        crc = crc32c::crc32c_append(crc, &buffer[..part]);
        bytes.start += part as u64;
    }
    Ok(crc)
}
