//! What is recorded of real clients on a real PostgreSQL.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use margay_history::{History, OpKind, Outcome};
use margay_proxy::{Initial, Options, OwnLevel, Proxy, Recorded, Secrecy};
use margay_servers::{Server, started};
use postgres::config::SslMode;
use postgres::{Client, Config, NoTls};

const SCHEMA: &str = "
    CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL, note text);
    INSERT INTO accounts VALUES (1, 100, 'one'), (2, 200, NULL);";

/// A server with tables; they are made before the proxy begins to look.
fn server(schema: &str) -> Option<Server> {
    let server = started(Server::postgres())?;
    direct(&server).batch_execute(schema).expect("a schema");
    Some(server)
}

fn direct(server: &Server) -> Client {
    Client::connect(server.url(), NoTls).expect("a connection")
}

fn options(server: &Server) -> Options {
    Options {
        limit: None,
        url: server.url().to_owned(),
        listen: "127.0.0.1:0".parse().expect("an address"),
        certificate: None,
        initial: Initial::Full,
        level: None,
        sole_writer: false,
        log: true,
        unit_field: None,
        outputs: None,
        secrecy: Secrecy::default(),
    }
}

/// A client with the server's own address, but for the port.
fn client(proxy: &Proxy) -> Client {
    let mut config: Config = proxy.url().parse().expect("an address");
    config.ssl_mode(SslMode::Disable);
    config.connect(NoTls).expect("a connection through the proxy")
}

/// Lets an application do something through a proxy.
fn recorded(server: &Server, act: impl FnOnce(&Proxy)) -> Recorded {
    recorded_with(options(server), act)
}

fn recorded_with(options: Options, act: impl FnOnce(&Proxy)) -> Recorded {
    let proxy = Proxy::start(options).expect("a proxy");
    act(&proxy);
    proxy.finish(Duration::from_secs(5)).expect("a recording")
}

/// Each transaction on one line: its statements with what they returned, and how it ended.
fn lines(history: &History) -> Vec<String> {
    let transaction = |txn| {
        let ops = history.ops(txn).filter_map(|op| {
            let statement = history.statement(op.id)?;
            let shown = |values: &[margay_history::ValueId]| {
                values.iter().map(|&value| history.show_value(value)).collect::<Vec<_>>().join(",")
            };
            let params = shown(&statement.params);
            let rows = statement.rows.as_deref().map(|rows| format!(" -> {}", shown(rows)));
            let count = statement.count.map(|count| format!(" #{count}"));
            let params = if params.is_empty() { params } else { format!(" ({params})") };
            let text = &statement.text;
            Some(format!("{text}{params}{}{}", rows.unwrap_or_default(), count.unwrap_or_default()))
        });
        let end = match history.outcome(txn) {
            Outcome::Committed => "committed",
            Outcome::Aborted => "aborted",
            Outcome::Unknown => "unknown",
        };
        ops.chain([end.to_owned()]).collect::<Vec<_>>().join("; ")
    };
    history.txns().map(transaction).collect()
}

#[test]
fn statements_parameters_rows_and_outcomes_are_recorded() {
    let Some(server) = server(SCHEMA) else { return };
    let recorded = recorded(&server, |proxy| {
        let mut client = client(proxy);
        client.query("SELECT balance, note FROM accounts WHERE id = $1", &[&1]).expect("a row");
        let mut t = client.transaction().expect("a transaction");
        t.execute("UPDATE accounts SET balance = balance - $1 WHERE id = $2", &[&10, &1]).expect("an update");
        t.commit().expect("a commit");
        let mut t = client.transaction().expect("a transaction");
        t.batch_execute(
            "DELETE FROM accounts WHERE id = 2; /* a;b */ SELECT note FROM accounts WHERE id = 2",
        )
        .expect("two statements");
        t.rollback().expect("a rollback");
        assert!(client.batch_execute("INSERT INTO accounts VALUES (1, 1)").is_err(), "a duplicate");
    });
    assert_eq!(recorded.all_concerns(), Vec::<String>::new());
    assert_eq!(
        (recorded.counts().committed, recorded.counts().aborted, recorded.counts().unknown),
        (2, 1, 0)
    );
    assert_eq!(recorded.parts[0].levels.clone(), [Some(OwnLevel::ReadCommitted)]);
    assert_eq!(
        lines(&recorded.parts[0].history),
        [
            "SELECT balance, note FROM accounts WHERE id = $1 (1) -> [100 \"one\"]; committed",
            "UPDATE accounts SET balance = balance - $1 WHERE id = $2 (10,1) #1; committed",
            "DELETE FROM accounts WHERE id = $1 (2) #1; SELECT note FROM accounts WHERE id = $1 (2) -> ; aborted",
        ]
    );
    assert_eq!(recorded.parts[0].history.initial_values().len(), 2);
    let verified = recorded.parts[0].verified.clone().expect("a live verification");
    assert_eq!((verified.violations, verified.ended), (0, None));
}

