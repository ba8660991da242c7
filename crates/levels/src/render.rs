//! Tables and explanations as plain text, at most [`WIDTH`] columns wide, for the command line.
//!
//! `docs/LEVELS.md` and `docs/REFERENCES.md` are made by [`markdown`], from the same data.

mod explain;
pub mod markdown;
mod text;

pub use explain::{explain, suggestions};

use crate::anomaly::Kind;
use crate::profile::{self, Profile};
use crate::{Anomaly, Level};
use text::{Table, list};

/// No line is longer than this many characters.
pub const WIDTH: usize = 100;

/// The lattice of levels, drawn, and one line on each level.
pub fn levels_table() -> String {
    let mut table = Table::new(34, &["level", "order", "means"]);
    for level in Level::ALL {
        table.row([
            level.name().to_owned(),
            order_word(level).to_owned(),
            level.definition().summary.to_owned(),
        ]);
    }
    format!("{}\n{}", &LATTICE[1..], table.render(WIDTH))
}

/// The lattice, strongest on top. A level implies whatever it is joined to below.
pub(crate) const LATTICE: &str = "\n                          strict-serializable
                             │            │
       strong-session-serializable   strict-snapshot-isolation
            │                │            │
       serializable          └──────┬─────┘
         │       │   strong-session-snapshot-isolation
         │       │       │          │            │
         │    snapshot-isolation  prefix  parallel-snapshot
         │            │             └─────┬──────┘
  repeatable-read     │                causal
         │            │                   │
         │            │              read-atomic
         │            │                   │
         │            │           be-read-committed
         └────────────┴────────┬──────────┘
                        read-committed
                               │
                       read-uncommitted
";

fn order_word(level: Level) -> &'static str {
    match (level.real_time(), level.session_order()) {
        (true, _) => "real time",
        (false, true) => "session",
        (false, false) => "-",
    }
}

/// Every anomaly with the weakest levels that forbid it.
pub fn anomalies_table() -> String {
    let mut out = String::new();
    for (title, wanted) in SECTIONS {
        let wanted: Vec<Anomaly> = Anomaly::ALL.iter().copied().filter(|a| wanted(a.entry().kind)).collect();
        let searches = wanted.iter().all(|a| a.entry().kind == Kind::Search);
        let table = if searches { narrow_section(&wanted) } else { wide_section(&wanted) };
        out.push_str(&format!("{title}\n\n{table}\n"));
    }
    out
}

fn wide_section(anomalies: &[Anomaly]) -> String {
    let mut table = Table::new(34, &["anomaly", "ruled out", "summary"]);
    for &a in anomalies {
        table.row([a.name().to_owned(), ruled_out(a), a.entry().summary.clone()]);
    }
    table.render(WIDTH)
}

/// Names as long as these leave no room for a third column.
fn narrow_section(anomalies: &[Anomaly]) -> String {
    let mut table = Table::new(34, &["anomaly", "summary"]);
    for &a in anomalies {
        table.row([a.name().to_owned(), format!("{}; rules out {}", a.entry().summary, ruled_out(a))]);
    }
    table.render(WIDTH)
}

type Section = (&'static str, fn(Kind) -> bool);

/// The parts of the table of anomalies.
pub(crate) const SECTIONS: [Section; 6] = [
    ("Cycles of dependencies", |k| matches!(k, Kind::Cycle(_))),
    ("Seen without a cycle", |k| k == Kind::Local),
    ("Unions, and phenomena that histories alone do not show", |k| k == Kind::Group),
    ("Some cycle exists, and no smaller name fits", |k| k == Kind::Search),
    ("Violations of a database's own mechanisms (they contradict a profile, not a level)", |k| {
        k == Kind::Mechanism
    }),
    ("No violations, but ambiguities", |k| k == Kind::Ambiguity),
];

pub(crate) fn ruled_out(anomaly: Anomaly) -> String {
    match anomaly.weakest_forbidding().as_slice() {
        [] => "-".to_owned(),
        levels => list(levels),
    }
}

/// Every profile: its mechanisms and what it promises.
pub fn profiles_table() -> String {
    let mut table = Table::new(10, &["profile", "CR", "ME", "FUW", "SC", "promises"]);
    for p in profile::all() {
        table.row(profile_cells(p));
    }
    let legend = "CR consistent read: where the snapshot is taken. ME mutual exclusion: what a lock covers. FUW first \
                  updater wins. SC serialization certifier. * the DBMS's default level. A version such as \
                  postgresql-15 may follow the name of the DBMS.";
    format!("{}\n{}", table.render(WIDTH), text::wrap(legend, WIDTH, ""))
}

/// One profile as a row: name, the four mechanisms, promises.
pub(crate) fn profile_cells(p: &Profile) -> [String; 6] {
    let since: Vec<String> = p.since.iter().map(u32::to_string).collect();
    let since = if since.is_empty() { String::new() } else { format!(" (from {})", since.join(".")) };
    let or_dash = |word: Option<&'static str>| word.unwrap_or("-").to_owned();
    [
        format!("{}{}{since}", p.name(), if p.default { "*" } else { "" }),
        or_dash(p.consistent_read.map(|s| s.name())),
        or_dash(p.mutual_exclusion.map(|g| g.name())),
        or_dash(p.first_updater_wins.then_some("yes")),
        or_dash(p.certifier.map(|c| c.name())),
        list(p.promises),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn narrow(text: &str) {
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
            assert_eq!(line.trim_end(), line, "trailing blanks: {line:?}");
        }
    }

    #[test]
    fn tables_are_narrow_and_complete() {
        let (levels, anomalies, profiles) = (levels_table(), anomalies_table(), profiles_table());
        for text in [&levels, &anomalies, &profiles] {
            narrow(text);
        }
        for level in Level::ALL {
            assert!(LATTICE.contains(level.name()), "{level} is not drawn");
            assert!(levels.contains(level.definition().summary.split(' ').next().unwrap_or("")));
        }
        for a in Anomaly::ALL {
            assert!(anomalies.contains(a.name()), "{a}");
        }
        for p in profile::all() {
            assert!(profiles.contains(p.dbms), "{p}");
        }
    }

    #[test]
    fn everything_is_explained_narrowly() {
        let names = Level::ALL.iter().map(|l| l.name().to_owned());
        let names = names.chain(Anomaly::ALL.iter().map(|a| a.name().to_owned()));
        let names = names.chain(crate::Model::ALL.iter().map(|m| m.name().to_owned()));
        for name in names.chain(profile::all().map(Profile::name)) {
            let text = explain(&name).unwrap_or_else(|| panic!("{name} is not explained"));
            narrow(&text);
            assert!(text.contains("Sources"), "{name}: {text}");
        }
        assert_eq!(explain("no-such-thing"), None);
        assert!(suggestions("writeskew").contains(&"write-skew".to_owned()));
        assert!(suggestions("postgresql/serialisable").contains(&"postgresql/serializable".to_owned()));
    }
}
