//! One connection: what the client asked, in the order in which the server answers.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::body::Body;
use crate::frame::{Frame, Framer, Side};
use crate::rows::Rows;

use crate::event::{Bound, Column, Event, Executed, Prepared};

/// More outstanding messages than this make a session blind.
pub const MAX_QUEUE: usize = 100_000;

/// More bytes in outstanding messages, prepared statements and portals than this make a session
/// blind.
const MAX_HELD: usize = 32 << 20;

/// The answer that a message will get, with what the message said.
#[derive(Debug)]
pub(crate) enum Expect {
    Startup,
    Parse { name: String, prepared: Prepared, sent: i64 },
    Bind { portal: String, statement: String, bound: Bound, sent: i64 },
    DescribeStatement(String),
    DescribePortal(String),
    Execute { portal: String, copies: bool },
    Close { portal: bool, name: String },
    Sync,
    Query(Box<Query>),
}

/// A Query message and the results so far.
#[derive(Debug)]
pub(crate) struct Query {
    pub prepared: Arc<Prepared>,
    pub sent: i64,
    pub done: Vec<Executed>,
    pub columns: Option<Arc<[Column]>>,
    pub rows: Rows,
    pub copies: bool,
}

/// A prepared statement as the server knows it.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub prepared: Arc<Prepared>,
    pub columns: Option<Arc<[Column]>>,
}

/// A portal as the server knows it.
#[derive(Debug)]
pub(crate) struct Portal {
    pub statement: Statement,
    pub bound: Arc<Bound>,
    pub sent: i64,
    pub rows: Rows,
    /// Whether it waits for another Execute, since when.
    pub suspended: Option<i64>,
    /// Whether its last row came: executing it again does nothing.
    pub done: bool,
}

/// A connection's state.
#[derive(Debug)]
pub struct Session {
    client: Framer,
    server: Framer,
    pub(crate) queue: VecDeque<Expect>,
    /// After an error the server ignores everything up to the next Sync.
    pub(crate) skips: bool,
    pub(crate) statements: HashMap<String, Statement>,
    pub(crate) portals: HashMap<String, Portal>,
    pub(crate) events: Vec<Event>,
    /// Bytes that the queue, statements and portals hold, at most.
    pub(crate) held: usize,
    blind: bool,
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    /// A session whose startup message was sent.
    #[must_use]
    pub fn new() -> Self {
        Self {
            client: Framer::new(Side::Client),
            server: Framer::new(Side::Server),
            queue: VecDeque::from([Expect::Startup]),
            skips: false,
            statements: HashMap::new(),
            portals: HashMap::new(),
            events: Vec::new(),
            held: 0,
            blind: false,
        }
    }

    /// Bytes that the client is about to send, at this time.
    pub fn sent(&mut self, mut bytes: &[u8], now: i64) {
        let mut framer = std::mem::replace(&mut self.client, Framer::new(Side::Client));
        while !self.blind {
            match framer.next(&mut bytes) {
                Ok(Some(frame)) => self.client_message(frame, now),
                Ok(None) => break,
                Err(why) => self.blinded(why),
            }
        }
        self.client = framer;
    }

    /// Bytes that the server has sent, at this time.
    pub fn received(&mut self, mut bytes: &[u8], now: i64) {
        let mut framer = std::mem::replace(&mut self.server, Framer::new(Side::Server));
        while !self.blind {
            match framer.next(&mut bytes) {
                Ok(Some(frame)) => self.answer(frame, now),
                Ok(None) => break,
                Err(why) => self.blinded(why),
            }
        }
        self.server = framer;
    }