/// A COMMIT of a failed transaction is answered with the tag ROLLBACK.
#[test]
fn a_commit_that_is_answered_with_rollback_is_an_abort() {
    let Some(server) = server(SCHEMA) else { return };
    let recorded = recorded(&server, |proxy| {
        let mut client = client(proxy);
        client.batch_execute("BEGIN; UPDATE accounts SET balance = 1 WHERE id = 1").expect("an update");
        assert!(client.batch_execute("SELECT 1 / 0").is_err());
        client.batch_execute("COMMIT").expect("answered with ROLLBACK");
    });
    assert_eq!(
        lines(&recorded.parts[0].history),
        ["UPDATE accounts SET balance = $1 WHERE id = $2 (1,1) #1; aborted"]
    );
}

/// What is rolled back to a savepoint did not happen; what is released did.
#[test]
fn savepoints_are_followed() {
    let Some(server) = server(SCHEMA) else { return };
    let recorded = recorded(&server, |proxy| {
        let mut client = client(proxy);
        for text in [
            "BEGIN",
            "UPDATE accounts SET balance = 1 WHERE id = 1",
            "SAVEPOINT \"a\"",
            "UPDATE accounts SET balance = 2 WHERE id = 1",
            "ROLLBACK TO SAVEPOINT \"a\"",
            "SAVEPOINT b",
            "UPDATE accounts SET balance = 3 WHERE id = 2",
            "RELEASE b",
            "COMMIT AND CHAIN",
            "SELECT balance FROM accounts WHERE id = 1",
            "COMMIT",
        ] {
            client.batch_execute(text).expect(text);
        }
    });
    let one = "UPDATE accounts SET balance = $1 WHERE id = $2 (1,1) #1";
    let three = "UPDATE accounts SET balance = $1 WHERE id = $2 (3,2) #1";
    let read = "SELECT balance FROM accounts WHERE id = $1 (1) -> [1]";
    assert_eq!(
        lines(&recorded.parts[0].history),
        [format!("{one}; {three}; committed"), format!("{read}; committed")]
    );
}

/// REPEATABLE READ takes its snapshot when the first statement is parsed, even if that statement
/// fails, and is rolled back to a savepoint. The first recorded statement must not seem to begin
/// later.
#[test]
fn the_first_statement_begins_when_the_snapshot_was_taken() {
    let Some(server) = server(SCHEMA) else { return };
    let recorded = recorded(&server, |proxy| {
        let mut slow = client(proxy);
        slow.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SAVEPOINT a").expect("a transaction");
        assert!(slow.batch_execute("SELECT balance / 0 FROM accounts").is_err());
        slow.batch_execute("ROLLBACK TO a").expect("the savepoint");
        client(proxy).batch_execute("UPDATE accounts SET balance = 7 WHERE id = 1").expect("an update");
        let seen = slow.query("SELECT balance FROM accounts WHERE id = 1", &[]).expect("a row");
        assert_eq!(seen[0].get::<_, i32>(0), 100, "the snapshot is older than the update");
        slow.batch_execute("COMMIT").expect("a commit");
    });
    let history = &recorded.parts[0].history;
    let at = |text: &str| {
        let found = history
            .txns()
            .flat_map(|txn| history.ops(txn))
            .find_map(|op| history.statement(op.id).filter(|it| it.text.starts_with(text)).and(op.at));
        found.unwrap_or_else(|| panic!("no {text}: {:?}", lines(history)))
    };
    assert!(at("SELECT balance").before < at("UPDATE").before);
    assert_eq!(
        recorded.parts[0].levels.clone(),
        [Some(OwnLevel::ReadCommitted), Some(OwnLevel::RepeatableRead)]
    );
}

