//! What a transaction has written, object by object, in the order of its first writes.
//!
//! # Cost
//! Most transactions write a few objects, which are looked through. Of one that writes many, a
//! table says where each stands.

use hashbrown::HashMap;
use margay_history::ObjectId;
use margay_mechanisms::Written;

/// So many are looked through.
const UNINDEXED_OBJECTS: usize = 16;

#[derive(Default, Debug)]
pub(crate) struct Writes {
    all: Vec<(ObjectId, Written)>,
    /// Where each object stands, if there are many.
    places: HashMap<ObjectId, usize>,
}

impl Writes {
    pub fn get(&self, object: ObjectId) -> Option<&Written> {
        self.place(object).map(|place| &self.all[place].1)
    }

    pub fn get_mut(&mut self, object: ObjectId) -> Option<&mut Written> {
        self.place(object).map(|place| &mut self.all[place].1)
    }

    /// Adds an object that is not there yet.
    pub fn add(&mut self, object: ObjectId) -> &mut Written {
        if self.all.len() == UNINDEXED_OBJECTS {
            self.places = self.all.iter().enumerate().map(|(place, (object, _))| (*object, place)).collect();
        }
        if self.all.len() >= UNINDEXED_OBJECTS {
            self.places.insert(object, self.all.len());
        }
        let place = self.all.len();
        self.all.push((object, Written::default()));
        &mut self.all[place].1
    }

    pub fn iter(&self) -> impl Iterator<Item = &(ObjectId, Written)> {
        self.all.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut (ObjectId, Written)> {
        self.all.iter_mut()
    }

    fn place(&self, object: ObjectId) -> Option<usize> {
        match self.all.len() {
            0..=UNINDEXED_OBJECTS => self.all.iter().position(|(known, _)| *known == object),
            _ => self.places.get(&object).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use margay_history::{Interval, OpKind, Values};

    use super::*;

    #[test]
    fn few_or_many_each_object_is_found() {
        let (mut writes, mut values) = (Writes::default(), Values::default());
        for number in (0..100).rev() {
            let (object, value) = (ObjectId(number), values.int(i64::from(number)));
            assert!(writes.get(object).is_none());
            writes.add(object).push(OpKind::Write, Interval::new(0, 1), value, &values);
            for known in number..100 {
                let written = writes.get(ObjectId(known)).expect("an object that was added");
                assert!(written.shows(values.int(i64::from(known)), &values));
            }
        }
        assert_eq!(writes.iter().next().map(|(object, _)| *object), Some(ObjectId(99)));
        assert!(writes.get_mut(ObjectId(7)).is_some() && writes.get_mut(ObjectId(100)).is_none());
    }
}
