//! The mini language: tiny histories in one line.
//!
//! ```text
//! init: x=0 t/4={v:3} | T1: r(x,0) w(x,1) | T2@s7: a(l,5) r(l,[5]) abort | T3: scan(t, v > 2){4:{v:3}} unknown
//! ```
//! Segments are separated by `|`:
//! - `init: x=0 t/4={v:3}`: initial values; all other objects are absent at first.
//! - `T1: …`, or `T1@s7: …` in session 7 (otherwise each transaction has a session of its own):
//!   operations, and `abort` or `unknown` at the end unless it committed. `commit` and `begin` may
//!   be written, which matters only for their times.
//! - `table t(id)`, `table t(id; id int, v int)`: a table's key and columns. `skew 5`: how far
//!   clocks may be apart.
//! - evidence: `order x: init T1 T2`, `saw T2.0 x=T1 y=init` (what operation 0 of T2 saw), `commit
//!   T1=5`, `snapshot T1=3`, `serialization T1=1`.
//!
//! Operations: `r(x,1)`, `w(x,1)`, `a(x,1)` (append), `d(x)` (delete), several objects at once as
//! `r(x,1; y,2)`; `scan(t, v > 5){4:{v:6}}`, `upd(t, v > 5, v = 20){4:{v:20}}`, `del(t, v >
//! 5){4:_}`, without `{…}` when the rows were not seen; `sql('SELECT 1')`. Each may be followed by
//! its interval `@[10,20]`; the end has the last operation's unless it says otherwise.
//!
//! Objects: `x`, `7`, a row `t/4`, `t/(1 2)`. Values: `1`, `-2`, `1.5`, `true`, `'abc'`, `[1 2]`,
//! `{v:3 w:4}`, `_` absent, `?` not observed.

mod cursor;
mod parse;
mod show;

pub use cursor::MiniError;
pub use parse::parse;
pub use show::show;

/// The history that a text in the mini language describes.
///
/// # Panics
/// When the text is wrong, with the place. For texts that come from elsewhere there is [`parse()`].
#[must_use]
#[track_caller]
pub fn history(text: &str) -> margay_history::History {
    match parse(text) {
        Ok(history) => history,
        Err(error) => panic!("{error}"),
    }
}
