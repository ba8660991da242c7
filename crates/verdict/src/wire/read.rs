//! JSON to certificates.

use hashbrown::HashMap;
use margay_history::{History, NameId, ObjectId, OpId, TxnId, Version};
use margay_levels::profile::Granularity;
use margay_sql::{Dialect, Term};
use serde_json::{Map, Value as Json};

use super::invariant::json_cell;
use super::sql::json_sql;
use super::{VERSION, fingerprint, object_json};
use crate::certificate::{
    Breach, Broken, Certificate, DeadEnd, Edge, Lemma, Order, Point, ReadFrom, Reason, Stamp, Versions,
};
use crate::checker::Question;
use crate::claim::{Claim, Translation};
use crate::execution::{Bound, Clash};
use crate::execution::{
    Execution, Initial, Invariant, Misrun, Moment, PartRow, Pin, Reading, StatementSight, Unexplained,
};
use crate::mechanism::{Certified, Locking, Mechanisms, Points, ReadView};

/// The translation that a certificate says the history of statements needs before it is read;
/// nothing in files of version 0.1.0.
///
/// # Errors
/// When the text is no certificate, or knows another translation.
pub fn translation(text: &str) -> Result<Option<Translation>, String> {
    let file: Json = serde_json::from_str(text).map_err(|error| format!("not a certificate: {error}"))?;
    stated(&mut Fields::new(file, "the certificate")?, "translation", Translation::from_name)
}

/// A field that files of version 0.1.0 do not have.
fn stated<T>(
    fields: &mut Fields,
    name: &str,
    known: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    match fields.optional(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => {
            known(&text).map(Some).ok_or_else(|| format!("a certificate knows no {name} {text:?}"))
        }
        Some(_) => Err(format!("{name:?} of the certificate is no text")),
    }
}

/// Lines for people.
fn notes(fields: &mut Fields) -> Result<Vec<String>, String> {
    let note = |json: Json| json.as_str().map(str::to_owned).ok_or("a note that is no text".to_owned());
    fields.list("notes")?.into_iter().map(note).collect()
}

/// What a file claims and the certificate in it, against the history that it was made for. `rows`
/// says how statements became the operations of this history, if they did.
///
/// # Errors
/// What is wrong with the text, or that it was made for another history or by other rules.
pub fn from_json(
    history: &History,
    rows: Option<Translation>,
    text: &str,
) -> Result<(Claim, Certificate), String> {
    let file: Json = serde_json::from_str(text).map_err(|error| format!("not a certificate: {error}"))?;
    let mut fields = Fields::new(file, "the certificate")?;
    match fields.take("margay-certificate")?.as_u64() {
        Some(VERSION) => {}
        Some(other) => return Err(format!("a certificate of version {other}; this is version {VERSION}")),
        None => return Err("the version of the certificate is no number".to_string()),
    }
    let level = fields.text("level")?.parse().map_err(|error| format!("{error}"))?;
    let real_time = fields.take("real-time")?.as_bool().ok_or("\"real-time\" is no truth value")?;
    let instants = match fields.optional("instants") {
        Some(told) => told.as_bool().ok_or("\"instants\" is no truth value")?,
        None => false,
    };
    let (verdict, print) = (fields.text("verdict")?, fields.text("history")?);
    if print != fingerprint(history) {
        return Err(format!(
            "the certificate is of another history: of {print}, not of {}",
            fingerprint(history)
        ));
    }
    let dialect = stated(&mut fields, "dialect", Dialect::from_name)?;
    let translation = stated(&mut fields, "translation", Translation::from_name)?;
    let reading = stated(&mut fields, "reading", Reading::from_name)?;
    // The name is shown to people as it is.
    let short = |name: &str| name.len() <= 100 && !name.chars().any(char::is_control);
    let profile = stated(&mut fields, "profile", |name| short(name).then(|| name.to_owned()))?;
    let mut certificate = Reader::new(history).certificate(fields)?;
    if verdict != certificate.proves() {
        return Err(format!("the certificate says {verdict:?} and proves {:?}", certificate.proves()));
    }
    match (&mut certificate, profile) {
        (Certificate::Intervals(breach), profile) => breach.profile = profile,
        (_, None) => {}
        (_, Some(profile)) => return Err(format!("a proof that is not about the mechanisms of {profile}")),
    }
    let claim = Claim::of(history, Question { level, real_time, instants }, rows, &certificate);
    claim.allows_translation(&certificate)?;
    let differs = |what: &str, told: &str, is: &str| {
        Err(format!("the certificate says {what} {told} where it is {is}"))
    };
    match (dialect, translation, reading) {
        (Some(told), _, _) if told != claim.dialect => differs("dialect", told.name(), claim.dialect.name()),
        (_, Some(told), _) if told != claim.translation => {
            differs("translation", told.name(), claim.translation.name())
        }
        (_, _, Some(told)) if told != claim.reading => differs("reading", told.name(), claim.reading.name()),
        _ => Ok((claim, certificate)),
    }
}

