//! Is this database as isolated as it claims to be?
//!
//! [`decide()`] takes a history, a question, options and a budget, and answers with an audited
//! verdict. It is the only place of Margay that asks an engine about a whole history.

mod decide;
mod translate;

pub use decide::{Audited, Decision, Fault, Options, decide};
pub use margay_engines::{
    Ambiguity, Assume, Backend, Choice, NAMES, NoEngine, Reading, all, ambiguities, assumed, by_name, dbms,
    mirror_of, observe_with,
};
pub use translate::{sight, translations, under};
