//! Connections that are encrypted, to real servers, and to some that have no encryption.

use std::time::Duration;

use margay_drivers::{Cell, Setting, Target, Wishes, open_for};
use margay_servers::{Authority, Certificate, Server, started};

const SETTING: Setting = Setting { clients: 1, keys: 1, domain: 1, seed: 0 };

/// What a kind of server is like.
struct Kind {
    plain: fn() -> Result<Server, String>,
    encrypted: fn(&Certificate) -> Result<Server, String>,
    /// The options for these levels of security: none, whatever there is, encryption, the right
    /// name from this authority.
    options: [&'static str; 4],
    /// A question that is answered only on an encrypted connection, with a text that is not empty.
    question: &'static str,
    /// A question that takes longer than anybody waits.
    slow: &'static str,
}

const POSTGRES: Kind = Kind {
    plain: Server::postgres,
    encrypted: Server::postgres_encrypted,
    options: ["sslmode=disable", "", "sslmode=require", "sslmode=verify-full&sslrootcert="],
    question: "SELECT cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
    slow: "SELECT pg_sleep(3600)::text",
};

const MARIADB: Kind = Kind {
    plain: Server::mariadb,
    encrypted: Server::mariadb_encrypted,
    options: ["ssl-mode=DISABLED", "", "ssl-mode=REQUIRED", "ssl-mode=VERIFY_IDENTITY&ssl-ca="],
    question: "SELECT variable_value FROM information_schema.session_status WHERE variable_name = 'SSL_CIPHER'",
    slow: "SELECT SLEEP(3600)",
};

/// What one client is told on a connection, or why there is none.
fn asked(url: &str, options: &str, limit: Option<Duration>, question: &str) -> Result<Vec<Cell>, String> {
    let target: Target = format!("{url}?{options}").parse().expect("a target");
    let wishes = Wishes { statement_timeout: limit, ..Wishes::default() };
    let database = open_for(&target, &SETTING, wishes)?;
    let mut connection = database.connect(0, "SERIALIZABLE")?;
    connection.begin().map_err(|trouble| trouble.to_string())?;
    connection.sql(question, &[]).map(|answer| answer.cells).map_err(|trouble| format!("{trouble:?}"))
}

fn is_encrypted(told: &Result<Vec<Cell>, String>) -> bool {
    matches!(told.as_deref(), Ok([Cell::Text(cipher)]) if !cipher.is_empty())
}

/// Everything that is asked of one kind of server.
fn holds(kind: &Kind) {
    let Some(authority) = started(Authority::new()) else { return };
    let stranger = started(Authority::new()).expect("there was one before");
    let certificate = authority.certify("IP:127.0.0.1").expect("a certificate");
    let Some(server) = started((kind.encrypted)(&certificate)) else { return };
    let [none, any, encrypted, verified] = kind.options;
    let ask = |url: &str, options: &str| asked(url, options, None, kind.question);
    let verified_by = |authority: &Authority| format!("{verified}{}", authority.file().display());

    for options in [any, encrypted, &verified_by(&authority)] {
        let told = ask(server.url(), options);
        assert!(is_encrypted(&told), "{options}: {told:?}");
    }
    assert!(!is_encrypted(&ask(server.url(), none)), "nobody asked for it");
    let elsewhere = server.url().replace("127.0.0.1", "localhost");
    for (why, url, options) in [
        ("wrong authority", server.url(), verified_by(&stranger)),
        (
            "no authority that everybody believes",
            server.url(),
            verified.split('&').next().unwrap().to_owned(),
        ),
        ("wrong name", &elsewhere, verified_by(&authority)),
    ] {
        let told = ask(url, &options).expect_err(why);
        assert!(told.contains("certificate"), "{why}: {told}");
    }
    assert!(is_encrypted(&ask(&elsewhere, encrypted)), "the name alone was wrong");

    let hasty = asked(server.url(), encrypted, Some(Duration::from_secs(3)), kind.slow);
    assert!(hasty.as_ref().is_err_and(|why| why.starts_with("Lost")), "{hasty:?}");
    let patient = asked(server.url(), encrypted, Some(Duration::from_secs(600)), kind.question);
    assert!(is_encrypted(&patient), "{patient:?}");
    drop(server);

    let plain = started((kind.plain)()).expect("there was one before");
    for options in [none, any] {
        assert!(ask(plain.url(), options).is_ok_and(|told| told != [Cell::Int(0)]), "{options}");
    }
    for options in [encrypted, &verified_by(&authority)] {
        let told = ask(plain.url(), options).expect_err("there is no encryption");
        assert!(told.contains("TLS"), "{options}: {told}");
    }
}

#[test]
fn postgresql() {
    holds(&POSTGRES);
}

#[test]
fn mariadb() {
    holds(&MARIADB);
}

/// PostgreSQL alone has a middle way: an authority is asked, and the name does not count.
#[test]
fn an_authority_without_a_name() {
    let Some(authority) = started(Authority::new()) else { return };
    let stranger = started(Authority::new()).expect("there was one before");
    let certificate = authority.certify("DNS:elsewhere.example").expect("a certificate");
    let Some(server) = started(Server::postgres_encrypted(&certificate)) else { return };
    let ask = |mode: &str, authority: &Authority| {
        let options = format!("sslmode={mode}&sslrootcert={}", authority.file().display());
        asked(server.url(), &options, None, POSTGRES.question)
    };
    for mode in ["verify-ca", "require"] {
        assert!(is_encrypted(&ask(mode, &authority)), "{mode}");
        let told = ask(mode, &stranger).expect_err("another authority");
        assert!(told.contains("invalid peer certificate"), "{mode}: {told}");
    }
    let told = ask("verify-full", &authority).expect_err("another name");
    assert!(told.contains("not valid for name"), "{told}");
}
