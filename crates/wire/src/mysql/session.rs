//! One connection: what the client asked, in the order in which the server answers.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::body::Body;
use crate::event::{Bound, Column, Prepared, Times};
use crate::frame::MAX_BODY;
use crate::rows::Rows;
use crate::session::MAX_QUEUE;

use super::event::{Answer, Connected, Event};
use super::greeting::{change_user, login};
use super::packet::{Framer, Packet};
use super::value::{binary, parameter};

/// More bytes in outstanding commands and prepared statements than this make a session blind.
const MAX_HELD: usize = 32 << 20;

/// The statement that was prepared last, in the words of MariaDB's clients.
const LAST_PREPARED: u32 = u32::MAX;

/// How far the connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// The server's first packet is still to come.
    Greeting,
    /// The client's is.
    Login,
    /// Both prove who they are.
    Authentication,
    Commands,
    /// The server has refused the client.
    Over,
}

/// A command that waits for its answer, with what it said.
#[derive(Debug)]
pub(crate) enum Command {
    /// The beginning of the session.
    Login(Connected),
    ChangeUser {
        database: Option<String>,
        sent: i64,
    },
    Run(Box<Running>),
    Prepare(Preparing),
    /// A list of packets that ends with an EOF or an error, and is of no interest.
    List,
    /// One packet, whatever it is.
    One,
    /// OK or an error.
    Simple(Simple),
}

/// What happens when a command succeeds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Simple {
    Nothing,
    Database(String),
    Reset(i64),
}

/// A statement that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub prepared: Arc<Prepared>,
    pub bound: Option<Arc<Bound>>,
    pub sent: i64,
    pub answers: Vec<Answer>,
    pub place: Place,
    pub columns: Vec<Column>,
    pub rows: Rows,
    /// Whether rows are in the binary protocol.
    pub binary: bool,
}

/// What comes next in an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// OK, an error, the number of columns, or the wish for a file.
    First,
    /// So many descriptions of columns.
    Columns(u64),
    /// The end of the descriptions.
    EndOfColumns,
    Rows,
    /// The client sends a file.
    File,
}

/// A statement that is prepared.
#[derive(Debug)]
pub(crate) struct Preparing {
    pub text: Option<Arc<str>>,
    /// Packets of its answer that are still to come, and its number; none before the first.
    pub left: Option<u32>,
}

/// A prepared statement as the server knows it.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub text: Option<Arc<str>>,
    pub parameters: usize,
    /// The types of its parameters as the client told them last.
    pub types: Vec<u32>,
    /// Whether a parameter was sent by itself.
    pub long: bool,
}

