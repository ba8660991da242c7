//! Databases that understand SQL: what their author implements, and what workloads make of it.
//!
//! An author implements five methods: [`SqlStore::connect`], and [`Session::begin`],
//! [`Session::sql`], [`Session::commit`] and [`Session::rollback`]. [`SqlStored`] makes a
//! [`Database`] of it, which every workload can drive.
//!
//! # What is stored
//! Registers and rows are rows of two tables. A list is one row with a text, `,1,2,3`, so that an
//! append is one statement on one row. Programs make tables of their own.

use crate::{
    Answer, Ask, Cell, Change, Cond, Connection, Database, Obj, Row, Schema, Space, Start, Trouble, Value,
    text,
};

/// The tables. Their names are such that nobody else's are touched.
pub const TABLES: [&str; 3] = ["margay_registers", "margay_lists", "margay_rows"];

/// How a database writes an upsert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Upsert {
    /// `ON CONFLICT (k) DO UPDATE`.
    OnConflict,
    /// `ON DUPLICATE KEY UPDATE`.
    OnDuplicateKey,
}

/// The statements, by their place in [`texts`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Statement {
    /// Reads a register.
    ReadRegister,
    /// Writes a register.
    WriteRegister,
    /// Reads a list.
    ReadList,
    /// Appends to a list.
    Append,
    /// Reads a row by its key.
    ReadRow,
    /// Writes a row: an insert if there is none.
    WriteRow,
    /// Deletes a row by its key.
    DeleteRow,
    /// Reads the rows that match.
    Scan,
}

impl Statement {
    /// Whether it has results.
    #[must_use]
    pub const fn reads(self) -> bool {
        matches!(self, Self::ReadRegister | Self::ReadList | Self::ReadRow | Self::Scan)
    }
}

/// The texts of all statements, as [`Session::sql`] takes them.
#[must_use]
pub fn texts(upsert: Upsert) -> [String; 8] {
    let (append, write_row) = match upsert {
        Upsert::OnConflict => (
            "ON CONFLICT (k) DO UPDATE SET v = margay_lists.v || excluded.v",
            "ON CONFLICT (k) DO UPDATE SET v = excluded.v, w = excluded.w",
        ),
        Upsert::OnDuplicateKey => (
            "ON DUPLICATE KEY UPDATE v = CONCAT(v, VALUES(v))",
            "ON DUPLICATE KEY UPDATE v = VALUES(v), w = VALUES(w)",
        ),
    };
    [
        "SELECT v FROM margay_registers WHERE k = $1".to_owned(),
        "UPDATE margay_registers SET v = $1 WHERE k = $2".to_owned(),
        "SELECT v FROM margay_lists WHERE k = $1".to_owned(),
        format!("INSERT INTO margay_lists (k, v) VALUES ($1, $2) {append}"),
        "SELECT v, w FROM margay_rows WHERE k = $1".to_owned(),
        format!("INSERT INTO margay_rows (k, v, w) VALUES ($1, $2, $3) {write_row}"),
        "DELETE FROM margay_rows WHERE k = $1".to_owned(),
        "SELECT k, v, w FROM margay_rows WHERE v >= $1 AND v <= $2 ORDER BY k".to_owned(),
    ]
}

/// Statements that make the tables and their initial values.
#[must_use]
pub fn preparation(start: &Start) -> Vec<String> {
    let [registers, lists, rows] = TABLES;
    let mut all = removal();
    all.extend([
        format!("CREATE TABLE {registers} (k BIGINT PRIMARY KEY, v BIGINT NOT NULL)"),
        format!("CREATE TABLE {lists} (k BIGINT PRIMARY KEY, v TEXT NOT NULL)"),
        format!("CREATE TABLE {rows} (k BIGINT PRIMARY KEY, v BIGINT NOT NULL, w BIGINT NOT NULL)"),
        format!("CREATE INDEX {rows}_v ON {rows} (v)"),
    ]);
    let (mut ints, mut tuples) = (Vec::new(), Vec::new());
    for (obj, value) in &start.initial {
        match value {
            Value::Int(int) => ints.push(format!("({}, {int})", obj.key)),
            Value::Row(Row { v: Some(v), w: Some(w) }) => tuples.push(format!("({}, {v}, {w})", obj.key)),
            _ => {}
        }
    }
    all.extend(inserts(registers, &ints));
    all.extend(inserts(rows, &tuples));
    all
}

