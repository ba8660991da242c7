//! What exactly a certificate proves: not only which answer to which question, but under which
//! rules.
//!
//! Two certificates of one history may say `holds` and `violated` at one level and both be right,
//! if they read the history by different rules. So the rules stand in the file, and in everything
//! that shows an answer.

use margay_history::History;
use margay_levels::Level;
use margay_levels::definition::Family;
use margay_levels::profile::{self, Profile};
use margay_sql::Dialect;

use crate::certificate::{Breach, Certificate};
use crate::checker::Question;
use crate::execution::Reading;
use crate::mechanism::Mechanisms;
use crate::predicates::dialect;

/// The question, and the rules by which it was answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// What was asked.
    pub question: Question,
    /// What `read-committed` lets a statement see. At other levels both readings are the same.
    pub reading: Reading,
    /// What statements and conditions mean.
    pub dialect: Dialect,
    /// What statements were taken for.
    pub translation: Translation,
    /// The profile whose mechanisms are broken, for a breach that names one.
    pub profile: Option<String>,
}

/// What the statements of a history were taken for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Translation {
    /// The operations are as they were recorded.
    #[default]
    Recorded,
    /// SQL statements are executed.
    Executed,
    /// SQL statements are taken as reads and writes of rows.
    Rows {
        /// Each transaction sees one state, so that what it read once stays known to it.
        stable: bool,
        /// Statements that are more than that are taken for as much as is certain.
        partly: bool,
    },
    /// What is not understood, or was not seen, is left out: tables, columns, reads.
    Projected {
        /// Each transaction sees one state, so that what it read once stays known to it.
        stable: bool,
        /// Nothing had to be left out.
        whole: bool,
    },
}

impl Translation {
    /// All, with their names in files.
    pub const ALL: [(Translation, &'static str); 10] = [
        (Translation::Recorded, "recorded"),
        (Translation::Executed, "executed"),
        (Translation::Rows { stable: true, partly: false }, "rows-stable"),
        (Translation::Rows { stable: false, partly: false }, "rows-changing"),
        (Translation::Rows { stable: true, partly: true }, "rows-stable-partly"),
        (Translation::Rows { stable: false, partly: true }, "rows-changing-partly"),
        (Translation::Projected { stable: true, whole: true }, "projected-stable-whole"),
        (Translation::Projected { stable: false, whole: true }, "projected-changing-whole"),
        (Translation::Projected { stable: true, whole: false }, "projected-stable"),
        (Translation::Projected { stable: false, whole: false }, "projected-changing"),
    ];

    /// How statements become rows for a question that is answered by a certificate of this kind.
    #[must_use]
    pub fn to_rows(question: Question, certificate: &Certificate) -> Self {
        match certificate.breach() {
            Some(breach) => Translation::Rows { stable: breach.mechanisms.sees_one_state(), partly: true },
            None => Translation::Rows { stable: sees_one_state(question), partly: false },
        }
    }

    /// How a projection was made for a question.
    #[must_use]
    pub fn to_part(question: Question, whole: bool) -> Self {
        Translation::Projected { stable: sees_one_state(question), whole }
    }

    /// Whether the history of the certificate is not the recorded one.
    #[must_use]
    pub fn is_of_rows(self) -> bool {
        matches!(self, Translation::Rows { .. } | Translation::Projected { .. })
    }

    /// Whether each transaction was taken to see one state.
    #[must_use]
    pub fn is_stable(self) -> bool {
        matches!(self, Translation::Rows { stable: true, .. } | Translation::Projected { stable: true, .. })
    }

    /// The name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }

    /// The translation of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(translation, _)| *translation)
    }

    /// For people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Translation::Recorded => "operations as recorded",
            Translation::Executed => "statements executed",
            Translation::Rows { stable: true, partly: false } => {
                "statements taken as reads and writes of rows; a transaction sees one state"
            }
            Translation::Rows { stable: false, partly: false } => {
                "statements taken as reads and writes of rows; each sees its own state"
            }
            Translation::Rows { stable: true, partly: true } => {
                "statements taken as reads and writes of rows as far as certain; a transaction sees one state"
            }
            Translation::Rows { stable: false, partly: true } => {
                "statements taken as reads and writes of rows as far as certain; each sees its own state"
            }
            Translation::Projected { whole: true, .. } => "unknown initial rows settled by what was read",
            Translation::Projected { whole: false, .. } => {
                "what is not understood or was not seen is left out: tables, columns, reads"
            }
        }
    }
}

/// Whether each transaction sees one state, where the level holds.
fn sees_one_state(question: Question) -> bool {
    matches!(question.level.family(), Family::Serial | Family::Snapshot)
}

impl Claim {
    /// What a certificate of a history proves. `rows` says how statements became the operations of
    /// this history, if they did.
    #[must_use]
    pub fn of(
        history: &History,
        question: Question,
        rows: Option<Translation>,
        certificate: &Certificate,
    ) -> Self {
        let recorded =
            if is_of_statements(certificate) { Translation::Executed } else { Translation::Recorded };
        Self {
            question,
            reading: certificate.reading(),
            dialect: dialect(history),
            translation: rows.unwrap_or(recorded),
            profile: certificate.breach().and_then(|breach| breach.profile.clone()),
        }
    }

