//! Targets as the command line names them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use margay_client::{Harm, Setting};
use margay_levels::Level;
use margay_servers::{Server, folder_of_version};
use margay_simdb::{Fault, Ppm, Protocol, SimConfig};

use crate::alone::alone;
use crate::conninfo;
use crate::mysql::MysqlDatabase;
use crate::postgres::PostgresDatabase;
use crate::sim::SimDatabase;
use crate::sqlite::{Mode, SqliteDatabase};
use crate::started::Started;
use crate::{Database, Kind};

/// A fault of a target fires so often, unless it says otherwise.
const FAULT: Ppm = Ppm::percent(5);

/// Which database to drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// SQLite in this file, or in a temporary folder.
    Sqlite(Option<PathBuf>, Mode),
    /// A store that is part of the program, in this folder or a temporary one.
    Store(Kind, Option<PathBuf>),
    /// A simulated database: its protocol and what goes wrong in it.
    Sim(Protocol, Vec<(Fault, Ppm)>),
    /// A PostgreSQL server.
    Postgres(String),
    /// A MariaDB or MySQL server.
    Mysql(String),
    /// Whatever this command drives (docs/EXEC.md).
    Exec(String),
    /// A private PostgreSQL server of the installed binaries.
    StartPostgres,
    /// A private MariaDB server of the installed binaries.
    StartMariadb,
    /// A private MySQL server of the installed binaries.
    StartMysql,
}

/// What a run wants of its database beside connections.
#[derive(Clone, Copy, Default, Debug)]
pub struct Wishes<'a> {
    /// What will be done to its server.
    pub harms: &'a [Harm],
    /// A statement that is not answered within this time costs its client the connection.
    pub statement_timeout: Option<Duration>,
    /// Where the programs of a server to start are, if not where they are installed.
    pub binaries: Option<&'a Path>,
    /// The version of a server to start, if not the one that is installed.
    pub version: Option<&'a str>,
    /// What the database promises, where only whoever runs it knows.
    pub promises: Option<Level>,
    /// Whether another machine of the same run is at work in this database, and keeps other runs
    /// away.
    pub joins: bool,
}

/// Opens the database of a target.
///
/// # Errors
/// When there is none: the server does not answer, or is not installed.
pub fn open(target: &Target, setting: &Setting) -> Result<Box<dyn Database>, String> {
    open_for(target, setting, Wishes::default())
}

/// Opens the database of a target, with wishes.
///
/// # Errors
/// When there is none, or a wish cannot be granted.
pub fn open_for(target: &Target, setting: &Setting, wishes: Wishes<'_>) -> Result<Box<dyn Database>, String> {
    let started = matches!(target, Target::StartPostgres | Target::StartMariadb | Target::StartMysql);
    if wishes.binaries.is_some() && !started {
        return Err("binaries are only for servers that --start starts".to_owned());
    }
    let of_version = wishes.version.map(|version| programs(target, version)).transpose()?;
    let binaries = of_version.as_deref().or(wishes.binaries);
    if !wishes.harms.is_empty() && !started {
        return Err("faults are only for servers that --start has started".to_owned());
    }
    let limit = wishes.statement_timeout;
    if wishes.promises.is_some() && !matches!(target, Target::Exec(_)) {
        return Err("--promises is for exec: alone; of the others it is known".to_owned());
    }
    if limit.is_some()
        && !started
        && !matches!(target, Target::Postgres(_) | Target::Mysql(_) | Target::Exec(_))
    {
        return Err("a statement timeout is only for servers; this runs inside the program".to_owned());
    }
    let relayed = wishes.harms.contains(&Harm::Disconnect);
    Ok(match target {
        Target::Sqlite(None, mode) => Box::new(SqliteDatabase::temporary(*mode)?),
        Target::Sqlite(Some(path), mode) => alone(path, || Ok(Box::new(SqliteDatabase::file(path, *mode))))?,
        Target::Store(kind, None) => crate::stores::open(*kind, None)?,
        Target::Store(kind, Some(path)) => {
            path.parent().map_or(Ok(()), fs::create_dir_all).map_err(|error| error.to_string())?;
            alone(path, || crate::stores::open(*kind, Some(path)))?
        }
        Target::Sim(protocol, faults) => Box::new(SimDatabase::new(&SimConfig {
            faults: faults.clone(),
            ..SimConfig::of(setting, *protocol)
        })),
        Target::Postgres(url) if wishes.joins => Box::new(PostgresDatabase::open(url, limit)?),
        Target::Mysql(url) if wishes.joins => Box::new(MysqlDatabase::open(url, limit)?),
        Target::Postgres(url) => Box::new(PostgresDatabase::open(url, limit)?.alone()?),
        Target::Mysql(url) => Box::new(MysqlDatabase::open(url, limit)?.alone()?),
        Target::Exec(command) => crate::exec::open(command, wishes.promises, limit)?,
        Target::StartPostgres => {
            let server = Server::postgres_in(binaries)?;
            Started::open(server, relayed, |url| PostgresDatabase::open(url, limit))?
        }
        Target::StartMariadb | Target::StartMysql => {
            let mysql = *target == Target::StartMysql;
            let server = if mysql { Server::mysql_in } else { Server::mariadb_in };
            Started::open(server(binaries)?, relayed, |url| MysqlDatabase::open(url, limit))?
        }
    })
}

