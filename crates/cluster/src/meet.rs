//! How processes meet: whoever knows the token, runs the same version and has the same to verify.
//!
//! # Algorithm
//! Each process listens at its own address, calls those of lower numbers, and waits for those of
//! higher ones, until a deadline. On a new connection both say who they are and prove that they
//! know the token ([`greet`]); no two processes say the same number. Whoever does not begin as a
//! process of a cluster is sent away; whoever begins so and is wrong is an error that names it.
//!
//! # Invariants
//! Nothing is sent to a process that has not proved that it knows the token. What is sent
//! afterwards is neither hidden nor sealed: machines that do not trust their network need a tunnel
//! (docs/CLUSTER.md).

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use margay_history::{History, NameId, ValueId};
use margay_mirror::Mechanisms;
use margay_remote::greet;

use crate::workers::Network;

/// The addresses of all processes, in their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// Those of a file: one `HOST:PORT` in each line; empty lines and those that begin with `#` do
    /// not count.
    ///
    /// # Errors
    /// What is wrong with a line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut all: Vec<String> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let (line, number) = (line.trim(), number + 1);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let port = line.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            if port.and_then(|(_, port)| port.parse::<u16>().ok()).is_none_or(|port| port == 0) {
                return Err(format!("line {number}: `{line}` is not HOST:PORT"));
            }
            if all.iter().any(|known| known == line) {
                return Err(format!("line {number}: {line} is there twice"));
            }
            all.push(line.to_owned());
        }
        if all.is_empty() { Err("there is no HOST:PORT".to_owned()) } else { Ok(Self(all)) }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

/// What is to be verified, and in which shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Subject {
    workers: usize,
    mechanisms: String,
    history: u64,
}

impl Subject {
    /// A history by a hash of all that a mirror looks at.
    pub fn of(history: &History, mechanisms: &Mechanisms, workers: usize) -> Self {
        let (mut hash, values) = (DefaultHasher::new(), history.values());
        (history.txn_count(), history.op_count(), values.len()).hash(&mut hash);
        format!("{:?} {:?}", history.header(), history.tables()).hash(&mut hash);
        history.predicates().hash(&mut hash);
        history.initial_values().hash(&mut hash);
        for id in history.objects() {
            let object = history.object(id);
            (object.table, object.key).hash(&mut hash);
        }
        (0..values.name_count()).for_each(|n| values.name(NameId(n as u32)).hash(&mut hash));
        (0..values.len()).for_each(|n| format!("{:?}", values.get(ValueId(n as u32))).hash(&mut hash));
        for txn in history.txns() {
            history.session_of(txn).hash(&mut hash);
            for op in history.ops(txn) {
                (op.kind, op.at.map(|at| (at.before, at.after)), op.accesses.len()).hash(&mut hash);
                op.accesses.iter().for_each(|access| (access.object, access.value).hash(&mut hash));
                let (scan, update) = (history.scan(op.id), history.update(op.id));
                scan.map(|scan| (scan.predicate, scan.observed)).hash(&mut hash);
                update.map(|update| (update.predicate, &update.set, update.observed)).hash(&mut hash);
                (history.read_lock(op.id), history.statement(op.id).map(|s| &s.text)).hash(&mut hash);
            }
        }
        Self { workers, mechanisms: format!("{mechanisms:?}"), history: hash.finish() }
    }
}

/// Connections to all others: for letters, and for pulses.
#[derive(Debug)]
pub(crate) struct Met {
    pub streams: Vec<Option<TcpStream>>,
    pub pulses: Vec<(String, TcpStream)>,
}

const MAGIC: &[u8; 16] = b"margay-cluster-1";

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum For {
    Letters,
    Pulses,
}

/// Who somebody says to be.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Hello {
    version: String,
    process: usize,
    processes: usize,
    what: For,
    subject: Subject,
}

impl Hello {
    fn to_bytes(&self) -> Vec<u8> {
        let Self { version, process, processes, what, subject } = self;
        let fields = [
            version.clone(),
            process.to_string(),
            processes.to_string(),
            (*what as u8).to_string(),
            subject.workers.to_string(),
            subject.history.to_string(),
            subject.mechanisms.clone(),
        ];
        fields.join("\n").into_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut fields = std::str::from_utf8(bytes).ok()?.split('\n');
        let version = fields.next()?.to_owned();
        let mut number = || fields.next()?.parse::<u64>().ok();
        let (process, processes) = (number()? as usize, number()? as usize);
        let what = match number()? {
            0 => For::Letters,
            1 => For::Pulses,
            _ => return None,
        };
        let (workers, history) = (number()? as usize, number()?);
        let mechanisms = fields.next()?.to_owned();
        let subject = Subject { workers, mechanisms, history };
        Some(Self { version, process, processes, what, subject })
    }
}