#[test]
fn levels_are_followed() {
    let Some(server) = server(SCHEMA) else { return };
    let level = |act: &dyn Fn(&mut Client)| {
        let recorded = recorded(&server, |proxy| act(&mut client(proxy)));
        recorded.parts[0].levels.clone()
    };
    let run = |texts: &'static [&'static str]| {
        move |client: &mut Client| texts.iter().for_each(|text| client.batch_execute(text).expect(text))
    };
    let serializable = [Some(OwnLevel::Serializable)];
    assert_eq!(
        level(&run(&["BEGIN ISOLATION LEVEL SERIALIZABLE", "SELECT id FROM accounts", "COMMIT"])),
        serializable
    );
    assert_eq!(
        level(&run(&[
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "SELECT id FROM accounts"
        ])),
        serializable
    );
    assert_eq!(
        level(&run(&[
            "BEGIN; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "SELECT id FROM accounts",
            "COMMIT"
        ])),
        serializable
    );
    let unknown: [Option<OwnLevel>; 1] = [None];
    assert_eq!(
        level(&run(&[
            "SELECT set_config('default_transaction_isolation', 'serializable', false); SELECT id FROM accounts"
        ])),
        unknown
    );
}

/// Whoever writes beside the proxy makes every value that nobody wrote look like a fault.
#[test]
fn other_sessions_are_noticed() {
    let Some(server) = server(SCHEMA) else { return };
    let read = |proxy: &Proxy| drop(client(proxy).query("SELECT id FROM accounts", &[]));
    let beside = recorded(&server, |proxy| {
        read(proxy);
        direct(&server).batch_execute("UPDATE accounts SET balance = 5").expect("an update beside the proxy");
    });
    assert!(
        beside.all_concerns().iter().any(|why| why.contains("did not come through")),
        "{:?}",
        beside.all_concerns()
    );
    let _stays = direct(&server);
    let before = recorded(&server, read);
    assert!(
        before.all_concerns().iter().any(|why| why.contains("at the start")),
        "{:?}",
        before.all_concerns()
    );
    let vouched = recorded_with(Options { sole_writer: true, ..options(&server) }, read);
    assert_eq!(vouched.all_concerns(), Vec::<String>::new());
}

#[test]
fn what_writes_by_itself_is_known_from_the_catalogs() {
    let Some(server) = server(
        "CREATE TABLE parents (id int PRIMARY KEY, n int);
         CREATE TABLE children (id int PRIMARY KEY, parent int REFERENCES parents ON DELETE CASCADE);
         CREATE TABLE counted (id bigserial PRIMARY KEY, n int DEFAULT 7, twice int GENERATED ALWAYS AS (n * 2) STORED);
         CREATE TABLE audited (id int PRIMARY KEY, n int);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN UPDATE parents SET n = n + 1; RETURN NULL; END $$;
         CREATE TRIGGER note AFTER INSERT ON audited FOR EACH ROW EXECUTE FUNCTION note();
         CREATE SCHEMA other; CREATE TABLE other.twins (id int); CREATE TABLE twins (id int);",
    ) else {
        return;
    };
    let quiet = recorded(&server, |proxy| drop(client(proxy).query("SELECT id FROM audited", &[])));
    assert_eq!(quiet.all_concerns(), Vec::<String>::new());
    let table = |name: &str| quiet.parts[0].history.tables().iter().find(|table| table.name == name);
    assert!(table("children").is_some_and(|table| table.written_by_anything));
    assert!(table("parents").is_some_and(|table| !table.has_unseen_writers()));
    assert!(table("counted").is_some_and(|table| table.columns_by_anything == ["twice"]));
    assert!(
        table("counted")
            .is_some_and(|table| table.columns[0].1 == "bigserial" && table.columns[1].1 == "int default")
    );
    assert!(table("twins").is_none(), "nobody knows which one a statement means");
    let loud = recorded(&server, |proxy| {
        client(proxy).batch_execute("INSERT INTO audited VALUES (1, 1)").expect("an insertion");
    });
    assert!(
        loud.all_concerns().iter().any(|why| why.contains("audited has a trigger")),
        "{:?}",
        loud.all_concerns()
    );
}