/// A connection's state.
#[derive(Debug)]
pub struct Session {
    client: Framer,
    server: Framer,
    pub(crate) phase: Phase,
    /// Of the server as the client saw it, and then of both.
    pub(crate) capabilities: u32,
    pub(crate) thread: u32,
    pub(crate) unicode: bool,
    pub(crate) queue: VecDeque<Command>,
    pub(crate) statements: HashMap<u32, Statement>,
    pub(crate) last_prepared: Option<u32>,
    pub(crate) events: Vec<Event>,
    /// Bytes that the queue and statements hold, at most.
    pub(crate) held: usize,
    blind: bool,
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    /// A session whose server has said nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            client: Framer::default(),
            server: Framer::default(),
            phase: Phase::Greeting,
            capabilities: 0,
            thread: 0,
            unicode: false,
            queue: VecDeque::new(),
            statements: HashMap::new(),
            last_prepared: None,
            events: Vec::new(),
            held: 0,
            blind: false,
        }
    }

    /// Bytes that the client is about to send, at this time.
    pub fn sent(&mut self, mut bytes: &[u8], now: i64) {
        let mut framer = std::mem::take(&mut self.client);
        while !self.blind {
            let keep = match self.phase {
                Phase::Login | Phase::Commands if !self.sends_file() => MAX_BODY,
                _ => 0,
            };
            let Some(packet) = framer.next(&mut bytes, keep) else { break };
            self.client_packet(packet, now);
        }
        self.client = framer;
    }

    /// Bytes that the server has sent, at this time. The greeting is the one that the client sees.
    pub fn received(&mut self, mut bytes: &[u8], now: i64) {
        let mut framer = std::mem::take(&mut self.server);
        while !self.blind {
            let keep = if self.phase == Phase::Authentication { 16 } else { MAX_BODY };
            let Some(packet) = framer.next(&mut bytes, keep) else { break };
            self.answer(packet, now);
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

    /// The server's number of the connection; 0 before its greeting.
    #[must_use]
    pub fn thread(&self) -> u32 {
        self.thread
    }

    /// What the client said when it logged in, until the server has accepted it.
    #[must_use]
    pub fn login(&self) -> Option<&Connected> {
        match self.queue.front() {
            Some(Command::Login(connected)) => Some(connected),
            _ => None,
        }
    }

    /// Whether everything that was sent has been answered.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Gives up understanding the session.
    pub fn blinded(&mut self, why: &str) {
        if !self.blind {
            self.blind = true;
            self.events.push(Event::Blind(why.to_owned()));
            (self.queue, self.statements) = Default::default();
        }
    }

    fn sends_file(&self) -> bool {
        matches!(self.queue.front(), Some(Command::Run(running)) if running.place == Place::File)
    }

    fn client_packet(&mut self, packet: Packet<'_>, now: i64) {
        match self.phase {
            Phase::Login => self.logs_in(packet),
            Phase::Commands if self.sends_file() => {
                if packet.length == 0
                    && let Some(Command::Run(running)) = self.queue.front_mut()
                {
                    running.place = Place::First;
                }
            }
            Phase::Commands => self.command(packet, now),
            Phase::Greeting => self.blinded("a client that speaks before its server"),
            Phase::Authentication | Phase::Over => {}
        }
    }

    fn logs_in(&mut self, packet: Packet<'_>) {
        // Some clients say goodbye where the server offers no encryption. No login is as short.
        if packet.length < 4 {
            self.phase = Phase::Over;
            return;
        }
        match login(packet.body) {
            Ok((capabilities, connected)) => {
                self.capabilities &= capabilities;
                self.unicode = connected.unicode;
                self.phase = Phase::Authentication;
                self.queue.push_back(Command::Login(Connected { thread: self.thread, ..connected }));
            }
            Err(why) => self.blinded(why),
        }
    }

    fn command(&mut self, packet: Packet<'_>, now: i64) {
        if packet.number != 0 {
            return self.blinded("a packet out of its order");
        }
        let Some((&tag, body)) = packet.body.split_first() else {
            return self.blinded("a command without a body");
        };
        self.held += packet.body.len();
        let text = || if packet.is_whole() { std::str::from_utf8(body).ok().map(Arc::from) } else { None };
        let command = match tag {
            // Quit.
            0x01 => return,
            0x02 => Some(Command::Simple(Simple::Database(String::from_utf8_lossy(body).into_owned()))),
            0x03 => Some(self.query(text(), now)),
            // A list of columns, or rows of a cursor.
            0x04 | 0x1c => Some(Command::List),
            // Refresh, shut down, debug, ping, options, kill.
            0x07 | 0x08 | 0x0c | 0x0d | 0x0e | 0x1b => Some(Command::Simple(Simple::Nothing)),
            0x09 => Some(Command::One),
            0x0a => Some(self.query(Some(Arc::from("SHOW PROCESSLIST")), now)),
            0x11 => self.change_user(body, now),
            0x16 => Some(Command::Prepare(Preparing { text: text(), left: None })),
            0x17 => self.execute(body, packet.is_whole(), now),
            0x18 => return self.long_data(body),
            0x19 => return self.close(body),
            0x1a => {
                let statement = Body(body).le32().and_then(|number| self.statements.get_mut(&number));
                statement.into_iter().for_each(|statement| statement.long = false);
                Some(Command::Simple(Simple::Nothing))
            }
            0x1f => Some(Command::Simple(Simple::Reset(now))),
            _ => None,
        };
        let Some(command) = command else {
            return self.blinded(&format!("a command {tag:#04x} that is not understood"));
        };
        self.queue.push_back(command);
        if self.queue.len() > MAX_QUEUE || self.held > MAX_HELD {
            self.blinded("too much is outstanding");
        }
    }

    fn query(&self, text: Option<Arc<str>>, sent: i64) -> Command {
        let prepared = Arc::new(Prepared { text, types: Vec::new() });
        Command::Run(Box::new(Running::new(prepared, None, sent, false)))
    }

    fn change_user(&mut self, body: &[u8], sent: i64) -> Option<Command> {
        let (database, unicode) = change_user(body, self.capabilities)?;
        self.unicode = unicode;
        self.phase = Phase::Authentication;
        Some(Command::ChangeUser { database, sent })
    }

    fn execute(&mut self, body: &[u8], whole: bool, sent: i64) -> Option<Command> {
        let mut reader = Body(body);
        let number = reader.le32()?;
        reader.bytes(5)?;
        let waits = self.queue.iter().rev().find_map(|command| match command {
            Command::Prepare(preparing) => Some(preparing.text.clone()),
            _ => None,
        });
        if number == LAST_PREPARED
            && let Some(text) = waits
        {
            // The number of its parameters is not known yet.
            let prepared = Arc::new(Prepared { text, types: Vec::new() });
            return Some(Command::Run(Box::new(Running::new(prepared, Some(Bound::default()), sent, true))));
        }
        let number = if number == LAST_PREPARED { self.last_prepared? } else { number };
        let unicode = self.unicode;
        let Some(statement) = self.statements.get_mut(&number) else {
            // The server refuses it.
            let prepared = Arc::new(Prepared { text: None, types: Vec::new() });
            return Some(Command::Run(Box::new(Running::new(prepared, Some(Bound::default()), sent, true))));
        };
        let long = std::mem::take(&mut statement.long);
        let values = if whole { parameters(reader, statement, unicode) } else { None };
        let values = values.filter(|_| !long);
        let prepared = Prepared { text: statement.text.clone(), types: statement.types.clone() };
        let bound = Bound { values, ..Bound::default() };
        Some(Command::Run(Box::new(Running::new(Arc::new(prepared), Some(bound), sent, true))))
    }

    fn long_data(&mut self, body: &[u8]) {
        let number = Body(body).le32();
        if let Some(statement) = number.and_then(|number| self.statements.get_mut(&number)) {
            statement.long = true;
        }
        self.held = self.held.saturating_sub(body.len() + 1);
    }

    fn close(&mut self, body: &[u8]) {
        let closed = Body(body).le32().and_then(|number| self.statements.remove(&number));
        let text = closed.and_then(|closed| closed.text).map_or(0, |text| text.len());
        self.held = self.held.saturating_sub(body.len() + 1 + text);
    }
}

impl Running {
    fn new(prepared: Arc<Prepared>, bound: Option<Bound>, sent: i64, binary: bool) -> Self {
        Self {
            prepared,
            bound: bound.map(Arc::new),
            sent,
            answers: Vec::new(),
            place: Place::First,
            columns: Vec::new(),
            rows: Rows::default(),
            binary,
        }
    }

    pub fn times(&self, after: i64) -> Times {
        Times { before: self.sent, after: after.max(self.sent) }
    }
}

/// The parameters of an execution as texts; none if they cannot be read. Types are told once, and
/// stay.
fn parameters(
    mut reader: Body<'_>,
    statement: &mut Statement,
    unicode: bool,
) -> Option<Vec<Option<Vec<u8>>>> {
    let count = statement.parameters;
    if count == 0 {
        return Some(Vec::new());
    }
    let nulls = reader.bytes(count.div_ceil(8))?;
    if reader.u8()? == 1 {
        let types = (0..count).map(|_| reader.array().map(|[of, flags]| parameter(of, flags, unicode)));
        statement.types = types.collect::<Option<_>>()?;
    }
    let mut values = Vec::with_capacity(count);
    for (at, &kind) in statement.types.iter().enumerate() {
        let null = nulls.get(at / 8)? >> (at % 8) & 1 == 1 || super::kind::of(kind) == super::kind::NULL;
        values.push(if null { None } else { Some(binary(kind, &mut reader)?) });
    }
    (values.len() == count && reader.is_empty()).then_some(values)
}
