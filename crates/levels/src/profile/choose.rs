//! Which profile is meant: by a name, a file, what a history says of itself, and the level that is
//! asked for.

use std::fmt;

use super::{Found, Profile, all, fold, same_dbms, spelled, split_version, unknown};
use crate::{Level, UnknownName};

/// A database as it is named to a check: `postgresql-15`, `postgresql/repeatable-read`, or a
/// profile of one's own.
#[derive(Clone, PartialEq, Debug)]
pub enum Dbms {
    /// A DBMS, perhaps with a version and a level of its own.
    Named(String),
    /// A profile out of a file.
    Own(Box<Profile>),
}

/// Why no profile fits.
#[derive(Clone, PartialEq, Debug)]
pub enum NoProfile {
    /// Nothing has this name.
    Unknown(UnknownName),
    /// The DBMS does not promise the level.
    NotPromised {
        /// The row that is meant, or the DBMS where no row promises the level.
        profile: String,
        /// What was asked.
        level: Level,
        /// What the row, or each row, promises.
        promises: Vec<String>,
    },
}

impl fmt::Display for NoProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoProfile::Unknown(unknown) => unknown.fmt(f),
            NoProfile::NotPromised { profile, level, promises } => {
                write!(f, "{profile} does not promise {level}; it promises {}", promises.join(", "))
            }
        }
    }
}

impl std::error::Error for NoProfile {}

impl Dbms {
    /// A DBMS by its name.
    ///
    /// # Errors
    /// When there is no profile of it, or none of the level after the slash.
    pub fn named(name: &str) -> Result<Self, UnknownName> {
        if name.contains('/') {
            name.parse::<Found>()?;
        } else if !all().any(|profile| same_dbms(profile.dbms, name)) {
            return Err(unknown(name, &spelled(split_version(name.trim()).0)));
        }
        Ok(Dbms::Named(name.to_owned()))
    }

    /// The name, for messages.
    pub fn name(&self) -> String {
        match self {
            Dbms::Named(name) => name.clone(),
            Dbms::Own(profile) => profile.name(),
        }
    }

    /// The profile under which `asked` is verified.
    ///
    /// A level of the DBMS's own is the one after the slash; or else the one that the history was
    /// `recorded` at; or else the one that has the asked level's name; or else the one with the
    /// fewest mechanisms that promises it. A row that is named and does not promise what is asked
    /// is no answer: another row's mechanisms would be held against a database that never had them.
    ///
    /// # Errors
    /// When there is no such profile, or it does not promise the level.
    pub fn profile(&self, recorded: Option<&str>, asked: Level) -> Result<Profile, NoProfile> {
        let profile = match self {
            Dbms::Own(profile) => **profile,
            Dbms::Named(name) => *choose(name, recorded, asked)?,
        };
        match profile.promises(asked) {
            true => Ok(profile),
            false => Err(not_promised(profile.name(), asked, [&profile])),
        }
    }
}

fn choose(name: &str, recorded: Option<&str>, asked: Level) -> Result<&'static Profile, NoProfile> {
    let found = |name: &str| name.parse::<Found>().map(|Found(profile)| profile).map_err(NoProfile::Unknown);
    if name.contains('/') {
        return found(name);
    }
    if let Some(recorded) = recorded {
        return found(&format!("{name}/{recorded}"));
    }
    let (dbms, version) = split_version(name.trim());
    if let Some(same) = Profile::find(dbms, version, Some(asked.name())) {
        return Ok(same);
    }
    let mut rows: Vec<&Profile> = all().filter(|p| p.dbms == spelled(dbms)).collect();
    rows.retain(|p| Profile::find(dbms, version, Some(p.own_name)).is_some_and(|q| std::ptr::eq(*p, q)));
    let weakest = rows.iter().filter(|p| p.promises(asked)).min_by_key(|p| strength(p));
    match weakest {
        Some(profile) => Ok(profile),
        None if rows.is_empty() => Err(NoProfile::Unknown(unknown(name, &spelled(dbms)))),
        None => Err(not_promised(fold(dbms), asked, rows)),
    }
}

/// Of two rows, the one with fewer mechanisms accuses less.
fn strength(profile: &Profile) -> (bool, bool, Option<&Level>) {
    (profile.certifier.is_some(), profile.first_updater_wins, profile.promises.first())
}

fn not_promised<'a>(profile: String, level: Level, rows: impl IntoIterator<Item = &'a Profile>) -> NoProfile {
    let mut promised: Vec<Level> = rows.into_iter().flat_map(|row| row.promises).copied().collect();
    promised.sort_unstable();
    promised.dedup();
    let promises = promised.into_iter().map(|level| level.name().to_owned()).collect();
    NoProfile::NotPromised { profile, level, promises }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(name: &str, recorded: Option<&str>, asked: Level) -> Result<String, NoProfile> {
        Dbms::Named(name.to_owned()).profile(recorded, asked).map(|profile| profile.name())
    }

    #[test]
    fn the_row_is_the_named_one_the_recorded_one_or_the_weakest_that_promises() {
        use Level::*;
        let cases = [
            ("postgresql", None, Serializable, "postgresql/serializable"),
            ("postgresql-15", None, SnapshotIsolation, "postgresql/repeatable-read"),
            ("pg", None, ReadCommitted, "postgresql/read-committed"),
            ("pg/serializable", None, ReadCommitted, "postgresql/serializable"),
            ("pg", Some("SERIALIZABLE"), ReadCommitted, "postgresql/serializable"),
            ("innodb", None, Serializable, "mysql/serializable"),
            ("generic", None, StrictSerializable, "generic/strict-serializable"),
        ];
        for (name, recorded, asked, expected) in cases {
            assert_eq!(chosen(name, recorded, asked), Ok(expected.to_owned()), "{name} {asked}");
        }
    }

    #[test]
    fn what_is_not_promised_is_refused() {
        // MySQL has a level of this name, and it promises less than the name says.
        let error = chosen("mysql", None, Level::RepeatableRead).unwrap_err();
        assert_eq!(
            error.to_string(),
            "mysql/repeatable-read does not promise repeatable-read; it promises read-committed"
        );
        let error = chosen("postgresql", None, Level::StrictSerializable).unwrap_err();
        assert!(error.to_string().starts_with("postgresql does not promise"), "{error}");
        assert!(chosen("pg/read-committed", None, Level::Serializable).is_err());
        assert!(Dbms::named("postgre").is_err() && Dbms::named("pg/causal").is_err());
        assert!(Dbms::named("pg-15").is_ok() && Dbms::named("pg/serializable").is_ok());
        assert!(matches!(chosen("postgre", None, Level::Serializable), Err(NoProfile::Unknown(_))));
    }
}
