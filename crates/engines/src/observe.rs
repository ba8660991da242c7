//! The engine that executes statements, with options of its own.

use margay_observe::Observe;
use margay_verdict::execution::Reading;

use crate::Choice;

pub use margay_observe::Backend;

/// The engine that answers only what executing the statements shows at first sight, in linear time.
#[must_use]
pub fn first_sight() -> crate::Engine {
    &Observe::QUICK
}

/// The engine observe, with what `read-committed` lets a statement see, and who answers.
///
/// # Errors
/// When the backend needs a program that is not installed.
pub fn observe_with(reading: Reading, backend: Backend) -> Result<Choice, String> {
    backend.solver()?;
    let options = margay_observe::Options { reading, backend, ..margay_observe::Options::DEFAULT };
    Ok(Choice::Observe(Observe { options }))
}
