//! The server's packets: each belongs to the first command of the queue.

use std::sync::Arc;

use crate::body::Body;
use crate::event::{Executed, Outcome, Prepared, Refusal, Severity, Times};
use crate::rows::{MAX_ROWS, Rows};

use super::event::{Answer, Event, Ran, status};
use super::greeting::{capability, greeting};
use super::packet::{CHUNK, Packet};
use super::session::{Command, Phase, Place, Preparing, Running, Session, Simple, Statement};
use super::value::{binary_row, column, text_row};

/// Why a packet cannot be understood.
type Answered = Result<(), String>;

const OK: u8 = 0;
const FILE: u8 = 0xfb;
const EOF: u8 = 0xfe;
const ERROR: u8 = 0xff;

/// What OK says.
#[derive(Clone, Copy, Default)]
struct Done {
    affected: u64,
    inserted: u64,
    changed: Option<u64>,
    status: u16,
}

/// What became of a packet that belongs to a statement.
enum AnswerProgress {
    /// More of this answer comes.
    More,
    /// All answers have come.
    Over,
}

impl Session {
    pub(crate) fn answer(&mut self, packet: Packet<'_>, now: i64) {
        let answered = match self.phase {
            Phase::Greeting => self.greeted(packet),
            Phase::Authentication => self.authenticated(packet, now),
            Phase::Commands => self.answered(packet, now),
            // The client is too slow, or does not speak this protocol.
            Phase::Login if packet.body.first() == Some(&ERROR) => {
                self.phase = Phase::Over;
                Ok(())
            }
            Phase::Login => Err("a server that speaks before its client".to_owned()),
            Phase::Over => Ok(()),
        };
        if let Err(why) = answered {
            self.blinded(&why);
        }
    }

    /// The connection is gone: nothing more will be answered.
    pub fn closed(&mut self, now: i64) {
        if self.is_blind() {
            return;
        }
        for command in std::mem::take(&mut self.queue) {
            let Command::Run(mut running) = command else { continue };
            let failed = |last: &Answer| matches!(last.executed.outcome, Outcome::Failed(_));
            if !running.answers.last().is_some_and(failed) {
                running.finish(Outcome::Lost, None, now);
            }
            self.events.push(Event::Ran(Ran { answers: running.answers }));
        }
    }

    fn greeted(&mut self, packet: Packet<'_>) -> Answered {
        if packet.body.first() == Some(&ERROR) {
            self.phase = Phase::Over;
            return Ok(());
        }
        let (capabilities, thread) = greeting(packet.body).ok_or("a greeting that is not understood")?;
        (self.capabilities, self.thread, self.phase) = (capabilities, thread, Phase::Login);
        Ok(())
    }

    /// Until OK or an error comes, whatever is said is about authentication.
    fn authenticated(&mut self, packet: Packet<'_>, now: i64) -> Answered {
        match packet.body.first() {
            Some(&OK) => {}
            Some(&ERROR) => {
                self.phase = Phase::Over;
                self.queue.clear();
                return Ok(());
            }
            _ => return Ok(()),
        }
        self.phase = Phase::Commands;
        let done = done(packet.body).ok_or_else(|| unfit("OK"))?;
        match self.queue.pop_front() {
            Some(Command::Login(mut connected)) => {
                connected.status = done.status;
                self.events.push(Event::Connected(connected));
            }
            Some(Command::ChangeUser { database, sent }) => self.reset(database, sent, now),
            _ => return Err(unfit("OK")),
        }
        Ok(())
    }

    fn reset(&mut self, database: Option<String>, sent: i64, now: i64) {
        self.statements.clear();
        (self.last_prepared, self.held) = (None, 0);
        self.events.push(Event::Reset(database, Times { before: sent, after: now.max(sent) }));
    }

