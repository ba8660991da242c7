//! Certificates to JSON.

use margay_history::{History, ObjectId, OpId, TxnId, Version};
use margay_levels::profile::Granularity;
use margay_sql::Term;
use serde_json::{Value as Json, json};

use super::invariant::cell_json;
use super::sql::sql_json;
use super::{VERSION, fingerprint, object_json};
use crate::certificate::{Breach, Broken, Certificate, Edge, Point, ReadFrom, Reason, Stamp};
use crate::claim::Claim;
use crate::execution::{Bound, Clash};
use crate::execution::{
    Execution, Initial, Invariant, Misrun, Moment, PartRow, Pin, StatementSight, Unexplained,
};
use crate::mechanism::{Certified, Locking, Points, ReadView, word};

/// The certificate as the text of its file, with what it proves.
#[must_use]
pub fn to_json(history: &History, claim: &Claim, certificate: &Certificate) -> String {
    let (kind, body) = Writer { history }.certificate(certificate);
    let mut file = json!({
        "margay-certificate": VERSION,
        "history": fingerprint(history),
        "level": claim.question.level.name(),
        "real-time": claim.question.real_time,
        "dialect": claim.dialect.name(),
        "translation": claim.translation.name(),
        "reading": claim.reading.name(),
        "profile": claim.profile,
        "verdict": certificate.proves(),
        kind: body,
    });
    if claim.question.instants {
        file["instants"] = json!(true);
    }
    format!("{file}\n")
}

/// Bounds on sums: how often, the number that the sum is at most, and the unknowns by their numbers
/// with their factors. Integers beyond 64 bits have no JSON, so all are texts.
fn clash(clash: &Clash) -> Json {
    let part = |(term, factor): &(Term, i128)| json!([term.index(), factor.to_string()]);
    let bound = |bound: &Bound| {
        let form: Json = bound.form.iter().map(part).collect();
        json!([bound.times.to_string(), bound.at_most.to_string(), form])
    };
    clash.bounds.iter().map(bound).collect()
}

struct Writer<'h> {
    history: &'h History,
}

