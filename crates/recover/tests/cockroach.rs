//! The connections to CockroachDB, against a PostgreSQL that is dressed up as one.
//!
//! A relay in front of a real PostgreSQL takes what CockroachDB's documentation has and PostgreSQL
//! has not: it rewrites some statements, and streams the rows of a changefeed itself, out of what
//! triggers wrote down. Transactions run one after the other, so that a counter is their
//! serialization order. That shows that the client side of the exchange works as a whole; it is no
//! CockroachDB.

mod common;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::{ask, job, open_url, with_evidence};
use margay_certify::{Certify, Replay};
use margay_levels::Level;
use margay_runner::{Extras, Job, Monitor};
use margay_verdict::Verdict;
use postgres::{Client, NoTls};

/// What CockroachDB has: its name, STRING, and timestamps that a transaction keeps. `watch` has
/// changes written down from now on.
const DRESS: &str = "CREATE SCHEMA crdb; CREATE DOMAIN string AS text; CREATE SEQUENCE crdb.hlc START 1700000000000000000;
    CREATE FUNCTION public.version() RETURNS text LANGUAGE sql AS $$ SELECT 'CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu)' $$;
    CREATE TABLE crdb.stamps (xid xid8 PRIMARY KEY, at numeric(40, 10));
    CREATE TABLE crdb.changes (seq bigserial, xid xid8 DEFAULT pg_current_xact_id(), tab text, key text, after text, before text);
    CREATE FUNCTION cluster_logical_timestamp() RETURNS numeric LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO crdb.stamps VALUES (pg_current_xact_id(), nextval('crdb.hlc')) ON CONFLICT DO NOTHING;
        RETURN (SELECT at FROM crdb.stamps WHERE xid = pg_current_xact_id()); END $$;
    CREATE FUNCTION crdb.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO crdb.changes (tab, key, after, before)
        VALUES (TG_TABLE_NAME, format('[%s]', coalesce(NEW.k, OLD.k)), row_to_json(NEW), row_to_json(OLD)); RETURN NULL; END $$;
    CREATE FUNCTION crdb.watch() RETURNS void LANGUAGE plpgsql AS $$ DECLARE t text; BEGIN
        FOR t IN SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' LOOP
        EXECUTE format('CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION crdb.note()', t);
        END LOOP; END $$;
    ALTER ROLE CURRENT_USER SET search_path = public, pg_catalog";

/// Everything since a timestamp: what each transaction made of each row in the end.
const CHANGES: &str = "SELECT s.at::text, tab, key, (array_agg(after ORDER BY seq DESC))[1], (array_agg(before ORDER BY seq))[1], max(seq)
    FROM crdb.changes JOIN crdb.stamps s USING (xid) WHERE s.at > $1::text::numeric GROUP BY 1, 2, 3 HAVING max(seq) > $2 ORDER BY max(seq)";

/// Nobody is in a transaction who has not this lock.
const ALONE: &str = "SELECT pg_advisory_xact_lock(7)";

/// What the clients' statements are for PostgreSQL.
fn rewritten(text: &str) -> String {
    match text {
        "SET CLUSTER SETTING kv.rangefeed.enabled = true" => "SELECT crdb.watch()".to_owned(),
        _ if text.starts_with("BEGIN ISOLATION LEVEL SERIALIZABLE") => format!("BEGIN; {ALONE}"),
        _ => text.to_owned(),
    }
}

/// A relay to a server; answers its port.
fn relay(url: String, server: u16) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let cancelled = Arc::new(AtomicBool::new(false));
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (url, cancelled) = (url.clone(), Arc::clone(&cancelled));
            // Whoever has gone is served no longer.
            thread::spawn(move || serve(client, server, &url, &cancelled));
        }
    });
    port
}

fn serve(mut client: TcpStream, server: u16, url: &str, cancelled: &AtomicBool) -> io::Result<()> {
    let mut start = beginning(&mut client)?;
    if start[4..8] == 80_877_103_u32.to_be_bytes() {
        // No encryption here.
        client.write_all(b"N")?;
        start = beginning(&mut client)?;
    }
    if start[4..8] == 80_877_102_u32.to_be_bytes() {
        cancelled.store(true, Ordering::Relaxed);
        return Ok(());
    }
    let mut server = TcpStream::connect(("127.0.0.1", server))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    server.write_all(&start)?;
    let (mut from, mut to) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    loop {
        let (letter, body) = message(&mut client)?;
        let name = if letter == b'P' { body.iter().position(|b| *b == 0).unwrap_or(0) + 1 } else { 0 };
        let Some(end) = body[name..].iter().position(|b| *b == 0).filter(|_| matches!(letter, b'P' | b'Q'))
        else {
            server.write_all(&framed(letter, &body))?;
            continue;
        };
        let text = String::from_utf8_lossy(&body[name..name + end]).into_owned();
        if text.starts_with("EXPERIMENTAL CHANGEFEED FOR ") {
            return changefeed(&mut client, &text, url, cancelled);
        }
        let body = [&body[..name], rewritten(&text).as_bytes(), &body[name + end..]].concat();
        server.write_all(&framed(letter, &body))?;
    }
}

/// What a client sends first: there is no letter before it.
fn beginning(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut start = vec![0; 4];
    from.read_exact(&mut start)?;
    start.resize(u32::from_be_bytes([start[0], start[1], start[2], start[3]]) as usize, 0);
    from.read_exact(&mut start[4..])?;
    Ok(start)
}

