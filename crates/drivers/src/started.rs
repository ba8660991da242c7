//! A database whose server was started for it: it goes with it, and it can be harmed.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use margay_servers::Server;

use crate::Database;
use crate::around::{Around, Wrapped};
use crate::proxy::Proxy;

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

/// The server of a database, around it.
pub(crate) struct Started {
    proxy: Option<Proxy>,
    server: Mutex<Server>,
}

impl Started {
    /// Opens the database of a server; through a relay, if connections are to be cut.
    pub fn open<D: Database + 'static>(
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
        let database = Box::new(patiently(|| open(&url))?);
        Ok(Box::new(Wrapped { database, around: Started { proxy, server: Mutex::new(server) } }))
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

impl Around for Started {
    fn inflict(&self, _: &dyn Database, harm: Harm) -> Result<(), String> {
        match (harm, &self.proxy) {
            (Harm::Kill, _) => {
                let mut server = self.server();
                server.kill();
                server.restart()
            }
            (Harm::Pause, _) => {
                let mut server = self.server();
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
