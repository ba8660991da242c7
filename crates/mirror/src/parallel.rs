//! The same work on several parts at the same time.

use std::fmt;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Threads that wait for work. Whoever works inside takes over what others have not begun.
#[derive(Default)]
pub(crate) struct Crew(Option<ThreadPool>);

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} threads", self.len())
    }
}

impl Crew {
    /// So many threads; only the caller's if there is no room for them.
    pub fn new(threads: usize) -> Self {
        let pool = || ThreadPoolBuilder::new().num_threads(threads).build().ok();
        Self(if threads > 1 { pool() } else { None })
    }

    /// How many threads there are.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(1, ThreadPool::current_num_threads)
    }

    /// Does something inside.
    pub fn inside<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.0 {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    /// Does one thing whenever a thread is free while this one does the other; answers what the
    /// first one does.
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

    /// Does the work on every part, the first on this thread and, if it is worth it, the others on
    /// whichever is free; answers in the order of the parts.
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
