//! What to run, and which levels a database has for it.

use std::time::Duration;

use margay_client::{Database, Setting};
use margay_levels::Level;
use margay_levels::profile::Profile;
use margay_mirror::{Mechanisms, simulated};
use margay_workloads::Workload;

use crate::harm::Every;

/// What to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// What clients ask.
    pub workload: Workload,
    /// How many clients there are.
    pub clients: u32,
    /// Where their plans come from.
    pub seed: u64,
    /// The database's level, in its own words. Of several, the one whose promise counts.
    pub own_name: String,
    /// Further levels: each transaction takes one of all at random.
    pub others: Vec<String>,
    /// How often a transaction that the database refused is tried again. Each attempt is a
    /// transaction of its own.
    pub retries: u32,
    /// What is done to the server meanwhile, and how often.
    pub harms: Vec<Every>,
    /// No more transactions than this are begun, shared evenly by the clients.
    pub transactions: Option<u64>,
    /// None is begun after this time.
    pub duration: Option<Duration>,
}

impl Job {
    /// What a simulated database has to know of it.
    #[must_use]
    pub fn setting(workload: &Workload, clients: u32, seed: u64) -> Setting {
        Setting { clients, keys: workload.keys(), domain: workload.domain(), seed }
    }

    /// How many transactions client number `client` of all `clients` may begin.
    pub(crate) fn share(&self, client: u32, clients: u32) -> u64 {
        let clients = u64::from(clients);
        self.transactions.map_or(u64::MAX, |all| all / clients + u64::from(u64::from(client) < all % clients))
    }

    /// Every level that transactions are begun at.
    pub fn levels(&self) -> impl Iterator<Item = &str> {
        [&self.own_name].into_iter().chain(&self.others).map(String::as_str)
    }
}

/// What a level of the database's own is called in a history.
#[must_use]
pub fn level_name(own_name: &str) -> String {
    own_name.to_ascii_lowercase().replace(' ', "-")
}

/// The database's own level of this name, and what it promises.
///
/// # Errors
/// When the database has no such level: says which it has.
pub fn choose_level(database: &dyn Database, asked: Option<&str>) -> Result<(String, Level), String> {
    let offered = database.levels();
    let Some(name) = asked else {
        let own = offered.first().copied().unwrap_or_default();
        return promise(database, own);
    };
    let wanted = level_name(name);
    let own = offered.iter().find(|own| level_name(own) == wanted);
    own.map_or_else(|| Err(no_level(database, name)), |own| promise(database, own))
}

/// The mechanisms by which the database keeps one of its own levels, if they are known.
#[must_use]
pub fn mechanisms(database: &dyn Database, own_name: &str) -> Option<Mechanisms> {
    let (dbms, version) = database.identity();
    let profile = || Profile::find(&dbms, Some(&version), Some(own_name)).map(Mechanisms::of);
    simulated(&format!("{dbms}-{version}")).or_else(profile)
}

fn promise(database: &dyn Database, own: &str) -> Result<(String, Level), String> {
    let level = database.promise(own);
    level.map(|level| (own.to_owned(), level)).ok_or_else(|| no_level(database, own))
}

fn no_level(database: &dyn Database, name: &str) -> String {
    let (dbms, version) = database.identity();
    let offered: Vec<_> = database.levels().into_iter().map(level_name).collect();
    format!("{dbms} {version} does not offer the level `{name}`; it offers {}", offered.join(", "))
}