    fn answered(&mut self, packet: Packet<'_>, now: i64) -> Answered {
        let ends_list = self.ends(packet);
        let no_eof = self.capabilities & capability::NO_EOF != 0;
        let Some(command) = self.queue.front_mut() else {
            // What a server says of its own accord: that it shuts down, or that the client was
            // silent for too long.
            return if packet.body.first() == Some(&ERROR) { Ok(()) } else { Err(unfit("an answer")) };
        };
        match command {
            Command::Run(running) => match running.step(packet, ends_list, no_eof, now)? {
                AnswerProgress::More => return Ok(()),
                AnswerProgress::Over => {
                    if let Some(Command::Run(running)) = self.queue.pop_front() {
                        self.events.push(Event::Ran(Ran { answers: running.answers }));
                    }
                }
            },
            Command::Prepare(preparing) => match &mut preparing.left {
                None => return self.prepared(packet, no_eof),
                Some(left) => {
                    *left -= 1;
                    if *left == 0 {
                        self.queue.pop_front();
                    }
                }
            },
            Command::List => {
                if ends_list || packet.body.first() == Some(&ERROR) {
                    self.queue.pop_front();
                }
            }
            Command::One => drop(self.queue.pop_front()),
            Command::Simple(simple) => {
                let simple = std::mem::replace(simple, Simple::Nothing);
                self.queue.pop_front();
                self.simple(simple, packet, now)?;
            }
            Command::Login(_) | Command::ChangeUser { .. } => return Err(unfit("an answer")),
        }
        if self.queue.is_empty() {
            let texts = self.statements.values().filter_map(|it| it.text.as_ref());
            self.held = texts.map(|text| text.len()).sum();
        }
        Ok(())
    }

    /// Whether a packet ends a list of packets.
    fn ends(&self, packet: Packet<'_>) -> bool {
        let most = if self.capabilities & capability::NO_EOF != 0 { CHUNK } else { 9 };
        packet.body.first() == Some(&EOF) && packet.length < most
    }

    fn simple(&mut self, simple: Simple, packet: Packet<'_>, now: i64) -> Answered {
        match packet.body.first() {
            Some(&ERROR) => Ok(()),
            Some(&OK | &EOF) => {
                match simple {
                    Simple::Nothing => {}
                    Simple::Database(name) => self.events.push(Event::Database(name)),
                    Simple::Reset(sent) => self.reset(None, sent, now),
                }
                Ok(())
            }
            _ => Err(unfit("an answer")),
        }
    }

    fn prepared(&mut self, packet: Packet<'_>, no_eof: bool) -> Answered {
        let Some(Command::Prepare(Preparing { text, .. })) = self.queue.pop_front() else {
            return Err(unfit("an answer"));
        };
        let mut reader = Body(packet.body);
        match reader.u8() {
            Some(ERROR) => return Ok(()),
            Some(OK) => {}
            _ => return Err(unfit("an answer to a preparation")),
        }
        let short = || unfit("an answer to a preparation");
        let (number, [columns, parameters]) = reader
            .le32()
            .zip(reader.le16().zip(reader.le16()).map(|(columns, parameters)| [columns, parameters]))
            .ok_or_else(short)?;
        let lists = [columns, parameters].into_iter().filter(|&count| count > 0);
        let left: u32 = lists.map(|count| u32::from(count) + u32::from(!no_eof)).sum();
        let parameters = usize::from(parameters);
        self.statements
            .insert(number, Statement { text: text.clone(), parameters, types: Vec::new(), long: false });
        self.last_prepared = Some(number);
        if left > 0 {
            self.queue.push_front(Command::Prepare(Preparing { text, left: Some(left) }));
        }
        Ok(())
    }
}

impl Running {
    fn step(
        &mut self,
        packet: Packet<'_>,
        ends: bool,
        no_eof: bool,
        now: i64,
    ) -> Result<AnswerProgress, String> {
        if packet.body.first() == Some(&ERROR) && self.place != Place::File {
            let refusal = refusal(packet.body).ok_or_else(|| unfit("an error"))?;
            self.finish(Outcome::Failed(refusal), None, now);
            return Ok(AnswerProgress::Over);
        }
        match self.place {
            Place::First => self.first(packet, now),
            Place::Columns(left) => {
                self.columns.push(
                    column(packet.body).filter(|_| packet.is_whole()).ok_or_else(|| unfit("a column"))?,
                );
                self.place = match left - 1 {
                    0 if no_eof => Place::Rows,
                    0 => Place::EndOfColumns,
                    left => Place::Columns(left),
                };
                Ok(AnswerProgress::More)
            }
            Place::EndOfColumns => {
                let status = end(packet.body, false).filter(|_| ends).ok_or_else(|| unfit("EOF"))?.status;
                self.place = Place::Rows;
                if status & status::CURSOR == 0 {
                    Ok(AnswerProgress::More)
                } else {
                    self.ends(Done { status, ..Done::default() }, now)
                }
            }
            Place::Rows if ends => {
                let done = end(packet.body, no_eof).ok_or_else(|| unfit("EOF"))?;
                self.ends(done, now)
            }
            Place::Rows => self.row(packet),
            Place::File => Err("an answer before the end of a file".to_owned()),
        }
    }

