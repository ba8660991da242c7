//! `dbcop-json`: the JSON of dbcop's main branch.
//!
//! `{"params":…,"info":…,"start":…,"end":…,"data":[session…]}`; a session is a list of
//! `{"events":[…],"committed":bool}`; an event is `{"Read":{"variable":v,"version":n}}`,
//! `{"Write":…}`, `["r",v,n]` or `["w",v,n]`. See `dbcop_draft` for reads of `null`. The list of
//! sessions may also stand alone.

use margay_history::{History, OpKind};

use super::dbcop_draft::{Draft, Event};
use super::forms::{Form, FormStream, Node, Syntax};
use super::steps::{Fault, fault, value};
use crate::input::Input;
use crate::{FormatError, Warnings};

pub(crate) fn read(input: Input<'_>, _: &mut Warnings) -> Result<History, FormatError> {
    let name = input.name.clone();
    let mut stream = FormStream::new(name, input.reader()?, Syntax::Json);
    let mut draft = Draft::default();
    if !stream.advance()? {
        return Err(stream.error(0, "the file has no history"));
    }
    if stream.form().sequence().is_some() {
        loop {
            session(&mut draft, stream.form()).map_err(|Fault { at, what }| stream.error(at, what))?;
            if !stream.advance()? {
                return Ok(draft.finish()?);
            }
        }
    }
    document(&mut draft, stream.form()).map_err(|Fault { at, what }| stream.error(at, what))?;
    if stream.advance()? {
        return Err(stream.error(stream.form().offset(), "something follows the end of the history"));
    }
    Ok(draft.finish()?)
}

/// The value of a name in an object.
fn field<'t>(form: Form<'t>, name: &str) -> Option<Form<'t>> {
    form.pairs()?.find(|(key, _)| key.word() == Some(name)).map(|(_, value)| value)
}

fn document(draft: &mut Draft, form: Form<'_>) -> Result<(), Fault> {
    let Some(sessions) = field(form, "data").and_then(Form::sequence) else {
        return fault(form, "expected an object with a list \"data\" of sessions");
    };
    sessions.into_iter().try_for_each(|form| session(draft, form))
}

fn session(draft: &mut Draft, form: Form<'_>) -> Result<(), Fault> {
    let Some(txns) = form.sequence() else { return fault(form, "a session is a list") };
    for txn in txns {
        transaction(draft, txn)?;
    }
    draft.end_session();
    Ok(())
}

fn transaction(draft: &mut Draft, form: Form<'_>) -> Result<(), Fault> {
    let Some(events) = field(form, "events").and_then(Form::sequence) else {
        return fault(form, "a transaction has a list \"events\"");
    };
    let committed = match field(form, "committed").map(Form::node) {
        Some(Node::Bool(committed)) => committed,
        _ => return fault(form, "a transaction has \"committed\", true or false"),
    };
    let events = events.map(|form| event(draft, form)).collect::<Result<Vec<_>, _>>()?;
    draft.txn(0, committed, events);
    Ok(())
}

fn event(draft: &mut Draft, form: Form<'_>) -> Result<Event, Fault> {
    let (kind, variable, version) = parts(form)?;
    let builder = &mut draft.registers.builder;
    let key = match variable.node() {
        Node::Int(_) | Node::UInt(_) | Node::Text(_) => value(builder, variable)?,
        _ => return fault(variable, "a variable is a number or a name"),
    };
    let version = match version.map(|version| (version, version.node())) {
        None | Some((_, Node::Nil)) => None,
        Some((version, Node::Int(_) | Node::UInt(_))) => Some(value(builder, version)?),
        Some((version, _)) => return fault(version, "a version is a number or null"),
    };
    match (kind, version) {
        (OpKind::Write, None) => fault(form, "a write without its version"),
        _ => Ok((kind, key, version)),
    }
}

