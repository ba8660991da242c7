//! The server's messages: each belongs to the front of the queue, or to nothing.

use std::sync::Arc;

use crate::body::Body;
use crate::event::{Bound, Column, Event, Executed, Outcome, Prepared, Refusal, Severity, Times};
use crate::frame::Frame;
use crate::rows::{MAX_ROWS, Rows};
use crate::session::{Expect, Portal, Query, Session, Statement};

/// Why a message cannot be understood.
type Answered = Result<(), String>;

impl Session {
    pub(crate) fn answer(&mut self, frame: Frame<'_>, now: i64) {
        let body = Body(frame.body);
        let answered = match frame.tag {
            // Notices and notifications may come at any time, and end nothing.
            b'N' | b'A' => Ok(()),
            b'S' => self.parameter(body),
            b'K' => self.backend(body),
            b'R' | b'v' => self.authenticates(),
            b'1' => self.parsed(),
            b'2' => self.bound(),
            b'3' => self.closed_one(now),
            b't' => self.described_parameters(body),
            b'T' => self.described(frame.whole.then(|| columns(body)).flatten()),
            b'n' => self.described(Some(Arc::from([]))),
            b'D' => self.row(frame),
            b'C' => self.completed(body, now),
            b'I' => self.nothing_to_do(),
            b's' => self.suspended(now),
            b'G' | b'H' => self.copies(),
            b'd' | b'c' => Ok(()),
            b'E' => self.failed(body, now),
            b'Z' => self.ready(body, now),
            _ => unfit(frame.tag),
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
        self.give_up_portals(now);
        while let Some(expect) = self.queue.pop_front() {
            match expect {
                Expect::Parse { name, prepared, .. } => self.install(name, prepared),
                Expect::Bind { portal, statement, bound, sent } => {
                    self.open_portal(portal, &statement, bound, sent, now);
                }
                Expect::Execute { portal, .. } => {
                    let lost =
                        self.portals.remove(&portal).map(|mut portal| portal.executed(Outcome::Lost, now));
                    self.events.extend(lost.map(|lost| Event::Executed(Box::new(lost))));
                }
                Expect::Query(mut query) => {
                    let failed = |last: &Executed| matches!(last.outcome, Outcome::Failed(_));
                    if !query.done.last().is_some_and(failed) {
                        let last = query.take(Outcome::Lost, now);
                        query.done.push(last);
                    }
                    self.events.push(Event::Queried(query.done));
                }
                _ => {}
            }
        }
    }

    fn parameter(&mut self, mut body: Body<'_>) -> Answered {
        let (Some(name), Some(value)) = (body.text(), body.text()) else { return unfit(b'S') };
        if name == "client_encoding" && !value.eq_ignore_ascii_case("UTF8") {
            return Err(format!("client_encoding is {value}"));
        }
        self.events.push(Event::Parameter(name, value));
        Ok(())
    }

    fn backend(&mut self, mut body: Body<'_>) -> Answered {
        let Some(pid) = body.u32() else { return unfit(b'K') };
        self.events.push(Event::Backend(pid));
        Ok(())
    }

    fn authenticates(&mut self) -> Answered {
        match self.queue.front() {
            Some(Expect::Startup) => Ok(()),
            _ => unfit(b'R'),
        }
    }

    fn parsed(&mut self) -> Answered {
        let Some(Expect::Parse { name, prepared, sent }) = self.queue.pop_front() else { return unfit(b'1') };
        self.install(name, prepared);
        self.events.push(Event::Planned(sent));
        Ok(())
    }

    fn install(&mut self, name: String, prepared: Prepared) {
        let statement = Statement { prepared: Arc::new(prepared), columns: None };
        if let Some(old) = self.statements.insert(name, statement) {
            self.release(old.prepared.text.as_ref().map_or(0, |text| text.len()));
        }
    }

    fn release(&mut self, bytes: usize) {
        self.held = self.held.saturating_sub(bytes);
    }

    fn bound(&mut self) -> Answered {
        let Some(Expect::Bind { portal, statement, bound, sent }) = self.queue.pop_front() else {
            return unfit(b'2');
        };
        if !self.open_portal(portal, &statement, bound, sent, sent) {
            return Err(format!("a statement {statement:?} that was prepared elsewhere"));
        }
        self.events.push(Event::Planned(sent));
        Ok(())
    }

    fn open_portal(&mut self, name: String, statement: &str, bound: Bound, sent: i64, now: i64) -> bool {
        let Some(statement) = self.statements.get(statement).cloned() else { return false };
        let (bound, rows) = (Arc::new(bound), Rows::default());
        let portal = Portal { statement, bound, sent, rows, suspended: None, done: false };
        if let Some(old) = self.portals.insert(name, portal) {
            self.give_up(old, now);
        }
        true
    }

    /// A portal that is gone. If it was suspended, its statement ran, but not all of its rows were
    /// seen.
    fn give_up(&mut self, mut portal: Portal, now: i64) {
        let bytes = portal.bound.values.iter().flatten().flatten().map(Vec::len).sum::<usize>();
        self.release(bytes + 16);
        if portal.suspended.is_some() {
            let mut executed = portal.executed(Outcome::Done(String::new()), now);
            executed.complete = false;
            self.events.push(Event::Executed(Box::new(executed)));
        }
    }

    fn give_up_portals(&mut self, now: i64) {
        let gone: Vec<_> = self.portals.extract_if(|_, portal| portal.suspended.is_some()).collect();
        gone.into_iter().for_each(|(_, portal)| self.give_up(portal, now));
    }

    fn closed_one(&mut self, now: i64) -> Answered {
        match self.queue.pop_front() {
            Some(Expect::Close { portal: true, name }) => {
                if let Some(portal) = self.portals.remove(&name) {
                    self.give_up(portal, now);
                }
            }
            Some(Expect::Close { portal: false, name }) => {
                if let Some(old) = self.statements.remove(&name) {
                    self.release(old.prepared.text.as_ref().map_or(0, |text| text.len()));
                }
            }
            _ => return unfit(b'3'),
        }
        Ok(())
    }

    fn described_parameters(&mut self, mut body: Body<'_>) -> Answered {
        let (Some(Expect::DescribeStatement(name)), Some(types)) = (self.queue.front(), body.list(Body::u32))
        else {
            return unfit(b't');
        };
        if let Some(statement) = self.statements.get_mut(name) {
            let text = statement.prepared.text.clone();
            statement.prepared = Arc::new(Prepared { text, types });
        }
        Ok(())
    }

    fn described(&mut self, columns: Option<Arc<[Column]>>) -> Answered {
        if let Some(Expect::Query(query)) = self.queue.front_mut() {
            query.columns = columns;
            return Ok(());
        }
        match self.queue.pop_front() {
            Some(Expect::DescribeStatement(name)) => {
                self.statements.get_mut(&name).into_iter().for_each(|it| it.columns = columns.clone());
            }
            Some(Expect::DescribePortal(name)) => {
                self.portals.get_mut(&name).into_iter().for_each(|it| it.statement.columns = columns.clone());
            }
            _ => return unfit(b'T'),
        }
        Ok(())
    }

    fn row(&mut self, frame: Frame<'_>) -> Answered {
        let rows = match self.queue.front_mut() {
            Some(Expect::Execute { portal, .. }) => {
                self.portals.get_mut(portal).map(|portal| &mut portal.rows)
            }
            Some(Expect::Query(query)) => Some(&mut query.rows),
            _ => None,
        };
        match rows {
            Some(rows) => {
                rows.push(frame.body, frame.whole);
                Ok(())
            }
            None => unfit(b'D'),
        }
    }

    fn completed(&mut self, mut body: Body<'_>, now: i64) -> Answered {
        let Some(tag) = body.text() else { return unfit(b'C') };
        let ends = ["COMMIT", "ROLLBACK", "PREPARE TRANSACTION"].contains(&tag.as_str());
        if ends {
            self.give_up_portals(now);
        }
        match self.queue.front_mut() {
            Some(Expect::Query(query)) => {
                let executed = query.take(Outcome::Done(tag), now);
                query.done.push(executed);
                let (rows, results) =
                    (query.done.iter().map(|it| it.rows.len()).sum::<usize>(), query.done.len());
                if rows > MAX_ROWS {
                    query.done.iter_mut().for_each(Executed::forget_rows);
                }
                return if results > MAX_ROWS {
                    Err("too many statements in a message".to_owned())
                } else {
                    Ok(())
                };
            }
            Some(Expect::Execute { .. }) => {}
            _ => return unfit(b'C'),
        }
        let Some(Expect::Execute { portal, .. }) = self.queue.pop_front() else { return unfit(b'C') };
        let Some(portal) = self.portals.get_mut(&portal) else {
            return Err(format!("a portal {portal:?} that was opened elsewhere"));
        };
        let executed = portal.executed(Outcome::Done(tag), now);
        portal.suspended = None;
        if !std::mem::replace(&mut portal.done, true) {
            self.events.push(Event::Executed(Box::new(executed)));
        }
        Ok(())
    }

    fn nothing_to_do(&mut self) -> Answered {
        match self.queue.front() {
            Some(Expect::Execute { .. }) => self.queue.pop_front().map_or(unfit(b'I'), |_| Ok(())),
            Some(Expect::Query(_)) => Ok(()),
            _ => unfit(b'I'),
        }
    }

    fn suspended(&mut self, now: i64) -> Answered {
        let Some(Expect::Execute { portal, .. }) = self.queue.pop_front() else { return unfit(b's') };
        let Some(portal) = self.portals.get_mut(&portal) else {
            return Err(format!("a portal {portal:?} that was opened elsewhere"));
        };
        portal.suspended = Some(now);
        Ok(())
    }

    fn copies(&mut self) -> Answered {
        match self.queue.front_mut() {
            Some(Expect::Execute { copies, .. }) => *copies = true,
            Some(Expect::Query(query)) => query.copies = true,
            _ => return unfit(b'G'),
        }
        Ok(())
    }

    fn failed(&mut self, body: Body<'_>, now: i64) -> Answered {
        let Some(refusal) = refusal(body) else { return unfit(b'E') };
        match self.queue.front_mut() {
            Some(Expect::Query(query)) => {
                let failed = query.take(Outcome::Failed(refusal), now);
                query.done.push(failed);
                return Ok(());
            }
            Some(Expect::Execute { portal, .. }) => {
                let failed = self.portals.remove(portal);
                let failed = failed.map(|mut portal| portal.executed(Outcome::Failed(refusal.clone()), now));
                self.events.push(match failed {
                    Some(failed) => Event::Executed(Box::new(failed)),
                    None => Event::Refused(refusal, now),
                });
            }
            _ => self.events.push(Event::Refused(refusal, now)),
        }
        if matches!(self.queue.front(), Some(Expect::Startup)) {
            return Ok(());
        }
        while self.queue.front().is_some_and(|expect| !matches!(expect, Expect::Sync)) {
            self.queue.pop_front();
        }
        self.skips = self.queue.is_empty();
        Ok(())
    }

    fn ready(&mut self, mut body: Body<'_>, now: i64) -> Answered {
        let Some(status) = body.u8().filter(|status| matches!(status, b'I' | b'T' | b'E')) else {
            return unfit(b'Z');
        };
        match self.queue.pop_front() {
            Some(Expect::Startup | Expect::Sync) => {}
            Some(Expect::Query(query)) => self.events.push(Event::Queried(query.done)),
            _ => return unfit(b'Z'),
        }
        if status == b'I' {
            self.give_up_portals(now);
            self.portals.clear();
        }
        if self.queue.is_empty() && self.portals.is_empty() {
            let texts = self.statements.values().filter_map(|it| it.prepared.text.as_ref());
            self.held = texts.map(|text| text.len()).sum();
        }
        self.events.push(Event::Ready(status, now));
        Ok(())
    }
}

fn unfit(tag: u8) -> Answered {
    Err(format!("an answer of type {:?} that does not fit", char::from(tag)))
}

impl Portal {
    /// Its statement, with the rows that came.
    fn executed(&mut self, outcome: Outcome, after: i64) -> Executed {
        let rows = std::mem::take(&mut self.rows);
        Executed {
            prepared: Arc::clone(&self.statement.prepared),
            bound: Some(Arc::clone(&self.bound)),
            columns: self.statement.columns.clone(),
            complete: !rows.too_many(),
            rows,
            outcome,
            times: Times { before: self.sent, after: after.max(self.sent) },
        }
    }
}

impl Query {
    /// The statement whose answers came last.
    fn take(&mut self, outcome: Outcome, after: i64) -> Executed {
        let rows = std::mem::take(&mut self.rows);
        self.copies = false;
        Executed {
            prepared: Arc::clone(&self.prepared),
            bound: None,
            columns: self.columns.take(),
            complete: !rows.too_many(),
            rows,
            outcome,
            times: Times { before: self.sent, after: after.max(self.sent) },
        }
    }
}

impl Executed {
    fn forget_rows(&mut self) {
        (self.rows, self.complete) = (Rows::default(), false);
    }
}

fn columns(mut body: Body<'_>) -> Option<Arc<[Column]>> {
    let columns = body.list(|body| {
        let name = body.text()?;
        body.bytes(6)?;
        let kind = body.u32()?;
        body.bytes(8)?;
        Some(Column { name, kind })
    })?;
    Some(columns.into())
}

fn refusal(mut body: Body<'_>) -> Option<Refusal> {
    let mut refusal = Refusal { code: String::new(), severity: Severity::Fatal };
    loop {
        match body.u8()? {
            0 => return Some(refusal),
            b'C' => refusal.code = String::from_utf8_lossy(body.string()?).into_owned(),
            b'V' if body.string()? == b"ERROR" => refusal.severity = Severity::Error,
            b'V' => {}
            _ => drop(body.string()?),
        }
    }
}
