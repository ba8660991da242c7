//! What clients ask.
//!
//! # Invariants
//! - Every value that a client writes to a register, appends to a list or writes into column `w` is
//!   written once in the whole history: client c of n writes c + 1, c + 1 + n, c + 1 + 2n, …
//! - A client's choices come from its own stream, so they do not depend on what others do, with one
//!   exception: which list stands for a slot depends on how often the slot has been appended to.

use margay_client::{Ask, Change, Cond, Obj, Rng, Row, Space};

use crate::config::{Distribution, Kind, SimConfig};

/// One client's part.
#[derive(Debug)]
pub(crate) struct Asker {
    rng: Rng,
    next_value: i64,
    /// The key that this transaction used last, by kind of object.
    last: [Option<u32>; 3],
}

impl Asker {
    pub fn new(config: &SimConfig, client: u32) -> Self {
        Self {
            rng: Rng::new(config.seed, 1 << 32 | u64::from(client)),
            next_value: i64::from(client) + 1,
            last: [None; 3],
        }
    }

    /// A new transaction begins: answers its number of operations.
    pub fn begin(&mut self, (least, most): (u32, u32)) -> u32 {
        self.last = [None; 3];
        least + self.rng.below(u64::from(most - least) + 1) as u32
    }

    /// Whether something happens at the end of a transaction.
    pub fn chance(&mut self, ppm: u32) -> bool {
        self.rng.chance(ppm)
    }
}

/// What all clients share.
#[derive(Debug)]
pub(crate) struct Workload {
    /// Cumulative weights by kind.
    kinds: Vec<(u64, Kind)>,
    /// Cumulative weights by key, for a distribution that is not uniform.
    weights: Vec<u64>,
    keys: u32,
    clients: i64,
    domain: i64,
    list_length: u32,
    /// By list slot: how often it was appended to.
    appends: Vec<u64>,
    /// Lists that nobody will ask for in transactions yet to begin.
    pub retired: Vec<u32>,
}

impl Workload {
    pub fn new(config: &SimConfig) -> Self {
        let mut total = 0;
        let kinds = Kind::ALL.iter().filter(|(kind, _)| config.mix.weight(*kind) > 0).map(|&(kind, _)| {
            total += u64::from(config.mix.weight(kind));
            (total, kind)
        });
        Self {
            kinds: kinds.collect(),
            weights: match config.distribution {
                Distribution::Uniform => Vec::new(),
                Distribution::Zipf => zipf(config.keys),
            },
            keys: config.keys,
            clients: i64::from(config.clients),
            domain: config.domain,
            list_length: config.list_length,
            appends: vec![0; config.keys as usize],
            retired: Vec::new(),
        }
    }

    /// What a client asks next.
    pub fn next(&mut self, asker: &mut Asker) -> Ask {
        match self.kind(asker) {
            Kind::Read => Ask::Read(self.object(asker, Space::Register, false)),
            Kind::Write => {
                let obj = self.object(asker, Space::Register, true);
                Ask::Write(obj, Change::Put(self.fresh(asker)))
            }
            Kind::ReadList => Ask::Read(self.list(asker, false)),
            Kind::Append => {
                let obj = self.list(asker, true);
                Ask::Write(obj, Change::Append(self.fresh(asker)))
            }
            Kind::ReadRow => Ask::Read(self.object(asker, Space::Row, false)),
            Kind::WriteRow => self.write_row(asker, 0),
            Kind::WriteColumn => {
                let column = 1 + asker.rng.below(2);
                self.write_row(asker, column)
            }
            Kind::DeleteRow => Ask::Write(self.object(asker, Space::Row, true), Change::Delete),
            Kind::Scan => Ask::Scan(self.cond(asker)),
            Kind::Aggregate => Ask::Aggregate(self.cond(asker)),
            Kind::Update => {
                let cond = self.cond(asker);
                Ask::Update(cond, Some(self.small(asker)))
            }
            Kind::DeleteWhere => Ask::Update(self.cond(asker), None),
        }
    }

    fn kind(&self, asker: &mut Asker) -> Kind {
        let total = self.kinds.last().map_or(0, |k| k.0);
        let drawn = asker.rng.below(total);
        self.kinds[self.kinds.partition_point(|k| k.0 <= drawn)].1
    }

