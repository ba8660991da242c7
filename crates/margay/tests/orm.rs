//! What object-relational mappers send: a lost update of one row, with each of their habits beside
//! it or instead.
//!
//! The table of the design of `margay proxy`: no habit may make a violation `clean` or `unknown` by
//! accident.

use margay::{Choice, Decision, Options, decide};
use margay_formats::Source;
use margay_history::History;
use margay_levels::Level;
use margay_verdict::{Budget, Question, Verdict};

/// One habit: the tables' columns, what both transactions run before they read, how they read and
/// how they write.
struct Habit {
    name: &'static str,
    /// The type of the key, and one key.
    key: (&'static str, &'static str),
    /// Fields of the table beside `key` and `columns`.
    table: &'static str,
    initial: bool,
    /// The type of `u`, a column beside `v`.
    u: &'static str,
    before: &'static [&'static str],
    read: &'static str,
    /// `V` is what was read.
    rows: &'static str,
    write: &'static str,
}

const PLAIN: Habit = Habit {
    name: "by key",
    key: ("bigint", "1"),
    table: "",
    initial: true,
    u: "bigint",
    before: &[],
    read: r#""sql":"SELECT v FROM t WHERE id = $1","params":[K]"#,
    rows: "[[V]]",
    write: r#""sql":"UPDATE t SET v = $1 WHERE id = $2","params":[V,K],"count":1"#,
};