/// Why a connection is none.
enum No {
    /// Nobody of a cluster, or the connection broke: perhaps the next one is right.
    Stranger,
    /// Somebody who is wrong.
    Wrong(String),
}

/// Meets all other processes.
///
/// # Errors
/// Who did not come, or who is wrong and in what.
pub(crate) fn meet(network: &Network, subject: &Subject) -> Result<Met, String> {
    let (Hosts(hosts), me) = (&network.hosts, network.process);
    let deadline = Instant::now() + network.patience;
    let own = hosts.get(me).ok_or_else(|| {
        format!("there is no process {me}: the hosts are numbered 0 to {}", hosts.len() - 1)
    })?;
    let listener = listen(own, me, deadline)?;
    let mut streams: Vec<[Option<TcpStream>; 2]> = hosts.iter().map(|_| [None, None]).collect();
    for (process, host) in hosts.iter().enumerate().take(me) {
        for what in [For::Letters, For::Pulses] {
            let stream = call(network, subject, (process, host), what, deadline)?;
            streams[process][what as usize] = Some(stream);
        }
    }
    while let Some(missing) = (me + 1..hosts.len()).find(|p| streams[*p].iter().any(Option::is_none)) {
        let late = || format!("{} (process {missing}) does not answer", hosts[missing]);
        let Some(stream) = accept(&listener, deadline) else { return Err(late()) };
        let hello = match introduce(&stream, network, subject, None, deadline) {
            Ok(hello) => hello,
            Err(No::Stranger) => continue,
            Err(No::Wrong(why)) => return Err(why),
        };
        let place = &mut streams[hello.process][hello.what as usize];
        // One that died meanwhile was begun again.
        if place.as_ref().is_some_and(|before| !is_gone(before)) {
            let host = &hosts[hello.process];
            return Err(format!("two processes say that they are number {}, {host}", hello.process));
        }
        *place = Some(stream);
    }
    let mut met = Met { streams: Vec::new(), pulses: Vec::new() };
    for (host, [letters, pulses]) in hosts.iter().zip(streams) {
        met.streams.push(letters);
        met.pulses.extend(pulses.map(|stream| (host.clone(), stream)));
    }
    Ok(met)
}

