//! The definitions, literally: all orders, all sights. For tiny logs.

use margay_executions::{Family, Machine, Ran, Rules, StatementStep, in_row_order};
use margay_history::{History, OpId, Outcome, TxnId};
use margay_sql::Transaction;
use margay_verdict::Question;
use margay_verdict::execution::{Pin, Reading, StatementSight};
use margay_verdict::instants::Instants;

/// Whether a question holds, together with the one that it includes.
pub fn holds(history: &History, question: Question, reading: Reading) -> bool {
    has_execution(history, question, reading)
        && question.included(history).is_none_or(|included| has_execution(history, included, reading))
}

/// Whether there is an execution.
pub fn has_execution(history: &History, question: Question, reading: Reading) -> bool {
    let rules = Rules::of(question, reading).expect("a level of executions");
    let machine = Machine::new(history, false).expect("inside the fragment");
    let live = history.txns().filter(|&txn| history.outcome(txn) != Outcome::Aborted).collect();
    Naive { history, rules, machine, order: Vec::new(), begins: Vec::new(), found: Vec::new() }.place(live)
}

struct Naive<'h> {
    history: &'h History,
    rules: Rules,
    machine: Machine<'h>,
    order: Vec<TxnId>,
    /// With instants: the snapshots of those placed.
    begins: Vec<u32>,
    /// What the last statement that looks again at rows had found.
    found: Vec<(margay_sql::TableId, Vec<margay_sql::Value>)>,
}

/// Each of these sights with each of these pins, or without one.
fn with_one(sights: &[StatementSight], pins: &[Option<Pin>]) -> Vec<StatementSight> {
    let with = |sight: &StatementSight, pin: &Option<Pin>| StatementSight {
        at: sight.at,
        pins: sight.pins.iter().chain(pin).cloned().collect(),
    };
    sights.iter().flat_map(|sight| pins.iter().map(move |pin| with(sight, pin))).collect()
}