impl Writer<'_> {
    fn certificate(&self, certificate: &Certificate) -> (&'static str, Json) {
        match certificate {
            Certificate::Order(order) => {
                ("order", json!({ "txns": self.txns(&order.txns), "reads": self.reads(&order.reads) }))
            }
            Certificate::Points(points) => ("points", points.iter().map(|p| self.point(p)).collect()),
            Certificate::Versions(versions) => {
                let order =
                    |(object, txns): &(ObjectId, Vec<TxnId>)| json!([self.object(*object), self.txns(txns)]);
                let orders: Json = versions.orders.iter().map(order).collect();
                let committed = self.txns(&versions.committed);
                (
                    "versions",
                    json!({ "committed": committed, "orders": orders, "reads": self.reads(&versions.reads) }),
                )
            }
            Certificate::Both(both) => {
                let part = |certificate| {
                    let (kind, body) = self.certificate(certificate);
                    json!({ kind: body })
                };
                ("both", both.iter().map(part).collect())
            }
            Certificate::Operations { anomaly, ops } => {
                let ops: Json = ops.iter().map(|&op| self.op(op)).collect();
                ("operations", json!({ "anomaly": anomaly.name(), "ops": ops }))
            }
            Certificate::Refutation(lemmas) => {
                ("refutation", lemmas.iter().map(|lemma| self.edges(&lemma.edges)).collect())
            }
            Certificate::DeadEnd(end) => {
                let objects: Json = end.objects.iter().map(|&object| self.object(object)).collect();
                ("dead-end", json!({ "objects": objects, "txns": self.txns(&end.txns) }))
            }
            Certificate::Intervals(breach) => ("intervals", self.breach(breach)),
            Certificate::Execution(execution) => ("execution", self.execution(execution)),
            Certificate::Unexplained(unexplained) => ("unexplained", self.unexplained(unexplained)),
            Certificate::Invariant(Invariant { op, cells, notes }) => {
                let cells: Json = cells.iter().map(cell_json).collect();
                ("invariant", json!({ "op": self.op(*op), "cells": cells, "notes": notes }))
            }
        }
    }

    fn execution(&self, execution: &Execution) -> Json {
        let key = |pin: &Pin| pin.key.iter().map(sql_json).collect::<Vec<_>>();
        let pin = |pin: &Pin| match pin.missed {
            false => json!([pin.table, key(pin), pin.at]),
            true => json!([pin.table, key(pin), pin.at, "missed"]),
        };
        let sight = |(op, sight): &(OpId, StatementSight)| {
            json!([self.op(*op), sight.at, sight.pins.iter().map(pin).collect::<Vec<_>>()])
        };
        let sights: Json = execution.sights.iter().map(sight).collect();
        let cell = |cell: &Initial| json!([self.object(cell.object), cell.column, sql_json(&cell.value)]);
        let initial: Json = execution.initial.iter().map(cell).collect();
        json!({
            "reading": execution.reading.name(),
            "order": self.txns(&execution.order),
            "sights": sights,
            "initial": initial,
        })
    }

    fn unexplained(&self, unexplained: &Unexplained) -> Json {
        let moment = |moment: &Moment| json!([self.txn(moment.txn), moment.begins]);
        let lemma = |lemma: &Misrun| {
            let run: Json = lemma.run.iter().map(|(txn, sees)| json!([self.txn(*txn), sees])).collect();
            let order: Json = lemma.order.iter().map(|(a, b)| json!([moment(a), moment(b)])).collect();
            json!([run, lemma.op.map(|op| self.op(op)), order, self.txns(&lemma.absent)])
        };
        let lemmas: Json = unexplained.lemmas.iter().map(lemma).collect();
        let clashes = unexplained.clashes.as_ref().map(|clashes| clashes.iter().map(clash).collect::<Json>());
        let row = |(table, key): &PartRow| {
            json!([table, key.as_ref().map(|key| key.iter().map(sql_json).collect::<Vec<_>>())])
        };
        let rows = unexplained.rows.as_ref().map(|rows| rows.iter().map(row).collect::<Json>());
        json!({
            "lemmas": lemmas,
            "clashes": clashes,
            "rows": rows,
            "reading": unexplained.reading.name(),
            "txns": self.txns(&unexplained.txns),
            "op": self.op(unexplained.op),
            "notes": unexplained.notes,
        })
    }

    fn breach(&self, breach: &Breach) -> Json {
        let (mechanism, body) = match &breach.broken {
            Broken::Read { op } => ("read", self.op(*op)),
            Broken::Locks { object, ops } => {
                ("locks", json!([self.object(*object), self.op(ops[0]), self.op(ops[1])]))
            }
            Broken::Updates { object, txns } => {
                ("updates", json!([self.object(*object), self.txn(txns[0]), self.txn(txns[1])]))
            }
            Broken::Dependencies(edges) => ("dependencies", self.edges(edges)),
        };
        let is = breach.mechanisms;
        json!({
            "view": word(&ReadView::ALL, is.view),
            "together": is.together,
            "read-locks": is.read_locks,
            "write-locks": is.write_locks.map(Granularity::name),
            "read-regions": is.read_regions,
            "write-regions": is.write_regions,
            "update-search": is.update_search,
            "first-updater-wins": is.first_updater_wins,
            "skips-unchanged": is.skips_unchanged,
            "locking": word(&Locking::ALL, is.locking),
            "certifier": word(&Certified::ALL, is.certifier),
            "points": is.points.map(|points| word(&Points::ALL, points)),
            mechanism: body,
        })
    }

    fn txn(&self, txn: TxnId) -> Json {
        self.history.txn_label(txn).into()
    }

    fn txns(&self, txns: &[TxnId]) -> Json {
        txns.iter().map(|&txn| self.txn(txn)).collect()
    }

    fn op(&self, op: OpId) -> Json {
        json!([self.txn(self.history.txn_of(op)), self.history.op_index(op)])
    }

    fn object(&self, object: ObjectId) -> Json {
        object_json(self.history, object)
    }

    fn version(&self, version: Version) -> Json {
        match version {
            Version::Initial => Json::Null,
            Version::Of(txn) => self.txn(txn),
        }
    }

    fn point(&self, point: &Point) -> Json {
        match *point {
            Point::Begin(txn) => json!(["begin", self.txn(txn)]),
            Point::Commit(txn) => json!(["commit", self.txn(txn)]),
        }
    }

    fn reads(&self, reads: &[ReadFrom]) -> Json {
        let read = |r: &ReadFrom| json!([self.op(r.op), self.object(r.object), self.version(r.version)]);
        reads.iter().map(read).collect()
    }

    fn edges(&self, edges: &[Edge]) -> Json {
        edges.iter().map(|edge| self.edge(edge)).collect()
    }

    fn edge(&self, edge: &Edge) -> Json {
        let mut all = json!({ "from": self.txn(edge.from), "to": self.txn(edge.to) });
        let (why, more) = match &edge.reason {
            Reason::Session => ("session", json!({})),
            Reason::RealTime => ("real-time", json!({})),
            Reason::Recorded(Stamp::Serialization) => ("serialization", json!({})),
            Reason::Recorded(Stamp::Commit) => ("commit", json!({})),
            Reason::Recorded(Stamp::Inside) => ("in-snapshot", json!({})),
            Reason::Recorded(Stamp::Outside) => ("not-in-snapshot", json!({})),
            Reason::Read { op, object } => {
                ("wr", json!({ "op": self.op(*op), "object": self.object(*object) }))
            }
            Reason::Write { object } => ("ww", json!({ "object": self.object(*object) })),
            Reason::AntiRead { op, object, version } => (
                "rw",
                json!({ "op": self.op(*op), "object": self.object(*object), "version": self.version(*version) }),
            ),
            Reason::ReadColumn { op, object, column } => (
                "wr",
                json!({ "op": self.op(*op), "object": self.object(*object), "column": self.history.name(*column) }),
            ),
            Reason::AntiReadColumn { op, object, column, version } => (
                "rw",
                json!({
                    "op": self.op(*op),
                    "object": self.object(*object),
                    "column": self.history.name(*column),
                    "version": self.version(*version),
                }),
            ),
            Reason::Visible { op, object, path } => (
                "visible",
                json!({ "op": self.op(*op), "object": self.object(*object), "path": self.edges(path) }),
            ),
        };
        all["why"] = why.into();
        if let (Some(all), Json::Object(more)) = (all.as_object_mut(), more) {
            all.extend(more);
        }
        all
    }
}
