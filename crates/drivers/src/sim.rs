//! A simulated database: a protocol whose promise is known, and faults if one likes.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use margay_levels::Level;
use margay_simdb::{Ask, Live, Obj, Protocol, Refused, Rng, SimConfig, Start, Value};

use crate::{Connection, Database, Trouble};

/// A call takes up to this long on its way.
const LATENCY: Duration = Duration::from_micros(100);

pub(crate) struct SimDatabase {
    protocol: Protocol,
    seed: u64,
    live: Arc<Live>,
    start: Instant,
}

impl SimDatabase {
    pub fn new(config: &SimConfig) -> Self {
        let (protocol, seed) = (config.protocol, config.seed);
        Self { protocol, seed, live: Arc::new(Live::new(config)), start: Instant::now() }
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
        Ok(Box::new(SimConnection { live: Arc::clone(&self.live), start: self.start, me: client, rng }))
    }
}

struct SimConnection {
    live: Arc<Live>,
    start: Instant,
    me: usize,
    rng: Rng,
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
    fn begin(&mut self) -> Result<(), Trouble> {
        let now = self.arrive();
        self.live.begin(self.me, now);
        Ok(())
    }

    fn execute(&mut self, ask: Ask, rows: &mut Vec<(Obj, Value)>) -> Result<(), Trouble> {
        let now = self.arrive();
        self.live.execute(self.me, ask, now, rows).map_err(refused)
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        let now = self.arrive();
        self.live.commit(self.me, now).map_err(refused)
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        let now = self.arrive();
        self.live.rollback(self.me, now);
        Ok(())
    }
}
