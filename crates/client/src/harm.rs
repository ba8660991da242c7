//! What can be done to a server while clients use it.

use std::fmt;
use std::str::FromStr;

/// What can be done to a server while clients use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Harm {
    /// It is killed without a warning, and started again.
    Kill,
    /// It stops for a while.
    Pause,
    /// A client's connection is cut.
    Disconnect,
}

impl Harm {
    /// Every harm.
    pub const ALL: [Harm; 3] = [Harm::Kill, Harm::Pause, Harm::Disconnect];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Harm::Kill => "kill",
            Harm::Pause => "pause",
            Harm::Disconnect => "disconnect",
        }
    }
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Harm {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Harm::ALL.into_iter().find(|harm| harm.name() == name);
        found.ok_or_else(|| {
            format!("`{name}` is no fault; there are {}", Harm::ALL.map(Harm::name).join(", "))
        })
    }
}
