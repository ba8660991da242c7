//! One statement on both sides: this crate and a real database.

use margay_sql::{Database, Dialect, Outcome, SqlError, Value};

use super::generate::Generator;
use super::procedures::{Case, TABLES, TPCC, TPCC_CALLS, call, outs};
use super::tpcc;

/// A real database.
pub trait Target {
    /// Executes a statement; gives rows and the number of affected rows.
    fn execute(&mut self, text: &str) -> Result<(Vec<Vec<Value>>, u64), String>;
    /// Removes all tables.
    fn clear(&mut self, tables: &[String]);
}

/// How a run went.
#[derive(Debug, Default)]
pub struct Tally {
    pub cases: u64,
    /// Both gave the same rows and counts.
    pub agreed: u64,
    /// Both refused.
    pub refused: u64,
    /// Outside the fragment here.
    pub outside: u64,
}

/// The statements of one seed, after which both sides must hold the same rows.
pub fn episode(seed: u64, dialect: Dialect, statements: u64, target: &mut dyn Target, tally: &mut Tally) {
    let mut generator = Generator::new(seed, dialect);
    let mut database = Database::new(dialect);
    let tables = generator.tables.clone();
    let names: Vec<String> = tables.iter().map(|table| table.name.clone()).collect();
    target.clear(&names);
    let mut log = Vec::new();
    for table in &tables {
        let create = generator.create(table);
        database.run(&create, &[]).unwrap_or_else(|error| panic!("{create}: {error}"));
        target.execute(&create).unwrap_or_else(|error| panic!("{create}: {error}"));
        log.push(create);
    }
    for table in &tables {
        for _ in 0..4 {
            let insert = generator.insert(table);
            log.push(insert.clone());
            one(&insert, &mut database, target, tally, seed, &log);
        }
    }
    for _ in 0..statements {
        let statement = generator.statement();
        log.push(statement.clone());
        one(&statement, &mut database, target, tally, seed, &log);
        // A write must leave the same rows behind.
        for name in names.iter().filter(|name| !statement.starts_with("SELECT") && statement.contains(*name))
        {
            let all = format!("SELECT * FROM {name}");
            one(&all, &mut database, target, &mut Tally::default(), seed, &log);
        }
    }
}

/// Expressions without tables, the same here and there; all of them must have a value here.
pub fn expressions(dialect: Dialect, texts: &[&str], target: &mut dyn Target) {
    let mut database = Database::new(dialect);
    let mut tally = Tally::default();
    for text in texts {
        let select = format!("SELECT {text}");
        one(&select, &mut database, target, &mut tally, 0, &[]);
    }
    assert_eq!((tally.outside, tally.agreed), (0, texts.len() as u64), "{tally:?}");
}