    /// What happened since the last call.
    pub fn events(&mut self) -> std::vec::Drain<'_, Event> {
        self.events.drain(..)
    }

    /// Whether the session is not understood any more.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.blind
    }

    /// Whether everything that was sent has been answered.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.skips
    }

    /// Gives up understanding the session.
    pub fn blinded(&mut self, why: &str) {
        if !self.blind {
            self.blind = true;
            self.events.push(Event::Blind(why.to_owned()));
            (self.queue, self.statements, self.portals) = Default::default();
        }
    }

    fn client_message(&mut self, frame: Frame<'_>, now: i64) {
        if self.skips && !matches!(frame.tag, b'S' | b'X') {
            return;
        }
        let body = Body(frame.body);
        let expect = match frame.tag {
            b'P' => parse(body, frame.whole, now),
            b'B' => bind(body, frame.whole, now),
            b'D' => describe(body),
            b'E' => execute(body),
            b'C' => close(body),
            b'Q' => Some(query(body, frame.whole, now)),
            b'S' => {
                self.skips = false;
                Some(Expect::Sync)
            }
            b'c' | b'f' => return self.copied(),
            // Flush, Terminate, CopyData, and all that belongs to authentication have no answer.
            b'H' | b'X' | b'd' | b'p' => return,
            b'F' => return self.blinded("a function call message"),
            _ => None,
        };
        let Some(expect) = expect else {
            return self
                .blinded(&format!("a message of type {:?} that is not understood", char::from(frame.tag)));
        };
        self.held += frame.body.len();
        self.queue.push_back(expect);
        if self.queue.len() > MAX_QUEUE || self.held > MAX_HELD {
            self.blinded("too much is outstanding");
        }
    }

    /// The client ended its copy. The server ignored every Sync that came during the copy.
    fn copied(&mut self) {
        let copies = match self.queue.front() {
            Some(Expect::Execute { copies, .. }) => *copies,
            Some(Expect::Query(query)) => query.copies,
            _ => false,
        };
        // Some clients send all rows before the server asks for them. Where there is no copy it
        // ignores them.
        if !copies && matches!(self.queue.back(), Some(Expect::Execute { .. } | Expect::Query(_))) {
            return;
        }
        if !copies {
            return self.blinded("the end of a copy that did not begin");
        }
        let all_syncs = self.queue.iter().skip(1).all(|expect| matches!(expect, Expect::Sync));
        match all_syncs {
            true => self.queue.truncate(1),
            false => self.blinded("other messages during a copy"),
        }
    }
}

fn name(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

fn parse(mut body: Body<'_>, whole: bool, sent: i64) -> Option<Expect> {
    let name = name(body.string()?)?;
    if !whole {
        return Some(Expect::Parse { name, prepared: Prepared { text: None, types: Vec::new() }, sent });
    }
    let text = std::str::from_utf8(body.string()?).ok().map(Arc::from);
    let types = body.list(Body::u32)?;
    body.is_empty().then_some(Expect::Parse { name, prepared: Prepared { text, types }, sent })
}

fn bind(mut body: Body<'_>, whole: bool, sent: i64) -> Option<Expect> {
    let (portal, statement) = (name(body.string()?)?, name(body.string()?)?);
    if !whole {
        // Nobody knows in which formats results will come.
        let bound = Bound { results: vec![u16::MAX], ..Bound::default() };
        return Some(Expect::Bind { portal, statement, bound, sent });
    }
    let formats = body.list(Body::u16)?;
    let values = body.list(|body| body.value().map(|value| value.map(<[u8]>::to_vec)))?;
    let results = body.list(Body::u16)?;
    let bound = Bound { values: Some(values), formats, results };
    body.is_empty().then_some(Expect::Bind { portal, statement, bound, sent })
}

fn describe(mut body: Body<'_>) -> Option<Expect> {
    let (kind, name) = (body.u8()?, name(body.string()?)?);
    match kind {
        b'S' => Some(Expect::DescribeStatement(name)),
        b'P' => Some(Expect::DescribePortal(name)),
        _ => None,
    }
}

fn execute(mut body: Body<'_>) -> Option<Expect> {
    let portal = name(body.string()?)?;
    body.i32()?;
    Some(Expect::Execute { portal, copies: false })
}

fn close(mut body: Body<'_>) -> Option<Expect> {
    let (kind, name) = (body.u8()?, name(body.string()?)?);
    matches!(kind, b'S' | b'P').then_some(Expect::Close { portal: kind == b'P', name })
}

fn query(mut body: Body<'_>, whole: bool, sent: i64) -> Expect {
    let text = whole.then(|| body.string()).flatten();
    let text = text.and_then(|text| std::str::from_utf8(text).ok()).map(Arc::from);
    let prepared = Arc::new(Prepared { text, types: Vec::new() });
    let (done, columns, rows) = (Vec::new(), None, Rows::default());
    Expect::Query(Box::new(Query { prepared, sent, done, columns, rows, copies: false }))
}
