//! The databases' own levels.

use margay_levels::Level;
use margay_levels::profile::Profile;

/// A level that a database offers, the weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum OwnLevel {
    /// Every statement sees what is there. In PostgreSQL it is READ COMMITTED.
    ReadUncommitted,
    /// Every statement takes its own snapshot.
    ReadCommitted,
    /// One snapshot for the transaction.
    RepeatableRead,
    /// The same, with a certifier.
    Serializable,
}

impl OwnLevel {
    const ALL: [OwnLevel; 4] = [
        OwnLevel::ReadUncommitted,
        OwnLevel::ReadCommitted,
        OwnLevel::RepeatableRead,
        OwnLevel::Serializable,
    ];

    /// Its name in SQL.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OwnLevel::ReadUncommitted => "READ UNCOMMITTED",
            OwnLevel::ReadCommitted => "READ COMMITTED",
            OwnLevel::RepeatableRead => "REPEATABLE READ",
            OwnLevel::Serializable => "SERIALIZABLE",
        }
    }

    /// The only level that a text of PostgreSQL names, whatever else it says.
    #[must_use]
    pub fn named(text: &str) -> Option<OwnLevel> {
        match Self::named_in_mysql(text) {
            Some(OwnLevel::ReadUncommitted) => Some(OwnLevel::ReadCommitted),
            other => other,
        }
    }

    /// The only level that a text of MySQL names.
    #[must_use]
    pub fn named_in_mysql(text: &str) -> Option<OwnLevel> {
        let folded: String = text.chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
        let folded = folded.to_ascii_uppercase();
        let folded = folded.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut named = Self::ALL.into_iter().filter(|level| folded.contains(level.name()));
        named.next().filter(|_| named.next().is_none())
    }

    /// What a level that is not known may be, at worst.
    #[must_use]
    pub fn weakest(dbms: &str) -> OwnLevel {
        if dbms.starts_with("postgresql") { OwnLevel::ReadCommitted } else { OwnLevel::ReadUncommitted }
    }

    /// What a database, such as `postgresql-15.14`, does at this level.
    #[must_use]
    pub fn profile(self, dbms: &str) -> Option<&'static Profile> {
        let (dbms, version) = dbms.split_once('-')?;
        Profile::find(dbms, Some(version), Some(self.name()))
    }

    /// What it promises at this level.
    #[must_use]
    pub fn promise(self, dbms: &str) -> Option<Level> {
        match self.profile(dbms) {
            Some(profile) => profile.promises.first().copied(),
            None if self == OwnLevel::ReadUncommitted => Some(Level::ReadUncommitted),
            None => None,
        }
    }
}