impl Habit {
    fn history(&self) -> History {
        let (key, id) = self.key;
        let initial = if self.initial {
            format!(r#","initial":[[["t",{id}],{{"v":100,"u":5}}]]"#)
        } else {
            String::new()
        };
        let header = format!(
            r#"{{"margay":1,"unit":"us","dbms":"postgresql-15","level":"serializable","tables":{{"t":{{"key":["id"],"columns":{{"id":"{key}","v":"bigint","u":"{}"}}{}}},"o":{{"key":["id"],"columns":{{"id":"bigint","w":"bigint"}}}}}}{initial}}}"#,
            self.u, self.table
        );
        let mut lines = vec![header];
        let mut line = |session: u64, at: u64, what: &str| {
            lines.push(format!(r#"{{"session":{session},"txn":{session},"at":[{at},{}],{what}}}"#, at + 5));
        };
        let of = |text: &str, value: u64| text.replace('K', id).replace('V', &value.to_string());
        for session in [1, 2] {
            line(session, session * 10, r#""begin":true"#);
        }
        for (place, before) in self.before.iter().enumerate() {
            line(1, 100 + 20 * place as u64, before);
            line(2, 110 + 20 * place as u64, before);
        }
        let read = format!(r#"{},"rows":{}"#, self.read, self.rows);
        line(1, 300, &of(&read, 100));
        line(2, 310, &of(&read, 100));
        line(1, 400, &of(self.write, 110));
        line(1, 410, r#""commit":true"#);
        line(2, 420, &of(self.write, 120));
        line(2, 430, r#""commit":true"#);
        let text = lines.join("\n") + "\n";
        let read = margay_formats::read(Source::bytes(text.as_bytes()), None);
        read.unwrap_or_else(|error| panic!("{}: {error}\n{text}", self.name)).history
    }
}

const READ_ALL: &str = r#""sql":"SELECT v, u FROM t WHERE id = $1","params":[K]"#;

fn habits() -> Vec<Habit> {
    [vec![PLAIN], reads(), writes(), columns(), statements_beside()].into_iter().flatten().collect()
}

fn reads() -> Vec<Habit> {
    let read = |name, read, rows| Habit { name, read, rows, ..PLAIN };
    vec![
        read(
            "Rails",
            r#""sql":"SELECT \"t\".* FROM \"t\" WHERE \"t\".\"id\" = $1 ORDER BY \"t\".\"id\" ASC LIMIT $2","params":[K,1]"#,
            "[[K,V,5]]",
        ),
        read(
            "Hibernate",
            r#""sql":"select t1_0.id, t1_0.v from t t1_0 where t1_0.id = $1","params":[K]"#,
            "[[K,V]]",
        ),
        read(
            "SQLAlchemy",
            r#""sql":"SELECT t.id AS t_id, t.v AS t_v FROM public.t WHERE t.id = $1::BIGINT","params":[K]"#,
            "[[K,V]]",
        ),
        read(
            "Django's get",
            r#""sql":"SELECT \"t\".\"id\", \"t\".\"v\" FROM \"t\" WHERE \"t\".\"id\" = 1 LIMIT 21""#,
            "[[K,V]]",
        ),
        read("for update", r#""sql":"SELECT v FROM t WHERE id = $1 FOR UPDATE","params":[K]"#, "[[V]]"),
        read(
            "a comment",
            r#""sql":"SELECT v FROM t WHERE id = $1 /*route='f(x)',traceparent='00-1'*/","params":[K]"#,
            "[[V]]",
        ),
        read(
            "key and version",
            r#""sql":"SELECT id, v FROM t WHERE id = $1 AND u = 5","params":[K]"#,
            "[[K,V]]",
        ),
    ]
}

fn writes() -> Vec<Habit> {
    let write = |name, write| Habit { name, write, ..PLAIN };
    vec![
        write(
            "casts",
            r#""sql":"UPDATE t SET v = $1::INTEGER WHERE t.id = $2::BIGINT","params":[V,K],"count":1"#,
        ),
        write(
            "CAST",
            r#""sql":"UPDATE t SET v = $1 WHERE id = CAST($2 AS bigint)","params":[V,K],"count":1"#,
        ),
        write(
            "key and version",
            r#""sql":"UPDATE t SET v = $1 WHERE id = $2 AND u = 5","params":[V,K],"count":1"#,
        ),
        write(
            "returning",
            r#""sql":"UPDATE t SET v = $1 WHERE id = $2 RETURNING v","params":[V,K],"rows":[[V]]"#,
        ),
        write("now()", r#""sql":"UPDATE t SET v = $1, u = now() WHERE id = $2","params":[V,K],"count":1"#),
    ]
}

fn columns() -> Vec<Habit> {
    vec![
        Habit {
            name: "timestamptz",
            u: "timestamptz",
            read: READ_ALL,
            rows: r#"[[V,"2026-11-16T14:53:23.000000Z"]]"#,
            initial: false,
            table: r#","initial":"unknown""#,
            ..PLAIN
        },
        Habit {
            name: "timestamptz in another form",
            u: "timestamptz",
            read: READ_ALL,
            rows: r#"[[V,"2026-11-16 14:53"]]"#,
            ..PLAIN
        },
        Habit { name: "numeric", u: "numeric(12,2)", read: READ_ALL, rows: r#"[[V,"5.00"]]"#, ..PLAIN },
        Habit { name: "uuid", key: ("uuid", r#""0b3ad0b0-7d0c-4b9e-8f57-0f1d8f2f3a4b""#), ..PLAIN },
        Habit { name: "unknown initial rows", initial: false, table: r#","initial":"unknown""#, ..PLAIN },
    ]
}

fn statements_beside() -> Vec<Habit> {
    let beside = |name, before| Habit { name, before, ..PLAIN };
    vec![
        beside("count", &[r#""sql":"SELECT count(*) FROM o","rows":[[0]]"#]),
        beside("exists", &[r#""sql":"SELECT 1 WHERE EXISTS (SELECT 1 FROM o WHERE w = 3)","rows":[]"#]),
        beside("join", &[r#""sql":"SELECT o.w FROM o JOIN t ON t.id = o.id WHERE t.v > 3","rows":[]"#]),
        beside(
            "catalog",
            &[
                r#""sql":"SELECT c.relname, format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_class c JOIN pg_attribute a ON a.attrelid = c.oid","rows":[["t","x"]]"#,
            ],
        ),
        beside("savepoint", &[r#""sql":"SAVEPOINT s1""#, r#""sql":"RELEASE SAVEPOINT s1""#]),
        beside(
            "settings",
            &[
                r#""sql":"SET LOCAL lock_timeout = '1s'""#,
                r#""sql":"SHOW transaction_isolation","rows":[["serializable"]]"#,
            ],
        ),
        beside("advisory lock", &[r#""sql":"SELECT pg_advisory_xact_lock_shared(7)","rows":[[""]]"#]),
        beside("insert of an identity", &[r#""sql":"INSERT INTO o (w) VALUES (1)","count":1"#]),
    ]
}

fn ask(history: &History, engine: Choice, level: Level) -> Decision {
    decide(history, Question::new(level), &Options::with_engine(engine), &Budget::unlimited())
}

#[test]
fn no_habit_hides_a_lost_update() {
    let mut missed = Vec::new();
    for habit in habits() {
        let history = habit.history();
        for (engine, named) in [(Choice::Auto, "auto"), (margay::by_name("mirror").unwrap(), "mirror")] {
            let decision = ask(&history, engine, Level::Serializable);
            if !matches!(decision.verdict, Verdict::Violated(_)) {
                missed.push(format!(
                    "{} by {named}: {:?} {:?}",
                    habit.name, decision.verdict, decision.coverage
                ));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
