//! What searches ask: conditions over the rows of a table, and of which versions they are true.
//!
//! # Invariants
//! An answer is given only where what is known of a version decides it: a partial row without a
//! column of the condition, a list, a value of which nothing is known, and a condition outside the
//! SQL fragment all leave it open.

use std::borrow::Cow;

use margay_history::{History, NameId, ObjectId, PredicateId, TableId, Value, ValueId, Values};
use margay_sql::{Dialect, Predicate, Row, Value as SqlValue};
use margay_verdict::cell::scalar;
use margay_verdict::dialect;

use super::Pattern;

/// The tables, conditions and objects that searches are about.
#[derive(Clone, Default, Debug)]
pub struct Searches {
    /// The key columns of each table.
    keys: Vec<Vec<String>>,
    conditions: Vec<Condition>,
    objects: Vec<Option<(TableId, ValueId)>>,
}

/// A condition on the rows of a table.
#[derive(Clone, Debug)]
struct Condition {
    table: TableId,
    /// Nothing if it is outside the fragment.
    predicate: Option<Predicate>,
    /// The ranges of the first columns of the key.
    span: Vec<(i64, i64)>,
    /// A column outside of the key, and the range that an integer in it must be in for a row to
    /// match.
    compared: Option<(String, (i64, i64))>,
}

impl Searches {
    /// Those of a history.
    #[must_use]
    pub fn of(history: &History) -> Self {
        let mut all = Self::default();
        for table in history.tables() {
            all.table(table.key.iter().map(|name| (*name).to_string()).collect());
        }
        let dialect = dialect(history);
        history.predicates().iter().for_each(|p| _ = all.condition(p.table, &p.text, dialect));
        for id in history.objects() {
            let object = history.object(id);
            if let Some(table) = object.table {
                all.object(id, table, object.key);
            }
        }
        all
    }

    /// Adds a table by its key columns.
    pub fn table(&mut self, key: Vec<String>) -> TableId {
        self.keys.push(key);
        TableId::at(self.keys.len() - 1)
    }

    /// Adds a condition on the rows of a table. One that is outside the fragment of SQL decides
    /// nothing.
    pub fn condition(&mut self, table: TableId, text: &str, dialect: Dialect) -> PredicateId {
        let predicate = Predicate::parse(text, dialect).ok();
        let keys = self.keys.get(table.index()).map_or(&[][..], Vec::as_slice);
        let bounds = |key: &String| predicate.as_ref()?.bounds(key);
        let span = keys.iter().map_while(bounds).collect();
        let compared = predicate.as_ref().and_then(|predicate| compared(predicate, keys));
        self.conditions.push(Condition { table, predicate, span, compared });
        PredicateId::at(self.conditions.len() - 1)
    }

    /// Says that an object is the row of a table with this key.
    pub fn object(&mut self, object: ObjectId, table: TableId, key: ValueId) {
        if self.objects.len() <= object.index() {
            self.objects.resize(object.index() + 1, None);
        }
        self.objects[object.index()] = Some((table, key));
    }

    /// Whether there is nothing to search.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// The table of an object.
    #[must_use]
    pub fn table_of(&self, object: ObjectId) -> Option<TableId> {
        self.objects.get(object.index()).copied().flatten().map(|(table, _)| table)
    }

    /// The table that a condition searches.
    #[must_use]
    pub fn searched(&self, predicate: PredicateId) -> Option<TableId> {
        self.conditions.get(predicate.index()).map(|condition| condition.table)
    }

    /// The ranges that the first columns of a key must be in for a row to match, if they are whole
    /// numbers; as many columns as the condition speaks of.
    #[must_use]
    pub fn span(&self, predicate: PredicateId) -> &[(i64, i64)] {
        self.conditions.get(predicate.index()).map_or(&[], |condition| &condition.span)
    }

    /// The column outside of the key that the condition compares with whole numbers, and their
    /// range, if that leaves fewer rows than the key does. A version matches for certain only if it
    /// says what that column is, and if that is a whole number only one in the range.
    #[must_use]
    pub fn compared(&self, predicate: PredicateId) -> Option<(&str, (i64, i64))> {
        let Condition { span, compared, .. } = self.conditions.get(predicate.index())?;
        let (column, range) = compared.as_ref()?;
        let by_key = span.first().is_some_and(|key| width(*key) <= width(*range));
        (!by_key).then_some((column.as_str(), *range))
    }

