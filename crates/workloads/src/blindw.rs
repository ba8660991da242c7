//! BlindW with ranges: transactions that only read or only write a table of rows (k, v1, v2), by
//! key, by ranges of keys, or by ranges of values. The variants without ranges are steps on
//! registers and stand in the catalogue.
//!
//! A predicate write finds its rows by a range and writes each by its key, so that what it wrote
//! shows in the history.

use margay_client::{Cell, ColumnType, Rng, Schema, TableDef};

use crate::draw::{Fresh, Keys, Options, stream};
use crate::program::{End, Procedure, Program, Script, Session, Stop, with_ints};

const READ: &str = "SELECT v1, v2 FROM margay_blindw WHERE k = $1";
const WRITE: &str = "UPDATE margay_blindw SET v1 = $2, v2 = $3 WHERE k = $1";
const KEYS: &str = "SELECT k, v1, v2 FROM margay_blindw WHERE k >= $1 AND k < $2";
const BY_V1: &str = "SELECT k, v1, v2 FROM margay_blindw WHERE v1 >= $1 AND v1 <= $2";
const BY_V2: &str = "SELECT k, v1, v2 FROM margay_blindw WHERE v2 >= $1 AND v2 <= $2";
const SET_V1: &str = "UPDATE margay_blindw SET v1 = $2 WHERE k = $1";
const SET_V2: &str = "UPDATE margay_blindw SET v2 = $2 WHERE k = $1";

/// How many keys a range has.
const RANGE: i64 = 10;
/// Of a value that conditions look at there are this many times fewer than keys.
const SHARE: u32 = 4;

/// Which variant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Leopard's: half of the transactions write by key; half read, by key or by a range of ten
    /// keys.
    RwPlus,
    /// Vbox's: half of the transactions read, half write, all by ranges of values.
    Pred,
}

impl Kind {
    /// Rows, and operations of a transaction.
    fn size(self) -> (u32, u32) {
        match self {
            Kind::RwPlus => (2000, 8),
            Kind::Pred => (10_000, 2),
        }
    }
}

/// The program.
#[derive(Clone, Debug)]
pub(crate) struct BlindW(pub Kind, pub Options);

impl BlindW {
    fn keys(&self) -> Keys {
        self.1.keys(self.0.size().0)
    }
}

impl Program for BlindW {
    fn schema(&self) -> Schema {
        let columns = &[("k", ColumnType::Int), ("v1", ColumnType::Int), ("v2", ColumnType::Int)];
        let table = TableDef { name: "margay_blindw", key: 1, columns, indexes: &["v1", "v2"] };
        let values = i64::from(values(&self.keys()));
        let row = |k: i64| (0, [k, k % values, k * 7 % values].map(Cell::Int).to_vec());
        Schema { tables: vec![table], rows: (0..i64::from(self.keys().count())).map(row).collect() }
    }

    fn client(&self, seed: u64, client: u32, clients: u32) -> Box<dyn Script> {
        Box::new(Asker {
            kind: self.0,
            keys: self.keys(),
            rng: Rng::new(seed, stream(client)),
            fresh: Fresh::new(client, clients),
        })
    }
}

fn values(keys: &Keys) -> u32 {
    (keys.count() / SHARE).max(4)
}

struct Asker {
    kind: Kind,
    keys: Keys,
    rng: Rng,
    fresh: Fresh,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Read { key: i64 },
    ReadKeys { from: i64 },
    Write { key: i64, v1: i64, v2: i64 },
    ReadValues { first: bool, low: i64, high: i64 },
    WriteValues { first: bool, low: i64, high: i64, to: i64 },
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Parts(Vec<Part>);

impl Script for Asker {
    fn next(&mut self) -> Box<dyn Procedure> {
        let reads = self.rng.below(2) == 0;
        let parts = (0..self.kind.size().1).map(|_| self.part(reads)).collect();
        Box::new(Parts(parts))
    }
}

impl Asker {
    fn part(&mut self, reads: bool) -> Part {
        let key = i64::from(self.keys.draw(&mut self.rng));
        match (self.kind, reads) {
            (Kind::RwPlus, false) => {
                let v1 = self.small();
                Part::Write { key, v1, v2: i64::from(self.keys.count()) + self.fresh.next() }
            }
            (Kind::RwPlus, true) if self.rng.below(2) == 0 => Part::Read { key },
            (Kind::RwPlus, true) => Part::ReadKeys { from: key },
            (Kind::Pred, reads) => {
                let (first, low) = (self.rng.below(2) == 0, self.small());
                let high = low + self.rng.below(3) as i64;
                if reads {
                    Part::ReadValues { first, low, high }
                } else {
                    Part::WriteValues { first, low, high, to: self.small() }
                }
            }
        }
    }

    fn small(&mut self) -> i64 {
        self.rng.below(u64::from(values(&self.keys))) as i64
    }
}

impl Procedure for Parts {
    fn run(&self, session: &mut dyn Session) -> Result<End, Stop> {
        for part in &self.0 {
            match *part {
                Part::Read { key } => drop(with_ints(session, READ, &[key])?),
                Part::ReadKeys { from } => drop(with_ints(session, KEYS, &[from, from + RANGE])?),
                Part::Write { key, v1, v2 } => drop(with_ints(session, WRITE, &[key, v1, v2])?),
                Part::ReadValues { first, low, high } => {
                    with_ints(session, if first { BY_V1 } else { BY_V2 }, &[low, high])?;
                }
                Part::WriteValues { first, low, high, to } => {
                    let found = with_ints(session, if first { BY_V1 } else { BY_V2 }, &[low, high])?;
                    for row in found.rows() {
                        let set = if first { SET_V1 } else { SET_V2 };
                        session.sql(set, &[row[0].clone(), Cell::Int(to)])?;
                    }
                }
            }
        }
        Ok(End::Commit)
    }
}