fn clash(json: Json) -> Result<Clash, String> {
    let integer = |json: &Json| {
        json.as_str().and_then(|text| text.parse::<i128>().ok()).ok_or("a bound of a clash is no integer")
    };
    let part = |json| {
        let [term, factor] = tuple(json, "clashes")?;
        let number = term.as_u64().and_then(|number| u32::try_from(number).ok());
        Ok((Term::numbered(number.ok_or("an unknown that is no number")?), integer(&factor)?))
    };
    let bound = |json| {
        let [times, at_most, form] = tuple(json, "clashes")?;
        let form = list(form, "clashes")?.into_iter().map(part).collect::<Result<_, String>>()?;
        Ok(Bound { times: integer(&times)?, at_most: integer(&at_most)?, form })
    };
    let bounds = list(json, "clashes")?.into_iter().map(bound).collect::<Result<_, String>>()?;
    Ok(Clash { bounds })
}

/// The fields of an object, each of which must be taken.
struct Fields {
    what: String,
    left: Map<String, Json>,
}

impl Fields {
    fn new(json: Json, what: &str) -> Result<Self, String> {
        match json {
            Json::Object(left) => Ok(Self { what: what.to_string(), left }),
            _ => Err(format!("{what} is no object")),
        }
    }

    fn take(&mut self, name: &str) -> Result<Json, String> {
        self.left.remove(name).ok_or_else(|| format!("{} has no {name:?}", self.what))
    }

    fn optional(&mut self, name: &str) -> Option<Json> {
        self.left.remove(name)
    }

    fn text(&mut self, name: &str) -> Result<String, String> {
        match self.take(name)? {
            Json::String(text) => Ok(text),
            _ => Err(format!("{name:?} of {} is no text", self.what)),
        }
    }

    fn list(&mut self, name: &str) -> Result<Vec<Json>, String> {
        list(self.take(name)?, name)
    }

    fn end(self) -> Result<(), String> {
        match self.left.keys().next() {
            Some(name) => Err(format!("{} has an unknown field {name:?}", self.what)),
            None => Ok(()),
        }
    }
}

fn list(json: Json, what: &str) -> Result<Vec<Json>, String> {
    match json {
        Json::Array(items) => Ok(items),
        _ => Err(format!("{what:?} is no list")),
    }
}

fn tuple<const N: usize>(json: Json, what: &str) -> Result<[Json; N], String> {
    <[Json; N]>::try_from(list(json, what)?).map_err(|_| format!("{what:?} is no list of {N}"))
}