/// The folder with a version of the server that is to be started.
fn programs(target: &Target, version: &str) -> Result<PathBuf, String> {
    match target {
        Target::StartPostgres => folder_of_version("postgres", version),
        Target::StartMariadb => folder_of_version("mariadb", version),
        Target::StartMysql => folder_of_version("mysql", version),
        _ => Err("a version is only for servers that --start starts".to_owned()),
    }
}

impl Default for Target {
    /// What needs no set-up.
    fn default() -> Self {
        Target::Sqlite(None, Mode::default())
    }
}

impl FromStr for Target {
    type Err = String;

    /// `sqlite`, `sqlite:PATH`, `sqlite:PATH?begin=immediate&cache=shared`, `fjall`, `redb:FOLDER`,
    /// `sim:PROTOCOL[+FAULT[=PROBABILITY]]…`, `postgres://…`, `host=… user=…` as libpq reads it,
    /// `mysql://…`, `exec:COMMAND`.
    fn from_str(text: &str) -> Result<Self, String> {
        let scheme = text.split(':').next().unwrap_or_default();
        let rest = &text[(scheme.len() + 1).min(text.len())..];
        match scheme {
            "sqlite" => sqlite(rest),
            "sim" => simulated(rest),
            "exec" if !rest.trim().is_empty() => Ok(Target::Exec(rest.to_owned())),
            "postgres" | "postgresql" if text.contains("://") => Ok(Target::Postgres(text.to_owned())),
            "mysql" | "mariadb" if text.contains("://") => Ok(Target::Mysql(text.to_owned())),
            _ if conninfo::is_one(text) => conninfo::url(text).map(Target::Postgres),
            name => match Kind::named(name) {
                Some(kind) => Ok(Target::Store(kind, (!rest.is_empty()).then(|| PathBuf::from(rest)))),
                None => Err(no_target(text)),
            },
        }
    }
}

fn sqlite(text: &str) -> Result<Target, String> {
    let (path, options) = text.split_once('?').unwrap_or((text, ""));
    let path = (!path.is_empty()).then(|| PathBuf::from(path));
    Ok(Target::Sqlite(path, options.parse()?))
}

fn no_target(text: &str) -> String {
    let stores = Kind::ALL.map(|kind| format!("{kind}[:PATH]")).join(", ");
    let text = without_secrets(text);
    if let Some(meant) = meant(&text) {
        return format!("`{text}` is not a target; did you mean {meant}?");
    }
    format!(
        "`{text}` is not a target; the targets are sqlite[:FILE][?OPTIONS], {stores}, postgres://…, \"host=… user=…\", mysql://…, exec:COMMAND and sim:PROTOCOL[+FAULT]"
    )
}

/// What people mean by a name that is almost a target.
fn meant(text: &str) -> Option<String> {
    let server = |name: &str, scheme: &str| {
        format!("--start {name}, which starts a private server, or {scheme}://USER:PASSWORD@HOST/DATABASE")
    };
    let is_file = [".db", ".sqlite", ".sqlite3", ".db3"].iter().any(|end| text.ends_with(end));
    match text {
        "postgres" | "postgresql" | "pg" => Some(server("postgres", "postgres")),
        "mysql" => Some(server("mysql", "mysql")),
        "mariadb" => Some(server("mariadb", "mysql")),
        _ if is_file => Some(format!("sqlite:{text}")),
        _ => None,
    }
}

