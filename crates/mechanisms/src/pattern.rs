//! What is known of the value that a transaction's writes make of an object.

use margay_history::{NameId, OpKind, Value, ValueId, Values};

/// The values that a version may have. A partial-row write leaves the other columns open, an append
/// what was there before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Any value.
    Any,
    /// This one; of a row the columns that it has.
    Value(ValueId),
    /// A row with these columns, sorted; the others are as they were.
    Row(Vec<(NameId, ValueId)>),
    /// A new row with these columns, sorted; the others have their defaults.
    New(Vec<(NameId, ValueId)>),
    /// A list that ends with these elements.
    Tail(Vec<ValueId>),
    /// This list.
    List(Vec<ValueId>),
}

impl Pattern {
    /// What an operation of this kind makes of the object; `self` is what the transaction made of
    /// it before, if it did.
    #[must_use]
    pub fn written(before: Option<Pattern>, kind: OpKind, value: ValueId, values: &Values) -> Pattern {
        match (kind, values.get(value)) {
            (_, Value::Unknown) => Pattern::Any,
            (OpKind::Append, _) => appended(before, value, values),
            (_, Value::Row(columns)) if starts_anew(&before) => Pattern::New(merged(before, columns, values)),
            (_, Value::Row(columns)) => Pattern::Row(merged(before, columns, values)),
            _ => Pattern::Value(value),
        }
    }

    /// A row with these columns changed in a way that nobody saw.
    #[must_use]
    pub fn unknown(mut columns: Vec<NameId>) -> Pattern {
        columns.sort_unstable();
        columns.dedup();
        Pattern::Row(columns.into_iter().map(|name| (name, ValueId::UNKNOWN)).collect())
    }

    /// What is left to say of it if the same transaction may also have made `unseen` of the object,
    /// earlier or later.
    #[must_use]
    pub fn clouded(self, unseen: &Pattern, values: &Values) -> Pattern {
        let Pattern::Row(columns) = unseen else { return Pattern::Any };
        let mixed = |before| merged(Some(before), columns, values);
        match self {
            Pattern::Row(_) => Pattern::Row(mixed(self)),
            Pattern::New(_) => Pattern::New(mixed(self)),
            Pattern::Value(value) if matches!(values.get(value), Value::Row(_)) => Pattern::New(mixed(self)),
            _ => Pattern::Any,
        }
    }

    /// Whether a version of this pattern can have been seen as `seen`.
    #[must_use]
    pub fn matches(&self, seen: ValueId, values: &Values) -> bool {
        if seen == ValueId::UNKNOWN {
            return true;
        }
        match (self, values.get(seen)) {
            (Pattern::Any, _) => true,
            (Pattern::Value(value), _) => same(*value, seen, values),
            (Pattern::Row(known) | Pattern::New(known), Value::Row(columns)) => agree(known, columns),
            (Pattern::Tail(tail), Value::List(items)) => items.ends_with(tail),
            (Pattern::List(list), Value::List(items)) => items == list.as_slice(),
            (Pattern::List(list), Value::Null) => list.is_empty(),
            (Pattern::Row(_) | Pattern::New(_) | Pattern::Tail(_), Value::Null) => false,
            // Values of another kind than what was written: nothing is known of conversions.
            (Pattern::Row(_) | Pattern::New(_) | Pattern::Tail(_) | Pattern::List(_), _) => true,
        }
    }

    /// Whether it says what a column of the row is: all but a partial row without it do.
    #[must_use]
    pub fn determines(&self, column: NameId) -> bool {
        match self {
            Pattern::Row(columns) => columns.binary_search_by_key(&column, |&(name, _)| name).is_ok(),
            _ => true,
        }
    }

    /// Whether the column may be `seen` where this version determines it, and later ones may have
    /// left it alone.
    #[must_use]
    pub fn shows(&self, column: NameId, seen: ValueId, values: &Values) -> bool {
        let columns = match self {
            Pattern::Row(columns) | Pattern::New(columns) => columns.as_slice(),
            Pattern::Value(value) => match values.get(*value) {
                Value::Row(columns) => columns,
                // A later partial write makes a row of what was absent; its other columns have
                // their defaults.
                _ => return true,
            },
            _ => return true,
        };
        agree(columns, &[(column, seen)])
    }

