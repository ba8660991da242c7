//! Whether a transaction may take effect now.
//!
//! # Invariants
//! `against` are the objects whose strands do not run on the state as of `seen`, a place in the
//! world's log; `made` is what the others make. Looking again runs only the strands of what changed
//! since; going back in the search is a change like any other.

use margay_history::{ObjectId, TxnId};
use margay_verdict::{Cell, Outside};

use crate::strand::{Against, Strands};
use crate::world::{Made, World};

/// A transaction that may be under way.
pub(crate) struct Candidate {
    pub strands: Strands,
    objects: Vec<ObjectId>,
    seen: Option<usize>,
    /// By object.
    pub against: Vec<ObjectId>,
    /// By object.
    pub made: Made,
    /// What had no meaning, if anything ever had none.
    pub outside: Option<Outside>,
}

impl Candidate {
    /// Not looked at yet.
    pub fn new(world: &World<'_>, txn: TxnId) -> Self {
        let strands = Strands::new(world.predicates, txn);
        let objects = strands.objects(world.predicates);
        Self { strands, objects, seen: None, against: Vec::new(), made: Vec::new(), outside: None }
    }

    /// Everything that it touches.
    pub fn objects(&self) -> &[ObjectId] {
        &self.objects
    }

    /// Whether it agrees with the state.
    pub fn agrees(&mut self, world: &World<'_>) -> bool {
        let now = world.log.len();
        match self.seen.replace(now) {
            Some(seen) if self.strands.sums => {
                if world.log[seen..].iter().any(|&o| self.strands.touches(world.history(), o)) {
                    self.run_whole(world);
                }
            }
            None if self.strands.sums => self.run_whole(world),
            Some(seen) if now - seen <= self.objects.len() => {
                for &object in &world.log[seen..] {
                    if self.strands.touches(world.history(), object) {
                        self.run(world, object);
                    }
                }
            }
            _ => self.run_all(world),
        }
        self.against.is_empty()
    }

    /// Whether it would still agree if this changed too.
    pub fn bears(&self, world: &World<'_>, made: &Made) -> bool {
        let bears = |(object, cell): &(ObjectId, Cell)| {
            !self.strands.touches(world.history(), *object)
                || self.strands.run(world.predicates, *object, cell).is_ok()
        };
        self.strands.sums || made.iter().all(bears)
    }

    /// Whether its strand of one object runs on this.
    pub fn fits(&self, world: &World<'_>, object: ObjectId, cell: &Cell) -> bool {
        self.strands.run(world.predicates, object, cell).is_ok()
    }

    /// What it makes of an object, if its strand runs.
    pub fn after(&self, world: &World<'_>, object: ObjectId, cell: Cell) -> Option<Cell> {
        match self.strands.run(world.predicates, object, &cell) {
            Ok(made) => Some(made.unwrap_or(cell)),
            Err(_) => None,
        }
    }

    /// Whether both write one object.
    pub fn collides(&self, made: &Made) -> bool {
        self.made.iter().any(|own| made.binary_search_by_key(&own.0, |other| other.0).is_ok())
    }

    fn run_all(&mut self, world: &World<'_>) {
        let objects = std::mem::take(&mut self.objects);
        self.against.clear();
        self.made.clear();
        for &object in &objects {
            match self.strands.run(world.predicates, object, world.cell(object)) {
                Ok(None) => {}
                Ok(Some(cell)) => self.made.push((object, cell)),
                Err(why) => {
                    self.note(why);
                    self.against.push(object);
                }
            }
        }
        self.objects = objects;
    }

    fn run(&mut self, world: &World<'_>, object: ObjectId) {
        let ran = self.strands.run(world.predicates, object, world.cell(object));
        let (against, made) = match ran {
            Ok(made) => (false, made),
            Err(why) => {
                self.note(why);
                (true, None)
            }
        };
        match (self.against.binary_search(&object), against) {
            (Err(place), true) => self.against.insert(place, object),
            (Ok(place), false) => _ = self.against.remove(place),
            _ => {}
        }
        match (self.made.binary_search_by_key(&object, |made| made.0), made) {
            (Ok(place), Some(cell)) => self.made[place].1 = cell,
            (Err(place), Some(cell)) => self.made.insert(place, (object, cell)),
            (Ok(place), None) => _ = self.made.remove(place),
            (Err(_), None) => {}
        }
    }

    fn run_whole(&mut self, world: &World<'_>) {
        self.against.clear();
        self.made.clear();
        match self.strands.run_whole(world) {
            Ok(made) => self.made = made,
            Err(why) => {
                self.note(why);
                self.against.extend(self.objects.first());
                if self.against.is_empty() {
                    self.against.push(ObjectId(0));
                }
            }
        }
    }

    fn note(&mut self, why: Against) {
        if let Against::Outside(outside) = why {
            self.outside.get_or_insert(outside);
        }
    }
}
