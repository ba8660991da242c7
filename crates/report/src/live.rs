//! The live page: a small server that shows a report while it is being made.
//!
//! # Design
//! One thread accepts, one thread serves each connection. At most [`CONNECTIONS`] are answered at a
//! time, and at most as many are waited for to ask: if another one comes, the one that has said
//! nothing for longest is closed. So whoever connects and says nothing keeps nobody out. A browser
//! gets the page as it is now and then follows `events`: whenever something is published, everybody
//! who follows is sent the whole new data. So a reload, or a connection that was lost, costs
//! nothing. When the last report is published, followers are told that it was the last, and from
//! then on the page is the static one.
//!
//! # Invariants
//! - Without a token, only a loopback address is bound, and only requests that name a loopback host
//!   are answered: a page of another site that has its own name resolved to this machine gets
//!   nothing.
//! - A request is read up to [`http::HEAD`] bytes and within [`http::PATIENCE`]; nothing but GET is
//!   answered.

pub mod http;

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::html::{self, Place};
use crate::view::Report;
use http::Request;

/// Connections at a time that are answered, and as many that have not asked yet.
pub const CONNECTIONS: usize = 32;
/// How often followers hear something, so that a lost connection is noticed.
const ALIVE: Duration = Duration::from_secs(5);

/// A server of one report.
pub struct Live {
    shared: Arc<Shared>,
    address: SocketAddr,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// How many connections are answered.
    answered: AtomicUsize,
    /// Those that have not asked yet, the oldest first.
    silent: Mutex<VecDeque<Arc<TcpStream>>>,
    token: Option<String>,
}

struct State {
    report: Report,
    data: Arc<str>,
    version: u64,
    last: bool,
    /// Followers that have not been sent the last data yet.
    followers: usize,
}

impl Live {
    /// Binds the address and begins to serve `report`.
    ///
    /// # Errors
    /// When the address cannot be bound, or is not a loopback address and there is no token, or the
    /// token is empty.
    pub fn start(address: SocketAddr, token: Option<String>, report: Report) -> io::Result<Self> {
        if !address.ip().is_loopback() && token.is_none() {
            let why = "only loopback addresses are served without an access token";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        if token.as_ref().is_some_and(String::is_empty) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the access token is empty"));
        }
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let state = State { data: html::data(&report).into(), report, version: 1, last: false, followers: 0 };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            answered: AtomicUsize::new(0),
            silent: Mutex::default(),
            token,
        });
        let accepting = Arc::clone(&shared);
        thread::Builder::new().name("live page".to_owned()).spawn(move || accept(&listener, &accepting))?;
        Ok(Self { shared, address })
    }

    /// What to type into a browser.
    #[must_use]
    pub fn url(&self) -> String {
        let token = self.shared.token.as_ref().map_or(String::new(), |token| format!("?token={token}"));
        format!("http://{}/{token}", self.address)
    }

    /// Shows this report from now on.
    pub fn publish(&self, report: Report, last: bool) {
        let data: Arc<str> = html::data(&report).into();
        let mut state = self.shared.lock();
        let version = state.version + 1;
        *state = State { report, data, version, last, followers: state.followers };
        self.shared.changed.notify_all();
    }

    /// Waits until nobody waits for the last report any more, but not longer than `limit`.
    pub fn drain(&self, limit: Duration) {
        let start = Instant::now();
        while self.shared.lock().followers > 0 && start.elapsed() < limit {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A token that nobody can guess: 128 bits, from the randomness that the standard library gets from
/// the system.
#[must_use]
pub fn token() -> String {
    let random = RandomState::new();
    format!("{:016x}{:016x}", random.hash_one(1u8), random.hash_one(2u8))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silent(&self) -> MutexGuard<'_, VecDeque<Arc<TcpStream>>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new connection, which has not asked yet. The oldest such one makes room for it.
    fn wait_for(&self, stream: &Arc<TcpStream>) {
        let mut silent = self.silent();
        silent.push_back(Arc::clone(stream));
        if silent.len() > CONNECTIONS
            && let Some(oldest) = silent.pop_front()
        {
            let _ = oldest.shutdown(Shutdown::Both);
        }
    }

    /// A connection that has asked, or has gone.
    fn forget(&self, stream: &Arc<TcpStream>) {
        self.silent().retain(|other| !Arc::ptr_eq(other, stream));
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors, say: it may pass.
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        let (stream, own) = (Arc::new(stream), Arc::clone(shared));
        own.wait_for(&stream);
        let serving = thread::Builder::new().spawn(move || {
            // A connection that breaks concerns nobody else.
            let _ = serve(&stream, &own);
            own.forget(&stream);
        });
        if serving.is_err() {
            // Too many threads: those that wait for nothing end.
            shared.silent().drain(..).for_each(|silent| drop(silent.shutdown(Shutdown::Both)));
        }
    }
}

const TEXT: &str = "text/plain; charset=utf-8";

fn serve(stream: &Arc<TcpStream>, shared: &Shared) -> io::Result<()> {
    let request = Request::read(stream)?;
    shared.forget(stream);
    let Some(request) = request else {
        return http::answer(stream, "400 Bad Request", TEXT, "only plain GET requests are answered\n");
    };
    if !request.is_allowed(shared.token.as_deref()) {
        return http::answer(
            stream,
            "403 Forbidden",
            TEXT,
            "the access token is missing or wrong, or the host is not this machine\n",
        );
    }
    let busy = shared.answered.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS;
    let answered = if busy {
        http::answer(stream, "503 Service Unavailable", TEXT, "too many connections\n")
    } else {
        answer(stream, &request, shared)
    };
    shared.answered.fetch_sub(1, Ordering::Relaxed);
    answered
}

fn answer(stream: &TcpStream, request: &Request, shared: &Shared) -> io::Result<()> {
    match request.path.as_str() {
        "/" => http::answer(stream, "200 OK", "text/html; charset=utf-8", &page(shared)),
        "/report.json" => {
            let report = shared.lock().report.clone();
            let json = serde_json::to_string(&report).map_err(io::Error::other)?;
            http::answer(stream, "200 OK", "application/json", &json)
        }
        "/events" => {
            shared.lock().followers += 1;
            let followed = follow(stream, shared);
            shared.lock().followers -= 1;
            followed
        }
        _ => http::answer(stream, "404 Not Found", TEXT, "there is only /, /events and /report.json\n"),
    }
}

fn page(shared: &Shared) -> String {
    let (report, last) = {
        let state = shared.lock();
        (state.report.clone(), state.last)
    };
    html::page(&report, if last { Place::File } else { Place::Live })
}

/// Sends whatever is new until the last report was sent.
fn follow(mut stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_write_timeout(Some(http::PATIENCE))?;
    stream.write_all(http::events_head().as_bytes())?;
    let mut sent = 0;
    loop {
        let (data, version, last) = {
            let state = shared.lock();
            let same = |state: &mut State| state.version == sent;
            let waited = shared.changed.wait_timeout_while(state, ALIVE, same);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            (Arc::clone(&state.data), state.version, state.last)
        };
        if version == sent {
            stream.write_all(b": alive\n\n")?;
            continue;
        }
        sent = version;
        let event = if last { "end" } else { "report" };
        stream.write_all(format!("event: {event}\ndata: {data}\n\n").as_bytes())?;
        if last {
            return stream.flush();
        }
    }
}
