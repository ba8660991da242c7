//! `elle-json`: the JSON of elle-cli, one array or one operation per line. See `jepsen` for what
//! the operations become.

use std::io::Write;

use margay_history::History;

use super::forms::{FormStream, Syntax};
use super::{jepsen, jepsen_write};
use crate::input::Input;
use crate::{FormatError, Warnings};

pub(crate) fn read(input: Input<'_>, warnings: &mut Warnings) -> Result<History, FormatError> {
    let name = input.name.clone();
    jepsen::read(FormStream::new(name, input.reader()?, Syntax::Json), false, warnings)
}

pub(crate) fn write(history: &History, out: &mut dyn Write) -> Result<(), FormatError> {
    jepsen_write::write(history, Syntax::Json, out)
}

#[cfg(test)]
mod tests {
    use crate::Format;
    use crate::foreign::testing::{fails, reads, round_trip};

    #[test]
    fn one_array_or_lines() {
        let array =
            br#"[{"index":1,"type":"invoke","f":"txn","process":0,"value":[["w","x",2],["r","y",null]]},
            {"index":2,"type":"ok","f":"txn","process":0,"value":[["w","x",2],["r","y",[1,2.5,"\u00e9"]]]}]"#;
        let history = round_trip(Format::ElleJson, array);
        assert_eq!((history.txn_count(), history.op_count()), (1, 3));
        let lines = br#"{"type":"invoke","process":0,"value":[["append","x",2]]}
            {"type":"ok","process":0,"value":[["append","x",2]]}"#;
        round_trip(Format::ElleJson, lines);
    }

    #[test]
    fn accounts_are_numbers() {
        let edn = reads(Format::Edn, b"{:type :ok :process 0 :f :read :value {0 10, 1 0}}").history;
        let json =
            reads(Format::ElleJson, br#"[{"type":"ok","process":0,"f":"read","value":{"0":10,"1":0}}]"#)
                .history;
        assert_eq!(edn.difference(&json), None);
    }

    #[test]
    fn errors_have_their_place() {
        for (text, error) in [
            ("[{\"type\" 1}]", "<bytes>:1:10: expected ':'"),
            ("[{\"type\":\"ok\",}]", "<bytes>:1:15: expected a name in double quotes"),
            ("[{} {}]", "<bytes>:1:2: an operation without a :type"),
            ("[{\"type\":\"ok\",\"value\":[]} {}]", "<bytes>:1:27: expected ',' or ']'"),
            ("[{\"type\":nil}]", "<bytes>:1:10: expected a JSON value"),
            ("{", "<bytes>:1:2: the file ends in the middle of a form"),
            (
                "{\"type\":\"ok\",\"process\":0,\"value\":[[\"rp\",\"true\",{}]]}",
                "<bytes>:1:35: predicates are read from EDN",
            ),
        ] {
            let found = fails(Format::ElleJson, text.as_bytes());
            assert!(found.starts_with(error), "{text}: {found}");
        }
    }
}
