//! How identifiers find columns and tables.

use sqlparser::ast::Ident;

use crate::dialect::Dialect;
use crate::error::SqlError;

/// How well a name fits an identifier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    None,
    /// The same but for case.
    Loose,
    Exact,
}

/// How well `name` fits `ident`. Unquoted identifiers ignore case; PostgreSQL folds them to lower
/// case.
pub(crate) fn fit(ident: &Ident, name: &str, dialect: Dialect) -> Fit {
    let quoted = ident.quote_style.is_some() && dialect.is_strict();
    let exact = if dialect.is_postgres() && !quoted {
        ident.value.to_ascii_lowercase() == name
    } else {
        ident.value == name
    };
    if exact {
        Fit::Exact
    } else if !quoted && ident.value.eq_ignore_ascii_case(name) {
        Fit::Loose
    } else {
        Fit::None
    }
}

/// The best-fitting of several names: an exact fit before a loose one, and only one of its kind.
pub(crate) fn find<'a>(
    ident: &Ident,
    names: impl Iterator<Item = &'a str>,
    dialect: Dialect,
) -> Result<Option<usize>, SqlError> {
    let mut best = (Fit::None, None);
    let mut twice = false;
    for (index, name) in names.enumerate() {
        let fit = fit(ident, name, dialect);
        if fit == Fit::None || fit < best.0 {
            continue;
        }
        twice = fit == best.0;
        best = (fit, Some(index));
    }
    if twice { Err(SqlError::AmbiguousColumn(ident.value.clone())) } else { Ok(best.1) }
}
