//! Targets as the command line names them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use margay_servers::Server;
use margay_simdb::{Fault, Ppm, Protocol, SimConfig};

use crate::mysql::MysqlDatabase;
use crate::postgres::PostgresDatabase;
use crate::sim::SimDatabase;
use crate::sqlite::SqliteDatabase;
use crate::{Database, Kind};

/// A fault of a target fires so often, unless it says otherwise.
const FAULT: Ppm = Ppm::percent(5);

/// Which database to drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// SQLite in a temporary folder.
    Embedded,
    /// SQLite in this file.
    Sqlite(PathBuf),
    /// A store that is part of the program, in this folder or a temporary one.
    Store(Kind, Option<PathBuf>),
    /// A simulated database: its protocol and what goes wrong in it.
    Sim(Protocol, Vec<(Fault, Ppm)>),
    /// A PostgreSQL server.
    Postgres(String),
    /// A MariaDB or MySQL server.
    Mysql(String),
    /// A private PostgreSQL server of the installed binaries.
    StartPostgres,
    /// A private MariaDB server of the installed binaries.
    StartMariadb,
}

/// What a simulated database has to know beforehand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// How many clients will connect.
    pub clients: u32,
    /// How many keys each kind of object has.
    pub keys: u32,
    /// The values of column `v` are below this.
    pub domain: i64,
    /// Where its randomness comes from.
    pub seed: u64,
}

impl Setting {
    /// The configuration of a simulated database, which also says what the initial state is of any database.
    #[must_use]
    pub fn config(&self, protocol: Protocol) -> SimConfig {
        let &Setting { clients, keys, domain, seed } = self;
        SimConfig { clients, keys, domain, ..SimConfig::new(protocol, seed) }
    }
}

/// Opens the database of a target.
///
/// # Errors
/// When there is none: the server does not answer, or is not installed.
pub fn open(target: &Target, setting: &Setting) -> Result<Box<dyn Database>, String> {
    Ok(match target {
        Target::Embedded => Box::new(SqliteDatabase::temporary()?),
        Target::Sqlite(path) => Box::new(SqliteDatabase::file(path)),
        Target::Store(kind, path) => crate::stores::open(*kind, path.as_deref())?,
        Target::Sim(protocol, faults) => {
            Box::new(SimDatabase::new(&SimConfig { faults: faults.clone(), ..setting.config(*protocol) }))
        }
        Target::Postgres(url) => Box::new(PostgresDatabase::open(url)?),
        Target::Mysql(url) => Box::new(MysqlDatabase::open(url)?),
        Target::StartPostgres => Started::open(Server::postgres()?, PostgresDatabase::open)?,
        Target::StartMariadb => Started::open(Server::mariadb()?, MysqlDatabase::open)?,
    })
}

/// A database whose server goes with it.
struct Started<D> {
    database: D,
    _server: Server,
}

impl<D: Database + 'static> Started<D> {
    /// The port opens a little before the server takes connections.
    fn open(server: Server, open: impl Fn(&str) -> Result<D, String>) -> Result<Box<dyn Database>, String> {
        let mut tries = 0;
        loop {
            match open(server.url()) {
                Ok(database) => return Ok(Box::new(Started { database, _server: server })),
                Err(error) if tries == 300 => return Err(error),
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(100)),
            }
            tries += 1;
        }
    }
}

impl<D: Database> Database for Started<D> {
    fn identity(&self) -> (String, String) {
        self.database.identity()
    }

    fn levels(&self) -> Vec<&'static str> {
        self.database.levels()
    }

    fn promise(&self, own_name: &str) -> Option<margay_levels::Level> {
        self.database.promise(own_name)
    }

    fn prepare(&self, own_name: &str, start: &margay_simdb::Start) -> Result<(), String> {
        self.database.prepare(own_name, start)
    }

    fn prepare_sql(&self, own_name: &str, schema: &margay_simdb::Schema) -> Result<(), String> {
        self.database.prepare_sql(own_name, schema)
    }

    fn connect(&self, client: usize, own_name: &str) -> Result<Box<dyn crate::Connection + '_>, String> {
        self.database.connect(client, own_name)
    }

    fn witness(&self) -> Option<std::sync::Arc<crate::Witness>> {
        self.database.witness()
    }

    fn address(&self) -> Option<String> {
        self.database.address()
    }
}

impl FromStr for Target {
    type Err = String;