/// Many rows in few statements.
pub fn inserts(table: &str, tuples: &[String]) -> impl Iterator<Item = String> {
    tuples.chunks(200).map(move |some| format!("INSERT INTO {table} VALUES {}", some.join(", ")))
}

/// Statements that remove the tables.
#[must_use]
pub fn removal() -> Vec<String> {
    TABLES.map(|table| format!("DROP TABLE IF EXISTS {table}")).to_vec()
}

/// A database that understands SQL.
pub trait SqlStore: Send + Sync {
    /// One client's session.
    type Session<'a>: Session
    where
        Self: 'a;

    /// Opens a session for transactions at this level, one of [`SqlStore::levels`].
    ///
    /// # Errors
    /// What the database says.
    fn connect(&self, level: &str) -> Result<Self::Session<'_>, String>;

    /// The name that profiles know it by, and its version.
    fn identity(&self) -> (String, String) {
        ("database".to_owned(), "0".to_owned())
    }

    /// The levels that it can be asked for, in its own words, the default first.
    fn levels(&self) -> Vec<&'static str> {
        vec!["SERIALIZABLE"]
    }

    /// How it writes an upsert.
    fn upsert(&self) -> Upsert {
        Upsert::OnConflict
    }
}

/// A session that understands SQL, in at most one transaction at a time. Four methods are required.
pub trait Session {
    /// Begins a transaction.
    ///
    /// # Errors
    /// [`Trouble::Refused`] when there is no transaction after all.
    fn begin(&mut self) -> Result<(), Trouble>;

    /// Runs a statement, whose parameters are `$1`, `$2`, … in the text. [`crate::text::translate`]
    /// writes them another way.
    ///
    /// # Errors
    /// When there is no answer.
    fn sql(&mut self, text: &str, params: &[Cell]) -> Result<Answer, Trouble>;

    /// Asks for the commit.
    ///
    /// # Errors
    /// [`Trouble::Refused`] when the transaction certainly has not committed. After any other
    /// trouble its outcome is recorded as unknown.
    fn commit(&mut self) -> Result<(), Trouble>;

    /// Rolls back. It is called after a refused statement or commit, too.
    ///
    /// # Errors
    /// [`Trouble::Lost`] when there is no answer; the transaction is gone all the same.
    fn rollback(&mut self) -> Result<(), Trouble>;

    /// What follows belongs to the transaction that the recording calls so.
    fn enter(&mut self, _label: u64) {}

    /// What follows belongs to the transaction's next operation.
    fn step(&mut self) {}

    /// The last operation is recorded as none, so the next one takes its number.
    fn step_back(&mut self) {}

    /// Runs one of the statements on registers, lists and rows, whose text this is. A session that
    /// watches adds to what it asks, and takes that out of the answer.
    ///
    /// # Errors
    /// As [`Session::sql`].
    fn statement(&mut self, _which: Statement, text: &str, params: &[Cell]) -> Result<Answer, Trouble> {
        self.sql(text, params)
    }

    /// Whether UPDATE and DELETE can return the rows that they found.
    fn has_returning(&self) -> bool {
        true
    }

    /// Whether an UPDATE that sets what is there already writes it, so that the transaction's own
    /// reads show it, whatever their snapshot does.
    fn writes_alike(&self) -> bool {
        true
    }

    /// The row of this key that the transaction itself has written, where a read may find another
    /// one beside it.
    ///
    /// # Errors
    /// As [`Session::sql`].
    fn own_row(&mut self, _key: Cell) -> Result<Option<Answer>, Trouble> {
        Ok(None)
    }

    /// As [`Connection::deletes_read`].
    fn deletes_read(&self) -> bool {
        true
    }
}

/// A database that understands SQL, as a [`Database`].
#[derive(Debug)]
pub struct SqlStored<D>(pub D);

