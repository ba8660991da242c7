//! Addresses of PostgreSQL servers, with libpq's words for encryption.
//!
//! What a relay does for connections that are not encrypted ([`crate::proxy`]), the end of an
//! encrypted one does itself: it counts as lost when an answer does not come in time. A relay
//! cannot read where answers end.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use postgres::config::{Host, SslMode, SslNegotiation};
use postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use postgres::{CancelToken, Client, Config, Socket};
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::defaults::{self, Environment};
use crate::ready::Ready;
use crate::tls::{Security, Wanted, Words, handshake};

const WORDS: Words = Words {
    options: ["sslmode", "sslrootcert"],
    values: ["disable", "prefer", "require", "verify-ca", "verify-full"],
};

/// Where a PostgreSQL server is, and how connections to it are secured: an address with libpq's
/// options `sslmode` and `sslrootcert`. What it leaves out, libpq's environment variables and
/// password file say.
#[derive(Clone)]
pub struct PostgresAddress {
    config: Config,
    /// What may be the reason if no connection can be made.
    note: Option<String>,
    security: Security,
    handshake: Arc<ClientConfig>,
    connector: Connector,
}

impl PostgresAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// When it is none, or its authorities cannot be read.
    pub fn new(url: &str) -> Result<Self, String> {
        let around = Environment::own();
        let (wanted, url) =
            Wanted::take(url, &WORDS, ["PGSSLMODE", "PGSSLROOTCERT"].map(|name| around.get(name)))?;
        let (mut config, note) = defaults::postgres(&url, &around)?;
        config.ssl_mode(match wanted.security {
            Security::Disable => SslMode::Disable,
            Security::Prefer => SslMode::Prefer,
            Security::Require | Security::VerifyCa | Security::VerifyFull => SslMode::Require,
        });
        let mut handshake = handshake(&wanted)?;
        if config.get_ssl_negotiation() == SslNegotiation::Direct {
            handshake.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        let rustls = MakeRustlsConnect::new(handshake.clone());
        let connector = Connector { rustls, limit: None, met: Arc::default() };
        Ok(Self { config, note, security: wanted.security, handshake: Arc::new(handshake), connector })
    }

    /// Connects.
    ///
    /// # Errors
    /// What the server says, or what is wrong with its certificate.
    pub fn connect(&self) -> Result<Client, String> {
        let connected = self.config.connect(self.connector.clone()).map_err(shown);
        connected.map_err(|error| match &self.note {
            Some(note) => format!("{error} ({note})"),
            None => error,
        })
    }

    /// Asks the server to give up what a connection is about. It may not hear.
    pub fn cancel(&self, token: &CancelToken) {
        let _ = token.cancel_query(self.connector.clone());
    }

    /// Where the server listens and how connections to it are secured, for who relays to it.
    ///
    /// # Errors
    /// When the address names several servers.
    pub fn server(&self) -> Result<PostgresServer, String> {
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        match self.config.get_hosts() {
            [Host::Tcp(host)] => {
                let encryption = (self.security != Security::Disable).then(|| Encryption {
                    required: self.security > Security::Prefer,
                    direct: self.config.get_ssl_negotiation() == SslNegotiation::Direct,
                    name: host.clone(),
                    config: Arc::clone(&self.handshake),
                });
                Ok(PostgresServer { place: PostgresPlace::Tcp(host.clone(), port), encryption })
            }
            [Host::Unix(folder)] => {
                let place = PostgresPlace::Unix(folder.join(format!(".s.PGSQL.{port}")));
                Ok(PostgresServer { place, encryption: None })
            }
            _ => Err("a relay wants the address of one server".to_owned()),
        }
    }

    /// The user, the password and the database that the address names.
    #[must_use]
    pub fn names(&self) -> [Option<String>; 3] {
        let password =
            self.config.get_password().map(|password| String::from_utf8_lossy(password).into_owned());
        [self.config.get_user().map(str::to_owned), password, self.config.get_dbname().map(str::to_owned)]
    }

    /// The same for another database of the server.
    #[must_use]
    pub fn of_database(&self, name: &str) -> Self {
        let mut config = self.config.clone();
        config.dbname(name);
        Self { config, ..self.clone() }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Whether connections are encrypted, after the first: what a server has once it has always.
    pub(crate) fn settle(&mut self) -> bool {
        let encrypted = self.connector.met.load(Ordering::Relaxed);
        self.config.ssl_mode(if encrypted { SslMode::Require } else { SslMode::Disable });
        encrypted
    }

    /// The same for clients who do not wait for an answer longer than this. Only encrypted
    /// connections know.
    pub(crate) fn limited(&self, limit: Duration) -> Self {
        let connector = Connector { limit: Some(limit), ..self.connector.clone() };
        Self { connector, ..self.clone() }
    }

    /// The same, through a relay on this port.
    pub(crate) fn relayed(&self, port: u16) -> Self {
        let mut config = Config::new();
        config.host("127.0.0.1").port(port).ssl_mode(SslMode::Disable);
        self.config.get_user().map(|user| config.user(user));
        self.config.get_password().map(|password| config.password(password));
        self.config.get_dbname().map(|dbname| config.dbname(dbname));
        self.config.get_options().map(|options| config.options(options));
        Self { config, ..self.clone() }
    }
}

/// The server's own words, where there are some.
pub(crate) fn shown(error: postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        // "error connecting to server" alone tells nothing.
        None => match std::error::Error::source(&error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}

/// A server, for who relays to it.
#[derive(Clone, Debug)]
pub struct PostgresServer {
    /// Where it listens.
    pub place: PostgresPlace,
    /// How connections are encrypted, if they may be.
    pub encryption: Option<Encryption>,
}

/// Where a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PostgresPlace {
    /// A host and a port.
    Tcp(String, u16),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// How connections to a server are encrypted.
#[derive(Clone, Debug)]
pub struct Encryption {
    /// Whether there is to be no connection without.
    pub required: bool,
    /// Whether it begins without asking the server.
    pub direct: bool,
    /// The name that the server's certificate is for.
    pub name: String,
    /// Whom the client believes.
    pub config: Arc<ClientConfig>,
}

type Encrypted = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// Makes encrypted connections.
#[derive(Clone)]
struct Connector {
    rustls: MakeRustlsConnect,
    limit: Option<Duration>,
    /// Whether a server has wanted one.
    met: Arc<AtomicBool>,
}

impl MakeTlsConnect<Socket> for Connector {
    type Stream = Timed;
    type TlsConnect = Handshake;
    type Error = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, Self::Error> {
        let rustls = MakeTlsConnect::<Socket>::make_tls_connect(&mut self.rustls, host)?;
        Ok(Handshake { rustls, limit: self.limit, met: Arc::clone(&self.met) })
    }
}

/// A connection that is about to be encrypted.
struct Handshake {
    rustls: <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect,
    limit: Option<Duration>,
    met: Arc<AtomicBool>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Timed;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Timed>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        self.met.store(true, Ordering::Relaxed);
        let (handshake, limit) = (self.rustls.connect(socket), self.limit);
        Box::pin(async move {
            let stream = handshake.await?;
            Ok(Timed { stream, limit, late: None, ready: Ready::default() })
        })
    }
}

/// An encrypted connection on which nobody waits for an answer longer than the limit.
struct Timed {
    stream: Encrypted,
    limit: Option<Duration>,
    /// When an answer is late; nobody waits for one if there is none.
    late: Option<Pin<Box<Sleep>>>,
    ready: Ready,
}

impl Timed {
    /// Somebody waits, from now on. Who is to be woken in time has to be told to the clock.
    fn wait(&mut self, cx: &mut Context<'_>) {
        self.late = self.limit.map(|limit| Box::pin(sleep(limit)));
        let _ = self.is_late(cx);
    }

    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        self.late.as_mut().is_some_and(|late| late.as_mut().poll(cx).is_ready())
    }
}

impl AsyncRead for Timed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if Pin::new(&mut self.stream).poll_read(cx, buffer)?.is_pending() {
            return if self.is_late(cx) {
                Poll::Ready(Err(ErrorKind::TimedOut.into()))
            } else {
                Poll::Pending
            };
        }
        if self.ready.hear(&buffer.filled()[before..]) {
            self.late = None
        } else {
            self.wait(cx)
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Timed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.wait(cx);
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl TlsStream for Timed {
    fn channel_binding(&self) -> ChannelBinding {
        self.stream.channel_binding()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_address_says_is_what_is_done() {
        let mode = |url: &str| PostgresAddress::new(url).map(|address| address.config.get_ssl_mode());
        for (options, wanted) in [
            ("", SslMode::Prefer),
            ("?sslmode=disable", SslMode::Disable),
            ("?connect_timeout=9&sslmode=require", SslMode::Require),
            ("?sslmode=verify-full&channel_binding=require", SslMode::Require),
        ] {
            assert_eq!(mode(&format!("postgres://u:p@h/d{options}")), Ok(wanted), "{options}");
        }
        assert!(mode("postgres://u@h/d?sslcert=x").is_err_and(|why| why.contains("sslcert")));
    }
}
