//! Plays an interleaving that is written down: several connections, one line after the other.
//!
//! # Algorithm
//! Every transaction is a thread with its connection. The lines are handed out in their order; a
//! line that is not answered within `PATIENCE` is blocked by another transaction, and the next line
//! follows. A line of a blocked transaction waits behind it. While some line is blocked, each
//! answer gives the blocked ones time to be answered, too: what a commit unblocks happens before
//! the next line.
//!
//! # Invariants
//! What is recorded is what happened, also where a slow machine was taken for a lock: the order of
//! the lines is a wish.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use margay_client::{
    Action, BuilderSink, Connection, Database, Executed, Recorded, Schema, Sink, Start, Trouble,
};
use margay_history::History;
use margay_workloads::scripted::{Act, Line, Played, Said, Script};

use crate::job::level_name;

/// Who does not answer for so long is blocked.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long the end may take: a database that finds deadlocks by a timeout needs some.
const END: Duration = Duration::from_secs(60);

/// What came of an interleaving.
#[derive(Debug)]
pub struct Performance {
    /// Line by line.
    pub played: Played,
    /// As a history.
    pub history: History,
}

/// A line with its number, for the thread of its transaction.
type Cue = (usize, Act);

/// What came of a line, and when.
struct Reply {
    line: usize,
    said: Said,
    begun: Option<(i64, i64)>,
    at: (i64, i64),
}

type Replied = Result<Reply, String>;

/// Plays the lines on fresh tables, at one of the database's own levels.
///
/// # Errors
/// When the database fails: it does not understand SQL, or a line is blocked for ever.
pub fn play(
    database: &dyn Database,
    own_name: &str,
    script: impl Into<Script>,
) -> Result<Performance, String> {
    let Script { schema, lines } = script.into();
    database.prepare_sql(own_name, &schema)?;
    let replies = thread::scope(|scope| Stage::new(scope, database, own_name, &lines).direct(&lines));
    let replies = replies.and_then(|mut replies| {
        replies.sort_by_key(|reply| reply.line);
        if replies.len() == lines.len() { Ok(replies) } else { Err("a line was lost".to_owned()) }
    });
    let history = replies.as_ref().map_or_else(
        |why| Err(why.clone()),
        |replies| record(database, own_name, (&schema, &lines), replies),
    );
    database.clean_up_sql(&schema);
    let said = replies?.into_iter().map(|reply| reply.said).collect();
    Ok(Performance { history: history?, played: Played { lines, said } })
}

/// The threads of the transactions.
struct Stage {
    actors: BTreeMap<u32, Sender<Cue>>,
    replies: Receiver<Replied>,
}

impl Stage {
    fn new<'s, 'e: 's>(
        scope: &'s Scope<'s, 'e>,
        database: &'e dyn Database,
        own_name: &'e str,
        lines: &[Line],
    ) -> Self {
        let (reply, replies) = channel();
        let start = Instant::now();
        let mut actors = BTreeMap::new();
        for line in lines {
            actors.entry(line.session).or_insert_with(|| {
                let (cue, cues) = channel();
                let (session, reply) = (line.session, reply.clone());
                scope.spawn(move || match connect(database, session, own_name) {
                    Ok(connection) => Actor::new(connection, start).follow(&cues, &reply),
                    Err(why) => drop(reply.send(Err(why))),
                });
                cue
            });
        }
        Self { actors, replies }
    }

    /// Hands out the lines and collects what comes of them.
    fn direct(self, lines: &[Line]) -> Result<Vec<Reply>, String> {
        let mut replies: Vec<Reply> = Vec::with_capacity(lines.len());
        for (number, line) in lines.iter().enumerate() {
            let actor = &self.actors[&line.session];
            actor.send((number, line.act.clone())).map_err(|_| "a connection ended".to_owned())?;
            // Once this line is answered, those that are blocked are waited for, too.
            while replies.len() <= number {
                match self.replies.recv_timeout(PATIENCE) {
                    Ok(reply) => replies.push(reply?),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return Err("all connections ended".to_owned()),
                }
            }
        }
        while replies.len() < lines.len() {
            let reply =
                self.replies.recv_timeout(END).map_err(|_| "a line is blocked for ever".to_owned())?;
            replies.push(reply?);
        }
        Ok(replies)
    }
}

