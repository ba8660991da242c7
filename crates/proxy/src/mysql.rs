//! What is MySQL's and MariaDB's own: their relay, their transactions, their schema, their words.

mod address;
mod catalog;
mod lane;
mod number;
mod relay;
mod settings;
mod state;
mod text;
mod values;
mod watch;

pub(crate) use address::MysqlAddress;
pub(crate) use catalog::Rules;
pub(crate) use state::first_state;
pub(crate) use values::value;
pub(crate) use watch::MysqlWatch;
