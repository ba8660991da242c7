//! Verdicts for people: what went wrong, in which transactions, and why it is impossible under the
//! level.
//!
//! Data flows one way: a verdict and its history become a [`Report`] ([`Report::new`]), which is
//! plain data; text, HTML, JUnit, DOT and SVG are made from that alone. So `margay report
//! RESULT.json` shows a result again without its history.
//!
//! # Invariants
//! - A history's contents are data. They are cleaned once, when the report is made ([`limit`]);
//!   whoever writes a form escapes them for it.
//! - A report is bounded: it holds the slice and its neighbourhood, never the history.
//! - The fields that [`Report`] has beside [`view::Details`] are pinned.

#[cfg(feature = "toml")]
pub mod accept;
pub mod dot;
pub mod edges;
pub mod escape;
pub mod explain;
pub mod gather;
pub mod graph;
pub mod html;
pub mod junit;
pub mod known;
pub mod limit;
pub mod live;
pub mod operation;
pub mod paint;
pub mod picture;
pub mod series;
pub mod slice;
pub mod svg;
pub mod table;
pub mod text;
mod timeline;
pub mod touches;
pub mod versions;
pub mod view;
pub mod why;
pub mod words;

pub use gather::Source;
pub use paint::Paint;
pub use picture::Picture;
pub use view::{Report, Word};
