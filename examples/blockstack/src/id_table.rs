//! Table of pending requests, indexed by id.

/// Table of values with ids. The id of a removed value is not reused soon, as each slot counts
/// generations.
#[derive(Debug)]
pub(crate) struct IdTable<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    /// Generation of the slot, which distinguishes its current value from earlier values.
    generation: u32,
    value: Option<T>,
}

impl<T> IdTable<T> {
    pub(crate) fn new() -> IdTable<T> {
        IdTable { slots: Vec::new(), free: Vec::new() }
    }

    /// Returns the id that the next inserted value will get.
    pub(crate) fn next_id(&self) -> u64 {
        match self.free.last() {
            Some(&slot) => id_of(slot, self.slots[slot as usize].generation),
            None => id_of(self.slots.len() as u32, 0),
        }
    }

    /// Inserts a value and returns its id.
    pub(crate) fn insert(&mut self, value: T) -> u64 {
        let id = self.next_id();
        match self.free.pop() {
            Some(slot) => self.slots[slot as usize].value = Some(value),
            None => self.slots.push(Slot { generation: 0, value: Some(value) }),
        }
        id
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let slot = self.slots.get_mut(id as u32 as usize)?;
        if u64::from(slot.generation) != id >> 32 { None } else { slot.value.as_mut() }
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<T> {
        let slot = self.slots.get_mut(id as u32 as usize)?;
        if u64::from(slot.generation) != id >> 32 {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id as u32);
        Some(value)
    }

    /// Returns the ids of all values.
    pub(crate) fn ids(&self) -> Vec<u64> {
        let slots = self.slots.iter().enumerate();
        let used = slots.filter(|(_, slot)| slot.value.is_some());
        used.map(|(at, slot)| id_of(at as u32, slot.generation)).collect()
    }

    /// Returns the number of values in the table.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

fn id_of(slot: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(slot)
}

#[cfg(test)]
mod tests {
    use super::IdTable;

    #[test]
    fn old_numbers_find_nothing() {
        let mut table = IdTable::new();
        let (a, b) = (table.insert('a'), table.insert('b'));
        assert_eq!((table.remove(a), table.remove(a), table.len()), (Some('a'), None, 1));
        let next = table.next_id();
        let c = table.insert('c');
        assert_eq!(next, c);
        assert_ne!(a, c);
        let mut found = |id| table.get_mut(id).copied();
        assert_eq!([a, b, c].map(&mut found), [None, Some('b'), Some('c')]);
        assert_eq!((table.remove(u64::MAX), table.get_mut(7)), (None, None));
        let mut ids = table.ids();
        ids.sort_unstable();
        assert_eq!(ids, [b, c]);
    }
}