    /// `sqlite`, `sqlite:PATH`, `sim:PROTOCOL[+FAULT[=PROBABILITY]]…`, `postgres://…`, `mysql://…`.
    fn from_str(text: &str) -> Result<Self, String> {
        let scheme = text.split(':').next().unwrap_or_default();
        let rest = &text[(scheme.len() + 1).min(text.len())..];
        match scheme {
            "sqlite" if rest.is_empty() => Ok(Target::Embedded),
            "sqlite" => Ok(Target::Sqlite(Path::new(rest).to_owned())),
            "sim" => simulated(rest),
            "postgres" | "postgresql" => Ok(Target::Postgres(text.to_owned())),
            "mysql" | "mariadb" => Ok(Target::Mysql(text.to_owned())),
            name => match Kind::named(name) {
                Some(kind) => Ok(Target::Store(kind, (!rest.is_empty()).then(|| PathBuf::from(rest)))),
                None => Err(no_target(text)),
            },
        }
    }
}

fn no_target(text: &str) -> String {
    let stores = Kind::ALL.map(|kind| format!("{kind}[:FOLDER]")).join(", ");
    format!(
        "`{text}` is no target; there are sqlite[:FILE], {stores}, postgres://…, mysql://… and sim:PROTOCOL[+FAULT]"
    )
}

fn simulated(text: &str) -> Result<Target, String> {
    let mut parts = text.split('+');
    let name = parts.next().unwrap_or_default();
    let protocol = match name {
        "si" => Protocol::SiFuw,
        _ => name.parse().map_err(|error: margay_levels::UnknownName| error.to_string())?,
    };
    let faults = parts.map(fault).collect::<Result<_, _>>()?;
    Ok(Target::Sim(protocol, faults))
}

fn fault(text: &str) -> Result<(Fault, Ppm), String> {
    let (name, probability) = text.split_once('=').map_or((text, None), |(name, p)| (name, Some(p)));
    let fault: Fault = name.parse().map_err(|error: margay_levels::UnknownName| error.to_string())?;
    if fault == Fault::ClockSkew {
        return Err(
            "clock-skew is a fault of recorders, which `margay simulate` has; clients here share a clock"
                .into(),
        );
    }
    let Some(probability) = probability else { return Ok((fault, FAULT)) };
    match probability.parse::<f64>() {
        Ok(p) if (0.0..=1.0).contains(&p) => Ok((fault, Ppm((p * 1e6).round() as u32))),
        _ => Err(format!("`{probability}` is no probability: 0 to 1")),
    }
}

/// What is printed must not tell a password: `scheme://user:***@host`.
fn without_password(url: &str) -> String {
    let hidden = || {
        let (scheme, rest) = url.split_once("://")?;
        let (login, host) = rest.rsplit_once('@')?;
        let (user, _) = login.split_once(':')?;
        Some(format!("{scheme}://{user}:***@{host}"))
    };
    hidden().unwrap_or_else(|| url.to_owned())
}

impl fmt::Display for Target {
    /// As the command line says it, but for passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Embedded => f.write_str("sqlite"),
            Target::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Target::Store(kind, None) => write!(f, "{kind}"),
            Target::Store(kind, Some(path)) => write!(f, "{kind}:{}", path.display()),
            Target::Sim(protocol, faults) => {
                write!(f, "sim:{protocol}")?;
                faults.iter().try_for_each(|(fault, ppm)| write!(f, "+{fault}={ppm}"))
            }
            Target::Postgres(url) | Target::Mysql(url) => f.write_str(&without_password(url)),
            Target::StartPostgres => f.write_str("--start postgres"),
            Target::StartMariadb => f.write_str("--start mariadb"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_they_are_shown() {
        for text in [
            "sqlite",
            "sqlite:x.db",
            "redb",
            "fjall:x",
            "sim:si-fuw+lost-update=0.05",
            "postgres://h/d",
            "mysql://h/d",
        ] {
            assert_eq!(text.parse::<Target>().map(|target| target.to_string()), Ok(text.to_owned()));
        }
        let secret: Target = "mysql://me:secret@h:1/d".parse().expect("a target");
        assert_eq!(secret.to_string(), "mysql://me:***@h:1/d");
        assert_eq!("sim:si".parse(), Ok(Target::Sim(Protocol::SiFuw, Vec::new())));
    }

    #[test]
    fn what_is_no_target_says_what_is() {
        for (text, part) in [
            ("oracle:x", "no target"),
            ("", "no target"),
            ("sim:", "protocol"),
            ("sim:sii", "did you mean"),
            ("sim:ssi+nothing", "fault"),
            ("sim:ssi+dirty-read=2", "probability"),
            ("sim:ssi+clock-skew", "recorders"),
        ] {
            let error = text.parse::<Target>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
