//! One client's plans.

use margay_client::{Ask, Change, Cond, Obj, Rng, Row, Space};

use crate::catalog::{Steps, WorkloadStep};
use crate::draw::{Keys, Options, stream};

/// The values of column `v` are below this: few for few keys, so that conditions find rows, and
/// more for many, so that they do not find too many.
pub(crate) fn domain(keys: u32) -> i64 {
    i64::from((keys / 4).max(20))
}

/// After so many transactions a client goes on with new lists, so that they stay short.
const LISTS_FOR: u64 = 24;

/// A transaction to come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Its statements.
    pub asks: Vec<Ask>,
    /// Whether it ends with a commit; otherwise it is rolled back on purpose.
    pub commits: bool,
}

/// Draws the plans of one client.
#[derive(Debug)]
pub struct Generator {
    steps: Steps,
    keys: Keys,
    domain: u32,
    rng: Rng,
    clients: i64,
    /// Even, and no other client's.
    next_value: i64,
    /// Odd: values of plans that are tried again, so that those of new plans do not depend on what
    /// the database refused.
    next_again: i64,
    transactions: u64,
}

impl Generator {
    /// The plans of client number `client` of `clients`.
    #[must_use]
    pub fn new(steps: Steps, options: Options, seed: u64, client: u32, clients: u32) -> Self {
        let distribution = options.distribution.unwrap_or(steps.distribution);
        let keys = options.keys.unwrap_or(steps.keys).max(2);
        Self {
            steps,
            keys: Keys::new(keys, distribution),
            domain: domain(keys) as u32,
            rng: Rng::new(seed, stream(client)),
            clients: i64::from(clients),
            next_value: 2 * i64::from(client) + 2,
            next_again: 2 * i64::from(client) + 1,
            transactions: 0,
        }
    }

    /// The next plan.
    pub fn plan(&mut self) -> Plan {
        let (least, most) = self.steps.length;
        let steps = least + self.below(most - least + 1);
        let mut asks = Vec::new();
        let kind = self.kind();
        for _ in 0..steps {
            let step = self.step(kind);
            self.ask(step, &mut asks);
        }
        self.transactions += 1;
        Plan { asks, commits: self.below(100) >= self.steps.rollbacks }
    }

    /// A plan that was refused, to be tried again: the same with new values, so that a value still
    /// tells which attempt wrote it.
    #[must_use]
    pub fn again(&mut self, plan: &Plan) -> Plan {
        let mut fresh = || {
            self.next_again += 2 * self.clients;
            self.next_again - 2 * self.clients
        };
        let change = |change: Change, fresh: i64| match change {
            Change::Put(_) => Change::Put(fresh),
            Change::Append(_) => Change::Append(fresh),
            Change::Merge(row) => Change::Merge(Row { w: row.w.map(|_| fresh), ..row }),
            Change::Delete => Change::Delete,
        };
        let ask = |&ask: &Ask| match ask {
            Ask::Write(obj, old) => Ask::Write(obj, change(old, fresh())),
            other => other,
        };
        Plan { asks: plan.asks.iter().map(ask).collect(), commits: plan.commits }
    }

