//! `edn`: Jepsen's and Elle's operations. See `jepsen` for what they become.
//!
//! Integers, strings, booleans, vectors and `nil` are values as they are; a keyword `:x` is the
//! text `":x"`, and written as a keyword again, so a string that begins with a colon cannot be
//! read.

use std::io::Write;

use margay_history::History;

use super::forms::{FormStream, Syntax};
use super::{jepsen, jepsen_write};
use crate::input::Input;
use crate::{FormatError, Warnings};

pub(crate) fn read(input: Input<'_>, warnings: &mut Warnings) -> Result<History, FormatError> {
    let name = input.name.clone();
    jepsen::read(FormStream::new(name, input.reader()?, Syntax::Edn), true, warnings)
}

pub(crate) fn write(history: &History, out: &mut dyn Write) -> Result<(), FormatError> {
    jepsen_write::write(history, Syntax::Edn, out)
}

#[cfg(test)]
mod tests {
    use margay_history::{Interval, OpKind, Outcome, TxnId, ValueId};

    use crate::Format;
    use crate::foreign::testing::{fails, reads, round_trip, written};

    #[test]
    fn list_append() {
        let text = br#"
            ; a comment
            {:index 0, :type :invoke, :process 0, :f :txn, :value [[:append :x 1] [:r "y" nil]], :time 17}
            #jepsen.history.Op{:index 1, :type :invoke, :process 1, :f :txn, :value [[:append "y" 2N]]}
            {:index 2, :type :ok, :process 0, :f :txn, :value [[:append :x 1] [:r "y" [2 2.5M]]]}
            {:index 3, :type :info, :process :nemesis, :f :kill, :value #{1 2}}
            {:index 4, :type :info, :process 1, :value [[:append "y" 2]] #_ :gone, :error {:via [{:at #inst "2020-01-01"}]}}
            {:index 6, :type :invoke, :process 0, :f :txn, :value [[:r :x nil]]}"#;
        let history = round_trip(Format::Edn, text);
        assert_eq!((history.session_count(), history.txn_count()), (2, 3));
        let outcomes: Vec<_> = history.txns().map(|txn| history.outcome(txn)).collect();
        assert_eq!(outcomes, [Outcome::Committed, Outcome::Unknown, Outcome::Unknown]);
        let read = history.op(margay_history::OpId(1));
        assert_eq!((read.kind, read.at), (OpKind::Read, Some(Interval::new(0, 2))));
        assert_eq!(history.show_value(read.accesses[0].value), "[2 2.5]");
        assert_eq!(history.show_object(history.op(margay_history::OpId(0)).accesses[0].object), ":x");
        assert_eq!(history.ops(TxnId(1)).next().unwrap().accesses[0].value, ValueId::UNKNOWN);
        assert_eq!(reads(Format::Edn, text).warnings.len(), 1);
    }

    #[test]
    fn wrapped_and_without_indices() {
        let text = b"[{:type :invoke :process 3 :value [[:w 1 2]]}, {:type :fail :process 3 :value nil}]";
        let history = round_trip(Format::Edn, text);
        assert_eq!(history.outcome(TxnId(0)), Outcome::Aborted);
        assert_eq!(history.op_count(), 2);
    }

    #[test]
    fn empty_lists_and_nil_are_absent() {
        let text = b"{:type :ok :process 0 :value [[:r :x []] [:r :y nil] [:r :z]]}";
        let history = round_trip(Format::Edn, text);
        assert!(history.ops(TxnId(0)).take(3).all(|op| op.accesses[0].value == ValueId::NULL));
    }

    #[test]
    fn failed_operations_may_tell_what_they_read() {
        let text = b"{:type :invoke :process 0 :value [[:r 1 nil] [:r 2 nil] [:r 3 nil]]}
            {:type :fail :process 0 :value [[:r 1 7] [:r 2 []] [:r 3 nil]]}";
        let history = round_trip(Format::Edn, text);
        let seen: Vec<_> =
            history.ops(TxnId(0)).take(3).map(|op| history.show_value(op.accesses[0].value)).collect();
        assert_eq!(seen, ["7", "absent", "?"]);
    }

    #[test]
    fn a_failed_swap_tells_nothing() {
        let text =
            b"{:type :fail :process 0 :f :cas :value [1 2]} {:type :ok :process 0 :f :cas :value [1 2]}";
        let history = round_trip(Format::Edn, text);
        assert_eq!(history.ops(TxnId(0)).next().unwrap().accesses[0].value, ValueId::UNKNOWN);
        assert_eq!(history.ops(TxnId(1)).next().unwrap().accesses[0].value.small_int(), Some(1));
    }

    /// It was read as a blind write, so that a value could come from nowhere.
    #[test]
    fn a_swap_in_doubt_found_what_it_wanted_or_did_not_happen() {
        let text =
            b"{:type :invoke :process 0 :f :cas :value [7 2]} {:type :info :process 0 :f :cas :value [7 2]}
            {:type :invoke :process 1 :f :cas :value [8 3]}";
        let history = reads(Format::Edn, text).history;
        for (txn, wanted) in [(TxnId(0), 7), (TxnId(1), 8)] {
            assert_eq!(history.outcome(txn), Outcome::Unknown);
            assert_eq!(history.ops(txn).next().unwrap().accesses[0].value.small_int(), Some(wanted));
        }
        let mutex = b"{:type :invoke :process 0 :f :acquire :value nil}";
        let history = reads(Format::Edn, mutex).history;
        assert_eq!(history.show_value(history.ops(TxnId(0)).next().unwrap().accesses[0].value), "\"free\"");
    }

    /// Jepsen's independent keys: `[key value]` was read as a set of two elements,
    /// `[key [old new]]` as a swap of the key.
    #[test]
    fn independent_registers() {
        let text = b"{:type :invoke :process 0 :f :write :value [1 5]} {:type :ok :process 0 :f :write :value [1 5]}
            {:type :invoke :process 0 :f :read :value [1 nil]} {:type :ok :process 0 :f :read :value [1 5]}
            {:type :invoke :process 0 :f :read :value [2 nil]} {:type :ok :process 0 :f :read :value [2 nil]}
            {:type :invoke :process 0 :f :cas :value [1 [5 6]]} {:type :info :process 0 :f :cas :value [1 [5 6]]}";
        let history = round_trip(Format::Edn, text);
        let shown: Vec<_> = history
            .txns()
            .flat_map(|txn| history.ops(txn))
            .filter_map(|op| Some((op.kind.name(), op.accesses.first()?)))
            .map(|(kind, access)| {
                format!("{kind} {} {}", history.show_object(access.object), history.show_value(access.value))
            })
            .collect();
        assert_eq!(
            shown,
            ["write key 1 5", "read key 1 5", "read key 2 absent", "read key 1 5", "write key 1 6"]
        );
    }

    /// Knossos spells its micro-operations out, and its model has the initial values, which the log
    /// has not.
    #[test]
    fn multi_registers() {
        let text = b"{:type :invoke, :f :txn, :value [[:read :x nil]], :process 3}
            {:type :ok, :f :txn, :value [[:read :x 0] [:read :y nil]], :process 3}
            {:type :ok, :f :txn, :value [[:write :x 1] [:read :y 5]], :process 4}
            {:type :ok, :f :txn, :value [[:read :x 1] [:read :y 6]], :process 3}";
        let loaded = reads(Format::Edn, text);
        let history = loaded.history;
        let initial = history.initial_values().iter().map(|&(_, value)| history.show_value(value));
        assert_eq!(initial.collect::<Vec<_>>(), ["0", "5"]);
        let second = history.ops(TxnId(0)).nth(1).unwrap().accesses[0].value;
        assert_eq!(second, ValueId::UNKNOWN);
        assert_eq!(loaded.warnings.len(), 1);
    }

    #[test]
    fn closed_predicates() {
        let text = b"{:index 0 :type :invoke :process 0 :f :init :value {:x 0, 5 \"it's\"}}
            {:index 1 :type :ok :process 0 :f :init :value {:x 0, 5 \"it's\"}}
            {:index 2 :type :invoke :process 0 :f :txn :value [[:r :x nil] [:rp :true nil]]}
            {:index 3 :type :ok :process 0 :f :txn :value [[:r :x 0] [:rp :true {:x 0, 5 \"it's\"}]]}
            {:index 4 :type :ok :process 0 :f :txn :value [[:insert :y 2] [:delete :x] [:rp [:mod 2 0] {:y 2}]]}
            {:index 5 :type :ok :process 0 :f :txn :value [[:rp [:= :k] {}] [:rp [:= \"it's\"] {5 \"it's\"}] [:rp [:= nil] {}]]}";
        let history = round_trip(Format::Edn, text);
        let conditions: Vec<_> = history.predicates().iter().map(|p| p.text.to_string()).collect();
        assert_eq!(conditions, ["TRUE", "value % 2 = 0", "value = ':k'", "value = 'it''s'", "value IS NULL"]);
        assert_eq!(history.initial_values().len(), 2);
    }

    #[test]
    fn workloads_of_jepsen() {
        let bank = b"{:type :ok :process 0 :f :read :value {0 10, 1 0}}
            {:type :invoke :process 0 :f :transfer :value {:from 0 :to 1 :amount 3}}
            {:type :ok :process 0 :f :transfer :value {:from 0 :to 1 :amount 3}}";
        let history = reads(Format::Edn, bank).history;
        assert_eq!(history.initial_values().len(), 2);
        assert!(history.has_kind(OpKind::Sql));
        let counter = b"{:type :ok :process 0 :f :read :value 0} {:type :ok :process 0 :f :add :value 2}";
        assert_eq!(reads(Format::Edn, counter).history.tables()[0].name, "counter");
        let set = b"{:type :ok :process 0 :f :add :value 2} {:type :ok :process 0 :f :read :value [2]}";
        assert!(reads(Format::Edn, set).history.has_kind(OpKind::Scan));
        let register =
            b"{:type :ok :process 0 :f :write :value 2} {:type :ok :process 0 :f :cas :value [2 3]}";
        assert_eq!(reads(Format::Edn, register).history.op_count(), 5);
    }

    #[test]
    fn operations_without_processes_keep_wide_intervals() {
        let text = b"{:type :invoke :f :read :value nil} {:type :invoke :f :write :value 4}
            {:type :ok :f :write :value 4} {:type :ok :f :read :value #{4}}";
        let loaded = reads(Format::Edn, text);
        let at: Vec<_> = loaded.history.txns().map(|txn| loaded.history.start(txn)).collect();
        assert_eq!(at, [Some(0), Some(1)]);
        assert_eq!(loaded.warnings.len(), 1);
    }

    #[test]
    fn errors_have_their_place() {
        for (text, error) in [
            ("{:type :ok\n :process 0 :value [[:q 1 2]]}", "<bytes>:2:21: an unknown micro-operation \"q\""),
            ("{:type :ok :process 0 :value [[:w 1 \":x\"]]}", "<bytes>:1:37: a string that begins with ':'"),
            ("{:type :ok :process 0 :value [[:w 1 1/2]]}", "<bytes>:1:37: a ratio"),
            ("{:type :ok", "<bytes>:1:11: the file ends in the middle of a form"),
            ("[{:type :ok :process 0 :value []}", "<bytes>:1:34: the file ends before the closing ']'"),
            ("{:a}", "<bytes>:1:4: a map with a key that has no value"),
            ("[] 7", "<bytes>:1:4: something follows the end of the history"),
            ("{:type \"x", "<bytes>:1:8: a string without an end"),
            ("7", "<bytes>:1:1: an operation is a map"),
            ("{:type :what :process 1}", "<bytes>:1:8: a :type is :invoke, :ok, :fail or :info"),
            ("{:index 1 :type :ok :process 1 :value []}\n{:index 1 :type :ok}", "<bytes>:2:9: the :index"),
        ] {
            let found = fails(Format::Edn, text.as_bytes());
            assert!(found.starts_with(error), "{text}: {found}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error() {
        for open in ["[", "{:a ", "#_ ", "#a ", "^a ", "("] {
            let text = format!("{{:x {}", open.repeat(1_000_000));
            assert!(fails(Format::Edn, text.as_bytes()).contains("nested deeper"), "{open}");
        }
    }

    #[test]
    fn forms_may_span_blocks() {
        let long = "x".repeat(700_000);
        let op = |n: u32| format!("{{:type :ok :process {n} :error \"{long}\" :value [[:w {n} 1]]}}\n");
        let text: String = (0..5).map(op).collect();
        assert_eq!(reads(Format::Edn, text.as_bytes()).history.txn_count(), 5);
    }

    #[test]
    fn what_cannot_be_carried_is_named() {
        let history = reads(Format::Text, b"r(1,0,0,0)\n").history;
        let error =
            crate::write(&history, Format::Edn, crate::Target::Stream(Box::new(Vec::new()))).unwrap_err();
        assert!(error.to_string().contains("no time"), "{error}");
        let bank = b"{:type :ok :process 0 :f :transfer :value {:from 0 :to 1 :amount 3}}";
        let history = reads(Format::Edn, bank).history;
        let error =
            crate::write(&history, Format::Edn, crate::Target::Stream(Box::new(Vec::new()))).unwrap_err();
        assert!(error.to_string().contains("transaction 0, operation 0 (sql)"), "{error}");
    }

    #[test]
    fn unusual_forms() {
        let text = "{:type :ok :process 0 :value [[:w \"\\u00e9\\ud83d\\ude00\" \\a] [:w 2 -5] [:w 3 18446744073709551615]] \
                    :odd [##Inf ##NaN 1/3 123456789012345678901234567890N #\"re\" foo/bar \\newline \\( ^:m {} #{}]}";
        let history = round_trip(Format::Edn, text.as_bytes());
        assert_eq!(history.show_object(history.op(margay_history::OpId(0)).accesses[0].object), "é😀");
        assert!(String::from_utf8(written(Format::Edn, &history)).unwrap().contains("18446744073709551615"));
    }
}
