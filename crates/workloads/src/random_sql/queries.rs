//! Statements that read.

use super::conditions::{Scope, condition, number};
use super::draft::{Draft, Hole};
use super::tables::Shown;

/// A statement that reads.
pub(super) fn query(draft: &mut Draft<'_>) {
    match draft.below(10) {
        0..3 => rows(draft),
        3 => distinct(draft),
        4 => aggregates(draft),
        5 => groups(draft),
        6 | 7 => join(draft),
        8 => counted(draft),
        _ => derived(draft),
    }
}

/// `FROM table x WHERE condition`.
fn from(draft: &mut Draft<'_>, table: Shown) -> Scope {
    let scope = Scope { table, before: "x." };
    draft.say(&format!(" FROM {} x WHERE ", table.name));
    condition(draft, scope, 2);
    scope
}

fn columns(table: Shown, before: &str) -> Vec<String> {
    let all = table.key.iter().chain(table.ints).chain(table.texts).chain(&table.money);
    all.map(|column| format!("{before}{column}")).collect()
}

/// Rows, in order or not, all or some, locked or not.
fn rows(draft: &mut Draft<'_>) {
    let table = draft.table();
    let scope = Scope { table, before: "x." };
    draft.say("SELECT ");
    draft.say(&columns(table, "x.").join(", "));
    if draft.one_in(3) {
        draft.say(", ");
        number(draft, scope, 1);
    }
    from(draft, table);
    if draft.one_in(2) {
        ordered(draft, table);
    }
    if draft.one_in(4) {
        draft.say(" FOR UPDATE");
    }
}

/// By the whole key, so that a limit leaves no choice; or by something else, without one.
fn ordered(draft: &mut Draft<'_>, table: Shown) {
    draft.say(" ORDER BY ");
    if draft.one_in(3) {
        let column = draft.pick(table.ints);
        return draft.say(&format!("x.{column} DESC"));
    }
    let way = draft.pick(&["", " DESC"]);
    draft.list(", ", table.key, |draft, column| draft.say(&format!("x.{column}{way}")));
    if draft.one_in(2) {
        draft.say(" LIMIT ");
        draft.hole(Hole::Few);
        if draft.one_in(3) {
            draft.say(" OFFSET 1");
        }
    }
}

fn distinct(draft: &mut Draft<'_>) {
    let table = draft.table();
    let column = draft.pick(table.ints);
    let texts = table.texts.iter().filter(|_| draft.one_in(2)).map(|text| format!(", x.{text}"));
    let texts: String = texts.collect();
    draft.say(&format!("SELECT DISTINCT x.{column}{texts}"));
    from(draft, table);
    if draft.one_in(2) {
        draft.say(&format!(" ORDER BY x.{column}"));
    }
}

/// One to three aggregates.
fn aggregated(draft: &mut Draft<'_>, table: Shown) {
    let count = 1 + draft.below(3) as usize;
    draft.list(", ", &vec![(); count], |draft, ()| {
        let column = draft.pick(table.ints);
        let of = draft.pick(&["SUM", "MIN", "MAX", "COUNT", "AVG"]);
        match (draft.below(6), table.money, table.texts) {
            (0, ..) => draft.say("COUNT(*)"),
            (1, Some(money), _) => {
                let of = draft.pick(&["SUM", "MIN", "MAX", "COUNT"]);
                draft.say(&format!("{of}(x.{money})"));
            }
            (2, _, [text]) => {
                let of = draft.pick(&["MIN", "MAX", "COUNT"]);
                draft.say(&format!("{of}(x.{text})"));
            }
            (3, ..) => draft.say(&format!("{of}(DISTINCT x.{column})")),
            _ => draft.say(&format!("{of}(x.{column})")),
        }
    });
}

fn aggregates(draft: &mut Draft<'_>) {
    let table = draft.table();
    draft.say("SELECT ");
    aggregated(draft, table);
    from(draft, table);
}

fn groups(draft: &mut Draft<'_>) {
    let table = draft.table();
    let by = *table.texts.first().filter(|_| draft.one_in(2)).unwrap_or(&table.ints[0]);
    draft.say(&format!("SELECT x.{by}, "));
    aggregated(draft, table);
    from(draft, table);
    draft.say(&format!(" GROUP BY x.{by}"));
    match draft.below(4) {
        0 => {
            draft.say(" HAVING COUNT(*) >= ");
            draft.hole(Hole::Few);
        }
        1 => draft.say(&format!(" ORDER BY x.{by}")),
        _ => {}
    }
}

fn join(draft: &mut Draft<'_>) {
    let (one, other) = (draft.table(), draft.table());
    let scope = Scope { table: one, before: "x." };
    let mut all = columns(one, "x.");
    all.truncate(3);
    all.extend(other.key.iter().map(|column| format!("y.{column}")));
    all.push("y.n".to_owned());
    let word = draft.pick(&["JOIN", "LEFT JOIN"]);
    let (left, right) = (draft.pick(one.ints), draft.pick(other.ints));
    draft.say(&format!(
        "SELECT {} FROM {} x {word} {} y ON x.{left} = y.{right}",
        all.join(", "),
        one.name,
        other.name
    ));
    if word == "LEFT JOIN" && draft.one_in(2) {
        draft.say(" AND ");
        condition(draft, Scope { table: other, before: "y." }, 0);
    }
    draft.say(" WHERE ");
    condition(draft, scope, 1);
}

/// Rows with a number that a subquery gives for each.
fn counted(draft: &mut Draft<'_>) {
    let (one, other) = (draft.table(), draft.table());
    let (name, of) = (other.name, draft.pick(&["COUNT(*)", "SUM(z.n)", "MAX(z.n)"]));
    draft.say(&format!("SELECT x.{}, (SELECT {of} FROM {name} z WHERE z.n = x.n)", one.key.join(", x.")));
    from(draft, one);
}

/// Groups as a table that is looked through.
fn derived(draft: &mut Draft<'_>) {
    let table = draft.table();
    draft.say(&format!("SELECT s.g, s.c FROM (SELECT x.n AS g, COUNT(*) AS c, MAX(x.{}) AS h", table.key[0]));
    from(draft, table);
    draft.say(" GROUP BY x.n) s WHERE s.c >= ");
    draft.hole(Hole::Few);
}
