//! Text to history. See the [module](super) for the language.

use std::collections::HashMap;

use margay_history::{
    Access, History, HistoryBuilder, Interval, Invalid, ObjectId, OpDetail, OpKind, Table, TableId, ValueId,
};

use super::cursor::{Cursor, MiniError, Result};

/// Reads a history.
///
/// # Errors
/// When the text is not in the language, or what it says is not a history.
pub fn parse(text: &str) -> Result<History> {
    let sessions = sessions(text);
    let mut parser = Parser { cursor: Cursor::new(text), builder: HistoryBuilder::new(), sessions };
    parser.segments()?;
    let builder = parser.builder;
    builder.finish().map_err(|error| invalid(text, &error))
}

fn invalid(text: &str, error: &Invalid) -> MiniError {
    MiniError::new(text, error.place as usize, error.what.clone())
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    builder: HistoryBuilder,
    sessions: HashMap<u64, u64>,
}

/// The interval of a transaction's last operation, which its end shares unless it says otherwise.
type At = Option<Interval>;

impl Parser<'_> {
    fn segments(&mut self) -> Result<()> {
        loop {
            self.cursor.skip_blanks();
            if !self.cursor.is_done() {
                self.segment()?;
            }
            self.cursor.skip_blanks();
            if self.cursor.is_done() {
                return Ok(());
            }
            self.cursor.expect("|")?;
        }
    }

    fn segment(&mut self) -> Result<()> {
        self.here();
        let is_txn =
            |rest: &str| rest.strip_prefix('T').is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()));
        if is_txn(&self.cursor.text()[self.cursor.at()..]) {
            return self.transaction();
        }
        let word = self.cursor.word()?;
        match word {
            "init" => self.initial(),
            "table" => self.table(),
            "skew" => {
                self.cursor.skip_blanks();
                self.builder.header().skew = self.cursor.number()?;
                Ok(())
            }
            "order" => self.order(),
            "saw" => self.saw(),
            "commit" => self.stamp(HistoryBuilder::commit),
            "snapshot" => self.stamp(HistoryBuilder::snapshot),
            "serialization" => self.stamp(HistoryBuilder::serialization),
            _ => self.cursor.fail(format!(
                "`{word}` begins no segment: expected T1, init, table, skew, order, saw, commit, snapshot or serialization"
            )),
        }
    }

    /// Tells the builder where we stand, for its errors.
    fn here(&mut self) {
        self.builder.at_place(self.cursor.at() as u64);
    }

    fn check<T>(&self, result: std::result::Result<T, Invalid>) -> Result<T> {
        result.map_err(|error| invalid(self.cursor.text(), &error))
    }

    fn more(&mut self) -> bool {
        self.cursor.skip_blanks();
        !matches!(self.cursor.peek(), None | Some('|'))
    }

    fn initial(&mut self) -> Result<()> {
        self.cursor.expect(":")?;
        while self.more() {
            self.here();
            let object = self.object()?;
            self.cursor.expect("=")?;
            let value = self.value()?;
            let done = self.builder.initial(object, value);
            self.check(done)?;
        }
        Ok(())
    }

    fn table(&mut self) -> Result<()> {
        self.cursor.skip_blanks();
        let name = self.cursor.word()?.to_string();
        self.cursor.expect("(")?;
        let names = self.cursor.until(&[')', ';'])?;
        let key = names.split(',').map(|k| k.trim().to_string()).filter(|k| !k.is_empty()).collect();
        let columns = if self.cursor.eat(";") { self.cursor.until(&[')'])? } else { "" };
        self.cursor.expect(")")?;
        let column = |c: &str| {
            let (name, kind) = c.trim().split_once(' ').unwrap_or((c.trim(), ""));
            (name.to_string(), kind.trim().to_string())
        };
        let columns = columns.split(',').filter(|c| !c.trim().is_empty()).map(column).collect();
        let done = self.builder.declare_table(Table { name, key, columns, ..Table::default() });
        self.check(done).map(|_| ())
    }

    fn txn(&mut self) -> Result<u64> {
        self.cursor.expect("T")?;
        self.cursor.number()
    }

    /// `T1`, or `init` for the initial version.
    fn version(&mut self) -> Result<Option<u64>> {
        if self.cursor.eat("init") { Ok(None) } else { self.txn().map(Some) }
    }

    fn order(&mut self) -> Result<()> {
        self.cursor.skip_blanks();
        let object = self.object()?;
        self.cursor.expect(":")?;
        let mut versions = Vec::new();
        while self.more() {
            versions.push(self.version()?);
        }
        self.builder.version_order(object, versions);
        Ok(())
    }

    fn saw(&mut self) -> Result<()> {
        self.cursor.skip_blanks();
        let txn = self.txn()?;
        self.cursor.expect(".")?;
        let op = self.cursor.number()?;
        let mut versions = Vec::new();
        while self.more() {
            let object = self.object()?;
            self.cursor.expect("=")?;
            versions.push((object, self.version()?));
        }
        self.builder.version_set(txn, op, versions);
        Ok(())
    }

    fn stamp(&mut self, add: fn(&mut HistoryBuilder, u64, i64)) -> Result<()> {
        while self.more() {
            self.here();
            let txn = self.txn()?;
            self.cursor.expect("=")?;
            let ts = self.cursor.number()?;
            add(&mut self.builder, txn, ts);
        }
        Ok(())
    }

    fn transaction(&mut self) -> Result<()> {
        let txn = self.txn()?;
        let session = if self.cursor.eat("@s") { self.cursor.number()? } else { self.sessions[&txn] };
        self.cursor.expect(":")?;
        let (mut last, mut ended): (At, bool) = (None, false);
        while self.more() {
            self.here();
            (last, ended) = self.operation(session, txn, last)?;
        }
        if !ended {
            self.push(session, txn, last, OpKind::Commit, &[], OpDetail::None)?;
        }
        Ok(())
    }

    fn push(
        &mut self,
        session: u64,
        txn: u64,
        at: At,
        kind: OpKind,
        accesses: &[Access],
        detail: OpDetail<'_>,
    ) -> Result<()> {
        let done = self.builder.push(session, txn, at, kind, accesses, detail);
        self.check(done)
    }

    /// One operation; answers its interval and whether it ended the transaction.
    fn operation(&mut self, session: u64, txn: u64, last: At) -> Result<(At, bool)> {
        let start = self.cursor.at();
        let word = self.cursor.word()?;
        let kind = match word {
            "begin" => OpKind::Begin,
            "commit" => OpKind::Commit,
            "abort" => OpKind::Abort,
            "unknown" => OpKind::Unknown,
            "r" => OpKind::Read,
            "w" | "d" => OpKind::Write,
            "a" => OpKind::Append,
            "scan" => OpKind::Scan,
            "upd" | "del" => OpKind::Update,
            "sql" => OpKind::Sql,
            _ => {
                let what = format!(
                    "`{word}` is no operation: expected r, w, a, d, scan, upd, del, sql, begin, commit, abort or unknown"
                );
                return Err(MiniError::new(self.cursor.text(), start, what));
            }
        };
        if matches!(kind, OpKind::Begin | OpKind::Commit | OpKind::Abort | OpKind::Unknown) {
            let at = if kind == OpKind::Begin { self.interval()? } else { self.interval()?.or(last) };
            self.push(session, txn, at, kind, &[], OpDetail::None)?;
            return Ok((at, kind != OpKind::Begin));
        }
        self.cursor.expect("(")?;
        let at = match kind {
            OpKind::Scan | OpKind::Update => self.predicate(session, txn, kind, word == "del")?,
            OpKind::Sql => self.sql(session, txn)?,
            _ => self.accesses(session, txn, kind, word == "d")?,
        };
        Ok((at, false))
    }

    fn interval(&mut self) -> Result<At> {
        if !self.cursor.eat("@[") {
            return Ok(None);
        }
        let before = self.cursor.number()?;
        self.cursor.expect(",")?;
        let after = self.cursor.number()?;
        self.cursor.expect("]")?;
        Ok(Some(Interval::new(before, after)))
    }

    /// `x,1` or `x,1; y,2`, and for deletes `x` or `x; y`.
    fn accesses(&mut self, session: u64, txn: u64, kind: OpKind, delete: bool) -> Result<At> {
        let mut accesses = Vec::new();
        loop {
            self.cursor.skip_blanks();
            let object = self.object()?;
            let value = if delete {
                ValueId::NULL
            } else {
                self.cursor.expect(",")?;
                self.cursor.skip_blanks();
                self.value()?
            };
            accesses.push(Access { object, value });
            self.cursor.skip_blanks();
            if !self.cursor.eat(";") {
                break;
            }
        }
        self.cursor.expect(")")?;
        let at = self.interval()?;
        self.push(session, txn, at, kind, &accesses, OpDetail::None)?;
        Ok(at)
    }

    fn predicate(&mut self, session: u64, txn: u64, kind: OpKind, delete: bool) -> Result<At> {
        let name = self.cursor.word()?;
        let table = self.builder.table(name);
        self.cursor.expect(",")?;
        let sets = kind == OpKind::Update && !delete;
        let condition = self.cursor.until(if sets { &[','] } else { &[')'] })?;
        let set = if sets {
            self.cursor.expect(",")?;
            Some(self.cursor.until(&[')'])?)
        } else {
            None
        };
        self.cursor.expect(")")?;
        let rows = self.rows(table)?;
        let at = self.interval()?;
        let observed = rows.is_some();
        let detail = match kind {
            OpKind::Scan => OpDetail::Scan { table, condition, observed },
            _ => OpDetail::Update { table, condition, set, observed },
        };
        self.push(session, txn, at, kind, &rows.unwrap_or_default(), detail)?;
        Ok(at)
    }

    /// `{4:{v:6} 5:{v:9}}`: the keys of the table with the rows seen; nothing when the rows were
    /// not seen.
    fn rows(&mut self, table: TableId) -> Result<Option<Vec<Access>>> {
        if !self.cursor.eat("{") {
            return Ok(None);
        }
        let mut rows = Vec::new();
        loop {
            self.cursor.skip_blanks();
            if self.cursor.eat("}") {
                return Ok(Some(rows));
            }
            let key = self.key()?;
            self.cursor.expect(":")?;
            let value = self.value()?;
            let object = self.builder.object(Some(table), key);
            rows.push(Access { object, value });
        }
    }

    fn sql(&mut self, session: u64, txn: u64) -> Result<At> {
        let text = self.cursor.quoted()?;
        self.cursor.expect(")")?;
        let at = self.interval()?;
        let detail = OpDetail::Sql { text: &text, params: &[], rows: None, count: None };
        self.push(session, txn, at, OpKind::Sql, &[], detail)?;
        Ok(at)
    }

    /// `x`, `7`, `'a b'`, `t/4`, `t/(1 2)`.
    fn object(&mut self) -> Result<ObjectId> {
        let start = self.cursor.at();
        let key = self.key()?;
        if !self.cursor.eat("/") {
            return Ok(self.builder.object(None, key));
        }
        let name = self.cursor.text()[start..self.cursor.at() - 1].to_string();
        let table = self.builder.table(&name);
        let key = self.key()?;
        Ok(self.builder.object(Some(table), key))
    }

    /// A key: a number, a name, a quoted text, or several in brackets.
    fn key(&mut self) -> Result<ValueId> {
        match self.cursor.peek() {
            Some('\'') => {
                let text = self.cursor.quoted()?;
                Ok(self.builder.values().text(&text))
            }
            Some('(') => {
                self.cursor.bump();
                self.items(")")
            }
            _ => {
                let word = self.cursor.word()?;
                Ok(match word.parse() {
                    Ok(int) => self.builder.values().int(int),
                    Err(_) => self.builder.values().text(word),
                })
            }
        }
    }

    fn value(&mut self) -> Result<ValueId> {
        match self.cursor.peek() {
            Some('_') => self.fixed(ValueId::NULL),
            Some('?') => self.fixed(ValueId::UNKNOWN),
            Some('\'') => {
                let text = self.cursor.quoted()?;
                Ok(self.builder.values().text(&text))
            }
            Some('[') => {
                self.cursor.bump();
                self.items("]")
            }
            Some('{') => self.row(),
            _ => self.scalar(),
        }
    }

    fn fixed(&mut self, value: ValueId) -> Result<ValueId> {
        self.cursor.bump();
        Ok(value)
    }

    fn items(&mut self, end: &str) -> Result<ValueId> {
        let mut items = Vec::new();
        loop {
            self.cursor.skip_blanks();
            if self.cursor.eat(end) {
                return Ok(self.builder.values().list(&items));
            }
            items.push(self.value()?);
        }
    }

    fn row(&mut self) -> Result<ValueId> {
        self.cursor.expect("{")?;
        let mut columns = Vec::new();
        loop {
            self.cursor.skip_blanks();
            if self.cursor.eat("}") {
                return Ok(self.builder.values().row(&columns));
            }
            let name = self.cursor.word()?;
            let name = self.builder.values().intern_name(name);
            self.cursor.expect(":")?;
            self.cursor.skip_blanks();
            columns.push((name, self.value()?));
        }
    }

    fn scalar(&mut self) -> Result<ValueId> {
        let start = self.cursor.at();
        let word = self.cursor.run(|c| c.is_alphanumeric() || "+-.".contains(c));
        let values = self.builder.values();
        match word {
            "true" => return Ok(values.bool(true)),
            "false" => return Ok(values.bool(false)),
            _ => {}
        }
        if let Ok(int) = word.parse() {
            return Ok(values.int(int));
        }
        if let Ok(uint) = word.parse() {
            return Ok(values.uint(uint));
        }
        match word.parse() {
            Ok(float) if word.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) => {
                Ok(values.float(float))
            }
            _ => Err(MiniError::new(
                self.cursor.text(),
                start,
                "expected a value: 1, 'a', [1 2], {v:3}, _ or ?",
            )),
        }
    }
}

