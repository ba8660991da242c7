//! What a run's clients will ask for, in numbers, and the initial state that follows from it.

use crate::{Obj, Schema, Space, Start};

/// What a database may want to know of a run beforehand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// How many clients will connect.
    pub clients: u32,
    /// How many keys each kind of object has.
    pub keys: u32,
    /// The values of column `v` are below this.
    pub domain: i64,
    /// The seed of a simulated database's randomness.
    pub seed: u64,
}

impl Setting {
    /// What a history of this database says first: its initial state, with registers and table `t`.
    #[must_use]
    pub fn start(&self, dbms: String, level: String) -> Start {
        let objects = |space| (0..self.keys).map(move |key| Obj::new(space, key));
        let all = objects(Space::Register).chain(objects(Space::Row));
        let valued = all.map(|obj| (obj, obj.initial(self.domain)));
        let initial = valued.filter(|(_, value)| *value != crate::Value::Absent).collect();
        Start { dbms, level, skew: 0, table: true, initial, schema: Schema::default() }
    }
}
