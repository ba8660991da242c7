//! `margay proxy` with encrypted connections: which of the two legs are, and what that does to passwords.

mod common;
#[path = "common/proxying.rs"]
mod proxying;

use std::fs;
use std::process::Command;

use common::{Run, finish, margay};
use margay_servers::{Authority, Certificate, Server, started};
use proxying::{SHOP, Waiting};

/// Certificates of one authority, one of them written to files.
struct Certified {
    authority: Authority,
    of_server: Certificate,
    of_proxy: [String; 2],
    folder: tempfile::TempDir,
}

fn certified() -> Option<Certified> {
    let authority = started(Authority::new())?;
    let of_server = authority.certify("IP:127.0.0.1").expect("a certificate");
    let own = authority.certify("IP:127.0.0.1").expect("a certificate");
    let folder = tempfile::tempdir().expect("a folder");
    let of_proxy = files(&folder, "own", &own);
    Some(Certified { authority, of_server, of_proxy, folder })
}

fn files(folder: &tempfile::TempDir, name: &str, certificate: &Certificate) -> [String; 2] {
    [("pem", &certificate.certificate), ("key", &certificate.key)].map(|(kind, text)| {
        let path = folder.path().join(format!("{name}.{kind}"));
        fs::write(&path, text).expect("a file");
        path.to_str().expect("text").to_owned()
    })
}

/// psql with these options of libpq.
fn psql(url: &str, options: &str) -> Option<Run> {
    let mut command = Command::new("psql");
    command.arg(format!("{url}?{options}")).args(["-XAtc", "SELECT left_over FROM stock WHERE id = 1"]);
    command.env_remove("PGSSLMODE");
    if Command::new("psql").arg("--version").output().is_err() {
        println!("SKIPPED: psql is not installed");
        return None;
    }
    Some(finish(command, b""))
}

fn fill(url: &str, options: &str) {
    let mut command = Command::new("psql");
    command.arg(format!("{url}?{options}")).args(["-Xqc", SHOP]);
    finish(command, b"").expect(0);
}

/// Whether a verdict came although the server side is encrypted or the client side is.
fn answers(proxy: Waiting) {
    let (status, told) = proxy.end();
    assert_eq!(status, 0, "{told}");
    assert_eq!(told["run"]["concerns"], serde_json::json!([]), "{told}");
}

/// The client would refuse the method that binds a password to an encryption that it does not have.
#[test]
fn a_plain_client_reaches_an_encrypted_server() {
    let Some(certified) = certified() else { return };
    let Some(server) = started(Server::postgres_encrypted(&certified.of_server)) else { return };
    let Some(_) = psql(server.url(), "sslmode=require") else { return };
    fill(server.url(), "sslmode=require");
    let authority = certified.authority.file();
    let verified = format!("sslmode=verify-full&sslrootcert={}", authority.display());
    for options in ["sslmode=require", "sslmode=prefer", &verified] {
        let proxy = Waiting::start(&format!("{}?{options}", server.url()), &[]);
        let plain = proxy.url.split('?').next().expect("an address").to_owned();
        let run = psql(&plain, "sslmode=disable&channel_binding=disable").expect("psql").expect(0);
        assert_eq!(run.stdout, "10\n", "{options}");
        let run = psql(&plain, "sslmode=disable").expect("psql").expect(0);
        assert_eq!(run.stdout, "10\n", "{options}");
        answers(proxy);
    }
    let stranger = Authority::new().expect("there was one before");
    let options = format!("sslmode=verify-full&sslrootcert={}", stranger.file().display());
    margay(["proxy", &format!("{}?{options}", server.url()), "--", "true"]).expect(2);
}

#[test]
fn an_encrypted_client_reaches_a_plain_server() {
    let Some(certified) = certified() else { return };
    let Some(server) = proxying::server(SHOP) else { return };
    let [certificate, key] = &certified.of_proxy;
    let proxy = Waiting::start(server.url(), &["--tls-cert", certificate, "--tls-key", key]);
    let authority = format!("sslmode=verify-full&sslrootcert={}", certified.authority.file().display());
    for options in ["sslmode=require", "sslmode=disable", "sslmode=prefer", &authority] {
        let Some(run) = psql(&proxy.url, options) else { return };
        assert_eq!(run.expect(0).stdout, "10\n", "{options}");
    }
    // A large result is in many records.
    let mut large = Command::new("psql");
    let query = "SELECT string_agg(md5(i::text), '') FROM generate_series(1, 30000) i";
    large.arg(format!("{}?sslmode=require", proxy.url)).args(["-XAtc", query]);
    assert_eq!(finish(large, b"").expect(0).stdout.len(), 30_000 * 32 + 1);
    answers(proxy);
    // Without a certificate there is no encryption, and nobody is told otherwise.
    let proxy = Waiting::start(server.url(), &[]);
    let refused = psql(&proxy.url, "sslmode=require").expect("psql").expect(2);
    assert!(refused.stderr.contains("does not support SSL"), "{}", refused.stderr);
    psql(&proxy.url, "sslmode=prefer").expect("psql").expect(0);
    answers(proxy);
}

/// Encrypted from the first byte, as PostgreSQL 17 has it: an ordinary TLS client sees a server of this protocol.
#[test]
fn encryption_may_begin_at_once() {
    let Some(certified) = certified() else { return };
    let Some(server) = proxying::server(SHOP) else { return };
    let [certificate, key] = &certified.of_proxy;
    let proxy = Waiting::start(server.url(), &["--tls-cert", certificate, "--tls-key", key]);
    let port = proxy.url.split("127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next()).expect("a port");
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", &format!("127.0.0.1:{port}"), "-alpn", "postgresql", "-brief"]);
    let run = finish(client, b"");
    let told = format!("{}{}", run.stdout, run.stderr);
    assert!(told.contains("CONNECTION ESTABLISHED") && told.contains("TLSv1.3"), "{told}");
    drop(proxy.end());
}

/// A password that is bound to the certificate cannot pass two encryptions, unless they have the same one.
#[test]
fn two_encryptions_are_explained() {
    let Some(certified) = certified() else { return };
    let Some(server) = started(Server::postgres_encrypted(&certified.of_server)) else { return };
    let Some(_) = psql(server.url(), "sslmode=require") else { return };
    fill(server.url(), "sslmode=require");
    let url = format!("{}?sslmode=require", server.url());
    let the_servers = files(&certified.folder, "server", &certified.of_server);
    for (pair, differs) in [(&certified.of_proxy, true), (&the_servers, false)] {
        let [certificate, key] = pair;
        let options = ["--tls-cert", certificate.as_str(), "--tls-key", key.as_str()];
        let proxy = Waiting::start(&url, &options);
        let address = proxy.url.split('?').next().expect("an address").to_owned();
        let bound = psql(&address, "sslmode=require").expect("psql");
        if differs {
            assert!(bound.stderr.contains("channel binding"), "{}", bound.stderr);
        }
        assert_eq!(bound.status, if differs { 2 } else { 0 }, "{}", bound.stderr);
        let unbound = psql(&address, "sslmode=require&channel_binding=disable").expect("psql").expect(0);
        assert_eq!(unbound.stdout, "10\n");
        drop(proxy.end());
        let run = margay([&["proxy", &url], &options[..], &["--", "true"]].concat());
        assert_eq!(run.stderr.contains("binds its password"), differs, "{}", run.stderr);
    }
}
