//! What is remembered of each object: its versions, who read them, and who locked it.
//!
//! # Algorithm
//! Everything of an object is kept until the *horizon*: the earliest time at which a transaction that is not judged yet can have done anything. A
//! version goes when another is later for certain and was there before the horizon; a lock when it was given up before the horizon; a
//! reader when the certifier has forgotten its transaction. An object is tidied when it is touched, so nothing is ever searched as a whole.

use hashbrown::HashMap;
use margay_history::{ObjectId, OpId, TxnId, ValueId, Version};
use margay_verdict::mechanism::Fact;

/// A lock of a transaction that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub txn: TxnId,
    pub op: OpId,
    /// By when it was taken.
    pub by: i64,
    /// Until when it was held at least.
    pub until: i64,
    pub exclusive: bool,
}

/// A committed transaction that has read the object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub txn: TxnId,
    pub op: OpId,
    /// What it may have seen.
    pub version: Version,
    /// By when its snapshot was taken.
    pub by: i64,
}

#[derive(Default, Debug)]
pub(crate) struct Record {
    pub versions: Vec<(Version, Fact)>,
    pub readers: Vec<Reader>,
    pub held: Vec<Held>,
}

#[derive(Default, Debug)]
pub(crate) struct Store {
    records: HashMap<ObjectId, Record>,
}

impl Store {
    /// Sets the initial value of an object.
    pub fn initial(&mut self, object: ObjectId, value: ValueId) {
        let versions = vec![(Version::Initial, Fact::initial(value))];
        self.records.insert(object, Record { versions, ..Record::default() });
    }

    /// What is known of an object: at least one version.
    pub fn record(&mut self, object: ObjectId) -> &mut Record {
        let absent = || vec![(Version::Initial, Fact::initial(ValueId::NULL))];
        self.records.entry(object).or_insert_with(|| Record { versions: absent(), ..Record::default() })
    }

    /// What is known of an object that was asked for before.
    pub fn get(&self, object: ObjectId) -> &Record {
        &self.records[&object]
    }

    /// How many versions, readers and locks there are.
    pub fn len(&self) -> (usize, usize, usize) {
        self.records.values().fold((0, 0, 0), |sum, record| {
            (sum.0 + record.versions.len(), sum.1 + record.readers.len(), sum.2 + record.held.len())
        })
    }
}

impl Record {
    /// Forgets what nobody can touch any more.
    pub fn tidy(&mut self, horizon: i64, is_live: impl Fn(TxnId) -> bool) {
        self.held.retain(|lock| lock.until >= horizon);
        self.readers.retain(|reader| is_live(reader.txn));
        if self.versions.len() > 1 {
            let hides = |fact: &Fact| fact.certain && fact.installed.after < horizon;
            let hiding: Vec<Fact> =
                self.versions.iter().map(|(_, fact)| fact).filter(|fact| hides(fact)).cloned().collect();
            self.versions.retain(|(_, fact)| !hiding.iter().any(|later| fact.before(later)));
        }
    }

    /// The versions without those of `me`.
    pub fn others(&self, me: TxnId) -> impl Iterator<Item = &(Version, Fact)> {
        self.versions.iter().filter(move |(version, _)| *version != Version::Of(me))
    }
}
