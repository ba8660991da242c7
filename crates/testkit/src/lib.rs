//! What tests of engines are made of: a [mini language](mini) for tiny histories.

pub mod mini;

pub use mini::{MiniError, history, parse, show};
