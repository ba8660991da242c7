//! Certificates about histories of SQL statements. A build without the feature `sql` has
//! `unread.rs` instead.

mod invariant;
mod misrun;
mod observed;

pub(crate) use invariant::audit as invariant;
pub(crate) use observed::{holds, violated};
