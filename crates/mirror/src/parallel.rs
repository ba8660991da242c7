//! The same work on several parts at the same time.

use std::panic::resume_unwind;
use std::thread;

/// Does the work on every part, the first on this thread and, if it is worth it, each other on one of its own; answers in the order of the parts.
pub(crate) fn each<T: Send, R: Send>(
    parts: impl IntoIterator<Item = T>,
    worth: bool,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let mut parts = parts.into_iter();
    if !worth {
        return parts.map(work).collect();
    }
    let Some(first) = parts.next() else { return Vec::new() };
    thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        let mut all = vec![work(first)];
        all.extend(others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic))));
        all
    })
}