/// Only what is met is looked up, in the state before the first client. BEGIN alone took no
/// snapshot once, and rows were looked up as they were after the first update.
#[test]
fn rows_are_looked_up_when_they_are_met() {
    let Some(server) = server(SCHEMA) else { return };
    let lazy = Options { initial: Initial::Lazy, ..options(&server) };
    let recorded = recorded_with(lazy, |proxy| {
        let mut client = client(proxy);
        client.batch_execute("UPDATE accounts SET balance = 5 WHERE id = 2").expect("an update");
        client.batch_execute("SELECT balance FROM accounts WHERE id = 9").expect("nothing");
    });
    let history = &recorded.parts[0].history;
    let initial: Vec<String> = history
        .initial_values()
        .iter()
        .map(|&(object, value)| format!("{} {}", history.show_object(object), history.show_value(value)))
        .collect();
    assert_eq!(initial.len(), 2, "{initial:?}");
    assert!(initial.iter().any(|row| row.contains("200")), "{initial:?}");
}

/// The transaction that knows the first state kept its locks once, and TRUNCATE waited for it
/// without end.
#[test]
fn no_statement_of_the_application_waits_for_the_first_state() {
    let Some(server) = server(SCHEMA) else { return };
    let lazy = Options { initial: Initial::Lazy, ..options(&server) };
    recorded_with(lazy, |proxy| {
        let mut client = client(proxy);
        client.batch_execute("SELECT balance FROM accounts WHERE id = 2").expect("a row");
        std::thread::sleep(Duration::from_millis(200));
        client.batch_execute("SET lock_timeout = '5s'; TRUNCATE accounts").expect("nobody holds a lock");
    });
}

#[test]
fn copies_and_large_results_are_relayed_and_not_kept() {
    let Some(server) = server(SCHEMA) else { return };
    let recorded = recorded(&server, |proxy| {
        let mut client = client(proxy);
        let mut copy = client.copy_in("COPY accounts FROM STDIN").expect("a copy");
        copy.write_all(b"8\t80\tx\n9\t90\ty\n").expect("rows");
        assert_eq!(copy.finish().expect("the end of the copy"), 2);
        let mut out = Vec::new();
        client.copy_out("COPY accounts TO STDOUT").expect("a copy").read_to_end(&mut out).expect("rows");
        assert!(out.ends_with(b"9\t90\ty\n"));
        let many = client
            .query("SELECT id, generate_series(1, 300000) FROM accounts WHERE id = 1", &[])
            .expect("many rows");
        assert_eq!(many.len(), 300_000);
        assert_eq!(
            client
                .query("SELECT id, repeat('x', 3000000) FROM accounts WHERE id = 1", &[])
                .expect("a long row")
                .len(),
            1
        );
    });
    assert_eq!(
        lines(&recorded.parts[0].history),
        [
            "COPY accounts FROM STDIN #2; committed",
            "COPY accounts TO STDOUT #4; committed",
            "SELECT id, generate_series(1, 300000) FROM accounts WHERE id = $1 (1); committed",
            "SELECT id, repeat('x', 3000000) FROM accounts WHERE id = $1 (1); committed",
        ]
    );
}

#[test]
fn a_request_to_cancel_is_relayed() {
    let Some(server) = server(SCHEMA) else { return };
    recorded(&server, |proxy| {
        let mut client = client(proxy);
        let token = client.cancel_token();
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            token.cancel_query(NoTls).expect("a request to cancel");
        });
        let error = client.batch_execute("SELECT pg_sleep(60)").expect_err("it is cancelled");
        assert_eq!(error.code().map(|code| code.code()), Some("57014"));
        canceller.join().expect("no panic");
    });
}

