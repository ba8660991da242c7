//! A proxy for the tests of `margay proxy`, on a server of their own.

#![allow(dead_code, reason = "every test file uses some of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use margay_servers::{Server, started};
use postgres::{Client, NoTls};
use serde_json::Value;

pub const SHOP: &str = "
    CREATE TABLE stock (id int PRIMARY KEY, left_over int NOT NULL);
    INSERT INTO stock VALUES (1, 10), (2, 20), (3, 30);";

pub fn server(schema: &str) -> Option<Server> {
    let server = started(Server::postgres())?;
    direct(server.url()).batch_execute(schema).expect("a schema");
    Some(server)
}

pub fn direct(url: &str) -> Client {
    Client::connect(url, NoTls).expect("a connection")
}

/// The address of another database of the same server.
pub fn in_database(url: &str, name: &str) -> String {
    format!("{}/{name}", url.rsplit_once('/').expect("a database").0)
}

/// The Python with the libraries that `./test proxy` installs.
pub fn python() -> Option<PathBuf> {
    let python = crate::common::root().join("target/proxy-clients/bin/python3");
    let has = |module: &str| {
        let asked = Command::new(&python).args(["-c", &format!("import {module}")]).output();
        asked.is_ok_and(|output| output.status.success())
    };
    ["psycopg", "sqlalchemy", "django"].into_iter().all(has).then_some(python)
}

/// A proxy that waits for clients of this test.
pub struct Waiting {
    pub child: Child,
    pub url: String,
}

impl Waiting {
    pub fn start(url: &str, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_margay"));
        command.args(["proxy", url, "--listen", "127.0.0.1:0", "--json"]).args(options);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let line = lines.by_ref().map_while(Result::ok).find(|line| line.contains("listening"));
        let line = line.expect("it listens");
        let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(';').next()).expect("a port");
        thread::spawn(move || lines.for_each(drop));
        let (front, back) = url.split_once("127.0.0.1:").or(url.split_once("localhost:")).expect("a host");
        let back = back.find('/').map_or("", |at| &back[at..]);
        Self { child, url: format!("{front}127.0.0.1:{port}{back}") }
    }

    pub fn client(&self) -> Client {
        direct(&self.url)
    }

    /// Ends it as Ctrl-C does: its exit status and what it says.
    pub fn end(self) -> (i32, Value) {
        let sent = Command::new("kill").args(["-s", "INT", &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
        let output = self.child.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let json = serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{error}: {text}"));
        (output.status.code().unwrap_or(-1), json)
    }
}

/// A relay between the proxy and the server that, once told to, gives old answers.
pub struct Stale {
    /// The server's address through it.
    pub url: String,
    pub stale: Arc<AtomicBool>,
}

impl Stale {
    /// `rewrite` makes an old answer of a new one.
    pub fn before(url: &str, rewrite: fn(&mut Vec<u8>)) -> Self {
        let (front, back) = url.split_once("127.0.0.1:").or(url.split_once("localhost:")).expect("a host");
        let at = back.find('/').unwrap_or(back.len());
        let server = format!("127.0.0.1:{}", &back[..at]);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let url = format!("{front}127.0.0.1:{port}{}", &back[at..]);
        let stale = Arc::new(AtomicBool::new(false));
        let tells = Arc::clone(&stale);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(&server).expect("the server");
                let (mut from, mut to) =
                    (client.try_clone().expect("a clone"), server.try_clone().expect("a clone"));
                thread::spawn(move || drop(std::io::copy(&mut from, &mut to)));
                let tells = Arc::clone(&tells);
                thread::spawn(move || answers(server, client, &tells, rewrite));
            }
        });
        Self { url, stale }
    }
}

fn answers(mut server: TcpStream, mut client: TcpStream, stale: &AtomicBool, rewrite: fn(&mut Vec<u8>)) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count @ 1..) = server.read(&mut buffer) {
        let mut bytes = buffer[..count].to_vec();
        if stale.load(Ordering::Relaxed) {
            rewrite(&mut bytes);
        }
        if client.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// Where PostgreSQL shows a stock of 99, it is 10 again: a row of one value of two bytes, in text.
pub fn ten_again(bytes: &mut Vec<u8>) {
    replace(bytes, b"D\0\0\0\x0c\0\x01\0\0\0\x0299", b"D\0\0\0\x0c\0\x01\0\0\0\x0210");
}

/// Replaces the first occurrence of some bytes.
pub fn replace(bytes: &mut Vec<u8>, old: &[u8], new: &[u8]) {
    if let Some(at) = bytes.windows(old.len()).position(|window| window == old) {
        bytes.splice(at..at + old.len(), new.iter().copied());
    }
}

/// Numbers below a limit, the same for the same seed.
pub fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |limit| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    }
}