/// The procedures of all cases, called here and there: the same OUT values, and the same rows
/// afterwards.
pub fn procedures(dialect: Dialect, cases: &[Case], target: &mut dyn Target) {
    let mysql = dialect == Dialect::MySql;
    for case in cases {
        target.clear(&[]);
        let mut database = Database::new(dialect);
        let creates = if mysql { case.mysql } else { case.postgres };
        for text in TABLES.iter().chain(creates) {
            database.run(text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
            target.execute(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        for (args, _) in case.calls {
            called(&case_name(case, args), args, &mut database, target);
            for table in ["account", "log"] {
                let all = format!("SELECT * FROM {table}");
                one(&all, &mut database, target, &mut Tally::default(), 0, &[case_name(case, args)]);
            }
        }
    }
}

/// TPC-C's procedures, here and there.
pub fn tpcc_procedures(dialect: Dialect, target: &mut dyn Target) {
    let mysql = dialect == Dialect::MySql;
    target.clear(&[]);
    let mut database = Database::new(dialect);
    let creates = TPCC.iter().map(|(one, other)| if mysql { one } else { other }.to_string());
    let tables = tpcc::TABLES.iter().map(ToString::to_string).chain(tpcc::load(2, 6, 20));
    for text in tables.chain(creates) {
        database.run(&text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
        target.execute(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    for args in TPCC_CALLS {
        called(args, args, &mut database, target);
        for table in tpcc::TABLES {
            let all = format!("SELECT * FROM {}", table.split_whitespace().nth(2).unwrap());
            one(&all, &mut database, target, &mut Tally::default(), 0, &[args.to_string()]);
        }
    }
}

fn case_name(case: &Case, args: &str) -> String {
    format!("{} ({args})", case.name)
}

fn called(name: &str, args: &str, database: &mut Database, target: &mut dyn Target) {
    let mysql = database.dialect() == Dialect::MySql;
    let text = call(args, mysql);
    target.execute("BEGIN").unwrap();
    let mut theirs = target.execute(&text);
    if let (Ok(_), true, Some(show)) = (&theirs, mysql, outs(args)) {
        theirs = target.execute(&show);
    }
    let ours = database.run(&text, &[]);
    target.execute(if ours.is_ok() { "COMMIT" } else { "ROLLBACK" }).unwrap();
    match (ours, theirs) {
        (Ok(ours), Ok((rows, _))) => assert_eq!(shown(&ours.rows), shown(&rows), "{name}"),
        (Err(_), Err(_)) => {}
        (ours, theirs) => panic!("{name}: here {ours:?}, there {theirs:?}"),
    }
}

fn one(
    text: &str,
    database: &mut Database,
    target: &mut dyn Target,
    tally: &mut Tally,
    seed: u64,
    log: &[String],
) {
    tally.cases += 1;
    let fail = |what: String| -> ! {
        let shown: Vec<String> = log.iter().map(|line| format!("{line};")).collect();
        panic!("seed {seed}: {what}\n  {text}\nafter\n{}", shown.join("\n"))
    };
    let writes = !text.starts_with("SELECT");
    if writes {
        target.execute("BEGIN").unwrap_or_else(|error| fail(error));
    }
    let theirs = target.execute(text);
    let saved = database.clone();
    let ours = database.run(text, &[]);
    let keep = match (&ours, &theirs) {
        (Ok(ours), Ok((rows, count))) => {
            if let Err(what) = same(ours, rows, *count, writes, database.dialect()) {
                fail(what);
            }
            tally.agreed += 1;
            true
        }
        (Err(_), Err(_)) => {
            tally.refused += 1;
            false
        }
        // What is evaluated first, or not at all, is each database's choice; so is what fails
        // there.
        (Err(SqlError::DivisionByZero), Ok(_)) => {
            tally.refused += 1;
            false
        }
        (Ok(_), Err(error))
            if error.to_ascii_lowercase().contains("division by 0") || error.contains("division by zero") =>
        {
            tally.refused += 1;
            false
        }
        (Err(error), Ok(_)) if is_outside(error) => {
            tally.outside += 1;
            false
        }
        (Err(error), Ok((rows, _))) => fail(format!("refused here: {error}; there: {rows:?}")),
        (Ok(ours), Err(error)) => fail(format!("refused there: {error}; here: {:?}", ours.rows)),
    };
    if !keep {
        *database = saved;
    }
    if writes {
        target.execute(if keep { "COMMIT" } else { "ROLLBACK" }).unwrap_or_else(|error| fail(error));
    }
}

/// Errors that say that a construct or its types are outside the fragment, not that the statement
/// fails.
fn is_outside(error: &SqlError) -> bool {
    error.is_unsupported()
}

fn same(
    ours: &Outcome,
    rows: &[Vec<Value>],
    count: u64,
    writes: bool,
    dialect: Dialect,
) -> Result<(), String> {
    if ours.rows.len() != rows.len() {
        return Err(format!("{} rows here {:?}, {} there {rows:?}", ours.rows.len(), ours.rows, rows.len()));
    }
    let mut start = 0;
    while start < rows.len() {
        let end = (start..rows.len()).find(|&at| ours.ranks[at] != ours.ranks[start]).unwrap_or(rows.len());
        let (mut here, mut there) = (shown(&ours.rows[start..end]), shown(&rows[start..end]));
        here.sort();
        there.sort();
        if here != there {
            return Err(format!("here {here:?}, there {there:?}"));
        }
        start = end;
    }
    // MariaDB counts changed rows, and two for an upsert that updates.
    let expected = ours.matched;
    if writes && dialect != Dialect::MySql && rows.is_empty() && expected != count {
        return Err(format!("{expected} rows met here, {count} there"));
    }
    Ok(())
}

/// Rows as text in which equal numbers look alike.
fn shown(rows: &[Vec<Value>]) -> Vec<String> {
    let cell = |value: &Value| match value {
        Value::Bool(truth) => format!("{truth}"),
        Value::Decimal(number) => match number.to_integer() {
            Some(number) => number.to_string(),
            None => number.to_string().trim_end_matches('0').to_string(),
        },
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 9.0e15 => {
            format!("{}", *number as i64)
        }
        Value::Float(number) => format!("{number}"),
        other => other.to_string(),
    };
    rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(" | ")).collect()
}

/// The number of cases: a few thousand, or what MARGAY_SQL_CASES says.
pub fn cases() -> u64 {
    std::env::var("MARGAY_SQL_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(6_000)
}
