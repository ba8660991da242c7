//! Where the server is, and Margay's own user.

use margay_drivers::{PostgresPlace, PostgresServer, mysql_options};
use mysql::{Conn, Opts, OptsBuilder};

/// An address, `mysql://…` or `mariadb://…`.
#[derive(Clone, Debug)]
pub(crate) struct MysqlAddress {
    options: Opts,
}

impl MysqlAddress {
    /// Reads an address.
    pub fn new(url: &str) -> Result<Self, String> {
        if ["REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"]
            .iter()
            .any(|mode| url.contains(&format!("ssl-mode={mode}")))
        {
            return Err("a relay to a server over TLS is not there yet: use ssl-mode=DISABLED".to_owned());
        }
        Ok(Self { options: mysql_options(url)? })
    }

    /// Where the server listens.
    pub fn server(&self) -> PostgresServer {
        let place = match self.options.get_socket() {
            Some(socket) => PostgresPlace::Unix(socket.into()),
            None => PostgresPlace::Tcp(
                self.options.get_ip_or_hostname().into_owned(),
                self.options.get_tcp_port(),
            ),
        };
        PostgresServer { place, encryption: None }
    }

    /// The user, the password and the database.
    pub fn names(&self) -> [Option<String>; 3] {
        let all = [self.options.get_user(), self.options.get_pass(), self.options.get_db_name()];
        all.map(|name| name.map(str::to_owned))
    }

    /// The same for another database of the server.
    pub fn of_database(&self, name: &str) -> Self {
        let builder = OptsBuilder::from_opts(self.options.clone()).db_name(Some(name));
        Self { options: builder.into() }
    }

    /// Connects.
    pub fn connect(&self) -> Result<Conn, String> {
        Conn::new(self.options.clone()).map_err(shown)
    }
}

/// The server's own words, where there are some.
pub(crate) fn shown(error: mysql::Error) -> String {
    match error {
        mysql::Error::MySqlError(error) => format!("{} ({})", error.message, error.code),
        other => other.to_string(),
    }
}
