//! What the engine may do, each switchable for comparison.

use margay_verdict::execution::Reading;

use crate::smt::Solver;

/// Who answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backend {
    /// The search of this crate.
    #[default]
    Search,
    /// The SMT solver that is installed.
    Smt,
    /// Z3.
    Z3,
    /// cvc5.
    Cvc5,
}

impl Backend {
    /// All, with their names on the command line.
    pub const ALL: [(Backend, &'static str); 4] =
        [(Backend::Search, "search"), (Backend::Smt, "smt"), (Backend::Z3, "z3"), (Backend::Cvc5, "cvc5")];

    /// The backend of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Backend> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|&(backend, _)| backend)
    }

    /// The solver that it runs.
    ///
    /// # Errors
    /// When it is not installed.
    pub fn solver(self) -> Result<Option<Solver>, String> {
        let wanted = match self {
            Backend::Search => return Ok(None),
            Backend::Smt => {
                let missing = "neither z3 nor cvc5 can be run: install one (Debian packages z3 and cvc5)";
                return Solver::installed().map(Some).ok_or_else(|| missing.to_owned());
            }
            Backend::Z3 => Solver::Z3,
            Backend::Cvc5 => Solver::Cvc5,
        };
        let name = wanted.name();
        let missing = || format!("{name} cannot be run: install it (Debian package {name})");
        wanted.is_there().then_some(Some(wanted)).ok_or_else(missing)
    }
}

/// Options of the engine. The defaults are the best known; every heuristic can be switched off to
/// see what it is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Who answers.
    pub backend: Backend,
    /// What `read-committed` lets a statement see.
    pub reading: Reading,
    /// Indexes on the columns that conditions compare.
    pub indexes: bool,
    /// How many recent states are kept at first; it grows when nothing fits. Without it, all are.
    pub window: Option<u32>,
    /// A transaction whose writes do not depend on what it saw leaves one concrete state, and is
    /// never run again.
    pub concrete: bool,
    /// The strongest choice first: what a serial execution would see.
    pub strongest_first: bool,
    /// A transaction that did not fit is not tried again before something that it looked at is
    /// written.
    pub learn: bool,
    /// How many lemmas about the order are learned at most, where neither time nor evidence gives
    /// it; without any, none is.
    pub lemmas: usize,
    /// How many proposals for the formula of a log are looked at, where initial values are not
    /// known, or there are too many orders and states to try; without any, there is no formula.
    pub clashes: usize,
    /// Where a short search finds nothing, looks for results that no row can ever give, whatever
    /// the order.
    pub invariants: bool,
    /// Where a short search finds nothing, looks for a few rows whose statements nothing explains
    /// before the whole log is asked.
    pub parts: bool,
    /// At `read-committed`, chooses again what earlier statements saw when a later one does not fit.
    pub repair: bool,
    /// Answers only what it sees at first sight: the most natural execution, or a result that no
    /// row can ever give.
    pub quick: bool,
    /// How many statements are executed at most in a search that goes back and forth, beyond two
    /// hundred for each operation of the history.
    pub steps: u64,
}

impl Options {
    /// The best known.
    pub const DEFAULT: Options = Options {
        backend: Backend::Search,
        reading: Reading::Item,
        indexes: true,
        window: Some(1024),
        concrete: true,
        strongest_first: true,
        learn: true,
        lemmas: 5_000,
        clashes: 20_000,
        invariants: true,
        parts: true,
        repair: true,
        quick: false,
        steps: 10_000_000,
    };
}

/// The name of a strategy, and the options without it.
pub type Strategy = (&'static str, fn(Options) -> Options);

/// The strategies that can be switched off, by name, and the options without each. None of them is
/// needed to be right: without one, answers take longer, or stay open.
pub const STRATEGIES: [Strategy; 10] = [
    ("invariants", |options| Options { invariants: false, ..options }),
    ("parts", |options| Options { parts: false, ..options }),
    ("lemmas", |options| Options { lemmas: 0, ..options }),
    ("formulas", |options| Options { clashes: 0, ..options }),
    ("repair", |options| Options { repair: false, ..options }),
    ("blocking", |options| Options { learn: false, ..options }),
    ("window", |options| Options { window: None, ..options }),
    ("concrete-state", |options| Options { concrete: false, ..options }),
    ("strongest-first", |options| Options { strongest_first: false, ..options }),
    ("indexes", |options| Options { indexes: false, ..options }),
];

impl Options {
    /// The same without a strategy of [`STRATEGIES`], if there is one of this name.
    #[must_use]
    pub fn without(self, strategy: &str) -> Option<Self> {
        STRATEGIES.iter().find(|known| known.0 == strategy).map(|known| (known.1)(self))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::DEFAULT
    }
}
