//! The work of `parallel.rs` in a build without the feature `parallel`: all on the caller's thread.

/// Nobody but the caller.
#[derive(Debug, Default)]
pub(crate) struct Crew;

impl Crew {
    pub fn new(_: usize) -> Self {
        Self
    }

    pub fn len(&self) -> usize {
        1
    }

    pub fn inside<R>(&self, work: impl FnOnce() -> R) -> R {
        work()
    }

    /// Does the other thing, then the first one; answers what the first one does.
    pub fn beside<R>(&self, one: impl FnOnce() -> R, other: impl FnOnce()) -> R {
        other();
        one()
    }

    pub fn each<T, R>(&self, parts: impl IntoIterator<Item = T>, _: bool, work: impl Fn(T) -> R) -> Vec<R> {
        parts.into_iter().map(work).collect()
    }
}