impl<D: SqlStore> SqlStored<D> {
    /// Runs statements, each in a transaction of its own.
    fn run(&self, level: &str, texts: &[String]) -> Result<(), String> {
        let mut session = self.0.connect(level)?;
        let mut run = |text: &String| {
            session.begin()?;
            session.sql(text, &[])?;
            session.commit()
        };
        texts.iter().try_for_each(|text| run(text).map_err(|trouble| format!("{text}: {trouble}")))
    }

    fn clean(&self, texts: &[String]) {
        if let Some(level) = self.0.levels().first() {
            let _ = self.run(level, texts);
        }
    }
}

impl<D: SqlStore> Database for SqlStored<D> {
    fn identity(&self) -> (String, String) {
        self.0.identity()
    }

    fn levels(&self) -> Vec<&'static str> {
        self.0.levels()
    }

    fn prepare(&self, own_name: &str, start: &Start) -> Result<(), String> {
        self.run(own_name, &preparation(start))
    }

    fn connect(&self, _client: usize, own_name: &str) -> Result<Box<dyn Connection + '_>, String> {
        Ok(Box::new(Sql::new(self.0.connect(own_name)?, texts(self.0.upsert()))))
    }

    fn prepare_sql(&self, own_name: &str, schema: &Schema) -> Result<(), String> {
        self.run(own_name, &text::creation(schema))
    }

    fn clean_up_sql(&self, schema: &Schema) {
        self.clean(&text::removal(schema));
    }

    fn clean_up(&self) {
        self.clean(&removal());
    }
}

/// A connection over a session.
#[derive(Debug)]
pub struct Sql<S> {
    session: S,
    texts: [String; 8],
}

impl<S: Session> Sql<S> {
    /// A connection that says what it has to say in these texts.
    pub fn new(session: S, texts: [String; 8]) -> Self {
        Self { session, texts }
    }

    fn run(&mut self, which: Statement, params: &[Cell]) -> Result<Answer, Trouble> {
        self.session.statement(which, &self.texts[which as usize], params)
    }

    /// Whatever an error leaves of its transaction, nothing shall come of it: also a commit that is
    /// refused leaves it open in some databases.
    fn gone<T>(&mut self, executed: Result<T, Trouble>) -> Result<T, Trouble> {
        match executed {
            Err(Trouble::Refused(why)) => self.session.rollback().and(Err(Trouble::Refused(why))),
            other => other,
        }
    }
}

impl<S: Session> Connection for Sql<S> {
    fn enter(&mut self, label: u64) {
        self.session.enter(label);
    }

    fn begin(&mut self) -> Result<(), Trouble> {
        self.session.begin()
    }

    fn execute(&mut self, ask: Ask, rows: &mut Vec<(Obj, Value)>) -> Result<(), Trouble> {
        self.session.step();
        let executed = execute(self, ask, rows);
        if executed.is_ok() && ask.deleted_nothing(rows) && !self.session.deletes_read() {
            self.session.step_back();
        }
        self.gone(executed)
    }

    fn deletes_read(&self) -> bool {
        self.session.deletes_read()
    }

    fn sql(&mut self, text: &str, params: &[Cell]) -> Result<Answer, Trouble> {
        let executed = self.session.sql(text, params);
        self.gone(executed)
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        let committed = self.session.commit().map_err(Trouble::at_commit);
        self.gone(committed)
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        self.session.rollback()
    }
}

fn execute(sql: &mut Sql<impl Session>, ask: Ask, rows: &mut Vec<(Obj, Value)>) -> Result<(), Trouble> {
    match ask {
        Ask::Read(obj) => rows.push((obj, read(sql, obj)?)),
        Ask::Write(obj, change) => {
            let touched = write(sql, obj, change)?;
            match change {
                Change::Delete if touched == 0 => rows.push((obj, Value::Absent)),
                _ if touched == 0 => return Err(Trouble::Failed(format!("no row for {obj:?}"))),
                _ => {}
            }
        }
        Ask::Scan(cond) => {
            for cells in sql.run(Statement::Scan, &[Cell::Int(cond.low), Cell::Int(cond.high)])?.rows() {
                let &[Cell::Int(k), Cell::Int(v), Cell::Int(w)] = cells else { return unexpected(cells) };
                rows.push((Obj::new(Space::Row, k as u32), row(v, w)));
            }
        }
        Ask::Update(cond, set) => update(&mut sql.session, cond, set, rows)?,
        Ask::Aggregate(_) => {
            return Err(Trouble::Failed("aggregates have no statement yet".to_owned()));
        }
    }
    Ok(())
}