fn message(from: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    from.read_exact(&mut head)?;
    let mut body = vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4];
    from.read_exact(&mut body)?;
    Ok((head[0], body))
}

fn framed(letter: u8, body: &[u8]) -> Vec<u8> {
    [&[letter][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// Answers the extended protocol for a statement that never ends. Its Parse has come already.
fn changefeed(client: &mut TcpStream, text: &str, url: &str, cancelled: &AtomicBool) -> io::Result<()> {
    let column =
        |name: &str, kind: u32| [name.as_bytes(), &[0; 7], &kind.to_be_bytes(), &[0xff; 6], &[0, 1]].concat();
    let columns = [vec![0, 3], column("table", 25), column("key", 17), column("value", 17)].concat();
    client.write_all(&framed(b'1', &[]))?;
    loop {
        let answer = match message(client)?.0 {
            b'D' => [framed(b't', &[0, 0]), framed(b'T', &columns)].concat(),
            b'B' => framed(b'2', &[]),
            b'S' => framed(b'Z', b"I"),
            b'E' => {
                client.write_all(&stream(client.try_clone()?, text, url, cancelled)?)?;
                continue;
            }
            _ => continue,
        };
        client.write_all(&answer)?;
    }
}

/// Rows until somebody cancels; answers the error that this is.
fn stream(mut client: TcpStream, text: &str, url: &str, cancelled: &AtomicBool) -> io::Result<Vec<u8>> {
    let mut database = Client::connect(url, NoTls).map_err(io::Error::other)?;
    let cursor =
        text.split_once("cursor = '").and_then(|(_, rest)| rest.split_once('\'')).map(|(stamp, _)| stamp);
    let row = |cells: [Option<&str>; 3]| {
        let cell = |cell: Option<&str>| match cell {
            Some(text) => [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat(),
            None => [0xff; 4].to_vec(),
        };
        framed(b'D', &[vec![0, 3], cells.map(cell).concat()].concat())
    };
    // Without a cursor all rows that there are come first.
    let mut last = 0_i64;
    if cursor.is_none() {
        let all = "SELECT k::text, row_to_json(t)::text FROM margay_rows t";
        for found in database.query(all, &[]).map_err(io::Error::other)? {
            let value = format!(
                r#"{{"after": {}, "before": null, "updated": "1700000000000000000.0000000000"}}"#,
                found.get::<_, &str>(1)
            );
            client.write_all(&row([
                Some("margay_rows"),
                Some(&format!("[{}]", found.get::<_, &str>(0))),
                Some(&value),
            ]))?;
        }
    }
    while !cancelled.load(Ordering::Relaxed) {
        let mut alone = database.transaction().map_err(io::Error::other)?;
        alone.batch_execute(ALONE).map_err(io::Error::other)?;
        let now = alone.query_one("SELECT nextval('crdb.hlc')::text", &[]).map_err(io::Error::other)?;
        let changes = alone.query(CHANGES, &[&cursor.unwrap_or("0"), &last]).map_err(io::Error::other)?;
        alone.commit().map_err(io::Error::other)?;
        for change in &changes {
            let json = |at: usize| change.get::<_, Option<&str>>(at).unwrap_or("null");
            let value =
                format!(r#"{{"after": {}, "before": {}, "updated": "{}"}}"#, json(3), json(4), json(0));
            let row = row([Some(change.get(1)), Some(change.get(2)), Some(&value)]);
            last = change.get(5);
            // At least once.
            (0..=last % 2).try_for_each(|_| client.write_all(&row))?;
        }
        let resolved = format!(r#"{{"resolved": "{}.0000000000"}}"#, now.get::<_, &str>(0));
        client.write_all(&row([None, None, Some(&resolved)]))?;
        thread::sleep(Duration::from_millis(50));
    }
    Ok(framed(b'E', b"SERROR\0C57014\0Mquery execution canceled\0\0"))
}

/// A run is recorded, its changefeed read to the end, and the serialization order that transactions
/// told of proves it.
#[test]
fn a_run_is_certified() {
    let Some(server) = common::postgres() else { return };
    let mut admin = common::connected(server.url());
    admin.batch_execute(DRESS).expect("a dress");
    let port = server.url().split([':', '/']).find_map(|part| part.parse::<u16>().ok()).expect("a port");
    for (seed, workload) in ["mixed", "predicate", "list-append"].into_iter().enumerate() {
        let through = relay(server.url().to_owned(), port);
        let url = server.url().replace(&port.to_string(), &through.to_string());
        let job = job(workload, "SERIALIZABLE", seed as u64, 100);
        let watched = open_url(&url, &Job::setting(&job.workload, job.clients, job.seed));
        assert_eq!(watched.database().identity().0, "cockroachdb");
        let recording = margay_runner::run(watched.database(), &job, &Monitor::default(), Extras::default());
        let (history, gaps) = with_evidence(&watched, recording.expect("a recording").history);
        assert_eq!(gaps, [], "{workload}");
        let evidence = history.evidence();
        assert!(evidence.version_orders.len() > 1 && evidence.serializations.len() > 50, "{workload}");
        for engine in [&Certify as &dyn margay_verdict::Checker, &Replay] {
            let verdict = ask(engine, &history, Level::Serializable);
            assert!(matches!(verdict, Verdict::Holds(_)), "{workload}, {}: {verdict:?}", engine.name());
        }
    }
}