impl Naive<'_> {
    fn before(&self, a: TxnId, b: TxnId) -> bool {
        let history = self.history;
        let evidence = history.evidence();
        let stamp = |txn| match self.rules.family {
            Family::Serial => evidence.serialization(txn),
            _ => evidence.commit(txn),
        };
        let stamped = matches!((stamp(a), stamp(b)), (Some(a), Some(b)) if a < b);
        let session = self.rules.session && history.session_of(a) == history.session_of(b) && a < b;
        let instants = self.rules.instants && self.instants(a).commit.precedes(self.instants(b).commit);
        stamped || session || instants || self.rules.real_time && history.precedes(a, b)
    }

    fn instants(&self, txn: TxnId) -> Instants {
        Instants::of(self.history, txn)
    }

    fn place(&mut self, left: Vec<TxnId>) -> bool {
        if left.iter().all(|&txn| self.history.outcome(txn) == Outcome::Unknown) {
            return true;
        }
        for &txn in &left {
            let certain = |other: TxnId| self.history.outcome(other) == Outcome::Committed;
            let early = left.iter().any(|&other| other != txn && certain(other) && self.before(other, txn));
            let late = self.order.iter().any(|&other| self.before(txn, other));
            if early || late {
                continue;
            }
            let rest: Vec<TxnId> = left.iter().copied().filter(|&other| other != txn).collect();
            if self.run(txn, &rest) {
                return true;
            }
        }
        false
    }

    fn here(&self) -> u32 {
        self.order.len() as u32
    }

    /// Every way to run a transaction at this place, and then the rest.
    fn run(&mut self, txn: TxnId, rest: &[TxnId]) -> bool {
        let ops = self.machine.statements(txn).unwrap();
        if self.rules.family == Family::Snapshot {
            return (0..=self.here()).any(|at| {
                self.begins.truncate(self.order.len());
                let allowed = self.snapshot_allowed(txn, at);
                self.begins.push(at);
                allowed && self.statements(txn, &ops, vec![StatementSight::state(at); ops.len()], rest)
            });
        }
        self.choose(txn, &ops, Vec::new(), rest)
    }

    fn choose(&mut self, txn: TxnId, ops: &[OpId], chosen: Vec<StatementSight>, rest: &[TxnId]) -> bool {
        if chosen.len() == ops.len() {
            return self.statements(txn, ops, chosen, rest);
        }
        for sight in self.sights() {
            let mut more = chosen.clone();
            more.push(sight);
            // A prefix that does not fit has no continuation that does.
            let Some((transaction, _)) = self.execute(&ops[..more.len()], &more) else { continue };
            self.machine.drop(transaction);
            if self.choose(txn, ops, more, rest) {
                return true;
            }
        }
        false
    }

    fn sights(&self) -> Vec<StatementSight> {
        let here = self.here();
        match self.rules.family {
            Family::Serial | Family::Snapshot => vec![StatementSight::state(here)],
            Family::Committed(Reading::Statement) => (0..=here).flat_map(|at| self.again(at)).collect(),
            _ => self.mixtures(),
        }
    }

    /// A state, with every row as it was, as it is, or gone; which of them a locking statement
    /// found and looks at again is told by running it.
    fn again(&self, at: u32) -> Vec<StatementSight> {
        let mut sights = vec![StatementSight::state(at)];
        for (table, key) in self.rows() {
            let id = self.machine.database().table(&table).expect("a table of the database");
            let key: margay_sql::Key = key.into();
            if self.machine.last_writer(id, &key, self.here()).is_none_or(|(state, _)| state <= at) {
                continue;
            }
            let now = Some(self.machine.pin(id, &key, self.here()));
            let gone = self.machine.end_of(id, &key, at, self.here()).map(Some);
            sights = with_one(&sights, &[None, now].into_iter().chain(gone).collect::<Vec<_>>());
        }
        sights
    }

    fn rows(&self) -> Vec<(String, Vec<margay_sql::Value>)> {
        let database = self.machine.database();
        let mut rows = Vec::new();
        for (name, id) in database.tables() {
            rows.extend(database.keys(id).into_iter().map(|key| (name.to_string(), key.to_vec())));
        }
        rows
    }

    /// Every row as of every state in which it was written.
    fn mixtures(&self) -> Vec<StatementSight> {
        let mut sights = vec![StatementSight::state(self.here())];
        let database = self.machine.database();
        for (table, key) in self.rows() {
            let id = database.table(&table).expect("a table of the database");
            let states = self.machine.states_of(id, &key.clone().into(), self.here());
            let key: margay_sql::Key = key.into();
            let pins = states.into_iter().map(|at| Some(self.machine.pin(id, &key, at)));
            let missed = matches!(self.rules.family, Family::Committed(_));
            let gap = missed.then(|| self.machine.gap(id, &key, self.here())).flatten();
            sights = with_one(&sights, &pins.chain(gap.map(Some)).collect::<Vec<_>>());
        }
        sights
    }

    fn snapshot_allowed(&self, txn: TxnId, at: u32) -> bool {
        let evidence = self.history.evidence();
        self.order.iter().enumerate().all(|(place, &other)| {
            let seen = (place as u32) < at;
            let session = self.rules.session
                && self.history.session_of(other) == self.history.session_of(txn)
                && other < txn;
            let must = session || self.rules.real_time && self.history.precedes(other, txn);
            let stamped = match (evidence.commit(other), evidence.snapshot(txn)) {
                (Some(commit), Some(snapshot)) => seen == (commit <= snapshot),
                _ => true,
            };
            let (own, its) = (self.instants(txn), self.instants(other));
            let unseen = own.begin.precedes(its.commit);
            // Snapshots that follow each other on the clock see no less.
            let begins = match self.begins.get(place) {
                Some(&before) if own.begin.precedes(its.begin) => at <= before,
                Some(&before) if its.begin.precedes(own.begin) => before <= at,
                _ => true,
            };
            stamped && (seen || !must) && (!self.rules.instants || begins && !(seen && unseen))
        })
    }

    /// Runs statements; `None` if one does not fit or is not allowed.
    fn execute(&mut self, ops: &[OpId], sights: &[StatementSight]) -> Option<(Transaction, Ran)> {
        let mut transaction = self.machine.begin();
        let mut ran = Ran::default();
        for (&op, sight) in ops.iter().zip(sights) {
            let sight = match self.narrowed(&ran, ops, sights, op, sight) {
                Some(sight) => sight,
                None => sight.clone(),
            };
            let step = self.machine.step(&mut transaction, op, &sight).unwrap();
            if !step.fits || !self.allowed(&step, &sight) || !self.may_mix(&step, &sight) {
                self.machine.drop(transaction);
                return None;
            }
            ran.add(&step, &mut Vec::new());
        }
        Some((transaction, ran))
    }

    /// With the statement reading, only a statement that locks looks again at rows, and at all of
    /// them that it locks.
    fn may_mix(&self, step: &StatementStep, sight: &StatementSight) -> bool {
        let statement = self.rules.family == Family::Committed(Reading::Statement);
        let Ok(outcome) = &step.result else { return false };
        let locked = self.found.iter().all(|(table, key)| {
            let newest = self.machine.last_writer(*table, key, self.here());
            let name = &self.machine.database().schema(*table).name;
            let pinned = sight.pins.iter().any(|pin| pin.table == *name && pin.key == *key);
            pinned || newest.is_none_or(|(state, _)| state <= sight.at)
        });
        !statement || sight.pins.is_empty() || step.looks_again && (locked || !outcome.writes.is_empty())
    }

    /// With the statement reading, pins stand only for rows that the statement found as of its
    /// state.
    fn narrowed(
        &mut self,
        _: &Ran,
        ops: &[OpId],
        sights: &[StatementSight],
        op: OpId,
        sight: &StatementSight,
    ) -> Option<StatementSight> {
        if self.rules.family != Family::Committed(Reading::Statement) || sight.pins.is_empty() {
            return None;
        }
        let place = ops.iter().position(|other| *other == op)?;
        let mut transaction = self.machine.begin();
        let mut found = Vec::new();
        for (&earlier, seen) in ops[..=place].iter().zip(sights) {
            let seen = if earlier == op {
                StatementSight::state(sight.at)
            } else {
                self.narrowed(&Ran::default(), ops, sights, earlier, seen).unwrap_or(seen.clone())
            };
            let step = self.machine.step(&mut transaction, earlier, &seen).unwrap();
            if earlier == op
                && let Ok(outcome) = &step.result
            {
                found = outcome
                    .reads
                    .rows
                    .iter()
                    .filter(|read| read.present)
                    .map(|read| (read.table, read.key.to_vec()))
                    .collect();
            }
        }
        self.machine.drop(transaction);
        let named = |pin: &&Pin| {
            found.iter().any(|(table, key)| {
                self.machine.database().schema(*table).name == pin.table && *key == pin.key
            })
        };
        let narrowed =
            StatementSight { at: sight.at, pins: sight.pins.iter().filter(named).cloned().collect() };
        self.found = found;
        Some(narrowed)
    }

    fn allowed(&self, step: &StatementStep, sight: &StatementSight) -> bool {
        let Ok(outcome) = &step.result else { return false };
        let here = self.here();
        match self.rules.family {
            Family::Repeatable => outcome.reads.rows.iter().filter(|read| read.present).all(|read| {
                let Some(stamp) = read.stamp.filter(|stamp| stamp >> 63 == 0) else { return true };
                let latest = self.machine.last_writer(read.table, &read.key, here).unwrap().0;
                self.machine.position_of(stamp) == latest
            }),
            Family::Committed(Reading::Statement) => outcome.writes.iter().all(|write| {
                let newest = |pin: &Pin| pin.at == here && !pin.missed && *pin.key == *write.key;
                let pinned = sight.pins.iter().any(newest);
                let latest = self.machine.last_writer(write.table, &write.key, here);
                pinned || latest.is_none_or(|(state, _)| state <= sight.at)
            }),
            _ => true,
        }
    }

    fn statements(&mut self, txn: TxnId, ops: &[OpId], sights: Vec<StatementSight>, rest: &[TxnId]) -> bool {
        let here = self.here();
        let Some((transaction, ran)) = self.execute(ops, &sights) else { return false };
        let conflict = self.rules.family == Family::Snapshot
            && ran.changes().any(|write| {
                let latest = self.machine.last_writer(write.table, &write.key, here);
                latest.is_some_and(|(state, _)| sights.first().is_some_and(|sight| state > sight.at))
            });
        if conflict || !in_row_order(self.history, self.rules, &self.machine, &self.order, txn, &ran.writes) {
            self.machine.drop(transaction);
            return false;
        }
        self.machine.commit(transaction, &ran, self.rules.skips());
        self.order.push(txn);
        let found = self.place(rest.to_vec());
        self.order.pop();
        self.machine.take_back(here);
        found
    }
}