    /// Whether a certificate of this kind may rest on the translation: a transaction sees one state
    /// only where the level or the mechanisms say so, and a history that was translated in part
    /// shows less than what happened.
    ///
    /// # Errors
    /// Why it may not.
    pub(crate) fn allows_translation(&self, certificate: &Certificate) -> Result<(), &'static str> {
        if let Translation::Projected { stable, whole } = self.translation {
            return match certificate.breach() {
                Some(_) => Err("mechanisms are not judged by a projection"),
                None if stable && !sees_one_state(self.question) => {
                    Err("the translation assumes that a transaction sees one state")
                }
                None if !whole && certificate.proves() == "holds" => {
                    Err("what holds for a part of a history need not hold for the whole")
                }
                None if self.question.uses_instants() => Err("a projection says nothing of instants"),
                None => Ok(()),
            };
        }
        let usual = Translation::to_rows(self.question, certificate);
        let (Translation::Rows { stable, partly }, Translation::Rows { stable: may, partly: must }) =
            (self.translation, usual)
        else {
            return Ok(());
        };
        match (stable && !may, partly == must) {
            (false, true) => Ok(()),
            (true, _) => Err("the translation assumes that a transaction sees one state"),
            (_, false) => Err("a proof of this kind cannot rest on this translation"),
        }
    }

    /// What the certificate proves, in words that follow its verdict: `holds under serializable`. A
    /// breach of mechanisms is not worded as a violation of a level, which it need not be.
    #[must_use]
    pub fn sentence(&self, certificate: &Certificate) -> String {
        let assumed = match self.question {
            question if question.uses_instants() => " with instants",
            question if question.real_time => " with real time",
            _ => "",
        };
        match certificate.breach() {
            Some(breach) => Standing::of(breach).sentence(),
            None => format!("{} under {}{assumed}", certificate.proves(), self.question.level.name()),
        }
    }

    /// The rules, in words.
    #[must_use]
    pub fn rules(&self) -> String {
        // At other levels both readings are the same.
        let reading = match self.reading {
            _ if self.question.level != Level::ReadCommitted => "",
            Reading::Item => "; reading item (each row as of some committed state)",
            Reading::Statement => "; reading statement (one committed state per statement)",
        };
        format!("dialect {}; {}{reading}", self.dialect.name(), self.translation.words())
    }
}

/// Whether the certificate is about SQL statements that are executed.
fn is_of_statements(certificate: &Certificate) -> bool {
    match certificate {
        Certificate::Execution(_) | Certificate::Unexplained(_) | Certificate::Invariant(_) => true,
        Certificate::Both(both) => is_of_statements(&both[0]),
        _ => false,
    }
}

/// Whose mechanisms a breach is about.
#[derive(Clone, PartialEq, Debug)]
pub enum Standing {
    /// The profile that is named has the mechanisms.
    Profile(Box<Profile>),
    /// No profile is named that has them.
    Others {
        /// The name in the certificate: of a profile from a file, of a simulated database, or a
        /// wrong one.
        named: Option<String>,
        /// The profiles that have the mechanisms.
        having: Vec<String>,
    },
}

impl Standing {
    /// The profile that a breach names, if its mechanisms are those; or else all that have them.
    #[must_use]
    pub fn of(breach: &Breach) -> Self {
        let having = || profile::all().filter(|row| Mechanisms::of(row) == breach.mechanisms);
        match having().find(|row| breach.profile.as_deref() == Some(row.name().as_str())) {
            Some(row) => Standing::Profile(Box::new(*row)),
            None => {
                let mut names: Vec<String> = having().map(Profile::name).collect();
                names.dedup();
                Standing::Others { named: breach.profile.clone(), having: names }
            }
        }
    }

    /// What a breach of these mechanisms says.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Standing::Profile(profile) => {
                format!("not possible for {} as its profile describes it", profile.title())
            }
            Standing::Others { named: Some(name), .. } => {
                format!("not possible for a database with the mechanisms that the certificate gives {name}")
            }
            Standing::Others { named: None, .. } => {
                "not possible for a database with the mechanisms of the certificate".to_owned()
            }
        }
    }

    /// What to know about the mechanisms.
    #[must_use]
    pub fn note(&self) -> String {
        let level = "a breach of mechanisms is no violation of a level";
        match self {
            Standing::Profile(profile) => {
                format!("the mechanisms are those of the profile {}; {level}", profile.name())
            }
            Standing::Others { having, .. } if having.is_empty() => {
                format!("no profile has these mechanisms; {level}")
            }
            Standing::Others { having, .. } => {
                let having = having.join(", ");
                format!(
                    "the certificate names no profile that has these mechanisms; these have them: {having}; {level}"
                )
            }
        }
    }
}