/// Changes the rows that match, and says what became of each.
fn update(
    session: &mut impl Session,
    cond: Cond,
    set: Option<i64>,
    rows: &mut Vec<(Obj, Value)>,
) -> Result<(), Trouble> {
    let range = [Cell::Int(cond.low), Cell::Int(cond.high)];
    let found = match (session.has_returning(), set) {
        (false, _) => return update_one_by_one(session, &range, set, rows),
        (true, Some(v)) => {
            let [low, high] = range;
            session.sql(
                "UPDATE margay_rows SET v = $1 WHERE v >= $2 AND v <= $3 RETURNING k, v, w",
                &[Cell::Int(v), low, high],
            )?
        }
        (true, None) => {
            session.sql("DELETE FROM margay_rows WHERE v >= $1 AND v <= $2 RETURNING k, v, w", &range)?
        }
    };
    for cells in found.rows() {
        rows.push(changed(cells, set)?);
    }
    Ok(())
}

/// Locks the rows that match, then changes each: what matches later was not there when the update
/// found its rows.
fn update_one_by_one(
    session: &mut impl Session,
    range: &[Cell],
    set: Option<i64>,
    rows: &mut Vec<(Obj, Value)>,
) -> Result<(), Trouble> {
    let found = session.sql("SELECT k, v, w FROM margay_rows WHERE v >= $1 AND v <= $2 FOR UPDATE", range)?;
    for cells in found.rows() {
        match set {
            Some(v) => set_row(session, &cells[0], v)?,
            None => _ = session.sql("DELETE FROM margay_rows WHERE k = $1", &cells[..1])?,
        };
        rows.push(changed(cells, set)?);
    }
    Ok(())
}

/// Sets a row that is locked, so that it is written for certain: InnoDB does nothing where a row is
/// already as it shall be, and the transaction goes on seeing its snapshot.
fn set_row(session: &mut impl Session, key: &Cell, v: i64) -> Result<(), Trouble> {
    let alike = session.writes_alike();
    let mut set = |v| {
        session
            .sql("UPDATE margay_rows SET v = $1 WHERE k = $2", &[Cell::Int(v), key.clone()])
            .map(|a| a.count)
    };
    if set(v)? == 0 && !alike {
        set(v.wrapping_add(1))?;
        set(v)?;
    }
    Ok(())
}

/// What an update made of a row that it found.
fn changed(cells: &[Cell], set: Option<i64>) -> Result<(Obj, Value), Trouble> {
    let &[Cell::Int(k), Cell::Int(_), Cell::Int(w)] = cells else { return unexpected(cells) };
    Ok((Obj::new(Space::Row, k as u32), set.map_or(Value::Absent, |v| row(v, w))))
}

fn read(sql: &mut Sql<impl Session>, obj: Obj) -> Result<Value, Trouble> {
    let statement = match obj.space {
        Space::Register => Statement::ReadRegister,
        Space::List => Statement::ReadList,
        Space::Row => Statement::ReadRow,
    };
    let found = sql.run(statement, &[key(obj)])?;
    // A snapshot of PostgreSQL may have a key twice: with a row that somebody has deleted since,
    // and with one that the transaction itself has put in its place. That one is what it has
    // written.
    let own = if found.rows().len() > 1 { sql.session.own_row(key(obj))? } else { None };
    let found = own.unwrap_or(found);
    let Some(cells) = found.rows().next() else { return Ok(Value::Absent) };
    match cells {
        [Cell::Int(v), Cell::Int(w)] => Ok(row(*v, *w)),
        [Cell::Int(v)] => Ok(Value::Int(*v)),
        [Cell::Text(text)] => list(text).map(Value::List).map_or_else(|| unexpected(cells), Ok),
        cells => unexpected(cells),
    }
}