/// A client that is gone in the middle: without COMMIT its transaction is aborted; what was asked
/// is unknown.
#[test]
fn lost_connections_leave_the_right_outcome() {
    let Some(server) = server(SCHEMA) else { return };
    let recorded = recorded(&server, |proxy| {
        let mut client = client(proxy);
        client.batch_execute("BEGIN; UPDATE accounts SET balance = 1 WHERE id = 1").expect("an update");
        drop(client);
        let mut killed = self::client(proxy);
        let pid: i32 = killed.query_one("SELECT pg_backend_pid()", &[]).expect("a pid").get(0);
        let mut other = self::client(proxy);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            other.execute("SELECT pg_terminate_backend($1)", &[&pid]).expect("an end");
        });
        assert!(killed.batch_execute("UPDATE accounts SET note = pg_sleep(60)::text WHERE id = 2").is_err());
        killer.join().expect("no panic");
    });
    let told = lines(&recorded.parts[0].history);
    assert!(
        told.contains(&"UPDATE accounts SET balance = $1 WHERE id = $2 (1,1) #1; aborted".to_owned()),
        "{told:?}"
    );
    let text = "UPDATE accounts SET note = pg_sleep(60)::text WHERE id = $1 (2); unknown";
    assert!(told.contains(&text.to_owned()), "{told:?}");
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The file that grows is the history that comes in the end; it has no password.
#[test]
fn the_file_grows_and_keeps_no_secret() {
    let Some(server) = server(SCHEMA) else { return };
    let file = Shared::default();
    let kept = file.clone();
    let outputs: margay_proxy::Outputs = Box::new(move |_| Ok(Some(Box::new(kept.clone()))));
    let recorded = recorded_with(Options { outputs: Some(outputs), ..options(&server) }, |proxy| {
        let mut client = client(proxy);
        client.batch_execute("UPDATE accounts SET balance = 4 WHERE id = 1").expect("an update");
        client.batch_execute("CREATE ROLE somebody PASSWORD 'hunter2'").expect("a role");
        client.batch_execute("DO $$ BEGIN ALTER ROLE somebody PASSWORD 'hunter3'; END $$").expect("a change");
    });
    let text = String::from_utf8(file.0.lock().expect("no panic").clone()).expect("text");
    assert!(!text.contains("hunter") && text.contains("\"DO\""), "{text}");
    let ends = recorded.parts[0].history.txns().count();
    // What a DO block did to its transaction is not known.
    let ended = |line: &&str| line.contains("\"commit\":true") || line.contains("\"unknown\":true");
    assert_eq!(text.lines().filter(ended).count(), ends, "{text}");
}

/// A refused commit fails at Sync, after the statement was answered.
#[test]
fn a_deferred_constraint_aborts_an_implicit_transaction() {
    let Some(server) = server(
        "CREATE TABLE parents (id int PRIMARY KEY);
         CREATE TABLE children (id int PRIMARY KEY, parent int REFERENCES parents DEFERRABLE INITIALLY DEFERRED);",
    ) else {
        return;
    };
    let recorded = recorded(&server, |proxy| {
        let mut client = client(proxy);
        assert!(client.execute("INSERT INTO children VALUES ($1, $2)", &[&1, &9]).is_err());
    });
    assert_eq!(lines(&recorded.parts[0].history), ["INSERT INTO children VALUES ($1, $2) (1,9) #1; aborted"]);
}

/// Clients ask the system's catalogs about themselves; that is not the application. Such a query
/// takes the snapshot.
#[test]
fn queries_of_catalogs_are_left_out() {
    let Some(server) = server(SCHEMA) else { return };
    let recorded = recorded(&server, |proxy| {
        let mut client = client(proxy);
        client
            .batch_execute("SELECT relname FROM pg_class WHERE pg_table_is_visible(oid)")
            .expect("relations");
        client.batch_execute("SELECT version(), current_schemas(true)").expect("a version");
        client.batch_execute("BEGIN; SELECT 1").expect("a transaction");
        client.batch_execute("SELECT id FROM accounts WHERE id = 1").expect("a row");
        client.batch_execute("COMMIT").expect("a commit");
        client.batch_execute("SELECT pg_advisory_lock(1)").expect("a lock");
    });
    let told = lines(&recorded.parts[0].history);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].starts_with("SELECT id FROM accounts") && told[1].starts_with("SELECT pg_advisory_lock"),
        "{told:?}"
    );
}

/// What is not PostgreSQL's protocol is passed on; nobody panics, and other connections go on.
#[test]
fn strange_bytes_break_nothing() {
    let Some(server) = server(SCHEMA) else { return };
    let recorded = recorded(&server, |proxy| {
        for bytes in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\0\0\0\x08\x04\xd2\x16\x2f", b"\0", b"\xff\xff\xff\xff\xff"]
        {
            let mut stream = TcpStream::connect(proxy.address()).expect("a connection");
            stream.write_all(bytes).expect("bytes");
        }
        client(proxy).batch_execute("SELECT id FROM accounts").expect("rows");
    });
    assert_eq!(recorded.counts().committed, 1);
    let begins = |history: &History| {
        history.txns().flat_map(|txn| history.ops(txn)).filter(|op| op.kind == OpKind::Begin).count()
    };
    assert_eq!(begins(&recorded.parts[0].history), 1);
}
