//! The engine that executes SQL statements, with its options.

pub use margay_observe::Backend;
use margay_observe::Observe;
use margay_verdict::execution::Reading;

use crate::Choice;

/// The engine observe, with what `read-committed` lets a statement see, and who answers.
///
/// # Errors
/// When the backend needs a program that is not installed.
pub fn observe_with(reading: Reading, backend: Backend) -> Result<Choice, String> {
    const fn of(reading: Reading, backend: Backend) -> Observe {
        let options = margay_observe::Options::DEFAULT;
        Observe { options: margay_observe::Options { reading, backend, ..options } }
    }
    const fn all(reading: Reading) -> [Observe; 4] {
        use Backend as B;
        [of(reading, B::Search), of(reading, B::Smt), of(reading, B::Z3), of(reading, B::Cvc5)]
    }
    static ENGINES: [[Observe; 4]; 2] = [all(Reading::Item), all(Reading::Statement)];
    backend.solver()?;
    Ok(Choice::Engine(&ENGINES[reading as usize][backend as usize]))
}
