//! `margay proxy --hash-values` and `--redact`: no value in clear leaves the proxy, and what is found
//! without them is true.

mod common;
#[path = "common/proxying.rs"]
mod proxying;

use std::fs;
use std::sync::atomic::Ordering;

use common::margay;
use postgres::Client;
use proxying::{Stale, Waiting, direct, server, ten_again};

const SHOP: &str = "
    CREATE TABLE stock (id int PRIMARY KEY, left_over int NOT NULL, note text);
    INSERT INTO stock VALUES (1, 10, 'first-note'), (2, 20, NULL), (777001, 30, 'x');
    CREATE TABLE people (name text PRIMARY KEY, age int);
    INSERT INTO people VALUES ('secret-name', 5);";

/// Two customers read the stock, and both write what is left.
fn lose_a_sale(one: &mut Client, other: &mut Client) {
    for client in [&mut *one, &mut *other] {
        client.batch_execute("BEGIN").expect("a transaction");
        client.query("SELECT left_over, note FROM stock WHERE id = $1", &[&777_001]).expect("the stock");
    }
    for (client, left) in [(one, 888_009), (other, 888_007)] {
        let sell = "UPDATE stock SET left_over = $1, note = 'sold-note' WHERE id = $2";
        client.execute(sell, &[&left, &777_001]).expect("a sale");
        client.batch_execute("COMMIT /* request 'clear-comment' */").expect("a commit");
    }
}

/// Whatever a program knows of secrets, it has written into one of these.
#[track_caller]
fn has_no_secret(folder: &tempfile::TempDir, secrets: &[&str]) {
    for entry in fs::read_dir(folder.path()).expect("files") {
        let path = entry.expect("a file").path();
        let text = fs::read_to_string(&path).expect("text");
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} in {}:\n{text}", path.display());
        }
    }
}

#[test]
fn hashed_values_tell_of_a_lost_update_and_of_nothing_else() {
    let Some(server) = server(SHOP) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let paths = ["run.jsonl", "certificate.json", "report.html"].map(|name| folder.path().join(name));
    let [record, certificate, report] = paths.each_ref().map(|path| path.to_str().expect("text"));
    for loses in [true, false] {
        let options = ["--hash-values", "--claim", "serializable", "--require-coverage", "100%"];
        let files = ["--record", record, "--certificate", certificate, "--report", report];
        let proxy = Waiting::start(server.url(), &[&options[..], &files].concat());
        let (mut one, mut other) = (proxy.client(), proxy.client());
        if loses {
            lose_a_sale(&mut one, &mut other);
        }
        one.execute("UPDATE people SET age = $1 WHERE name = 'secret-name'", &[&4]).expect("an update");
        other.query("SELECT age FROM people WHERE name = $1", &[&"secret-name"]).expect("a query");
        drop((one, other));
        let (status, told) = proxy.end();
        assert_eq!(status, i32::from(loses), "{told}");
        let secrets = [
            "secret-name",
            "888009",
            "888007",
            "777001",
            "sold-note",
            "first-note",
            "clear-comment",
            "SELECT",
            "UPDATE",
        ];
        has_no_secret(&folder, &secrets);
        secrets.iter().for_each(|secret| assert!(!told.to_string().contains(secret), "{secret}: {told}"));
        // The file says the same.
        margay(["check", record, "--level", "serializable"]).expect(i32::from(loses));
        assert!(fs::read_to_string(record).expect("a file").lines().count() > 4);
    }
}

/// Another run has another key.
#[test]
fn hashes_of_two_runs_cannot_be_compared() {
    let Some(server) = server(SHOP) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let texts = ["one", "other"].map(|name| {
        let path = folder.path().join(name);
        let proxy =
            Waiting::start(server.url(), &["--hash-values", "--record", path.to_str().expect("text")]);
        proxy.client().query("SELECT age FROM people WHERE name = $1", &[&"secret-name"]).expect("a query");
        proxy.end();
        fs::read_to_string(&path).expect("a file")
    });
    let hashes = |text: &str| {
        let words =
            text.split('"').filter(|word| word.len() == 32 && word.bytes().all(|it| it.is_ascii_hexdigit()));
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let [one, other] = texts.each_ref().map(|text| hashes(text));
    assert!(one.len() > 4 && one.iter().all(|hash| !other.contains(hash)), "{texts:?}");
}

/// A database that shows an old value is found out by hashes, too.
#[test]
fn an_old_value_is_found_by_its_hash() {
    let Some(server) = server(SHOP) else { return };
    for lies in [false, true] {
        direct(server.url())
            .batch_execute("UPDATE stock SET left_over = 10 WHERE id = 1")
            .expect("the stock");
        let relay = Stale::before(server.url(), ten_again);
        let proxy = Waiting::start(&relay.url, &["--hash-values", "--claim", "strict-serializable"]);
        let read = "SELECT left_over FROM stock WHERE id = 1";
        let (mut client, mut other) = (proxy.client(), proxy.client());
        client.simple_query("UPDATE stock SET left_over = 99 WHERE id = 1").expect("a delivery");
        relay.stale.store(lies, Ordering::Relaxed);
        other.simple_query(read).expect("the stock");
        relay.stale.store(false, Ordering::Relaxed);
        drop((client, other));
        let (status, told) = proxy.end();
        assert_eq!(status, i32::from(lies), "{told}");
    }
}

/// What nobody may see cannot be checked, and what is checked is true.
#[test]
fn redacted_columns_are_not_recorded() {
    let Some(server) = server(SHOP) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.jsonl");
    let record = path.to_str().expect("text");
    for (redacted, secrets, finds) in [
        (&["stock.note"][..], &["sold-note", "first-note"][..], true),
        (&["stock.left_over", "stock.note"], &["888009", "sold-note"], false),
        // Rows without their keys have no names.
        (&["stock.id"], &["777001", "888009", "sold-note"], false),
    ] {
        let columns: Vec<&str> = redacted.iter().flat_map(|column| ["--redact", column]).collect();
        let proxy = Waiting::start(
            server.url(),
            &[&columns[..], &["--claim", "serializable", "--record", record]].concat(),
        );
        let (mut one, mut other) = (proxy.client(), proxy.client());
        lose_a_sale(&mut one, &mut other);
        one.simple_query("SELECT age FROM people WHERE name = 'secret-name'").expect("a query");
        drop((one, other));
        let (status, told) = proxy.end();
        assert_eq!(status == 1, finds, "{redacted:?}: {told}");
        has_no_secret(&folder, secrets);
        assert!(fs::read_to_string(&path).expect("a file").contains("secret-name"), "nothing else is hidden");
    }
    for wrong in ["stock.no_such", "stock"] {
        let run = margay(["proxy", server.url(), "--redact", wrong, "--", "true"]).expect(2);
        assert!(run.stderr.contains(wrong.trim_start_matches("stock.")), "{}", run.stderr);
    }
}
