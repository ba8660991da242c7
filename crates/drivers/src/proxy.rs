//! A relay between clients and a server, which can cut connections at any moment: in the middle of
//! a statement, while a commit is on its way, or when an answer of PostgreSQL does not come in
//! time.
//!
//! # Algorithm
//! PostgreSQL says at the end of each answer that it is ready for the next question (`Z`). Between
//! that and the next byte of the client nobody waits; otherwise somebody does, since the last byte
//! of either side.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::ready::Ready;

/// Both ends of a connection.
type Pair = (TcpStream, TcpStream);

/// A server's host and port.
pub(crate) type Address = (String, u16);

pub(crate) struct Proxy {
    /// Where clients connect.
    pub port: u16,
    open: Arc<Mutex<Vec<Pair>>>,
    over: Arc<AtomicBool>,
}

impl Proxy {
    /// A relay to a server, which cuts a connection when an answer takes longer than the limit.
    pub fn to(server: Address, limit: Option<Duration>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let (open, over) = (Arc::<Mutex<Vec<Pair>>>::default(), Arc::<AtomicBool>::default());
        let (connections, ended) = (Arc::clone(&open), Arc::clone(&over));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                // A server that is down takes no connection; dropping the client's tells it so.
                if let Ok(pair) = relay(client, &server, limit) {
                    connections.lock().unwrap_or_else(PoisonError::into_inner).push(pair);
                }
            }
        });
        Ok(Self { port, open, over })
    }

    /// Cuts the connection that has been open longest.
    pub fn cut(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended by themselves are not there any more.
        open.retain(|(client, _)| client.take_error().is_ok() && client.peer_addr().is_ok());
        if !open.is_empty() {
            end(&open.remove(0));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.open.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(end);
        // The relay waits for a connection; this is its last.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn end((client, server): &Pair) {
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

fn relay(client: TcpStream, (host, port): &Address, limit: Option<Duration>) -> io::Result<Pair> {
    let server = TcpStream::connect((host.as_str(), *port))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    // Nobody can be late by less than this.
    let look = limit.map(|limit| (limit / 8).max(Duration::from_millis(1)));
    server.set_read_timeout(look)?;
    let watch = Arc::new(Watch { start: Instant::now(), limit, waiting: AtomicU64::new(0) });
    for (from, to, answers) in [(&client, &server, false), (&server, &client, true)] {
        let (from, to, watch) = (from.try_clone()?, to.try_clone()?, Arc::clone(&watch));
        thread::spawn(move || {
            pass(&from, &to, answers, &watch);
            end(&(from, to));
        });
    }
    Ok((client, server))
}

/// How long somebody has waited on one connection.
struct Watch {
    start: Instant,
    limit: Option<Duration>,
    /// Since when, in nanoseconds from the start on; 0 if nobody waits.
    waiting: AtomicU64,
}

impl Watch {
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64 + 1
    }

    /// Bytes came by: the answer is complete, or somebody waits for more.
    fn see(&self, ready: bool) {
        self.waiting.store(if ready { 0 } else { self.now() }, Ordering::Relaxed);
    }

    fn is_late(&self) -> bool {
        let since = self.waiting.load(Ordering::Relaxed);
        let waited = Duration::from_nanos(self.now().saturating_sub(since));
        since > 0 && self.limit.is_some_and(|limit| waited > limit)
    }
}

/// Passes bytes on until one side has no more, or an answer is late.
fn pass(mut from: &TcpStream, mut to: &TcpStream, answers: bool, watch: &Watch) {
    let (mut buffer, mut ready) = (vec![0; 16 * 1024], Ready::default());
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(some) => {
                watch.see(answers && ready.hear(&buffer[..some]));
                if to.write_all(&buffer[..some]).is_err() {
                    return;
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if watch.is_late() {
                    return;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relayed(limit: Option<Duration>) -> (Proxy, TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let proxy = Proxy::to(("127.0.0.1".to_owned(), port), limit).expect("a relay");
        let client = TcpStream::connect(("127.0.0.1", proxy.port)).expect("the relay listens");
        let (server, _) = listener.accept().expect("the relay connects");
        (proxy, client, server)
    }

    /// However long both sides are silent: nobody waits after a complete answer.
    #[test]
    fn who_waits_too_long_is_cut_off_and_who_does_not_wait_is_not() {
        let limit = Duration::from_millis(400);
        let (_proxy, mut client, mut server) = relayed(Some(limit));
        let mut bytes = [0; 6];
        for _ in 0..2 {
            server.write_all(b"Z\0\0\0\x05T").expect("it is open");
            client.read_exact(&mut bytes).expect("an answer");
            thread::sleep(2 * limit);
        }
        let asked = Instant::now();
        client.write_all(b"ask").expect("nobody has waited");
        server.read_exact(&mut bytes[..3]).expect("it arrives");
        assert_eq!(client.read(&mut bytes).unwrap_or(0), 0, "no answer, but the end");
        assert!(asked.elapsed() >= limit, "{:?}", asked.elapsed());
    }

    #[test]
    fn an_answer_in_time_ends_the_wait() {
        let watch = |limit| Watch { start: Instant::now(), limit, waiting: AtomicU64::new(0) };
        let (hasty, patient) = (watch(Some(Duration::ZERO)), watch(Some(Duration::from_secs(3600))));
        for watch in [&hasty, &patient, &watch(None)] {
            assert!(!watch.is_late(), "nobody has asked");
            watch.see(false);
        }
        thread::sleep(Duration::from_millis(1));
        assert!(hasty.is_late() && !patient.is_late());
        hasty.see(true);
        thread::sleep(Duration::from_millis(1));
        assert!(!hasty.is_late());
    }

    #[test]
    fn what_is_relayed_arrives_until_it_is_cut() {
        let (proxy, mut client, mut server) = relayed(None);
        client.write_all(b"ping").expect("it is open");
        let mut bytes = [0; 4];
        server.read_exact(&mut bytes).expect("it arrives");
        assert_eq!(&bytes, b"ping");
        while proxy.open.lock().expect("no panic").is_empty() {
            thread::yield_now();
        }
        proxy.cut();
        assert_eq!(client.read(&mut bytes).unwrap_or(0), 0, "the client sees the end");
        assert_eq!(server.read(&mut bytes).unwrap_or(0), 0, "the server sees the end");
    }
}
