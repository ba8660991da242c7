//! Random SQL: transactions of statements that are drawn from a grammar, over three small tables.
//!
//! # Problem
//! A checker that executes statements is right only if it understands them as the database does,
//! beside other transactions too. What nobody thought of is found by asking for everything:
//! conditions of all kinds, aggregates, groups, joins, subqueries, upserts, changes of many rows,
//! locks, statements that fail.
//!
//! # Algorithm
//! A seed draws a [catalogue](Catalogue) of statements, each with places for parameters. Every
//! client draws its transactions out of the same catalogue, with values of its own: few texts, so
//! that servers can prepare them, and few values, so that clients meet.
//!
//! # Invariants
//! - The statements are in the fragment of `docs/SQL.md`, in the words of the database at hand.
//! - No answer depends on what a database may choose: `LIMIT` only behind an order by the whole
//!   key.
//! - With [`Reuse::Never`] a row that was deleted does not come back: keys below the first fresh
//!   one are never deleted, fresh ones are inserted once.

mod changes;
mod conditions;
mod draft;
mod queries;
mod tables;

use margay_client::{Cell, Rng, Schema};

use crate::draw::{Fresh, Keys, Options, stream};
use crate::program::{End, Procedure, Program, Script, Session, Stop};
use draft::{Draft, Hole, Shape};

/// How many values keys have when nobody says.
const KEYS: u32 = 12;
/// How many statements a catalogue has.
const SHAPES: usize = 96;
/// The stream of random numbers that catalogues are drawn from.
const STREAM: u64 = 11 << 32;
/// Values of columns that are texts. All are ASCII and small letters come with digits: every
/// collation sorts them alike.
const TEXTS: [&str; 6] = ["a", "ab", "b", "bc7", "c", "c12"];
/// How many keys back a row is that was inserted lately.
const RECENT: u64 = 30;
/// One in so many values is NULL where that is allowed.
const NULLS: u64 = 10;

/// Whether rows come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reuse {
    /// A row that was deleted stays deleted.
    Never,
    /// A key that was deleted is inserted again.
    Often,
}

/// The program.
#[derive(Clone, Debug)]
pub(crate) struct RandomSql(pub Reuse, pub Options);

impl RandomSql {
    fn keys(&self) -> Keys {
        self.1.keys(KEYS)
    }

    /// Keys from here on may be deleted.
    fn first_fresh(&self) -> i64 {
        match self.0 {
            Reuse::Never => i64::from(self.keys().count()),
            Reuse::Often => 0,
        }
    }
}

impl Program for RandomSql {
    fn schema(&self) -> Schema {
        tables::schema(i64::from(self.keys().count()))
    }

    fn client(&self, seed: u64, client: u32, clients: u32) -> Box<dyn Script> {
        let first = self.first_fresh();
        let catalogue = catalogue(&mut Rng::new(seed, STREAM), first);
        let rng = Rng::new(seed, stream(client));
        Box::new(Clerk { keys: self.keys(), catalogue, rng, fresh: Fresh::new(client, clients) })
    }
}

/// The statements of a seed: those that read, and those that write.
struct Catalogue {
    reads: Vec<Shape>,
    writes: Vec<Shape>,
}

fn catalogue(rng: &mut Rng, first: i64) -> Catalogue {
    let mut shapes = |draw: fn(&mut Draft<'_>)| {
        let one = |_| {
            let mut draft = Draft::new(rng, first);
            draw(&mut draft);
            draft.finish()
        };
        (0..SHAPES / 2).map(one).collect()
    };
    Catalogue { reads: shapes(queries::query), writes: shapes(changes::change) }
}

struct Clerk {
    keys: Keys,
    catalogue: Catalogue,
    rng: Rng,
    fresh: Fresh,
}

/// A transaction: statements with their parameters.
#[derive(Debug)]
struct Errand {
    statements: Vec<(Shape, Vec<Cell>)>,
    end: End,
}

impl Script for Clerk {
    fn next(&mut self) -> Box<dyn Procedure> {
        let count = 1 + self.rng.below(4);
        // One in four only reads.
        let reads_only = self.rng.below(4) == 0;
        let statements = (0..count).map(|_| self.statement(reads_only)).collect();
        let end = if self.rng.below(20) == 0 { End::Rollback } else { End::Commit };
        Box::new(Errand { statements, end })
    }
}

impl Clerk {
    fn statement(&mut self, reads: bool) -> (Shape, Vec<Cell>) {
        let reads = reads || self.rng.below(2) == 0;
        let shapes = if reads { &self.catalogue.reads } else { &self.catalogue.writes };
        let shape = shapes[self.rng.below(shapes.len() as u64) as usize].clone();
        let params = shape.holes.iter().map(|&hole| self.fill(hole)).collect();
        (shape, params)
    }

    fn fill(&mut self, hole: Hole) -> Cell {
        match hole {
            Hole::Key => Cell::Int(i64::from(self.keys.draw(&mut self.rng))),
            Hole::Fresh => Cell::Int(i64::from(self.keys.count()) + self.fresh.next()),
            Hole::Name => tables::name(i64::from(self.keys.draw(&mut self.rng))),
            Hole::FreshName => tables::name(i64::from(self.keys.count()) + self.fresh.next()),
            Hole::Recent => Cell::Int(self.recent()),
            Hole::RecentName => tables::name(self.recent()),
            Hole::Int => Cell::Int(self.rng.below(11) as i64 - 3),
            Hole::Few => Cell::Int(1 + self.rng.below(3) as i64),
            Hole::Text => TEXTS[self.rng.below(TEXTS.len() as u64) as usize].into(),
            Hole::IntOrNull if self.rng.below(NULLS) == 0 => Cell::Null,
            Hole::TextOrNull if self.rng.below(NULLS) == 0 => Cell::Null,
            Hole::IntOrNull => self.fill(Hole::Int),
            Hole::TextOrNull => self.fill(Hole::Text),
        }
    }
}

impl Clerk {
    /// A key that this client, or one that is as far, has used for a row lately.
    fn recent(&mut self) -> i64 {
        let back = 1 + self.rng.below(RECENT) as i64;
        i64::from(self.keys.count()) + (self.fresh.coming() - back).max(1)
    }
}

impl Procedure for Errand {
    fn run(&self, session: &mut dyn Session) -> Result<End, Stop> {
        let mysql = ["mariadb", "mysql", "tidb"].contains(&session.dbms());
        for (shape, params) in &self.statements {
            session.sql(shape.text(mysql), params)?;
        }
        Ok(self.end)
    }
}