/// The kind, variable and version of an event, in either spelling.
fn parts(form: Form<'_>) -> Result<(OpKind, Form<'_>, Option<Form<'_>>), Fault> {
    if let Some(mut items) = form.sequence() {
        let kind = match items.next().and_then(Form::word) {
            Some("r") => OpKind::Read,
            Some("w") => OpKind::Write,
            _ => return fault(form, "an event is [\"r\", variable, version] or [\"w\", …]"),
        };
        return match items.next() {
            Some(variable) => Ok((kind, variable, items.next())),
            None => fault(form, "an event without its variable"),
        };
    }
    let (kind, inner) = match (field(form, "Read"), field(form, "Write")) {
        (Some(inner), None) => (OpKind::Read, inner),
        (None, Some(inner)) => (OpKind::Write, inner),
        _ => return fault(form, "an event is a \"Read\" or a \"Write\""),
    };
    match field(inner, "variable") {
        Some(variable) => Ok((kind, variable, field(inner, "version"))),
        None => fault(inner, "an event without its variable"),
    }
}

#[cfg(test)]
mod tests {
    use margay_history::Outcome;

    use crate::Format;
    use crate::foreign::testing::{fails, reads};

    #[test]
    fn both_spellings() {
        let text = br#"{"params":{"id":0},"info":"x","data":[
            [{"events":[{"Write":{"variable":1,"version":5}},{"Read":{"variable":2,"version":null}}],"committed":true},
             {"events":[["w",1,6],["r",2,0]],"committed":false}],
            [],
            [{"events":[["r",1,5],["w",3,0],["r",3,null]],"committed":true}]]}"#;
        let history = reads(Format::DbcopJson, text).history;
        assert_eq!((history.session_count(), history.txn_count()), (2, 3));
        let seen: Vec<_> =
            history.txns().flat_map(|t| history.ops(t)).filter(|op| op.kind.name() == "read").collect();
        let seen: Vec<_> = seen.iter().map(|op| history.show_value(op.accesses[0].value)).collect();
        assert_eq!(seen, ["0", "0", "5", "absent"]);
        assert_eq!(history.outcome(margay_history::TxnId(1)), Outcome::Aborted);
    }

    /// dbcop documents the list of sessions without an object around it; it was not recognised.
    #[test]
    fn the_list_of_sessions_alone() {
        let inside = r#"[{"events":[["w",1,5]],"committed":true}],[],
            [{"events":[["r",1,5],["r",2,null]],"committed":true}]"#;
        let array = format!("[{inside}]");
        assert_eq!(crate::detect(crate::Source::bytes(array.as_bytes())), Ok(Format::DbcopJson));
        let alone = reads(Format::DbcopJson, array.as_bytes()).history;
        let document = format!("{{\"data\":[{inside}]}}");
        let whole = reads(Format::DbcopJson, document.as_bytes()).history;
        assert_eq!(alone.difference(&whole), None);
        assert_eq!((alone.session_count(), alone.txn_count()), (2, 2));
        let found = fails(Format::DbcopJson, br#"[[{"events":[],"committed":true}],7]"#);
        assert!(found.starts_with("<bytes>:1:35: a session is a list"), "{found}");
    }

    #[test]
    fn errors_have_their_place() {
        for (text, error) in [
            ("{}", "<bytes>:1:1: expected an object with a list \"data\""),
            ("{\"data\":[[{\"events\":[[\"x\",1,2]],\"committed\":true}]]}", "<bytes>:1:22: an event is"),
            ("{\"data\":[[{\"events\":[]}]]}", "<bytes>:1:11: a transaction has \"committed\""),
            (
                "{\"data\":[[{\"events\":[[\"w\",1,null]],\"committed\":true}]]}",
                "<bytes>:1:22: a write without",
            ),
            ("{\"data\":[[", "<bytes>:1:11: the file ends"),
        ] {
            let found = fails(Format::DbcopJson, text.as_bytes());
            assert!(found.starts_with(error), "{text}: {found}");
        }
    }
}
