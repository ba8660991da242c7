//! A simulated database: a protocol whose promise is known, and faults if one likes.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use margay_client::{Ask, DatabaseEvidence, Obj, Rng, Start, Value};
use margay_levels::Level;
use margay_simdb::{Live, Protocol, Refused, SimConfig};

use crate::{Connection, Database, Testimony, Trouble, Witness};

/// A call takes up to this long on its way.
const LATENCY: Duration = Duration::from_micros(100);

pub(crate) struct SimDatabase {
    protocol: Protocol,
    seed: u64,
    live: Arc<Live>,
    start: Instant,
    witness: OnceLock<Arc<Witness>>,
}

impl SimDatabase {
    pub fn new(config: &SimConfig) -> Self {
        let (protocol, seed) = (config.protocol, config.seed);
        let (live, witness) = (Arc::new(Live::new(config)), OnceLock::new());
        Self { protocol, seed, live, start: Instant::now(), witness }
    }
}

impl Database for SimDatabase {
    fn identity(&self) -> (String, String) {
        ("simdb".to_owned(), self.protocol.to_string())
    }

    fn levels(&self) -> Vec<&'static str> {
        vec![self.protocol.promises()[0].name()]
    }

    fn promise(&self, _own_name: &str) -> Option<Level> {
        self.protocol.promises().first().copied()
    }

    /// It was made with its objects.
    fn prepare(&self, _own_name: &str, _start: &Start) -> Result<(), String> {
        Ok(())
    }

    fn connect(&self, client: usize, _own_name: &str) -> Result<Box<dyn Connection>, String> {
        let rng = Rng::new(self.seed, 8 << 32 | client as u64);
        let (live, witness) = (Arc::clone(&self.live), self.witness.get().map(Arc::clone));
        let told = Testimony::default();
        Ok(Box::new(SimConnection { live, start: self.start, me: client, rng, witness, told }))
    }

    fn witness(&self) -> Option<Arc<Witness>> {
        self.live.remember(self.protocol);
        Some(Arc::clone(self.witness.get_or_init(Arc::default)))
    }

    fn told(&self) -> Option<DatabaseEvidence> {
        self.live.told()
    }
}

struct SimConnection {
    live: Arc<Live>,
    start: Instant,
    me: usize,
    rng: Rng,
    /// Where to say which transaction of the recording is which of the database.
    witness: Option<Arc<Witness>>,
    told: Testimony,
}

impl SimConnection {
    /// A call is on its way for a while; answers when it arrives.
    fn arrive(&mut self) -> i64 {
        thread::sleep(Duration::from_nanos(self.rng.below(LATENCY.as_nanos() as u64)));
        self.start.elapsed().as_nanos() as i64
    }
}

fn refused(Refused: Refused) -> Trouble {
    Trouble::Refused("the protocol refused it".to_owned())
}

impl Connection for SimConnection {
    fn enter(&mut self, label: u64) {
        self.told = Testimony { txn: label, ..Testimony::default() };
    }

    fn begin(&mut self) -> Result<(), Trouble> {
        let now = self.arrive();
        self.told.id = Some(self.live.begin(self.me, now).to_string());
        Ok(())
    }

    fn execute(&mut self, ask: Ask, rows: &mut Vec<(Obj, Value)>) -> Result<(), Trouble> {
        let now = self.arrive();
        self.live.execute(self.me, ask, now, rows).map_err(refused)
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        let now = self.arrive();
        let committed = self.live.commit(self.me, now);
        if let (Ok(()), Some(witness)) = (committed, &self.witness) {
            witness.hear(std::mem::take(&mut self.told));
        }
        committed.map_err(refused)
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        let now = self.arrive();
        self.live.rollback(self.me, now);
        Ok(())
    }
}