    /// Whether every row that matches `inner` matches `outer`, whatever rows there are.
    #[must_use]
    pub fn contains(&self, outer: PredicateId, inner: PredicateId) -> bool {
        let condition = |id: PredicateId| self.conditions.get(id.index());
        let (Some(outer), Some(inner)) = (condition(outer), condition(inner)) else { return false };
        let both = outer.predicate.as_ref().zip(inner.predicate.as_ref());
        outer.table == inner.table && both.is_some_and(|(outer, inner)| outer.contains(inner))
    }

    /// What a version says that a column outside of the key is.
    #[must_use]
    pub fn column(&self, column: &str, pattern: &Pattern, values: &Values) -> Option<ValueId> {
        Content::of(pattern, values)?.find(column, values)
    }

    /// The key of a row, if it is of whole numbers.
    #[must_use]
    pub fn int_key(&self, object: ObjectId, values: &Values) -> Option<Vec<i64>> {
        let (_, key) = self.objects.get(object.index()).copied().flatten()?;
        let int = |value: ValueId| match values.get(value) {
            Value::Int(int) => Some(int),
            _ => None,
        };
        match values.get(key) {
            Value::List(items) => items.iter().map(|&item| int(item)).collect(),
            _ => int(key).map(|int| vec![int]),
        }
    }

    /// Whether the condition is true of a version of the object, where what is known of it decides
    /// that.
    #[must_use]
    pub fn holds(
        &self,
        predicate: PredicateId,
        object: ObjectId,
        pattern: &Pattern,
        values: &Values,
    ) -> Option<bool> {
        let Condition { table, predicate: Some(condition), compared, .. } =
            self.conditions.get(predicate.index())?
        else {
            return None;
        };
        let &(home, key) = self.objects.get(object.index())?.as_ref()?;
        if home != *table || pattern.is_absent() {
            return Some(false);
        }
        let content = Content::of(pattern, values)?;
        if let Some((column, (low, high))) = compared
            && let Some(Value::Int(int)) = content.exactly(column, values).map(|value| values.get(value))
            && !(*low <= int && int <= *high)
        {
            return Some(false);
        }
        let keys = self.keys.get(home.index())?;
        condition.decide(&KnownVersion { keys, key, content, values })
    }
}

/// The column outside of the key that is bound most narrowly.
fn compared(predicate: &Predicate, keys: &[String]) -> Option<(String, (i64, i64))> {
    let is_key = |name: &str| keys.iter().any(|key| key.eq_ignore_ascii_case(name));
    let others = predicate.columns().filter(|name| !is_key(name));
    let bound = others.filter_map(|name| Some((name.to_owned(), predicate.bounds(name)?)));
    bound.min_by_key(|(_, range)| width(*range))
}

fn width((low, high): (i64, i64)) -> u64 {
    if low > high { 0 } else { high.abs_diff(low) }
}

/// What is known of a version.
enum Content<'a> {
    Value(ValueId),
    Row(&'a [(NameId, ValueId)]),
}

impl<'a> Content<'a> {
    fn of(pattern: &'a Pattern, values: &'a Values) -> Option<Self> {
        match pattern {
            Pattern::Value(value) => Some(match values.get(*value) {
                Value::Row(columns) => Content::Row(columns),
                _ => Content::Value(*value),
            }),
            Pattern::Row(columns) | Pattern::New(columns) => Some(Content::Row(columns)),
            Pattern::Any | Pattern::Tail(_) | Pattern::List(_) => None,
        }
    }

    /// A column as conditions name it: as it is written, or else in small letters.
    fn find(&self, column: &str, values: &Values) -> Option<ValueId> {
        self.exactly(column, values).or_else(|| {
            let large = column.bytes().any(|byte| byte.is_ascii_uppercase());
            if large { self.exactly(&column.to_ascii_lowercase(), values) } else { None }
        })
    }