    /// Whether it determines every column that `other` determines.
    #[must_use]
    pub fn covers(&self, other: &Pattern, values: &Values) -> bool {
        let Pattern::Row(mine) = self else { return true };
        let has = |&(name, _): &(NameId, ValueId)| mine.binary_search_by_key(&name, |&(n, _)| n).is_ok();
        match other {
            Pattern::Row(columns) => columns.iter().all(has),
            // All columns that a table has are not known here.
            Pattern::New(_) => false,
            Pattern::Value(value) => match values.get(*value) {
                Value::Row(columns) => columns.iter().all(has),
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether the object may be absent.
    #[must_use]
    pub fn may_be_absent(&self) -> bool {
        self.is_absent() || matches!(self, Pattern::Any)
    }

    /// Whether it says that the object is absent.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Pattern::Value(value) if *value == ValueId::NULL)
    }
}

fn is_empty(value: ValueId, values: &Values) -> bool {
    match values.get(value) {
        Value::Null => true,
        Value::List(items) => items.is_empty(),
        _ => false,
    }
}

fn same(value: ValueId, seen: ValueId, values: &Values) -> bool {
    if value == seen || (is_empty(value, values) && is_empty(seen, values)) {
        return true;
    }
    match (values.get(value), values.get(seen)) {
        (Value::Row(known), Value::Row(columns)) => agree(known, columns),
        (Value::Unknown, _) => true,
        _ => false,
    }
}

/// Whether no column that both have differs. A column that is missing may be of the key, or not
/// have been told.
fn agree(known: &[(NameId, ValueId)], seen: &[(NameId, ValueId)]) -> bool {
    seen.iter().all(|(name, value)| {
        *value == ValueId::UNKNOWN
            || known
                .binary_search_by_key(name, |&(n, _)| n)
                .ok()
                .is_none_or(|place| known[place].1 == *value || known[place].1 == ValueId::UNKNOWN)
    })
}

fn appended(before: Option<Pattern>, element: ValueId, values: &Values) -> Pattern {
    match before {
        None => Pattern::Tail(vec![element]),
        Some(Pattern::Tail(mut items)) => {
            items.push(element);
            Pattern::Tail(items)
        }
        Some(Pattern::List(mut items)) => {
            items.push(element);
            Pattern::List(items)
        }
        Some(Pattern::Value(value)) => match values.get(value) {
            Value::List(items) => Pattern::List(items.iter().copied().chain([element]).collect()),
            _ => Pattern::Tail(vec![element]),
        },
        Some(Pattern::Any | Pattern::Row(_) | Pattern::New(_)) => Pattern::Any,
    }
}

/// Whether the transaction itself had made the object absent, or a row of its own.
fn starts_anew(before: &Option<Pattern>) -> bool {
    matches!(before, Some(Pattern::Value(_) | Pattern::New(_)))
}

fn merged(before: Option<Pattern>, columns: &[(NameId, ValueId)], values: &Values) -> Vec<(NameId, ValueId)> {
    let mut all = match before {
        Some(Pattern::Row(all) | Pattern::New(all)) => all,
        Some(Pattern::Value(value)) => match values.get(value) {
            Value::Row(all) => all.to_vec(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    for &(name, value) in columns {
        match all.binary_search_by_key(&name, |&(n, _)| n) {
            Ok(place) => all[place].1 = value,
            Err(place) => all.insert(place, (name, value)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_were_not_written_may_be_anything() {
        let mut values = Values::default();
        let (v, w) = (values.intern_name("v"), values.intern_name("w"));
        let (one, two) = (values.int(1), values.int(2));
        let (partial, whole) = (values.row(&[(v, one)]), values.row(&[(v, one), (w, two)]));
        let other = values.row(&[(v, two), (w, two)]);
        let pattern = Pattern::written(None, OpKind::Write, partial, &values);
        assert!(pattern.matches(whole, &values) && !pattern.matches(other, &values));
        assert!(!pattern.matches(ValueId::NULL, &values));
        let set = values.row(&[(w, one)]);
        let pattern = Pattern::written(Some(pattern), OpKind::Write, set, &values);
        assert!(!pattern.matches(whole, &values));
    }

    #[test]
    fn a_column_is_what_the_last_version_that_has_it_says() {
        let mut values = Values::default();
        let (v, w) = (values.intern_name("v"), values.intern_name("w"));
        let (one, two) = (values.int(1), values.int(2));
        let whole = Pattern::Value(values.row(&[(v, one), (w, two)]));
        let partial = Pattern::Row(vec![(v, two)]);
        assert!(partial.determines(v) && !partial.determines(w) && whole.determines(w));
        assert!(whole.shows(w, two, &values) && !whole.shows(w, one, &values));
        assert!(!partial.covers(&whole, &values) && whole.covers(&partial, &values));
        assert!(partial.covers(&partial, &values));
        assert!(!partial.covers(&Pattern::Value(ValueId::NULL), &values));
    }

    #[test]
    fn a_list_ends_with_what_was_appended() {
        let mut values = Values::default();
        let (one, two) = (values.int(1), values.int(2));
        let (both, only, none) = (values.list(&[one, two]), values.list(&[one]), values.list(&[]));
        let pattern = Pattern::written(None, OpKind::Append, two, &values);
        assert!(pattern.matches(both, &values) && !pattern.matches(only, &values));
        let fresh = Pattern::Value(ValueId::NULL);
        assert!(fresh.matches(none, &values) && !fresh.matches(only, &values));
    }
}
