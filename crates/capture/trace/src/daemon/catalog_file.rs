//! The file of the program's catalog, which is sent to each agent.

use super::catalog;
use super::purpose::OTHER;
use super::settings;
use crate::registry::decision;
use blkkin_control::catalog::SIZE;
use blkkin_sys::SharedMemory;
use blkkin_sys::descriptor::{RegisteredDescriptor, raise};
use std::fs::File;
use std::io;

/// File of this process's catalog; `None` until an agent first gets it.
#[derive(Debug, Default)]
pub(super) struct CatalogFile(Option<RegisteredDescriptor<File>>);

impl CatalogFile {
    /// Returns the catalog's file; `None` on failure. Creates a catalog if the process has none, or
    /// if the program has closed the file.
    pub(super) fn get(&mut self) -> Option<&File> {
        if self.0.as_ref().and_then(RegisteredDescriptor::get).is_none() {
            match make() {
                Ok(file) => {
                    self.0 = RegisteredDescriptor::new(File::from(raise(file.into())), OTHER)
                }
                Err(error) => settings::report(|| format!("no memory for event types: {error}")),
            }
        }
        self.0.as_ref()?.get()
    }
}

/// Creates a catalog and writes all registered event types into it.
fn make() -> io::Result<File> {
    catalog::prepare()?;
    let (file, memory) = SharedMemory::create_sparse(c"blkkin-catalog", SIZE)?;
    if !memory.keep_from_children() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    catalog::install(memory)?;
    decision::refresh_all();
    catalog::publish_refused();
    Ok(file)
}