    /// What kind of transaction comes next. Where there is one, nothing is drawn.
    fn kind(&mut self) -> &'static [(WorkloadStep, u32)] {
        let kinds = self.steps.kinds;
        match kinds {
            [] => &[],
            [(_, only)] => only,
            several => several[self.weighted(several.iter().map(|(weight, _)| *weight))].1,
        }
    }

    fn step(&mut self, kind: &[(WorkloadStep, u32)]) -> WorkloadStep {
        let drawn = self.weighted(kind.iter().map(|(_, weight)| *weight));
        kind.get(drawn).map_or(WorkloadStep::Read, |(step, _)| *step)
    }

    /// The place of one of these weights, each as often as it is heavy.
    fn weighted(&mut self, weights: impl Iterator<Item = u32> + Clone) -> usize {
        let mut drawn = self.below(weights.clone().sum());
        let mut places = weights.enumerate();
        let chosen = places.find(|&(_, weight)| {
            let here = drawn < weight;
            drawn = drawn.saturating_sub(weight);
            here
        });
        chosen.map_or(0, |(place, _)| place)
    }

    fn ask(&mut self, step: WorkloadStep, asks: &mut Vec<Ask>) {
        match step {
            WorkloadStep::Read => asks.push(Ask::Read(self.object(Space::Register))),
            WorkloadStep::Write => asks.push(self.put()),
            WorkloadStep::Increment => {
                let obj = self.object(Space::Register);
                asks.extend([Ask::Read(obj), Ask::Write(obj, Change::Put(self.fresh()))]);
            }
            WorkloadStep::Skew => {
                // The last pair is whole, also of an odd number of keys.
                let even = (self.keys.draw(&mut self.rng) / 2 * 2).min(self.keys.count() / 2 * 2 - 2);
                let [mine, other] = if self.below(2) == 0 { [even, even + 1] } else { [even + 1, even] };
                let [mine, other] = [mine, other].map(|key| Obj::new(Space::Register, key));
                let write = Ask::Write(mine, Change::Put(self.fresh()));
                asks.extend([Ask::Read(mine), Ask::Read(other), write]);
            }
            WorkloadStep::ReadList => asks.push(Ask::Read(self.list())),
            WorkloadStep::Append => {
                let list = self.list();
                asks.push(Ask::Write(list, Change::Append(self.fresh())));
            }
            WorkloadStep::ReadRow => asks.push(Ask::Read(self.object(Space::Row))),
            WorkloadStep::WriteRow => {
                let v = self.small();
                asks.push(self.write_row(v));
            }
            WorkloadStep::IncrementRow => {
                let obj = self.object(Space::Row);
                let row = Row { v: Some(self.small()), w: Some(self.fresh()) };
                asks.extend([Ask::Read(obj), Ask::Write(obj, Change::Merge(row))]);
            }
            WorkloadStep::UpdateWhere => {
                let cond = self.cond();
                asks.push(Ask::Update(cond, Some(self.small())));
            }
            WorkloadStep::DeleteRow => asks.push(Ask::Write(self.object(Space::Row), Change::Delete)),
            WorkloadStep::Scan => asks.push(Ask::Scan(self.cond())),
            WorkloadStep::ScanThenWrite => {
                let cond = self.cond();
                asks.extend([Ask::Scan(cond), self.write_row(cond.low)]);
            }
        }
    }

    fn put(&mut self) -> Ask {
        let obj = self.object(Space::Register);
        Ask::Write(obj, Change::Put(self.fresh()))
    }

    fn write_row(&mut self, v: i64) -> Ask {
        let obj = self.object(Space::Row);
        Ask::Write(obj, Change::Merge(Row { v: Some(v), w: Some(self.fresh()) }))
    }

    fn object(&mut self, space: Space) -> Obj {
        Obj::new(space, self.keys.draw(&mut self.rng))
    }

    fn list(&mut self) -> Obj {
        let generation = (self.transactions / LISTS_FOR) as u32;
        let key = self.keys.draw(&mut self.rng);
        Obj::new(Space::List, key + generation.wrapping_mul(self.keys.count()))
    }

    fn cond(&mut self) -> Cond {
        let low = self.small();
        Cond { low, high: low + i64::from(self.below(4)) }
    }

    fn small(&mut self) -> i64 {
        i64::from(self.below(self.domain))
    }

    /// A value that nobody else writes: client c of n writes c + 1, c + 1 + n, c + 1 + 2n, …
    fn fresh(&mut self) -> i64 {
        let value = self.next_value;
        self.next_value += 2 * self.clients;
        value
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.rng.below(u64::from(limit)) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::catalog::{Body, WORKLOADS, Workload};

    fn of_steps() -> impl Iterator<Item = Workload> {
        WORKLOADS.iter().copied().filter(|workload| matches!(workload.body, Body::Steps(_)))
    }

    fn plans(workload: Workload, seed: u64, client: u32) -> Vec<Plan> {
        let mut generator = workload.plans(seed, client, 3);
        (0..200).map(|_| generator.plan()).collect()
    }

    #[test]
    fn same_seed_same_plans() {
        for workload in of_steps() {
            assert_eq!(plans(workload, 7, 1), plans(workload, 7, 1), "{workload}");
            assert_ne!(plans(workload, 7, 1), plans(workload, 8, 1), "{workload}");
            assert_ne!(plans(workload, 7, 1), plans(workload, 7, 2), "{workload}");
        }
    }

    #[test]
    fn the_default_plans_are_pinned() {
        let first = plans(Workload::default(), 1, 0).into_iter().take(3).map(|plan| plan.asks.len());
        assert_eq!(
            first.collect::<Vec<_>>(),
            [4, 3, 2],
            "a change of the generator changes what a seed means"
        );
    }

    #[test]
    fn no_value_is_written_twice() {
        for workload in of_steps() {
            let mut seen = HashSet::new();
            let asks = (0..3).flat_map(|client| plans(workload, 1, client)).flat_map(|plan| plan.asks);
            let written = asks.filter_map(|ask| match ask {
                Ask::Write(_, Change::Put(value) | Change::Append(value)) => Some(value),
                Ask::Write(_, Change::Merge(row)) => row.w,
                _ => None,
            });
            written.for_each(|value| assert!(seen.insert(value), "{workload} writes {value} twice"));
            assert!(seen.len() > 100, "{workload}");
        }
    }

    #[test]
    fn every_step_of_a_workload_is_drawn_and_no_object_is_outside() {
        for workload in of_steps() {
            let mut generator = workload.plans(3, 0, 1);
            let mut draw = || {
                let kind = generator.kind();
                format!("{:?}", generator.step(kind))
            };
            let drawn: HashSet<_> = (0..1000).map(|_| draw()).collect();
            let steps: HashSet<_> = generator.steps.kinds.iter().flat_map(|(_, steps)| *steps).collect();
            let steps: HashSet<_> = steps.into_iter().map(|(step, _)| format!("{step:?}")).collect();
            assert_eq!(drawn, steps, "{workload}");
            for ask in plans(workload, 3, 0).into_iter().flat_map(|plan| plan.asks) {
                if let Ask::Read(obj) | Ask::Write(obj, _) = ask {
                    assert!(obj.space == Space::List || obj.key < workload.keys(), "{workload}: {obj:?}");
                }
            }
        }
    }
}