/// The session of each transaction that names none: a session of its own, of its own number when no
/// transaction claims that one.
fn sessions(text: &str) -> HashMap<u64, u64> {
    let heads = || text.split('|').filter_map(|segment| head(segment.trim_start()));
    let named: Vec<u64> = heads().filter_map(|(_, session)| session).collect();
    let alone: Vec<u64> = heads().filter(|(_, session)| session.is_none()).map(|(txn, _)| txn).collect();
    let mut taken = named;
    taken.extend(&alone);
    let mut sessions = HashMap::new();
    for txn in alone {
        let claimed = taken.iter().filter(|&&s| s == txn).count() > 1;
        let session = if claimed { (0..).find(|s| !taken.contains(s)).unwrap_or(txn) } else { txn };
        taken.push(session);
        sessions.insert(txn, session);
    }
    sessions
}

/// `T1@s2:` at the beginning of a segment. A `|` inside a condition cannot be followed by such a
/// head.
fn head(segment: &str) -> Option<(u64, Option<u64>)> {
    let (head, _) = segment.strip_prefix('T')?.split_once(':')?;
    match head.split_once("@s") {
        Some((txn, session)) => Some((txn.parse().ok()?, Some(session.parse().ok()?))),
        None => Some((head.parse().ok()?, None)),
    }
}
