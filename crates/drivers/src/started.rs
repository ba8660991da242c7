//! A database whose server was started for it: it goes with it, and it can be harmed.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use margay_levels::Level;
use margay_servers::Server;
use margay_simdb::{Schema, Start};

use crate::proxy::Proxy;
use crate::{Connection, Database, Witness};

/// How long a server stays paused.
const PAUSE: Duration = Duration::from_millis(300);

/// What can be done to a server while clients use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Harm {
    /// It is killed without a warning, and started again.
    Kill,
    /// It stops for a while.
    Pause,
    /// A client's connection is cut.
    Disconnect,
}

impl Harm {
    /// Every harm.
    pub const ALL: [Harm; 3] = [Harm::Kill, Harm::Pause, Harm::Disconnect];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Harm::Kill => "kill",
            Harm::Pause => "pause",
            Harm::Disconnect => "disconnect",
        }
    }
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Harm {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Harm::ALL.into_iter().find(|harm| harm.name() == name);
        found.ok_or_else(|| {
            format!("`{name}` is no fault; there are {}", Harm::ALL.map(Harm::name).join(", "))
        })
    }
}

pub(crate) struct Started<D> {
    database: D,
    proxy: Option<Proxy>,
    server: Mutex<Server>,
}

impl<D: Database + 'static> Started<D> {
    /// Opens the database of a server; through a relay, if connections are to be cut.
    pub fn open(
        server: Server,
        relayed: bool,
        open: impl Fn(&str) -> Result<D, String>,
    ) -> Result<Box<dyn Database>, String> {
        let proxy = relayed
            .then(|| Proxy::to(("127.0.0.1".to_owned(), server.port), None))
            .transpose()
            .map_err(|error| error.to_string())?;
        let own = format!(":{}/", server.port);
        let url = match &proxy {
            Some(proxy) => server.url().replace(&own, &format!(":{}/", proxy.port)),
            None => server.url().to_owned(),
        };
        let database = patiently(|| open(&url))?;
        Ok(Box::new(Started { database, proxy, server: Mutex::new(server) }))
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The port opens a little before the server takes connections.
fn patiently<D>(open: impl Fn() -> Result<D, String>) -> Result<D, String> {
    let mut tries = 0;
    loop {
        match open() {
            Ok(database) => return Ok(database),
            Err(error) if tries == 300 => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
        tries += 1;
    }
}

impl<D: Database + 'static> Database for Started<D> {
    fn identity(&self) -> (String, String) {
        self.database.identity()
    }

    fn levels(&self) -> Vec<&'static str> {
        self.database.levels()
    }

    fn promise(&self, own_name: &str) -> Option<Level> {
        self.database.promise(own_name)
    }

    fn prepare(&self, own_name: &str, start: &Start) -> Result<(), String> {
        self.database.prepare(own_name, start)
    }

    fn prepare_sql(&self, own_name: &str, schema: &Schema) -> Result<(), String> {
        self.database.prepare_sql(own_name, schema)
    }

    fn connect(&self, client: usize, own_name: &str) -> Result<Box<dyn Connection + '_>, String> {
        self.database.connect(client, own_name)
    }

    fn witness(&self) -> Option<Arc<Witness>> {
        self.database.witness()
    }

    fn address(&self) -> Option<String> {
        self.database.address()
    }

    fn inflict(&self, harm: Harm) -> Result<(), String> {
        match (harm, &self.proxy) {
            (Harm::Kill, _) => {
                let mut server = self.server();
                server.kill();
                server.restart()
            }
            (Harm::Pause, _) => {
                let server = self.server();
                server.pause();
                thread::sleep(PAUSE);
                server.resume();
                Ok(())
            }
            (Harm::Disconnect, Some(proxy)) => {
                proxy.cut();
                Ok(())
            }
            (Harm::Disconnect, None) => Err("there is no relay that could cut connections".to_owned()),
        }
    }
}