    fn exactly(&self, column: &str, values: &Values) -> Option<ValueId> {
        match self {
            Content::Value(value) => (column == "value").then_some(*value),
            Content::Row(columns) => {
                let name = values.find_name(column)?;
                let place = columns.binary_search_by_key(&name, |column| column.0).ok()?;
                Some(columns[place].1)
            }
        }
    }
}

/// A version as SQL sees it; what is not known is not there.
struct KnownVersion<'a> {
    keys: &'a [String],
    key: ValueId,
    content: Content<'a>,
    values: &'a Values,
}

impl KnownVersion<'_> {
    fn find(&self, name: &str) -> Option<ValueId> {
        if let Some(place) = self.keys.iter().position(|key| key == name) {
            return match self.values.get(self.key) {
                Value::List(items) if self.keys.len() > 1 => items.get(place).copied(),
                _ if self.keys.len() == 1 => Some(self.key),
                _ => None,
            };
        }
        self.content.exactly(name, self.values)
    }
}

impl Row for KnownVersion<'_> {
    fn column(&self, name: &str) -> Option<Cow<'_, SqlValue>> {
        self.find(name).and_then(|value| scalar(self.values, value)).map(Cow::Owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_contain_others() {
        let mut searches = Searches::default();
        let table = searches.table(vec!["k".to_owned()]);
        let mut condition = |text: &str| searches.condition(table, text, Dialect::Generic);
        let ids =
            ["v >= 2 AND v <= 5", "v BETWEEN 2 AND 5", "v < 10", "v >= 3 AND v <= 9"].map(&mut condition);
        let [range, same, wide, other] = ids;
        assert!(searches.contains(range, same) && searches.contains(same, range));
        assert!(searches.contains(wide, range) && !searches.contains(range, wide));
        assert!(!searches.contains(other, range) && !searches.contains(range, other));
    }

    #[test]
    fn only_what_is_known_decides() {
        let mut values = Values::default();
        let (v, w) = (values.intern_name("v"), values.intern_name("w"));
        let (one, seven) = (values.int(1), values.int(7));
        let mut searches = Searches::default();
        let table = searches.table(vec!["id".to_owned()]);
        let other = searches.table(vec!["id".to_owned()]);
        let large = searches.condition(table, "v > 5 AND id = 1", Dialect::Generic);
        let narrow = searches.condition(table, "V > 5 AND id > 0 AND V <= 8 AND w < 100", Dialect::Generic);
        let strange = searches.condition(table, "nosuchfunction(v) > 5", Dialect::Generic);
        searches.object(ObjectId(0), table, one);
        searches.object(ObjectId(1), other, one);
        let holds = |predicate, object, pattern: Pattern| {
            searches.holds(predicate, ObjectId(object), &pattern, &values)
        };
        assert_eq!(holds(large, 0, Pattern::Row(vec![(v, seven)])), Some(true));
        assert_eq!(holds(large, 0, Pattern::Row(vec![(v, one)])), Some(false));
        assert_eq!(holds(large, 0, Pattern::Row(vec![(w, one)])), None, "v is not known");
        assert_eq!(holds(large, 0, Pattern::Any), None);
        assert_eq!(holds(large, 0, Pattern::Value(ValueId::NULL)), Some(false), "absent");
        assert_eq!(holds(large, 1, Pattern::Row(vec![(v, seven)])), Some(false), "another table");
        assert_eq!(holds(strange, 0, Pattern::Row(vec![(v, seven)])), None);
        assert_eq!(searches.compared(large), None, "the key leaves fewer rows");
        assert_eq!(searches.compared(narrow), Some(("V", (6, 8))));
        assert_eq!(searches.compared(strange), None);
        assert_eq!(holds(narrow, 0, Pattern::Row(vec![(v, seven), (w, one)])), Some(true));
        assert_eq!(holds(narrow, 0, Pattern::Row(vec![(v, one)])), Some(false));
        assert_eq!(searches.column("V", &Pattern::Row(vec![(v, one)]), &values), Some(one));
        assert_eq!(searches.column("v", &Pattern::Row(vec![(w, one)]), &values), None);
    }
}
