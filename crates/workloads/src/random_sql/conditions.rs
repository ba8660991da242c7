//! Conditions and expressions about one table.

use super::draft::{Draft, Hole};
use super::tables::Shown;

const COMPARED: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];
const MONEY: [&str; 4] = ["0.25", "1.50", "3.00", "5.75"];

/// A table in the scope of an expression, with the word that stands before its columns: `x.`, or
/// nothing.
#[derive(Clone, Copy)]
pub(super) struct Scope {
    pub table: Shown,
    pub before: &'static str,
}

impl Scope {
    pub fn column(&self, name: &str) -> String {
        format!("{}{name}", self.before)
    }
}

/// A condition; deeper ones have parts.
pub(super) fn condition(draft: &mut Draft<'_>, scope: Scope, depth: u32) {
    if depth == 0 {
        return simple(draft, scope);
    }
    match draft.below(8) {
        0..3 => simple(draft, scope),
        3 | 4 => both(draft, scope, " AND ", depth),
        5 => both(draft, scope, " OR ", depth),
        6 => {
            draft.say("NOT (");
            condition(draft, scope, depth - 1);
            draft.say(")");
        }
        _ => subquery(draft, scope),
    }
}

fn both(draft: &mut Draft<'_>, scope: Scope, word: &str, depth: u32) {
    draft.say("(");
    condition(draft, scope, depth - 1);
    draft.say(word);
    condition(draft, scope, depth - 1);
    draft.say(")");
}

fn simple(draft: &mut Draft<'_>, scope: Scope) {
    match draft.below(6) {
        0 | 1 => by_key(draft, scope),
        2 | 3 => by_int(draft, scope),
        4 => by_text(draft, scope),
        _ => by_money(draft, scope),
    }
}

/// One column of the key.
pub(super) fn by_key(draft: &mut Draft<'_>, scope: Scope) {
    let column = scope.column(draft.pick(scope.table.key));
    let hole = if scope.table.named { Hole::Name } else { Hole::Key };
    ranged(draft, &column, hole);
}

fn ranged(draft: &mut Draft<'_>, column: &str, hole: Hole) {
    draft.say(column);
    match draft.below(4) {
        0 | 1 => {
            let compared = draft.pick(&COMPARED);
            draft.say(&format!(" {compared} "));
            draft.hole(hole);
        }
        2 => {
            draft.say(" BETWEEN ");
            draft.hole(hole);
            draft.say(" AND ");
            draft.hole(hole);
        }
        _ => {
            let word = draft.pick(&[" IN (", " IN (", " NOT IN ("]);
            draft.say(word);
            draft.list(", ", &[(); 3], |draft, ()| draft.hole(hole));
            draft.say(")");
        }
    }
}

fn by_int(draft: &mut Draft<'_>, scope: Scope) {
    let column = scope.column(draft.pick(scope.table.ints));
    match draft.below(6) {
        0 => draft.say(&format!("{column} IS NULL")),
        1 => draft.say(&format!("{column} IS NOT NULL")),
        2 => {
            number(draft, scope, 1);
            let compared = draft.pick(&COMPARED);
            draft.say(&format!(" {compared} "));
            draft.hole(Hole::Int);
        }
        3 => draft.say(&format!("{column} % 3 = 1")),
        _ => ranged(draft, &column, Hole::Int),
    }
}

fn by_text(draft: &mut Draft<'_>, scope: Scope) {
    let [column] = scope.table.texts else { return by_key(draft, scope) };
    let column = scope.column(column);
    match draft.below(4) {
        0 => draft.say(&format!("{column} LIKE 'a%'")),
        1 => draft.say(&format!("LENGTH({column}) > 1")),
        _ => ranged(draft, &column, Hole::Text),
    }
}

fn by_money(draft: &mut Draft<'_>, scope: Scope) {
    let Some(column) = scope.table.money else { return by_int(draft, scope) };
    let (compared, amount) = (draft.pick(&COMPARED), draft.pick(&MONEY));
    draft.say(&format!("{} {compared} {amount}", scope.column(column)));
}

/// A condition that looks at another table.
fn subquery(draft: &mut Draft<'_>, scope: Scope) {
    let other = draft.other(scope.table);
    let inner = Scope { table: other, before: "z." };
    let (own, name) = (scope.column(draft.pick(scope.table.ints)), other.name);
    match draft.below(4) {
        0 => draft.say(&format!("EXISTS (SELECT 1 FROM {name} z WHERE z.n = {own} AND ")),
        1 => draft.say(&format!("NOT EXISTS (SELECT 1 FROM {name} z WHERE z.n = {own} AND ")),
        2 => draft.say(&format!("{own} IN (SELECT z.n FROM {name} z WHERE ")),
        _ => {
            let (compared, of) = (draft.pick(&COMPARED), draft.pick(&["MAX(z.n)", "MIN(z.n)", "COUNT(*)"]));
            draft.say(&format!("{own} {compared} (SELECT {of} FROM {name} z WHERE "));
        }
    }
    condition(draft, inner, 0);
    draft.say(")");
}

/// A whole number, or NULL; it stays small however often it is stored.
pub(super) fn number(draft: &mut Draft<'_>, scope: Scope, depth: u32) {
    let column = scope.column(draft.pick(scope.table.ints));
    match draft.below(if depth == 0 { 2 } else { 7 }) {
        0 => draft.say(&column),
        1 | 2 => {
            let sign = draft.pick(&["+", "-"]);
            draft.say(&format!("{column} {sign} "));
            draft.hole(Hole::Int);
        }
        3 => draft.say(&format!("({column} * 2 + 1) % 50")),
        4 => {
            draft.say(&format!("COALESCE({column}, "));
            draft.hole(Hole::Int);
            draft.say(")");
        }
        5 => draft.say(&format!("ABS({column})")),
        _ => {
            draft.say("CASE WHEN ");
            condition(draft, scope, 0);
            draft.say(" THEN ");
            number(draft, scope, 0);
            draft.say(&format!(" ELSE {column} END"));
        }
    }
}

/// An amount, or NULL.
pub(super) fn amount(draft: &mut Draft<'_>, column: &str) {
    let amount = draft.pick(&MONEY);
    match draft.below(4) {
        0 => draft.say(amount),
        1 => draft.say("NULL"),
        2 => draft.say(&format!("{column} - 0.25")),
        _ => draft.say(&format!("{column} + {amount}")),
    }
}