    /// A key. Writes prefer, half of the time, what the transaction used last: who updates has
    /// often read.
    fn key(&self, asker: &mut Asker, space: Space, write: bool) -> u32 {
        let last = asker.last[space as usize];
        if let (true, Some(key)) = (write, last)
            && asker.rng.below(2) == 0
        {
            return key;
        }
        let key = match self.weights.last() {
            None => asker.rng.below(u64::from(self.keys)) as u32,
            Some(&total) => {
                let drawn = asker.rng.below(total);
                self.weights.partition_point(|&w| w <= drawn) as u32
            }
        };
        asker.last[space as usize] = Some(key);
        key
    }

    fn object(&self, asker: &mut Asker, space: Space, write: bool) -> Obj {
        Obj::new(space, self.key(asker, space, write))
    }

    /// The list that stands for a slot; the one before it retires when it is full.
    fn list(&mut self, asker: &mut Asker, append: bool) -> Obj {
        let slot = self.key(asker, Space::List, append);
        let appends = &mut self.appends[slot as usize];
        let number = |generation: u64| slot + (generation as u32).wrapping_mul(self.keys);
        let generation = *appends / u64::from(self.list_length);
        *appends += u64::from(append);
        if *appends / u64::from(self.list_length) > generation {
            self.retired.push(number(generation));
        }
        Obj::new(Space::List, number(generation))
    }

    fn fresh(&self, asker: &mut Asker) -> i64 {
        let value = asker.next_value;
        asker.next_value += self.clients;
        value
    }

    fn small(&self, asker: &mut Asker) -> i64 {
        asker.rng.below(self.domain as u64) as i64
    }

    /// Writes column 1, column 2, or, for 0, both.
    fn write_row(&self, asker: &mut Asker, column: u64) -> Ask {
        let obj = self.object(asker, Space::Row, true);
        let v = (column != 2).then(|| self.small(asker));
        let w = (column != 1).then(|| self.fresh(asker));
        Ask::Write(obj, Change::Merge(Row { v, w }))
    }

    /// A narrow range: a few values, or an eighth of a small domain.
    fn cond(&self, asker: &mut Asker) -> Cond {
        let low = self.small(asker);
        let width = asker.rng.below((self.domain as u64 / 8).min(16) + 3) as i64;
        Cond { low, high: low + width }
    }
}

/// Cumulative weights 1/(k+1), as integers.
fn zipf(keys: u32) -> Vec<u64> {
    let weight = |k: u32| (1u64 << 32) / (u64::from(k) + 1);
    let sums = (0..keys).scan(0, |sum, k| {
        *sum += weight(k).max(1);
        Some(*sum)
    });
    sums.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mix;
    use crate::protocol::Protocol;

    #[test]
    fn zipf_prefers_the_first_keys() {
        let config =
            SimConfig { distribution: Distribution::Zipf, keys: 10, ..SimConfig::new(Protocol::Serial, 1) };
        let (workload, mut asker) = (Workload::new(&config), Asker::new(&config, 0));
        let mut counts = [0; 10];
        for _ in 0..10_000 {
            counts[workload.key(&mut asker, Space::Register, false) as usize] += 1;
        }
        assert!(counts[0] > 3_000 && counts[1] > 1_500 && counts[9] > 200 && counts[9] < 500, "{counts:?}");
    }

    #[test]
    fn written_values_are_unique_and_full_lists_retire() {
        let config = SimConfig {
            mix: Mix::named("lists").unwrap(),
            keys: 2,
            list_length: 4,
            clients: 2,
            ..SimConfig::new(Protocol::Serial, 1)
        };
        let mut workload = Workload::new(&config);
        let mut askers = [Asker::new(&config, 0), Asker::new(&config, 1)];
        let mut seen = std::collections::BTreeMap::<u32, Vec<i64>>::new();
        for i in 0..400 {
            if let Ask::Write(obj, Change::Append(item)) = workload.next(&mut askers[i % 2]) {
                seen.entry(obj.key).or_default().push(item);
            }
        }
        assert!(seen.values().all(|items| items.len() <= 4));
        assert_eq!(workload.retired.len(), seen.values().filter(|items| items.len() == 4).count());
        let mut all: Vec<i64> = seen.into_values().flatten().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