/// Answers how many rows it touched.
fn write(sql: &mut Sql<impl Session>, obj: Obj, change: Change) -> Result<u64, Trouble> {
    let written = match change {
        Change::Put(value) => sql.run(Statement::WriteRegister, &[Cell::Int(value), key(obj)]),
        Change::Append(item) => sql.run(Statement::Append, &[key(obj), Cell::Text(format!(",{item}"))]),
        Change::Merge(Row { v: Some(v), w: Some(w) }) => {
            sql.run(Statement::WriteRow, &[key(obj), Cell::Int(v), Cell::Int(w)])
        }
        Change::Merge(_) => Err(Trouble::Failed("writes of single columns have no statement yet".to_owned())),
        Change::Delete => sql.run(Statement::DeleteRow, &[key(obj)]),
    };
    written.map(|answer| answer.count)
}

fn key(obj: Obj) -> Cell {
    Cell::Int(i64::from(obj.key))
}

fn row(v: i64, w: i64) -> Value {
    Value::Row(Row { v: Some(v), w: Some(w) })
}

fn list(text: &str) -> Option<std::sync::Arc<[i64]>> {
    text.split(',').skip(1).map(|item| item.parse().ok()).collect()
}

fn unexpected<T>(cells: &[Cell]) -> Result<T, Trouble> {
    Err(Trouble::Failed(format!("the database answered with {cells:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_texts() {
        assert_eq!(list(",1,22").as_deref(), Some(&[1, 22][..]));
        assert_eq!(list("").as_deref(), Some(&[][..]));
        assert_eq!(list(",1,x"), None);
    }

    /// Answers everything with this, and counts rollbacks.
    struct Stub(Result<Answer, Trouble>, u32);

    impl Session for Stub {
        fn begin(&mut self) -> Result<(), Trouble> {
            Ok(())
        }

        fn sql(&mut self, _text: &str, _params: &[Cell]) -> Result<Answer, Trouble> {
            self.0.clone()
        }

        fn commit(&mut self) -> Result<(), Trouble> {
            self.0.clone().map(drop)
        }

        fn rollback(&mut self) -> Result<(), Trouble> {
            self.1 += 1;
            Ok(())
        }
    }

    #[test]
    fn only_a_refusal_says_that_a_commit_did_not_happen() {
        let [refused, lost, failed] =
            [Trouble::Refused, Trouble::Lost, Trouble::Failed].map(|trouble| trouble("why".to_owned()));
        for (trouble, answer, rollbacks) in [(&refused, &refused, 1), (&lost, &lost, 0), (&failed, &lost, 0)]
        {
            let mut sql = Sql::new(Stub(Err(trouble.clone()), 0), texts(Upsert::OnConflict));
            assert_eq!((sql.commit().as_ref(), sql.session.1), (Err(answer), rollbacks));
            let read = sql.execute(Ask::Read(Obj::new(Space::Row, 1)), &mut Vec::new());
            assert_eq!((read.as_ref(), sql.session.1), (Err(trouble), 2 * rollbacks));
        }
    }

    /// A run on PostgreSQL at REPEATABLE READ ended when a read by key was answered with two rows.
    #[test]
    fn a_key_that_is_there_twice_is_read_once() {
        let cells = [19, 29, 5, 7].map(Cell::Int).to_vec();
        let twice = Answer { columns: 2, cells, count: 0 };
        let mut sql = Sql::new(Stub(Ok(twice), 0), texts(Upsert::OnConflict));
        let (obj, mut rows) = (Obj::new(Space::Row, 1), Vec::new());
        assert_eq!(sql.execute(Ask::Read(obj), &mut rows), Ok(()));
        assert_eq!(rows, [(obj, row(19, 29))]);
    }

    #[test]
    fn every_statement_has_its_text() {
        for upsert in [Upsert::OnConflict, Upsert::OnDuplicateKey] {
            let texts = texts(upsert);
            assert!(texts[Statement::Append as usize].contains("margay_lists"));
            assert!(texts[Statement::DeleteRow as usize].starts_with("DELETE"));
            assert!(texts[Statement::Scan as usize].contains("ORDER BY"));
        }
    }
}
