//! The same work on several parts at the same time.

use std::fmt;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Threads that wait for work, beside the caller's.
#[derive(Default)]
pub(crate) struct Crew(Option<ThreadPool>);

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} threads", self.len())
    }
}

impl Crew {
    /// So many threads, the caller's among them; fewer if there is no room for them.
    pub fn new(threads: usize) -> Self {
        let others = threads.saturating_sub(1);
        let pool = || ThreadPoolBuilder::new().num_threads(others).build().ok();
        Self(if others > 0 { pool() } else { None })
    }

    /// How many threads there are, the caller's among them.
    pub fn len(&self) -> usize {
        1 + self.0.as_ref().map_or(0, ThreadPool::current_num_threads)
    }

    /// Does one thing on another thread, if there is one, while this one does the other; answers what the first one does.
    pub fn beside<R: Send>(&self, one: impl FnOnce() -> R + Send, other: impl FnOnce()) -> R {
        let Some(pool) = &self.0 else {
            other();
            return one();
        };
        let mut answer = None;
        pool.in_place_scope(|scope| {
            scope.spawn(|_| answer = Some(one()));
            other();
        });
        answer.expect("a scope ends when everything in it has been done")
    }

    /// Does the work on every part, the first on this thread and, if it is worth it, the others on those that wait; answers in the order of the parts.
    pub fn each<T: Send, R: Send>(
        &self,
        parts: impl IntoIterator<Item = T>,
        worth: bool,
        work: impl Fn(T) -> R + Sync,
    ) -> Vec<R> {
        let mut parts = parts.into_iter();
        let Some(pool) = self.0.as_ref().filter(|_| worth) else { return parts.map(work).collect() };
        let Some(first) = parts.next() else { return Vec::new() };
        let mut others: Vec<(Option<T>, Option<R>)> = parts.map(|part| (Some(part), None)).collect();
        let work = &work;
        let mine = pool.in_place_scope(|scope| {
            for (part, answer) in &mut others {
                scope.spawn(move |_| *answer = part.take().map(work));
            }
            work(first)
        });
        std::iter::once(mine).chain(others.into_iter().filter_map(|(_, answer)| answer)).collect()
    }
}
