//! The live server over real sockets: who gets an answer, and what followers are sent.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use common::browser::Browser;
use common::{artefacts, report};
use margay_levels::Level;
use margay_report::live::{CONNECTIONS, Live, token};
use margay_report::view::Run;
use margay_report::{Report, Word};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn skew() -> Report {
    let history = margay_testkit::history("init: x=0 y=0 | T1: r(y,0) w(x,1) | T2: r(x,0) w(y,1)");
    report(&history, Level::Serializable, "the run")
}

fn running() -> Report {
    let mut report = skew();
    report.verdict = Word::Running;
    report.anomalies.clear();
    let details = report.report.as_mut().expect("details");
    details.cases.clear();
    details.headline = "running".to_owned();
    report
}

fn address(live: &Live) -> String {
    live.url().trim_start_matches("http://").split('/').next().expect("an address").to_owned()
}

/// The whole answer to a request.
fn ask(live: &Live, target: &str, host: &str) -> String {
    let mut stream = TcpStream::connect(address(live)).expect("it listens");
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn strangers_get_nothing() {
    let live = Live::start(LOOPBACK, None, running()).expect("it starts");
    assert!(ask(&live, "/", "localhost").starts_with("HTTP/1.1 200 "));
    assert!(ask(&live, "/", "evil.example").starts_with("HTTP/1.1 403 "));
    assert!(ask(&live, "/other", "localhost").starts_with("HTTP/1.1 404 "));
    assert!(ask(&live, "/report.json", "127.0.0.1").contains("\"verdict\":\"running\""));
    let everywhere: SocketAddr = "0.0.0.0:0".parse().expect("an address");
    let refused = Live::start(everywhere, None, running()).map(|_| ()).expect_err("no token, no service");
    assert!(refused.to_string().contains("token"), "{refused}");
}

#[test]
fn other_addresses_want_the_token() {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().expect("an address");
    let secret = token();
    assert!(secret.len() == 32 && token() != secret);
    let live = Live::start(everywhere, Some(secret.clone()), running()).expect("it starts");
    assert!(ask(&live, "/", "localhost").starts_with("HTTP/1.1 403 "));
    assert!(ask(&live, "/events", "localhost").starts_with("HTTP/1.1 403 "));
    assert!(ask(&live, &format!("/?token={secret}"), "any.example").starts_with("HTTP/1.1 200 "));
}

#[test]
fn nonsense_is_survived() {
    let live = Live::start(LOOPBACK, None, running()).expect("it starts");
    let mut nonsense = TcpStream::connect(address(&live)).expect("it listens");
    nonsense.write_all(&[0xff; 100]).and_then(|()| nonsense.write_all(b"\r\n\r\n")).expect("it reads");
    drop(nonsense);
    assert!(ask(&live, "/", "localhost").starts_with("HTTP/1.1 200 "));
    let refused = Live::start(LOOPBACK, Some(String::new()), running()).map(|_| ());
    assert!(refused.is_err_and(|why| why.to_string().contains("empty")));
}

/// A regression: 32 connections on which nobody said a word kept everybody else out for ten
/// seconds, again and again.
#[test]
fn who_says_nothing_keeps_nobody_out() {
    let live = Live::start(LOOPBACK, None, running()).expect("it starts");
    let connect = || TcpStream::connect(address(&live)).expect("it listens");
    let held: Vec<TcpStream> = (0..2 * CONNECTIONS).map(|_| connect()).collect();
    for _ in 0..20 {
        assert!(ask(&live, "/", "localhost").starts_with("HTTP/1.1 200 "));
    }
    // They are bounded all the same: the oldest are closed.
    let mut byte = [0];
    held[0].set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    assert_eq!((&held[0]).read(&mut byte).expect("its end"), 0);
}

#[test]
fn connections_that_are_answered_are_bounded() {
    let live = Live::start(LOOPBACK, None, running()).expect("it starts");
    let follow = |_| {
        let mut stream = TcpStream::connect(address(&live)).expect("it listens");
        stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
        let mut line = String::new();
        BufReader::new(stream.try_clone().expect("a handle")).read_line(&mut line).expect("an answer");
        (stream, line.contains(" 503 "))
    };
    let held: Vec<(TcpStream, bool)> = (0..CONNECTIONS + 4).map(follow).collect();
    assert_eq!(held.iter().filter(|(_, refused)| *refused).count(), 4);
    drop(held);
    live.publish(skew(), true);
    for _ in 0..50 {
        if ask(&live, "/", "localhost").starts_with("HTTP/1.1 200 ") {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("connections are not given back");
}

#[test]
fn followers_are_sent_what_is_new_and_the_end() {
    let live = Live::start(LOOPBACK, None, running()).expect("it starts");
    let mut stream = TcpStream::connect(address(&live)).expect("it listens");
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
    let mut lines = BufReader::new(stream).lines().map(|line| line.expect("a line"));
    let mut next =
        |wanted: &str| lines.find(|line| line.starts_with(wanted)).unwrap_or_else(|| panic!("no {wanted}"));
    next("event: report");
    assert!(next("data: ").contains("\"verdict\":\"running\""));
    live.publish(skew(), true);
    next("event: end");
    assert!(next("data: ").contains("\"verdict\":\"violated\""));
    assert!(lines.next().is_some_and(|line| line.is_empty()) && lines.next().is_none(), "the stream ends");
    live.drain(Duration::from_secs(5));
    assert!(!ask(&live, "/", "localhost").contains("data-live>"), "the static page is served from now on");
}

/// The page of a run that goes on once said which engine found something, but with the level that
/// the user claimed instead of the one that the engine verifies, and nothing of how far the run
/// was.
#[test]
fn the_live_page_shows_how_far_the_run_is() {
    let Some(mut browser) = Browser::start() else { return };
    let mut report = running();
    let asked = serde_json::json!({"transactions": 3000, "seconds": 60.0});
    report.run = Some(Run {
        dbms: "sqlite 3.54".to_owned(),
        level: "wal".to_owned(),
        committed: 1100,
        aborted: 100,
        seconds: 6.0,
        more: [("asked".to_owned(), asked)].into_iter().collect(),
        ..Run::default()
    });
    let live = Live::start(LOOPBACK, None, report.clone()).expect("it starts");
    browser.open(&live.url());
    assert_eq!(browser.text(".headline"), "sqlite 3.54 at wal, verified against serializable");
    assert_eq!(browser.text(".target").trim(), "1,200 of 3,000 transactions (40 %)");
    let more = &mut report.run.as_mut().expect("a run").more;
    more.insert("phase".to_owned(), "catching up".into());
    live.publish(report, false);
    browser.wait("document.querySelector('.target').textContent.includes('catches up')");
    assert_eq!(browser.complaints(&live.url()), Vec::<String>::new());
}

#[test]
fn a_browser_follows_survives_reloads_and_ends_with_the_static_report() {
    let Some(mut browser) = Browser::start() else { return };
    let live = Live::start(LOOPBACK, None, running()).expect("it starts");
    let url = live.url();
    browser.open(&url);
    assert_eq!(browser.text(".word"), "running");
    let mut more = running();
    more.stats.transactions = 4321;
    live.publish(more, false);
    browser.wait("document.querySelector('.facts').textContent.includes('4,321')");
    browser.open(&url);
    browser.wait("document.querySelector('.facts').textContent.includes('4,321')");
    browser.screenshot(&artefacts().join("live.png"));
    live.publish(skew(), true);
    browser.wait("document.querySelector('.word').textContent === 'violated'");
    browser.wait("!document.documentElement.hasAttribute('data-live')");
    assert_eq!(browser.count("svg.cycle .arrow"), 2);
    browser.open(&url);
    assert_eq!(browser.text(".word"), "violated");
    assert_eq!(browser.complaints(&url), Vec::<String>::new());
}
