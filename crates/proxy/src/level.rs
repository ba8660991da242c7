//! PostgreSQL's own levels.

use margay_levels::Level;
use margay_levels::profile::Profile;

/// A level that PostgreSQL offers, the weakest first. READ UNCOMMITTED is READ COMMITTED there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum OwnLevel {
    /// Every statement takes its own snapshot.
    ReadCommitted,
    /// One snapshot for the transaction.
    RepeatableRead,
    /// The same, with a certifier.
    Serializable,
}

impl OwnLevel {
    const ALL: [OwnLevel; 3] = [OwnLevel::ReadCommitted, OwnLevel::RepeatableRead, OwnLevel::Serializable];

    /// Its name in SQL.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OwnLevel::ReadCommitted => "READ COMMITTED",
            OwnLevel::RepeatableRead => "REPEATABLE READ",
            OwnLevel::Serializable => "SERIALIZABLE",
        }
    }

    /// The only level that a text names, whatever else it says.
    #[must_use]
    pub fn named(text: &str) -> Option<OwnLevel> {
        let folded: String = text.chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
        let folded = folded.to_ascii_uppercase().replace("READ UNCOMMITTED", "READ COMMITTED");
        let folded = folded.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut named = Self::ALL.into_iter().filter(|level| folded.contains(level.name()));
        named.next().filter(|_| named.next().is_none())
    }

    /// What PostgreSQL does at this level.
    #[must_use]
    pub fn profile(self, version: &str) -> Option<&'static Profile> {
        Profile::find("postgresql", Some(version), Some(self.name()))
    }

    /// What PostgreSQL promises at this level.
    #[must_use]
    pub fn promise(self, version: &str) -> Option<Level> {
        self.profile(version)?.promises.first().copied()
    }
}