fn simulated(text: &str) -> Result<Target, String> {
    let mut parts = text.split('+');
    let name = parts.next().unwrap_or_default();
    let protocol = match name {
        "si" => Protocol::SiFuw,
        _ => name.parse().map_err(|error: margay_levels::UnknownName| {
            format!("{error}; there are {}", Protocol::ALL.map(Protocol::name).join(", "))
        })?,
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

/// A text without the passwords that may be in it: `scheme://user:***@host`, `password=***`. What
/// is printed must not tell them.
#[must_use]
pub fn without_secrets(text: &str) -> String {
    let mut shown = without_login(text);
    for key in ["password", "passwd", "pwd", "pass"] {
        let mut from = 0;
        while let Some(at) = shown[from..].to_ascii_lowercase().find(key) {
            from += at + key.len();
            let Some(value) = shown[from..].trim_start().strip_prefix('=') else { continue };
            let value = value.trim_start();
            let start = shown.len() - value.len();
            let end = start + secret_length(value);
            shown.replace_range(start..end, "***");
        }
    }
    shown
}

fn without_login(text: &str) -> String {
    let hidden = || {
        let (login, host) = text.rsplit_once('@')?;
        let user = login.find("://").map_or(0, |at| at + 3);
        let colon = user + login[user..].find(':')?;
        Some(format!("{}:***@{host}", &login[..colon]))
    };
    hidden().unwrap_or_else(|| text.to_owned())
}

/// How long the value of an option is, in quotes or not.
fn secret_length(value: &str) -> usize {
    match value.strip_prefix('\'') {
        Some(quoted) => {
            let mut escaped = false;
            let end = quoted.find(|c| {
                let ends = c == '\'' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            end.map_or(value.len(), |at| at + 2)
        }
        None => value.find(['&', ' ']).unwrap_or(value.len()),
    }
}

impl fmt::Display for Target {
    /// As the command line says it, but for passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Sqlite(None, mode) if *mode == Mode::default() => f.write_str("sqlite"),
            Target::Sqlite(path, mode) => {
                write!(f, "sqlite:{}{mode}", path.as_deref().unwrap_or(Path::new("")).display())
            }
            Target::Store(kind, None) => write!(f, "{kind}"),
            Target::Store(kind, Some(path)) => write!(f, "{kind}:{}", path.display()),
            Target::Sim(protocol, faults) => {
                write!(f, "sim:{protocol}")?;
                faults.iter().try_for_each(|(fault, ppm)| write!(f, "+{fault}={ppm}"))
            }
            Target::Postgres(url) | Target::Mysql(url) => f.write_str(&without_secrets(url)),
            Target::Exec(command) => write!(f, "exec:{}", without_secrets(command)),
            Target::StartPostgres => f.write_str("--start postgres"),
            Target::StartMariadb => f.write_str("--start mariadb"),
            Target::StartMysql => f.write_str("--start mysql"),
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
            "sqlite:?begin=immediate&cache=shared",
            "sqlite:x?begin=exclusive",
            "redb",
            "fjall:x",
            "duckdb:x",
            "sim:si-fuw+lost-update=0.05",
            "postgres://h/d",
            "mysql://h/d",
            "exec:python3 store.py",
        ] {
            assert_eq!(text.parse::<Target>().map(|target| target.to_string()), Ok(text.to_owned()));
        }
        let secret: Target = "mysql://me:secret@h:1/d".parse().expect("a target");
        assert_eq!(secret.to_string(), "mysql://me:***@h:1/d");
        let queried: Target =
            "postgres://h/d?user=u&password=secret&sslmode=disable".parse().expect("a target");
        assert_eq!(queried.to_string(), "postgres://h/d?user=u&password=***&sslmode=disable");
        assert_eq!("sim:si".parse(), Ok(Target::Sim(Protocol::SiFuw, Vec::new())));
    }

    #[test]
    fn what_is_almost_a_target_is_told_how_to_become_one() {
        for (text, hint) in [
            ("mydb.sqlite", "did you mean sqlite:mydb.sqlite?"),
            ("postgres", "did you mean --start postgres, "),
            ("mariadb", "or mysql://USER:PASSWORD@HOST/DATABASE?"),
            ("sim:foo", "there are serial, "),
            ("oracle", "the targets are sqlite[:FILE]"),
        ] {
            let told = text.parse::<Target>().expect_err("not a target");
            assert!(told.contains(hint), "{told}");
        }
    }

    /// A regression: an address in libpq's words was no target, and was printed as it was.
    #[test]
    fn no_password_is_ever_printed() {
        for text in [
            "host=h user=u password=secret dbname=d",
            "host=h password='sec ret\\'secret' user=u",
            "postgres://u:secret@h/d?PASSWORD=secret",
            "oracle://u:secret@h",
            "u:secret@h",
            "hots=h password = 'secret' pwd=secret",
            "host=h password=secret port",
        ] {
            let shown = match text.parse::<Target>() {
                Ok(target) => target.to_string(),
                Err(why) => why,
            };
            assert!(!shown.contains("secret"), "{text}: {shown}");
        }
        let target: Target = "host=h port=7 user=u password=s dbname='a b'".parse().expect("a target");
        let url = "postgres:///?host=h&port=7&user=u&password=s&dbname=a%20b";
        assert_eq!(target, Target::Postgres(url.to_owned()));
        assert_eq!(target.to_string(), "postgres:///?host=h&port=7&user=u&password=***&dbname=a%20b");
    }

    #[test]
    fn what_is_no_target_says_what_is() {
        for (text, part) in [
            ("oracle:x", "not a target"),
            ("", "not a target"),
            ("postgres", "not a target"),
            ("host=h port", "libpq"),
            ("sqlite:x?begin=now", "no option"),
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
