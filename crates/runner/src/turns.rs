//! Clients that take turns: which of them calls next is drawn from a seed.
//!
//! # Problem
//! What threads do depends on how they are scheduled, so a run cannot be repeated; and a store in
//! memory answers so fast that transactions of different threads hardly ever meet.
//!
//! # Algorithm
//! A call waits until every client has arrived at its next call, or is gone. Then the seed draws
//! one of them, which calls alone. So the same seed gives the same interleaving of calls. A call
//! that takes longer than the patience is taken to wait for another client, for a lock say: the
//! others go on without it until it returns. From then on the run depends on the clock a little.
//!
//! # Differs from free threads
//! Calls do not overlap, so a race *inside* a call is not found.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use margay_client::{
    Answer, Ask, Cell, Connection, Database, DatabaseEvidence, Harm, Obj, Rng, Schema, Start, Trouble, Value,
    Witness,
};
use margay_levels::Level;

/// The stream of random numbers that draws whose turn it is; clients have others.
const STREAM: u64 = 10 << 32;

/// A database whose clients take turns.
pub(crate) struct Turns<'a> {
    database: &'a dyn Database,
    table: Table,
}

/// Who sits at it, and whose turn it is.
struct Table {
    state: Mutex<State>,
    /// By client: its turn has come.
    called: Vec<Condvar>,
    /// A call that takes longer than this waits for another client.
    patience: Duration,
}

struct State {
    rng: Rng,
    seats: Vec<Seat>,
    /// Since when a client calls, if one does.
    since: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seat {
    /// Not connected yet, or gone.
    Empty,
    /// Between two calls.
    Thinking,
    /// Waits for its turn.
    Waiting,
    /// It is its turn.
    Calling,
    /// In a call that takes long.
    Stuck,
}

impl<'a> Turns<'a> {
    pub fn new(database: &'a dyn Database, clients: u32, seed: u64, patience: Duration) -> Self {
        let seats = vec![Seat::Empty; clients as usize];
        let called = seats.iter().map(|_| Condvar::new()).collect();
        let state = Mutex::new(State { rng: Rng::new(seed, STREAM), seats, since: None });
        Self { database, table: Table { state, called, patience } }
    }
}

impl Table {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sit(&self, client: usize, seat: Seat) {
        let mut state = self.state();
        state.seats[client] = seat;
        self.next(&mut state);
    }

    /// Waits until it is the client's turn. A client that is taken to be stuck before it has called
    /// has had its turn, too.
    fn wait_for_turn(&self, client: usize) {
        let mut state = self.state();
        if matches!(state.seats[client], Seat::Calling | Seat::Stuck) {
            return;
        }
        state.seats[client] = Seat::Waiting;
        self.next(&mut state);
        while !matches!(state.seats[client], Seat::Calling | Seat::Stuck) {
            let waited = self.called[client].wait_timeout(state, self.patience);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.leave_the_stuck(self.patience);
            self.next(&mut state);
        }
    }

    /// Makes one call when its turn has come.
    fn take_turn<T>(&self, client: usize, call: impl FnOnce() -> T) -> T {
        self.wait_for_turn(client);
        let answer = call();
        let mut state = self.state();
        if state.seats[client] == Seat::Calling {
            state.since = None;
        }
        state.seats[client] = Seat::Thinking;
        answer
    }

    /// Draws who is next, if nobody calls and nobody is about to.
    fn next(&self, state: &mut State) {
        if let Some(client) = state.draw() {
            self.called[client].notify_one();
        }
    }
}

impl State {
    fn draw(&mut self) -> Option<usize> {
        if self.seats.iter().any(|seat| matches!(seat, Seat::Calling | Seat::Thinking)) {
            return None;
        }
        let waiting: Vec<usize> =
            (0..self.seats.len()).filter(|&client| self.seats[client] == Seat::Waiting).collect();
        let drawn = *waiting.get(self.rng.below(waiting.len() as u64) as usize)?;
        self.seats[drawn] = Seat::Calling;
        self.since = Some(Instant::now());
        Some(drawn)
    }

    fn leave_the_stuck(&mut self, patience: Duration) {
        if self.since.is_some_and(|since| since.elapsed() > patience) {
            let calling = self.seats.iter_mut().find(|seat| **seat == Seat::Calling);
            calling.into_iter().for_each(|seat| *seat = Seat::Stuck);
            self.since = None;
        }
    }
}

impl Database for Turns<'_> {
    fn identity(&self) -> (String, String) {
        self.database.identity()
    }

    fn levels(&self) -> Vec<&'static str> {
        self.database.levels()
    }

    fn promise(&self, own_name: &str) -> Option<Level> {
        self.database.promise(own_name)
    }

    fn reads_to_change(&self) -> bool {
        self.database.reads_to_change()
    }

    fn prepare(&self, own_name: &str, start: &Start) -> Result<(), String> {
        self.database.prepare(own_name, start)
    }

    fn connect(&self, client: usize, own_name: &str) -> Result<Box<dyn Connection + '_>, String> {
        let connection = self.database.connect(client, own_name)?;
        self.table.sit(client, Seat::Thinking);
        Ok(Box::new(Player { table: &self.table, client, connection }))
    }

    fn witness(&self) -> Option<Arc<Witness>> {
        self.database.witness()
    }

    fn address(&self) -> Option<String> {
        self.database.address()
    }

    fn told(&self) -> Option<DatabaseEvidence> {
        self.database.told()
    }

    fn inflict(&self, harm: Harm) -> Result<(), String> {
        self.database.inflict(harm)
    }

    fn prepare_sql(&self, own_name: &str, schema: &Schema) -> Result<(), String> {
        self.database.prepare_sql(own_name, schema)
    }

    fn clean_up_sql(&self, schema: &Schema) {
        self.database.clean_up_sql(schema);
    }

    fn clean_up(&self) {
        self.database.clean_up();
    }
}

/// A client at the table.
struct Player<'a> {
    table: &'a Table,
    client: usize,
    connection: Box<dyn Connection + 'a>,
}

impl Drop for Player<'_> {
    fn drop(&mut self) {
        self.table.sit(self.client, Seat::Empty);
    }
}

impl Connection for Player<'_> {
    fn enter(&mut self, label: u64) {
        self.connection.enter(label);
    }

    fn wait_for_turn(&mut self) -> bool {
        self.table.wait_for_turn(self.client);
        true
    }

    fn begin(&mut self) -> Result<(), Trouble> {
        self.table.take_turn(self.client, || self.connection.begin())
    }

    fn begin_reading(&mut self) -> Result<(), Trouble> {
        self.table.take_turn(self.client, || self.connection.begin_reading())
    }

    fn execute(&mut self, ask: Ask, rows: &mut Vec<(Obj, Value)>) -> Result<(), Trouble> {
        self.table.take_turn(self.client, || self.connection.execute(ask, rows))
    }

    fn deletes_read(&self) -> bool {
        self.connection.deletes_read()
    }

    fn sql(&mut self, text: &str, params: &[Cell]) -> Result<Answer, Trouble> {
        self.table.take_turn(self.client, || self.connection.sql(text, params))
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        self.table.take_turn(self.client, || self.connection.commit())
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        self.table.take_turn(self.client, || self.connection.rollback())
    }
}
