//! A database whose server was started for it: it goes with it, and it can be harmed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use margay_client::Harm;
use margay_servers::Server;

use crate::Database;
use crate::around::{Around, Wrapped};
use crate::proxy::Proxy;

/// How long a server stays paused.
const PAUSE: Duration = Duration::from_millis(300);

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
