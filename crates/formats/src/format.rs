//! The formats by name.

use std::fmt;
use std::str::FromStr;

/// A history format.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// The native JSON lines.
    Margay,
    /// The compact binary form of the same content.
    MargayBin,
    /// Jepsen's and Elle's operations in EDN.
    Edn,
    /// The JSON of elle-cli: one array, or one operation per line.
    ElleJson,
    /// The lines of PolySI, Plume, IsoVista and MTC.
    Text,
    /// AWDIT's test form.
    Awdit,
    /// A directory of Cobra logs.
    Cobra,
    /// The `history.bincode` of dbcop (OOPSLA'19).
    Dbcop,
    /// The JSON of dbcop's main branch.
    DbcopJson,
    /// The `.hist` text of dbcop's main branch.
    DbcopHist,
    /// A directory of Vbox logs.
    Vbox,
    /// A directory of Viper JSON logs.
    Viper,
    /// The JSON of Chronos and Aion.
    Chronos,
    /// A directory of Leopard traces.
    Leopard,
    /// The text logs of old Jepsen, which Porcupine's etcd logs are.
    JepsenLog,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 15] = [
        Format::Margay,
        Format::MargayBin,
        Format::Edn,
        Format::ElleJson,
        Format::Text,
        Format::Awdit,
        Format::Cobra,
        Format::Dbcop,
        Format::DbcopJson,
        Format::DbcopHist,
        Format::Vbox,
        Format::Viper,
        Format::Chronos,
        Format::Leopard,
        Format::JepsenLog,
    ];

    /// The format's name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Margay => "margay",
            Format::MargayBin => "margay-bin",
            Format::Edn => "edn",
            Format::ElleJson => "elle-json",
            Format::Text => "text",
            Format::Awdit => "awdit",
            Format::Cobra => "cobra",
            Format::Dbcop => "dbcop",
            Format::DbcopJson => "dbcop-json",
            Format::DbcopHist => "dbcop-hist",
            Format::Vbox => "vbox",
            Format::Viper => "viper",
            Format::Chronos => "chronos",
            Format::Leopard => "leopard",
            Format::JepsenLog => "jepsen-log",
        }
    }

    /// What the format is, in a few words.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Format::Margay => "native JSON lines",
            Format::MargayBin => "native binary form",
            Format::Edn => "Jepsen and Elle operations in EDN",
            Format::ElleJson => "JSON of elle-cli",
            Format::Text => "lines of PolySI, Plume, IsoVista, MTC",
            Format::Awdit => "AWDIT's test form",
            Format::Cobra => "directory of Cobra logs",
            Format::Dbcop => "dbcop's history.bincode",
            Format::DbcopJson => "dbcop's JSON",
            Format::DbcopHist => "dbcop's .hist text",
            Format::Vbox => "directory of Vbox logs",
            Format::Viper => "directory of Viper logs",
            Format::Chronos => "JSON of Chronos and Aion",
            Format::Leopard => "directory of Leopard traces",
            Format::JepsenLog => "text logs of old Jepsen, Porcupine's etcd logs",
        }
    }

    /// Whether Margay writes it; it reads all of them.
    #[must_use]
    pub fn can_write(self) -> bool {
        !matches!(
            self,
            Format::DbcopJson
                | Format::DbcopHist
                | Format::Viper
                | Format::Chronos
                | Format::Leopard
                | Format::JepsenLog
        )
    }

    /// The extensions that stand for it in the name of a file; its own name is one too.
    #[must_use]
    pub fn extensions(self) -> &'static [&'static str] {
        match self {
            Format::Margay => &["jsonl", "ndjson"],
            Format::MargayBin => &["mgb"],
            Format::Edn => &[],
            Format::ElleJson => &["json"],
            Format::Text => &["txt"],
            Format::Dbcop => &["bincode"],
            Format::DbcopHist => &["hist"],
            _ => &[],
        }
    }

    /// Whether a history in this format is a directory.
    #[must_use]
    pub fn is_directory(self) -> bool {
        matches!(self, Format::Cobra | Format::Vbox | Format::Viper | Format::Leopard)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Format::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            let near = crate::suggest::nearest(name, Format::ALL.iter().map(|format| format.name()));
            match near {
                Some(near) => format!("unknown format {name:?}; did you mean {near:?}?"),
                None => {
                    let all: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
                    format!("unknown format {name:?}; known are {}", all.join(", "))
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_of_one_format_each() {
        for format in Format::ALL {
            for extension in format.extensions().iter().chain([&format.name()]) {
                let path = format!("h.{extension}");
                assert_eq!(Format::from_extension(path.as_ref()), Some(format), "{path}");
                assert_eq!(Format::from_extension(format!("{path}.zst").as_ref()), Some(format), "{path}");
            }
        }
        assert_eq!(Format::from_extension("h.parquet".as_ref()), None);
    }

    #[test]
    fn names_lead_back() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
        assert_eq!(
            "margy".parse::<Format>().unwrap_err(),
            "unknown format \"margy\"; did you mean \"margay\"?"
        );
        assert!("zzzzzzz".parse::<Format>().unwrap_err().contains("known are margay, "));
    }
}
