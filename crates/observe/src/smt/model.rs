//! An execution out of the values of a model.

use hashbrown::HashMap;
use margay_executions::Family;
use margay_executions::formula::{Encoded, Sighted};
use margay_history::{OpId, TxnId};
use margay_sql::Term;
use margay_verdict::execution::{Execution, Initial, Pin, StatementSight};

/// The execution that a model says.
pub fn execution(encoded: &Encoded<'_>, values: &[i128]) -> Execution {
    let model = Model::new(encoded, values);
    let order: Vec<TxnId> = model.order.iter().map(|&txn| encoded.points.txns[txn]).collect();
    let initial = encoded.initial.iter().map(|(cell, term)| {
        let value = i64::try_from(model.value(*term)).unwrap_or(0);
        Initial { value: value.into(), ..cell.clone() }
    });
    let sights = encoded.sights.iter().filter(|sighted| model.places.contains_key(&sighted.txn));
    let sights = sights.flat_map(|sighted| model.sights(sighted)).collect();
    Execution { reading: encoded.rules.reading(), order, sights, initial: initial.collect() }
}

struct Model<'a, 'h> {
    encoded: &'a Encoded<'h>,
    values: &'a [i128],
    /// The transactions that committed, first to last, and the place of each.
    order: Vec<usize>,
    places: HashMap<usize, u32>,
}

impl<'a, 'h> Model<'a, 'h> {
    fn new(encoded: &'a Encoded<'h>, values: &'a [i128]) -> Self {
        let points = &encoded.points;
        let is = |term: Term| values[term.index()] != 0;
        let mut order: Vec<usize> = (0..points.txns.len()).filter(|&txn| is(points.included[txn])).collect();
        order.sort_by_key(|&txn| (values[points.at[txn].index()], txn));
        let places = (0..).zip(&order).map(|(place, &txn)| (txn, place)).collect();
        Self { encoded, values, order, places }
    }

    fn value(&self, term: Term) -> i128 {
        self.values[term.index()]
    }

    fn is(&self, term: Term) -> bool {
        self.value(term) != 0
    }

    /// The state at a point: how many transactions stand up to it.
    fn state(&self, point: Term) -> u32 {
        let at = |txn: &&usize| self.value(self.encoded.points.at[**txn]) <= self.value(point);
        u32::try_from(self.order.iter().filter(at).count()).unwrap_or(u32::MAX)
    }

    fn sights(&self, sighted: &Sighted) -> Vec<(OpId, StatementSight)> {
        let here = self.places[&sighted.txn];
        let machine = &self.encoded.machine;
        if self.encoded.rules.family == Family::Snapshot {
            let at = sighted.point.map_or(here, |point| self.state(point));
            let ops = machine.history().op_range(self.encoded.points.txns[sighted.txn]);
            return ops.map(|op| (OpId(op), StatementSight::state(at))).collect();
        }
        let at = sighted.point.map_or(here, |point| self.state(point));
        let again = sighted.again.iter().filter(|(_, when)| self.is(*when));
        let again = again.map(|((table, key), _)| machine.pin(*table, key, here));
        let versions = sighted.rows.iter().filter_map(|((table, key), seen)| {
            if let Some((writer, _)) = seen.missed.iter().find(|(_, when)| self.is(*when)) {
                let at = self.places.get(writer)? + 1;
                return Some(Pin { missed: true, ..machine.pin(*table, key, at) });
            }
            let (writer, _) = seen.picks.iter().find(|(_, when)| self.is(*when))?;
            let at = writer.map_or(Some(0), |writer| self.places.get(&writer).map(|place| place + 1))?;
            (!self.is(seen.is_latest)).then(|| machine.pin(*table, key, at))
        });
        // A pin to the statement's own state says nothing.
        let pins: Vec<Pin> = again.chain(versions).filter(|pin| pin.missed || pin.at != at).collect();
        vec![(sighted.op, StatementSight { at, pins })]
    }
}
