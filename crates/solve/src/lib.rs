//! Engine solve.
