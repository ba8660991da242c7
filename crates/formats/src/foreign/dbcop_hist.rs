//! `dbcop-hist`: the text of dbcop's main branch.
//!
//! `[x:=1 y==2 z==?]` is a transaction that writes 1 to x, reads 2 from y and the initial state of
//! z; a `!` behind it says that it did not commit; a line of dashes ends a session; `//` begins a
//! comment. See `dbcop_draft` for reads of `?`.

use margay_history::{History, OpKind, ValueId};

use super::dbcop_draft::{Draft, Event};
use super::registers::integer;
use crate::input::{Input, Lines};
use crate::{FormatError, Warnings};

pub(crate) fn read(input: Input<'_>, _: &mut Warnings) -> Result<History, FormatError> {
    let mut lines = input.lines()?;
    let mut draft = Draft::default();
    while lines.advance()? {
        let text = lines.text()?;
        let text = text.split_once("//").map_or(text, |(text, _)| text).trim();
        match text.bytes().all(|byte| byte == b'-') {
            true if text.is_empty() => {}
            true => draft.end_session(),
            false => transactions(&mut draft, &lines, text)?,
        }
    }
    draft.finish().map_err(|invalid| lines.invalid(invalid))
}

/// The transactions of a line.
fn transactions(draft: &mut Draft, lines: &Lines<'_>, mut text: &str) -> Result<(), FormatError> {
    while !text.is_empty() {
        let Some((inside, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
            return Err(lines.error(column(lines, text), "expected a transaction, as [x:=1 y==2]"));
        };
        let words = inside.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
        let events = words.map(|word| event(draft, lines, word)).collect::<Result<Vec<_>, _>>()?;
        let rest = rest.trim_start();
        let failed = rest.strip_prefix('!');
        draft.txn(lines.number(), failed.is_none(), events);
        text = failed.unwrap_or(rest).trim_start();
    }
    Ok(())
}

fn column(lines: &Lines<'_>, part: &str) -> u64 {
    (part.as_ptr() as usize - lines.line().as_ptr() as usize) as u64 + 1
}

fn event(draft: &mut Draft, lines: &Lines<'_>, word: &str) -> Result<Event, FormatError> {
    let bad = |what: &str| lines.error(column(lines, word), what);
    let (kind, key, version) = match (word.split_once(":="), word.split_once("==")) {
        (Some((key, version)), _) => (OpKind::Write, key, version),
        (None, Some((key, version))) => (OpKind::Read, key, version),
        (None, None) => return Err(bad("expected key:=version or key==version")),
    };
    if key.is_empty() {
        return Err(bad("an event without its key"));
    }
    let key = name(draft, key);
    match (kind, version) {
        (OpKind::Read, "?") => Ok((kind, key, None)),
        _ => match integer(&mut draft.registers.builder, version) {
            Some(version) => Ok((kind, key, Some(version))),
            None => Err(bad("a version is a number, or ? in a read")),
        },
    }
}

fn name(draft: &mut Draft, key: &str) -> ValueId {
    let builder = &mut draft.registers.builder;
    integer(builder, key).unwrap_or_else(|| builder.values().text(key))
}

#[cfg(test)]
mod tests {
    use margay_history::Outcome;

    use crate::Format;
    use crate::foreign::testing::{fails, reads};

    #[test]
    fn sessions_and_outcomes() {
        let text = b"// two sessions\n[x:=1 y==?]\n[x:=2 7==0]! // lost\n---\n[x==1] [y==0]\n\n----\n";
        let history = reads(Format::DbcopHist, text).history;
        assert_eq!((history.session_count(), history.txn_count()), (2, 4));
        assert_eq!(history.outcome(margay_history::TxnId(1)), Outcome::Aborted);
        assert_eq!(history.initial_values().len(), 3);
    }

    #[test]
    fn errors_have_their_place() {
        assert_eq!(
            fails(Format::DbcopHist, b"[x:=1]\n [x:=?]"),
            "<bytes>:2:3: a version is a number, or ? in a read"
        );
        assert_eq!(fails(Format::DbcopHist, b"[x:=1"), "<bytes>:1:1: expected a transaction, as [x:=1 y==2]");
        assert_eq!(fails(Format::DbcopHist, b"[x]"), "<bytes>:1:2: expected key:=version or key==version");
    }
}
