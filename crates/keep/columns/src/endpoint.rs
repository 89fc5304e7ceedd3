//! [`Endpoints`]: interns endpoints. Each distinct endpoint is stored once and has a number.

use crate::dictionary::{Slot, TextId, Texts, table_memory};
use blkkin_model::EndpointRef;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Id of an endpoint: its number in the block, from 0. Id 0 is the endpoint without any
/// information.
pub type EndpointId = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) service: TextId,
    pub(crate) port: u16,
    pub(crate) ipv4: Option<Ipv4Addr>,
    pub(crate) ipv6: Option<Ipv6Addr>,
}

pub(crate) struct Endpoints {
    entries: Vec<Entry>,
    table: HashTable<Slot>,
    state: RandomState,
    /// Ids of the last two endpoints that [`Endpoints::intern`] looked up in `table`, newest first;
    /// initially 0.
    recent: [EndpointId; 2],
}

const NO_ENDPOINT: Entry = Entry { service: 0, port: 0, ipv4: None, ipv6: None };

impl Endpoints {
    pub(crate) fn new() -> Endpoints {
        Endpoints {
            entries: vec![NO_ENDPOINT],
            table: HashTable::new(),
            state: RandomState::default(),
            recent: [0; 2],
        }
    }

    pub(crate) fn intern(&mut self, endpoint: &EndpointRef<'_>, texts: &mut Texts) -> EndpointId {
        if endpoint.is_none() {
            return 0;
        }
        for id in self.recent {
            if self.get(id, texts) == *endpoint {
                return id;
            }
        }
        let EndpointRef { service, ipv4, ipv6, port } = *endpoint;
        let id = self.intern_entry(Entry { service: texts.intern(service), port, ipv4, ipv6 });
        self.recent = [id, self.recent[0]];
        id
    }

    pub(crate) fn intern_entry(&mut self, entry: Entry) -> EndpointId {
        if entry == NO_ENDPOINT {
            return 0;
        }
        let hash = self.state.hash_one(entry) as u32;
        let spread = Slot::spread(hash);
        let same = |slot: &Slot| slot.has(hash) && self.entries[slot.id as usize] == entry;
        if let Some(slot) = self.table.find(spread, same) {
            return slot.id;
        }
        let id = self.entries.len() as u32;
        self.entries.push(entry);
        self.table.insert_unique(spread, Slot::new(hash, id), Slot::rehash);
        id
    }

    #[inline]
    pub(crate) fn entry(&self, id: EndpointId) -> &Entry {
        &self.entries[id as usize]
    }

    #[inline]
    pub(crate) fn get<'a>(&self, id: EndpointId, texts: &'a Texts) -> EndpointRef<'a> {
        let Entry { service, port, ipv4, ipv6 } = self.entries[id as usize];
        EndpointRef { service: texts.get(service), ipv4, ipv6, port }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + table_memory(&self.table)
    }

    pub(crate) fn clear(&mut self) {
        self.entries.truncate(1);
        self.table.clear();
        self.recent = [0; 2];
    }
}
