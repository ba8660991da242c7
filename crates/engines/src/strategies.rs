//! Search strategies that can be switched off, by name: for measurements. No answer changes, but to
//! `unknown`.

#[cfg(feature = "sql")]
use margay_observe::Observe;
use margay_solve::SolveWith;
use margay_solve::strategy::{Strategies, Strategy};

use crate::Choice;

/// The names of all strategies that can be switched off, first those of observe, then those of
/// solve.
pub fn strategies() -> impl Iterator<Item = &'static str> {
    #[cfg(feature = "sql")]
    let observe = margay_observe::STRATEGIES.iter().map(|strategy| strategy.0);
    #[cfg(not(feature = "sql"))]
    let observe = std::iter::empty();
    observe.chain(Strategy::ALL.iter().map(|strategy| strategy.1))
}

impl Choice {
    /// The same engine without a strategy of [`strategies`].
    ///
    /// # Errors
    /// When the engine has no such strategy.
    pub fn without(self, strategy: &str) -> Result<Self, String> {
        let none = |engine: &str| format!("engine {engine} has no strategy {strategy}");
        match self {
            #[cfg(feature = "sql")]
            Choice::Observe(Observe { options }) => {
                let options = options.without(strategy).ok_or_else(|| none("observe"))?;
                Ok(Choice::Observe(Observe { options }))
            }
            #[cfg(feature = "sql")]
            Choice::Engine(engine) if engine.name() == "observe" => {
                Choice::Observe(Observe::DEFAULT).without(strategy)
            }
            Choice::Solve(SolveWith(on)) => {
                let found = Strategy::ALL.iter().find(|known| known.1 == strategy);
                let &(off, _) = found.ok_or_else(|| none("solve"))?;
                Ok(Choice::Solve(SolveWith(on.without(off))))
            }
            Choice::Engine(engine) if engine.name() == "solve" => {
                Choice::Solve(SolveWith(Strategies::ALL)).without(strategy)
            }
            _ => Err("only the engines observe and solve have strategies to switch off".to_owned()),
        }
    }
}
