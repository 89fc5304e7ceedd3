//! What waits for answers, found by a number that says where it is.

/// Values with numbers, which are not given again soon.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    /// Tells a value from those that were here before.
    generation: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab { places: Vec::new(), free: Vec::new() }
    }

    /// The number that the next value gets.
    pub(crate) fn next_id(&self) -> u64 {
        match self.free.last() {
            Some(&place) => id_of(place, self.places[place as usize].generation),
            None => id_of(self.places.len() as u32, 0),
        }
    }

    /// Keeps a value; its number.
    pub(crate) fn insert(&mut self, value: T) -> u64 {
        let id = self.next_id();
        match self.free.pop() {
            Some(place) => self.places[place as usize].value = Some(value),
            None => self.places.push(Place { generation: 0, value: Some(value) }),
        }
        id
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let place = self.places.get_mut(id as u32 as usize)?;
        if u64::from(place.generation) != id >> 32 { None } else { place.value.as_mut() }
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<T> {
        let place = self.places.get_mut(id as u32 as usize)?;
        if u64::from(place.generation) != id >> 32 {
            return None;
        }
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(id as u32);
        Some(value)
    }

    /// Numbers of all that is there.
    pub(crate) fn ids(&self) -> Vec<u64> {
        let places = self.places.iter().enumerate();
        let used = places.filter(|(_, place)| place.value.is_some());
        used.map(|(at, place)| id_of(at as u32, place.generation)).collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

fn id_of(place: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(place)
}

#[cfg(test)]
mod tests {
    use super::Slab;

    #[test]
    fn old_numbers_find_nothing() {
        let mut slab = Slab::new();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!((slab.remove(a), slab.remove(a), slab.len()), (Some('a'), None, 1));
        let next = slab.next_id();
        let c = slab.insert('c');
        assert_eq!(next, c);
        assert_ne!(a, c);
        let mut found = |id| slab.get_mut(id).copied();
        assert_eq!([a, b, c].map(&mut found), [None, Some('b'), Some('c')]);
        assert_eq!((slab.remove(u64::MAX), slab.get_mut(7)), (None, None));
        let mut ids = slab.ids();
        ids.sort_unstable();
        assert_eq!(ids, [b, c]);
    }
}