fn mechanisms(fields: &mut Fields) -> Result<Mechanisms, String> {
    let granularity = match fields.take("write-locks")? {
        Json::Null => None,
        json => {
            let all = [Granularity::Row, Granularity::Database];
            let found = all.into_iter().find(|g| json.as_str() == Some(g.name()));
            Some(found.ok_or_else(|| format!("locks of {json}"))?)
        }
    };
    Ok(Mechanisms {
        view: named(&ReadView::ALL, &fields.text("view")?)?,
        together: truth(fields, "together")?,
        read_locks: truth(fields, "read-locks")?,
        write_locks: granularity,
        read_regions: perhaps(fields, "read-regions")?,
        write_regions: perhaps(fields, "write-regions")?,
        update_search: perhaps(fields, "update-search")?,
        first_updater_wins: truth(fields, "first-updater-wins")?,
        skips_unchanged: perhaps(fields, "skips-unchanged")?,
        locking: match fields.left.remove("locking") {
            None => Locking::Nothing,
            Some(json) => named(&Locking::ALL, json.as_str().unwrap_or_default())?,
        },
        certifier: named(&Certified::ALL, &fields.text("certifier")?)?,
        points: match fields.left.remove("points") {
            None | Some(Json::Null) => None,
            Some(json) => Some(named(&Points::ALL, json.as_str().unwrap_or_default())?),
        },
    })
}

/// A field that certificates of the first kind do not have.
fn perhaps(fields: &mut Fields, name: &str) -> Result<bool, String> {
    if fields.left.contains_key(name) { truth(fields, name) } else { Ok(false) }
}

fn truth(fields: &mut Fields, name: &str) -> Result<bool, String> {
    fields.take(name)?.as_bool().ok_or_else(|| format!("{name:?} is no truth value"))
}

