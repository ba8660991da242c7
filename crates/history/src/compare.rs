//! Whether two histories have the same content, whatever the numbers of their ids.
//!
//! Two readers meet objects and values in different orders, so their ids differ while what they
//! stand for is the same. Used to prove that a conversion loses nothing.

use crate::evidence::Version;
use crate::history::{Access, History, Op, Predicate};
use crate::ids::{ObjectId, OpId, PredicateId, TxnId, ValueId};
use crate::value::Value;

impl History {
    /// The first difference in content between two histories, in words; `None` when there is none.
    #[must_use]
    pub fn difference(&self, other: &History) -> Option<String> {
        let pair = Pair { a: self, b: other };
        pair.frame().or_else(|| pair.initial()).or_else(|| pair.transactions()).or_else(|| pair.evidence())
    }
}

struct Pair<'a> {
    a: &'a History,
    b: &'a History,
}

fn differ<T: PartialEq + std::fmt::Debug>(what: &str, a: T, b: T) -> Option<String> {
    (a != b).then(|| format!("{what}: {a:?} against {b:?}"))
}

impl Pair<'_> {
    fn frame(&self) -> Option<String> {
        let (a, b) = (self.a, self.b);
        differ("header", a.header(), b.header())
            .or_else(|| self.tables())
            .or_else(|| differ("sessions", &a.session_labels, &b.session_labels))
            .or_else(|| differ("transactions per session", &a.session_starts, &b.session_starts))
            .or_else(|| {
                let at = a.txn_labels.iter().zip(&b.txn_labels).position(|(x, y)| x != y)?;
                differ("transaction label", a.txn_labels[at], b.txn_labels[at])
            })
    }

    fn tables(&self) -> Option<String> {
        let sorted = |h: &History| {
            let mut tables = h.tables().to_vec();
            tables.sort();
            tables
        };
        differ("tables", sorted(self.a), sorted(self.b))
    }

    fn initial(&self) -> Option<String> {
        let sorted = |h: &History| {
            let show = |&(o, v): &(ObjectId, ValueId)| (h.show_object(o), canonical(h, v));
            let mut all: Vec<_> = h.initial_values().iter().map(show).collect();
            all.sort();
            all
        };
        differ("initial values", sorted(self.a), sorted(self.b))
    }

    fn transactions(&self) -> Option<String> {
        self.a.txns().find_map(|txn| {
            let (a, b) = (self.a.ops(txn), self.b.ops(txn));
            let name = self.a.show_txn(txn);
            differ(&format!("operations of {name}"), a.len(), b.len())
                .or_else(|| a.zip(b).find_map(|(x, y)| self.op(x, y)).map(|d| format!("{name}: {d}")))
        })
    }

    fn op(&self, x: Op<'_>, y: Op<'_>) -> Option<String> {
        differ("kind", x.kind, y.kind)
            .or_else(|| differ("interval", x.at, y.at))
            .or_else(|| self.accesses(x.accesses, y.accesses))
            .or_else(|| self.details(x.id, y.id))
            .map(|d| format!("operation {}: {d}", self.a.op_index(x.id)))
    }

    fn accesses(&self, xs: &[Access], ys: &[Access]) -> Option<String> {
        differ("number of accesses", xs.len(), ys.len()).or_else(|| {
            xs.iter()
                .zip(ys)
                .find_map(|(x, y)| self.object(x.object, y.object).or_else(|| self.value(x.value, y.value)))
        })
    }

    fn details(&self, x: OpId, y: OpId) -> Option<String> {
        let (a, b) = (self.a, self.b);
        let scan = |h: &History, op| h.scan(op).map(|s| (predicate(h, s.predicate), s.observed));
        let update =
            |h: &History, op| h.update(op).map(|u| (predicate(h, u.predicate), u.set.clone(), u.observed));
        let statement = |h: &History, op| {
            h.statement(op).map(|s| {
                let all = |vs: &[ValueId]| vs.iter().map(|&v| canonical(h, v)).collect::<Vec<_>>();
                (s.text.to_string(), all(&s.params), s.rows.as_deref().map(all), s.count)
            })
        };
        let begin = |h: &History, op| h.begin(h.txn_of(op)).cloned();
        differ("begin", begin(a, x), begin(b, y))
            .or_else(|| differ("scan", scan(a, x), scan(b, y)))
            .or_else(|| differ("update", update(a, x), update(b, y)))
            .or_else(|| differ("statement", statement(a, x), statement(b, y)))
    }

    fn object(&self, x: ObjectId, y: ObjectId) -> Option<String> {
        let (ox, oy) = (self.a.object(x), self.b.object(y));
        let table = |h: &History, o: crate::Object| o.table.map(|t| h.table(t).name.clone());
        differ("table", table(self.a, ox), table(self.b, oy)).or_else(|| self.value(ox.key, oy.key))
    }

    fn value(&self, x: ValueId, y: ValueId) -> Option<String> {
        if x == y && x.small_int().is_some() {
            return None;
        }
        differ("value", canonical(self.a, x), canonical(self.b, y))
    }

    fn evidence(&self) -> Option<String> {
        differ("evidence", shown_evidence(self.a), shown_evidence(self.b))
    }
}

fn predicate(h: &History, id: PredicateId) -> (String, Box<str>) {
    let Predicate { table, text } = h.predicate(id);
    (h.table(*table).name.clone(), text.clone())
}

/// Text that is the same for the same value in any history. Columns sort by name, for ids depend on
/// who was met first.
fn canonical(h: &History, id: ValueId) -> String {
    match h.value(id) {
        Value::List(items) => {
            let items: Vec<_> = items.iter().map(|&v| canonical(h, v)).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Row(columns) => {
            let mut columns: Vec<_> =
                columns.iter().map(|&(n, v)| format!("{:?}: {}", h.name(n), canonical(h, v))).collect();
            columns.sort();
            format!("{{{}}}", columns.join(", "))
        }
        _ => h.show_value(id),
    }
}

fn shown_evidence(h: &History) -> Vec<String> {
    let evidence = h.evidence();
    let version = |v: &Version| match v {
        Version::Initial => "initial".to_string(),
        Version::Of(txn) => h.show_txn(*txn),
    };
    let stamps = |what: &str, column: &[(TxnId, i64)]| {
        column.iter().map(|&(t, ts)| format!("{what} {} {ts}", h.show_txn(t))).collect::<Vec<_>>()
    };
    let orders = evidence.version_orders.iter().map(|o| {
        let versions: Vec<_> = o.versions.iter().map(version).collect();
        format!("order {} {}", h.show_object(o.object), versions.join(" "))
    });
    let sets = evidence.version_sets.iter().map(|s| {
        let mut versions: Vec<_> =
            s.versions.iter().map(|(o, v)| format!("{}={}", h.show_object(*o), version(v))).collect();
        versions.sort();
        format!("set {} {} {}", h.show_txn(h.txn_of(s.op)), h.op_index(s.op), versions.join(" "))
    });
    let mut all: Vec<String> = orders.chain(sets).collect();
    all.extend(stamps("snapshot", &evidence.snapshots));
    all.extend(stamps("commit", &evidence.commits));
    all.extend(stamps("serialization", &evidence.serializations));
    all.sort();
    all
}