/// A connection that waits for locks longer than clients do: a blocked line is part of the play.
fn connect<'d>(
    database: &'d dyn Database,
    session: u32,
    own_name: &str,
) -> Result<Box<dyn Connection + 'd>, String> {
    let mut connection = database.connect(session as usize, own_name)?;
    if matches!(database.identity().0.as_str(), "mysql" | "mariadb" | "tidb") {
        connection.sql("SET SESSION innodb_lock_wait_timeout = 30", &[]).map_err(told)?;
    }
    Ok(connection)
}

/// One transaction.
struct Actor<'c> {
    connection: Box<dyn Connection + 'c>,
    start: Instant,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Fresh,
    Open,
    Over,
}

impl<'c> Actor<'c> {
    fn new(connection: Box<dyn Connection + 'c>, start: Instant) -> Self {
        Self { connection, start, state: State::Fresh }
    }

    fn now(&self) -> i64 {
        self.start.elapsed().as_nanos() as i64
    }

    fn follow(mut self, cues: &Receiver<Cue>, reply: &Sender<Replied>) {
        while let Ok((line, act)) = cues.recv() {
            if reply.send(self.act(line, &act)).is_err() {
                return;
            }
        }
    }

    fn act(&mut self, line: usize, act: &Act) -> Replied {
        let (mut begun, before) = (None, self.now());
        if self.state == State::Fresh {
            self.connection.begin().map_err(told)?;
            self.state = State::Open;
            begun = Some((before, self.now()));
        }
        let before = self.now();
        let said = match (self.state, act) {
            (State::Over, _) => Ok(Said::Skipped),
            (_, Act::Sql(text, params)) => self.connection.sql(text, params).map(Said::Answer),
            (_, Act::Commit) => self.connection.commit().map(|()| Said::Ended),
            (_, Act::Rollback) => self.connection.rollback().map(|()| Said::Ended),
        };
        let said = match said {
            Ok(said) => said,
            Err(Trouble::Refused(why)) => Said::Refused(why),
            Err(trouble) => return Err(told(trouble)),
        };
        if !matches!(said, Said::Answer(_)) {
            self.state = State::Over;
        }
        Ok(Reply { line, said, begun, at: (before, self.now()) })
    }
}

fn told(trouble: Trouble) -> String {
    match trouble {
        Trouble::Refused(why) | Trouble::Lost(why) | Trouble::Failed(why) => why,
    }
}

/// The lines as a history: the transactions have the numbers of their sessions.
fn record(
    database: &dyn Database,
    own_name: &str,
    (schema, lines): (&Schema, &[Line]),
    replies: &[Reply],
) -> Result<History, String> {
    let (dbms, version) = database.identity();
    let start = Start {
        dbms: format!("{dbms}-{version}"),
        level: level_name(own_name),
        skew: 0,
        table: false,
        initial: Vec::new(),
        schema: schema.clone(),
    };
    let build = || {
        let mut sink = BuilderSink::default();
        sink.start(&start)?;
        for (line, reply) in lines.iter().zip(replies) {
            let label = u64::from(line.session);
            let recorded =
                |(before, after), action| Recorded { session: label, txn: label, before, after, action };
            if let Some(begun) = reply.begun {
                sink.op(recorded(begun, Action::Begin))?;
            }
            if let Some(action) = action(&line.act, &reply.said) {
                sink.op(recorded(reply.at, action))?;
            }
        }
        sink.finish()
    };
    build().map_err(|error| format!("the recording is no history: {error}"))
}

fn action<'a>(act: &'a Act, said: &'a Said) -> Option<Action<'a>> {
    match (act, said) {
        (Act::Sql(text, params), Said::Answer(answer)) => Some(Action::Sql(Executed {
            text,
            params,
            columns: answer.columns,
            cells: &answer.cells,
            count: answer.count,
        })),
        (Act::Commit, Said::Ended) => Some(Action::Commit),
        (Act::Rollback, Said::Ended) | (_, Said::Refused(_)) => Some(Action::Abort),
        _ => None,
    }
}