fn named<T: Copy>(all: &[(T, &'static str)], name: &str) -> Result<T, String> {
    let found = all.iter().find(|(_, word)| *word == name);
    found.map(|(value, _)| *value).ok_or_else(|| format!("a certificate knows no {name:?}"))
}

fn state(json: &Json) -> Result<u32, String> {
    let state = json.as_u64().and_then(|state| u32::try_from(state).ok());
    state.ok_or_else(|| format!("{json} is no state"))
}

fn part_row(json: Json) -> Result<PartRow, String> {
    let [table, key] = tuple(json, "rows")?;
    let table = table.as_str().ok_or("the table of rows is no text")?.to_owned();
    if key.is_null() {
        return Ok((table, None));
    }
    let key: Option<Vec<_>> = list(key, "the key of a row")?.iter().map(json_sql).collect();
    Ok((table, Some(key.ok_or("the key of a row is no list of SQL values")?)))
}

fn pin(json: Json) -> Result<Pin, String> {
    let mut parts = list(json, "a pin")?;
    let missed = parts.len() == 4 && parts[3].as_str() == Some("missed");
    parts.truncate(if missed { 3 } else { parts.len() });
    let [table, key, at] = tuple(Json::Array(parts), "a pin")?;
    let table = table.as_str().ok_or("the table of a pin is no text")?.to_owned();
    let key: Option<Vec<_>> = list(key, "the key of a pin")?.iter().map(json_sql).collect();
    let key = key.ok_or("the key of a pin is no list of SQL values")?;
    Ok(Pin { table, key, at: state(&at)?, missed })
}

struct Reader<'h> {
    history: &'h History,
    txns: HashMap<u64, TxnId>,
    objects: HashMap<String, ObjectId>,
}

impl<'h> Reader<'h> {
    fn new(history: &'h History) -> Self {
        let txns = history.txns().map(|txn| (history.txn_label(txn), txn)).collect();
        let objects = history.objects().map(|o| (object_json(history, o).to_string(), o)).collect();
        Self { history, txns, objects }
    }

    fn certificate(&self, mut fields: Fields) -> Result<Certificate, String> {
        let kinds = [
            "order",
            "points",
            "versions",
            "both",
            "operations",
            "refutation",
            "dead-end",
            "intervals",
            "execution",
            "unexplained",
            "invariant",
        ];
        let Some(kind) = kinds.into_iter().find(|&kind| fields.left.contains_key(kind)) else {
            return Err(format!("the certificate has none of {}", kinds.join(", ")));
        };
        let body = fields.take(kind)?;
        fields.end()?;
        match kind {
            "order" => self.order(body),
            "points" => {
                let points = list(body, kind)?.into_iter().map(|point| self.point(point));
                Ok(Certificate::Points(points.collect::<Result<_, _>>()?))
            }
            "versions" => self.versions(body),
            "both" => self.both(body),
            "operations" => self.operations(body),
            "dead-end" => self.dead_end(body),
            "intervals" => self.breach(body),
            "execution" => self.execution(body),
            "unexplained" => self.unexplained(body),
            "invariant" => self.invariant(body),
            _ => {
                let lemma = |edges| Ok(Lemma { edges: self.edges(edges)? });
                let lemmas = list(body, kind)?.into_iter().map(lemma);
                Ok(Certificate::Refutation(lemmas.collect::<Result<_, String>>()?))
            }
        }
    }

    fn order(&self, body: Json) -> Result<Certificate, String> {
        let mut fields = Fields::new(body, "\"order\"")?;
        let txns = self.txns(fields.list("txns")?)?;
        let reads = self.reads(fields.list("reads")?)?;
        fields.end()?;
        Ok(Certificate::Order(Order { txns, reads }))
    }

    fn versions(&self, body: Json) -> Result<Certificate, String> {
        let mut fields = Fields::new(body, "\"versions\"")?;
        let committed = self.txns(fields.list("committed")?)?;
        let order = |json| {
            let [object, txns] = tuple(json, "orders")?;
            Ok((self.object(&object)?, self.txns(list(txns, "orders")?)?))
        };
        let orders = fields.list("orders")?.into_iter().map(order).collect::<Result<_, String>>()?;
        let reads = self.reads(fields.list("reads")?)?;
        fields.end()?;
        Ok(Certificate::Versions(Versions { committed, orders, reads }))
    }

    fn both(&self, body: Json) -> Result<Certificate, String> {
        let part = |json| match self.certificate(Fields::new(json, "a part of \"both\"")?)? {
            Certificate::Both(_) => Err("\"both\" within \"both\"".to_owned()),
            certificate => Ok(certificate),
        };
        let [own, included] = tuple(body, "both")?;
        Ok(Certificate::Both(Box::new([part(own)?, part(included)?])))
    }

    fn operations(&self, body: Json) -> Result<Certificate, String> {
        let mut fields = Fields::new(body, "\"operations\"")?;
        let anomaly = fields.text("anomaly")?.parse().map_err(|error| format!("{error}"))?;
        let ops = fields.list("ops")?.into_iter().map(|op| self.op(op)).collect::<Result<_, _>>()?;
        fields.end()?;
        Ok(Certificate::Operations { anomaly, ops })
    }

    fn dead_end(&self, body: Json) -> Result<Certificate, String> {
        let mut fields = Fields::new(body, "\"dead-end\"")?;
        let objects = fields.list("objects")?;
        let objects = objects.iter().map(|object| self.object(object)).collect::<Result<_, _>>()?;
        let txns = self.txns(fields.list("txns")?)?;
        fields.end()?;
        Ok(Certificate::DeadEnd(DeadEnd { objects, txns }))
    }

    fn breach(&self, body: Json) -> Result<Certificate, String> {
        let mut fields = Fields::new(body, "\"intervals\"")?;
        let mechanisms = mechanisms(&mut fields)?;
        let kinds = ["read", "locks", "updates", "dependencies"];
        let kind = kinds.into_iter().find(|&kind| fields.left.contains_key(kind));
        let kind = kind.ok_or_else(|| format!("\"intervals\" has none of {}", kinds.join(", ")))?;
        let body = fields.take(kind)?;
        fields.end()?;
        let broken = match kind {
            "read" => Broken::Read { op: self.op(body)? },
            "locks" => {
                let [object, first, second] = tuple(body, kind)?;
                Broken::Locks { object: self.object(&object)?, ops: [self.op(first)?, self.op(second)?] }
            }
            "updates" => {
                let [object, first, second] = tuple(body, kind)?;
                Broken::Updates {
                    object: self.object(&object)?,
                    txns: [self.txn(&first)?, self.txn(&second)?],
                }
            }
            _ => Broken::Dependencies(self.edges(body)?),
        };
        Ok(Certificate::Intervals(Breach { profile: None, mechanisms, broken }))
    }

    fn execution(&self, body: Json) -> Result<Certificate, String> {
        let mut fields = Fields::new(body, "\"execution\"")?;
        let order = self.txns(fields.list("order")?)?;
        let sight = |json| {
            let [op, at, pins] = tuple(json, "sights")?;
            let pins = list(pins, "sights")?.into_iter().map(pin).collect::<Result<_, String>>()?;
            Ok((self.op(op)?, StatementSight { at: state(&at)?, pins }))
        };
        let sights = fields.list("sights")?.into_iter().map(sight).collect::<Result<_, String>>()?;
        let cell = |json| {
            let [object, column, value] = tuple(json, "initial")?;
            let column = column.as_str().ok_or("the column of an initial value is no text")?.to_owned();
            let value = json_sql(&value).ok_or("an initial value is no SQL value")?;
            Ok(Initial { object: self.object(&object)?, column, value })
        };
        let initial = fields.list("initial")?.into_iter().map(cell).collect::<Result<_, String>>()?;
        let reading = stated(&mut fields, "reading", Reading::from_name)?.unwrap_or_default();
        fields.end()?;
        Ok(Certificate::Execution(Execution { reading, order, sights, initial }))
    }

    fn unexplained(&self, body: Json) -> Result<Certificate, String> {
        let mut fields = Fields::new(body, "\"unexplained\"")?;
        let name = fields.text("reading")?;
        let reading = Reading::from_name(&name).ok_or_else(|| format!("a certificate knows no {name:?}"))?;
        let (txns, op) = (self.txns(fields.list("txns")?)?, self.op(fields.take("op")?)?);
        let notes = notes(&mut fields)?;
        let lemmas = fields.optional("lemmas").map_or(Ok(Vec::new()), |json| list(json, "lemmas"))?;
        let lemmas = lemmas.into_iter().map(|json| self.misrun(json));
        let lemmas = lemmas.collect::<Result<_, String>>()?;
        let clashes = match fields.optional("clashes").filter(|json| !json.is_null()) {
            None => None,
            Some(json) => Some(list(json, "clashes")?.into_iter().map(clash).collect::<Result<_, String>>()?),
        };
        let rows = match fields.optional("rows").filter(|json| !json.is_null()) {
            None => None,
            Some(json) => Some(list(json, "rows")?.into_iter().map(part_row).collect::<Result<_, String>>()?),
        };
        fields.end()?;
        Ok(Certificate::Unexplained(Unexplained { reading, rows, txns, op, lemmas, clashes, notes }))
    }

    fn invariant(&self, body: Json) -> Result<Certificate, String> {
        let mut fields = Fields::new(body, "\"invariant\"")?;
        let op = self.op(fields.take("op")?)?;
        let cells = fields.list("cells")?.iter().map(json_cell).collect::<Result<_, String>>()?;
        let notes = notes(&mut fields)?;
        fields.end()?;
        Ok(Certificate::Invariant(Invariant { op, cells, notes }))
    }

    fn misrun(&self, json: Json) -> Result<Misrun, String> {
        let [run, op, order, absent] = tuple(json, "lemmas")?;
        let op = if op.is_null() { None } else { Some(self.op(op)?) };
        let member = |json| {
            let [txn, sees] = tuple(json, "lemmas")?;
            Ok((self.txn(&txn)?, state(&sees)?))
        };
        let run = list(run, "lemmas")?.into_iter().map(member).collect::<Result<_, String>>()?;
        let moment = |json: Json| {
            let [txn, begins] = tuple(json, "lemmas")?;
            let begins = begins.as_bool().ok_or("a moment is a beginning or not")?;
            Ok::<_, String>(Moment { txn: self.txn(&txn)?, begins })
        };
        let pair = |json| {
            let [a, b] = tuple(json, "lemmas")?;
            Ok((moment(a)?, moment(b)?))
        };
        let order = list(order, "lemmas")?.into_iter().map(pair).collect::<Result<_, String>>()?;
        Ok(Misrun { run, op, order, absent: self.txns(list(absent, "lemmas")?)? })
    }

    fn txn(&self, json: &Json) -> Result<TxnId, String> {
        let found = json.as_u64().and_then(|label| self.txns.get(&label).copied());
        found.ok_or_else(|| format!("the history has no transaction {json}"))
    }

    fn txns(&self, items: Vec<Json>) -> Result<Vec<TxnId>, String> {
        items.iter().map(|json| self.txn(json)).collect()
    }

    fn op(&self, json: Json) -> Result<OpId, String> {
        let [txn, index] = tuple(json, "op")?;
        let range = self.history.op_range(self.txn(&txn)?);
        let place = index.as_u64().and_then(|index| u32::try_from(index).ok());
        let op = place.and_then(|place| range.start.checked_add(place)).filter(|op| range.contains(op));
        op.map(OpId).ok_or_else(|| format!("transaction {txn} has no operation {index}"))
    }

    fn object(&self, json: &Json) -> Result<ObjectId, String> {
        let found = self.objects.get(&json.to_string()).copied();
        found.ok_or_else(|| format!("the history has no object {json}"))
    }

    fn column(&self, json: &Json) -> Result<NameId, String> {
        let names = (0..self.history.values().name_count()).map(NameId::at);
        let found =
            json.as_str().and_then(|name| names.into_iter().find(|&id| self.history.name(id) == name));
        found.ok_or_else(|| format!("the history has no column {json}"))
    }

    fn version(&self, json: &Json) -> Result<Version, String> {
        if json.is_null() { Ok(Version::Initial) } else { self.txn(json).map(Version::Of) }
    }

    fn point(&self, json: Json) -> Result<Point, String> {
        let [kind, txn] = tuple(json, "points")?;
        let txn = self.txn(&txn)?;
        match kind.as_str() {
            Some("begin") => Ok(Point::Begin(txn)),
            Some("commit") => Ok(Point::Commit(txn)),
            _ => Err(format!("a point is \"begin\" or \"commit\", not {kind}")),
        }
    }

    fn reads(&self, items: Vec<Json>) -> Result<Vec<ReadFrom>, String> {
        let read = |json| {
            let [op, object, version] = tuple(json, "reads")?;
            Ok(ReadFrom { op: self.op(op)?, object: self.object(&object)?, version: self.version(&version)? })
        };
        items.into_iter().map(read).collect()
    }

    fn edges(&self, json: Json) -> Result<Vec<Edge>, String> {
        list(json, "edges")?.into_iter().map(|edge| self.edge(edge)).collect()
    }

    fn edge(&self, json: Json) -> Result<Edge, String> {
        let mut fields = Fields::new(json, "an edge")?;
        let (from, to) = (self.txn(&fields.take("from")?)?, self.txn(&fields.take("to")?)?);
        let why = fields.text("why")?;
        let reason = match why.as_str() {
            "session" => Reason::Session,
            "real-time" => Reason::RealTime,
            "serialization" => Reason::Recorded(Stamp::Serialization),
            "commit" => Reason::Recorded(Stamp::Commit),
            "in-snapshot" => Reason::Recorded(Stamp::Inside),
            "not-in-snapshot" => Reason::Recorded(Stamp::Outside),
            "ww" => Reason::Write { object: self.object(&fields.take("object")?)? },
            "wr" | "rw" | "visible" => {
                let (op, object) = (self.op(fields.take("op")?)?, self.object(&fields.take("object")?)?);
                let column = fields.optional("column").map(|name| self.column(&name)).transpose()?;
                match (why.as_str(), column) {
                    ("wr", None) => Reason::Read { op, object },
                    ("wr", Some(column)) => Reason::ReadColumn { op, object, column },
                    ("rw", column) => {
                        let version = self.version(&fields.take("version")?)?;
                        match column {
                            None => Reason::AntiRead { op, object, version },
                            Some(column) => Reason::AntiReadColumn { op, object, column, version },
                        }
                    }
                    (_, Some(_)) => return Err(format!("an edge because of {why:?} with a column")),
                    _ => Reason::Visible { op, object, path: self.edges(fields.take("path")?)? },
                }
            }
            _ => return Err(format!("an edge because of {why:?}")),
        };
        fields.end()?;
        Ok(Edge { from, to, reason })
    }
}