    fn first(&mut self, packet: Packet<'_>, now: i64) -> Result<AnswerProgress, String> {
        match packet.body.first() {
            Some(&OK) => {
                let done = done(packet.body).ok_or_else(|| unfit("OK"))?;
                self.ends(done, now)
            }
            Some(&FILE) => {
                self.place = Place::File;
                Ok(AnswerProgress::More)
            }
            _ => {
                let mut reader = Body(packet.body);
                let count = reader.number().filter(|count| (1..=4096).contains(count) && reader.is_empty());
                self.place = Place::Columns(count.ok_or_else(|| unfit("an answer"))?);
                Ok(AnswerProgress::More)
            }
        }
    }

    fn row(&mut self, packet: Packet<'_>) -> Result<AnswerProgress, String> {
        if self.rows.too_many() || !packet.is_whole() {
            self.rows.push(&[], false);
            return Ok(AnswerProgress::More);
        }
        let read = if self.binary { binary_row } else { text_row };
        let row = read(&self.columns, packet.body).ok_or_else(|| unfit("a row"))?;
        self.rows.push(&row, true);
        Ok(AnswerProgress::More)
    }

    /// One result is complete.
    fn ends(&mut self, done: Done, now: i64) -> Result<AnswerProgress, String> {
        self.finish(Outcome::Done(String::new()), Some(done), now);
        if self.answers.len() > MAX_ROWS {
            return Err("too many results of a statement".to_owned());
        }
        Ok(if done.status & status::MORE_RESULTS == 0 { AnswerProgress::Over } else { AnswerProgress::More })
    }

    /// Keeps a result.
    fn finish(&mut self, outcome: Outcome, done: Option<Done>, now: i64) {
        let rows = std::mem::take(&mut self.rows);
        let columns = std::mem::take(&mut self.columns);
        let fetched = done.is_some_and(|done| done.status & status::CURSOR != 0);
        let complete = !rows.too_many() && !fetched;
        let returns = !columns.is_empty();
        let columns = returns.then(|| Arc::from(columns));
        let (prepared, bound, times): (Arc<Prepared>, _, _) =
            (Arc::clone(&self.prepared), self.bound.clone(), self.times(now));
        let executed = Executed { prepared, bound, columns, rows, complete, outcome, times };
        let Done { affected, inserted, changed, .. } = done.unwrap_or_default();
        let status = done.map(|done| done.status);
        self.answers.push(Answer { executed, returns, affected, changed, inserted, status });
        self.place = Place::First;
        let rows: usize = self.answers.iter().map(|answer| answer.executed.rows.len()).sum();
        if rows > MAX_ROWS {
            for answer in &mut self.answers {
                (answer.executed.rows, answer.executed.complete) = (Rows::default(), false);
            }
        }
    }
}

fn unfit(what: &str) -> String {
    format!("{what} that does not fit")
}

fn done(body: &[u8]) -> Option<Done> {
    let mut reader = Body(body);
    reader.u8()?;
    let (affected, inserted) = (reader.number()?, reader.number()?);
    let status = reader.le16()?;
    Some(Done { affected, inserted, changed: changed(reader.0), status })
}

/// The number behind `Changed: ` in `Rows matched: 2  Changed: 1  Warnings: 0`.
fn changed(info: &[u8]) -> Option<u64> {
    const WORDS: &[u8] = b"  Changed: ";
    let start = info.windows(WORDS.len()).position(|window| window == WORDS)? + WORDS.len();
    let digits = info[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&info[start..start + digits]).ok()?.parse().ok()
}

/// The end of a list: EOF, or OK with the tag of EOF.
fn end(body: &[u8], no_eof: bool) -> Option<Done> {
    if no_eof {
        return done(body);
    }
    let mut reader = Body(body);
    reader.bytes(3)?;
    Some(Done { status: reader.le16()?, ..Done::default() })
}

/// An error: its number as a text. Those that end the connection are known by their numbers.
fn refusal(body: &[u8]) -> Option<Refusal> {
    let mut reader = Body(body);
    reader.u8()?;
    let code = reader.le16()?;
    // Shutdown, a killed connection, and what comes of broken connections.
    let fatal = matches!(code, 1053 | 1152..=1161 | 1184 | 1927 | 4031);
    let severity = if fatal { Severity::Fatal } else { Severity::Error };
    Some(Refusal { code: code.to_string(), severity })
}
