//! Version sets against what shadow transactions saw.
//!
//! # Invariants
//! Where they do not agree, what the operation saw of the object is left out: nobody knows whom to
//! believe.

use std::collections::HashMap;

use margay_client::Testimony;
use margay_history::{History, OpId, TxnId, Version, VersionSet};

use crate::log::{Change, Datum};
use crate::meet::Gap;
use crate::names::Names;

/// Version sets that shadows are held against.
pub(crate) struct Shadowed<'a> {
    pub history: &'a History,
    pub sets: &'a mut Vec<VersionSet>,
    /// How many versions a shadow saw as well.
    pub confirmed: usize,
}

impl Shadowed<'_> {
    /// The differences, which are taken out.
    pub fn compare(&mut self, told: &[Testimony]) -> Vec<Gap> {
        let history = self.history;
        let writers = told.iter().filter_map(|told| Some((told.id.as_deref()?, history.find_txn(told.txn)?)));
        let writers: HashMap<&str, TxnId> = writers.collect();
        let names = Names::new(history);
        let mut gaps = Vec::new();
        for (told, shadow) in
            told.iter().flat_map(|told| told.shadows.iter().map(move |shadow| (told, shadow)))
        {
            let key = vec![Datum::Int(shadow.key)];
            let change = Change { table: shadow.table.to_owned(), key, row: None, inserted: false };
            let (Some(txn), Some(object)) = (history.find_txn(told.txn), names.object(&change)) else {
                continue;
            };
            let op = OpId(history.op_range(txn).start + shadow.op);
            // Who is not among the recorded ones made the initial state.
            let seen = writers.get(shadow.writer.as_str()).copied().map_or(Version::Initial, Version::Of);
            let Ok(place) = self.sets.binary_search_by_key(&op, |set| set.op) else { continue };
            let versions = &mut self.sets[place].versions;
            match versions.iter().find(|known| known.0 == object) {
                None => {}
                Some(known) if known.1 == seen => self.confirmed += 1,
                Some(_) => {
                    versions.retain(|&(known, _)| known != object);
                    gaps.push(Gap::Shadow(txn, object));
                }
            }
        }
        self.sets.retain(|set| !set.versions.is_empty());
        gaps
    }
}

#[cfg(test)]
mod tests {
    use margay_client::Shadow;
    use margay_history::{Access, HistoryBuilder, OpDetail, OpKind};

    use super::*;

    /// One writes a row, another reads it; what the shadow of the read says is held against what
    /// was computed.
    #[test]
    fn who_sees_another_version_is_told() {
        let mut builder = HistoryBuilder::new();
        let table = builder.table("t");
        let (key, value) = (builder.values().int(3), builder.values().int(7));
        let object = builder.object(Some(table), key);
        for (txn, kind) in [(1, OpKind::Write), (2, OpKind::Read)] {
            builder.push(txn, txn, None, OpKind::Begin, &[], OpDetail::None).expect("a begin");
            builder
                .push(txn, txn, None, kind, &[Access { object, value }], OpDetail::None)
                .expect("an operation");
            builder.push(txn, txn, None, OpKind::Commit, &[], OpDetail::None).expect("a commit");
        }
        let history = builder.finish().expect("a history");
        let (writer, reader) = (history.find_txn(1).expect("one"), history.find_txn(2).expect("two"));
        let op = OpId(history.op_range(reader).start + 1);
        for (who, gaps) in [("700", 0), ("1", 1)] {
            let mut sets = vec![VersionSet { op, versions: vec![(object, Version::Of(writer))] }];
            let shadow = Shadow { op: 1, table: "margay_rows", key: 3, writer: who.to_owned() };
            let told = [
                Testimony { txn: 1, id: Some("700".to_owned()), ..Testimony::default() },
                Testimony { txn: 2, shadows: vec![shadow], ..Testimony::default() },
            ];
            let mut shadowed = Shadowed { history: &history, sets: &mut sets, confirmed: 0 };
            let found = shadowed.compare(&told);
            assert_eq!((found.len(), shadowed.confirmed), (gaps, 1 - gaps), "{found:?}");
            assert_eq!(sets.len(), 1 - gaps);
        }
    }
}