/// Listens at the own address. A process that has just ended may still be there for a moment.
fn listen(own: &str, me: usize, deadline: Instant) -> Result<TcpListener, String> {
    loop {
        match TcpListener::bind(own) {
            Ok(listener) => {
                listener.set_nonblocking(true).map_err(|why| format!("{own}: {why}"))?;
                return Ok(listener);
            }
            Err(why) if Instant::now() >= deadline || why.kind() != std::io::ErrorKind::AddrInUse => {
                return Err(format!("{own}: cannot listen there ({why}); is another process {me} at work?"));
            }
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Calls a process until it answers.
fn call(
    network: &Network,
    subject: &Subject,
    (process, host): (usize, &String),
    what: For,
    deadline: Instant,
) -> Result<TcpStream, String> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("{host} (process {process}) does not answer"));
        }
        let addresses = host.to_socket_addrs().map_err(|why| format!("{host}: {why}"))?;
        let connected =
            addresses.into_iter().find_map(|address| TcpStream::connect_timeout(&address, left).ok());
        if let Some(stream) = connected {
            match introduce(&stream, network, subject, Some((process, what)), deadline) {
                Ok(_) => return Ok(stream),
                Err(No::Wrong(why)) => return Err(why),
                Err(No::Stranger) => {}
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn accept(listener: &TcpListener, deadline: Instant) -> Option<TcpStream> {
    loop {
        if let Ok((stream, _)) = listener.accept() {
            return Some(stream);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Both say who they are and prove it. Whoever calls knows whom and what for.
fn introduce(
    stream: &TcpStream,
    network: &Network,
    subject: &Subject,
    called: Option<(usize, For)>,
    deadline: Instant,
) -> Result<Hello, No> {
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let stranger = |_: std::io::Error| No::Stranger;
    let patience = Some(left.min(Duration::from_secs(5)));
    stream.set_nonblocking(false).map_err(stranger)?;
    stream.set_nodelay(true).map_err(stranger)?;
    stream.set_read_timeout(patience).map_err(stranger)?;
    stream.set_write_timeout(patience).map_err(stranger)?;
    let mine = Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        process: network.process,
        processes: network.hosts.count(),
        what: called.map_or(For::Letters, |(_, what)| what),
        subject: subject.clone(),
    };
    let greeting = greet(stream, MAGIC, &network.token, &mine.to_bytes()).map_err(stranger)?;
    let other = Hello::from_bytes(&greeting.said)
        .ok_or_else(|| No::Wrong(format!("{}: no greeting of this version", peer(stream))))?;
    let name = match network.hosts.0.get(other.process) {
        Some(host) if greeting.known => format!("{host} (process {})", other.process),
        _ => peer(stream),
    };
    if let Some(why) = wrong(&mine, &other, greeting.known, called) {
        return Err(No::Wrong(format!("{name} {why}")));
    }
    stream.set_read_timeout(None).map_err(stranger)?;
    stream.set_write_timeout(None).map_err(stranger)?;
    Ok(other)
}

/// What is wrong with another process.
fn wrong(mine: &Hello, other: &Hello, known: bool, called: Option<(usize, For)>) -> Option<String> {
    let (one, two) = (&mine.subject, &other.subject);
    let why = match called {
        _ if !known => "has another token".to_owned(),
        _ if mine.version != other.version => {
            format!("runs version {}, this one {}", other.version, mine.version)
        }
        _ if mine.processes != other.processes => {
            format!("counts {} processes, this one {}", other.processes, mine.processes)
        }
        Some((process, _)) if other.process != process => {
            format!("says that it is process {}, and should be {process}", other.process)
        }
        None if other.process <= mine.process || other.process >= mine.processes => {
            format!("says that it is process {}, as another one", other.process)
        }
        _ if one.workers != two.workers => {
            format!("has {} workers, this one {}", two.workers, one.workers)
        }
        _ if one.mechanisms != two.mechanisms => "verifies other mechanisms".to_owned(),
        _ if one.history != two.history => "has read another history".to_owned(),
        _ => return None,
    };
    Some(why)
}

/// Whether the other end of a connection on which nothing has been said yet is there no more.
fn is_gone(stream: &TcpStream) -> bool {
    let _ = stream.set_nonblocking(true);
    let gone = match stream.peek(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    };
    let _ = stream.set_nonblocking(false);
    gone
}

fn peer(stream: &TcpStream) -> String {
    stream.peer_addr().map_or_else(|_| "somebody".to_owned(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_lines() {
        let hosts = Hosts::parse("# three\n\n a:1\nb.example:65535\n[::1]:7\n").expect("hosts");
        assert_eq!(hosts, Hosts(vec!["a:1".to_owned(), "b.example:65535".to_owned(), "[::1]:7".to_owned()]));
        for (text, why) in [
            ("", "there is no HOST:PORT"),
            ("a", "line 1: `a` is not HOST:PORT"),
            ("a:1\n:2", "line 2: `:2` is not HOST:PORT"),
            ("a:65536", "line 1: `a:65536` is not HOST:PORT"),
            ("a:0", "line 1: `a:0` is not HOST:PORT"),
            ("a:1\nb:2\na:1", "line 3: a:1 is there twice"),
        ] {
            assert_eq!(Hosts::parse(text), Err(why.to_owned()), "{text}");
        }
    }

    fn hello() -> Hello {
        let subject = Subject { workers: 3, mechanisms: "Mechanisms { .. }".to_owned(), history: u64::MAX };
        let version = "1.2.3".to_owned();
        Hello { version, process: 1, processes: 4, what: For::Pulses, subject }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let mine = Hello { process: 0, ..hello() };
        assert_eq!(wrong(&mine, &hello(), true, None), None);
        let told = |other: Hello, called| wrong(&mine, &other, true, called).expect("something wrong");
        assert_eq!(wrong(&mine, &hello(), false, None).as_deref(), Some("has another token"));
        let newer = Hello { version: "2.0.0".to_owned(), ..hello() };
        assert_eq!(told(newer, None), "runs version 2.0.0, this one 1.2.3");
        assert_eq!(told(Hello { processes: 5, ..hello() }, None), "counts 5 processes, this one 4");
        assert_eq!(told(mine.clone(), None), "says that it is process 0, as another one");
        assert_eq!(told(Hello { process: 4, ..hello() }, None), "says that it is process 4, as another one");
        assert_eq!(told(hello(), Some((2, For::Letters))), "says that it is process 1, and should be 2");
        let subject = Subject { mechanisms: String::new(), ..hello().subject };
        assert_eq!(told(Hello { subject, ..hello() }, None), "verifies other mechanisms");
    }

    #[test]
    fn a_greeting_is_read_as_it_was_said() {
        let hello = hello();
        assert_eq!(Hello::from_bytes(&hello.to_bytes()), Some(hello.clone()));
        for length in 0..hello.to_bytes().len() - 20 {
            assert_ne!(Hello::from_bytes(&hello.to_bytes()[..length]), Some(hello.clone()));
        }
    }
}
