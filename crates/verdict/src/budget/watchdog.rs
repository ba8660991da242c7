//! The thread that ends budgets.
//!
//! It starts with the first limit and sleeps until the nearest deadline; while there is a limit on
//! memory, it also wakes up every few milliseconds and reads the process's resident memory.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::{GOES_ON, OUT_OF_MEMORY, Timer, memory};

/// How often resident memory is read. At 2 GB/s, which is fast, 10 MB more are there the next time.
const MEMORY_PERIOD: Duration = Duration::from_millis(5);

/// What the thread watches.
struct Watched {
    timers: Vec<Weak<Timer>>,
    memory: Vec<(u64, Weak<AtomicU8>)>,
    /// How many timers there were after the last look; ended ones are removed when there are twice
    /// as many.
    kept: usize,
    /// When the thread wakes up by itself.
    wakes: Option<Instant>,
    running: bool,
}

static WATCHED: Mutex<Watched> =
    Mutex::new(Watched { timers: Vec::new(), memory: Vec::new(), kept: 0, wakes: None, running: false });
static CHANGED: Condvar = Condvar::new();

/// Has the thread end the timer when its time is over. Says whether there is such a thread.
pub(super) fn watch_time(timer: &Arc<Timer>) -> bool {
    let mut watched = lock();
    watched.timers.push(Arc::downgrade(timer));
    if watched.timers.len() > 2 * watched.kept + 64 {
        watched.timers.retain(|timer| timer.strong_count() > 0);
        watched.kept = watched.timers.len();
    }
    start(&mut watched);
    if watched.wakes.is_none_or(|wakes| timer.deadline < wakes) {
        CHANGED.notify_one();
    }
    watched.running
}

/// Has the thread mark `ended` when the process holds more than `limit` bytes.
pub(super) fn watch_memory(ended: &Arc<AtomicU8>, limit: u64) {
    let mut watched = lock();
    watched.memory.push((limit, Arc::downgrade(ended)));
    start(&mut watched);
    CHANGED.notify_one();
}

/// A panic while the lock is held leaves nothing half done.
fn lock() -> MutexGuard<'static, Watched> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(watched: &mut Watched) {
    if !watched.running {
        let thread = thread::Builder::new().name("budget".to_string()).stack_size(64 << 10);
        watched.running = thread.spawn(run).is_ok();
    }
}

fn run() {
    let mut watched = lock();
    loop {
        let now = Instant::now();
        watched.wakes = watched.look(now);
        watched = match watched.wakes {
            Some(wakes) => {
                let pause = wakes.saturating_duration_since(now);
                CHANGED.wait_timeout(watched, pause).map_or_else(|p| p.into_inner().0, |woken| woken.0)
            }
            None => CHANGED.wait(watched).unwrap_or_else(PoisonError::into_inner),
        };
    }
}

impl Watched {
    /// Ends what is over, forgets what nobody holds any more, and says when to look again.
    fn look(&mut self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        self.timers.retain(|timer| {
            let Some(timer) = timer.upgrade() else { return false };
            if timer.deadline <= now {
                timer.over.store(true, Ordering::Relaxed);
                return false;
            }
            next = Some(next.map_or(timer.deadline, |next| next.min(timer.deadline)));
            true
        });
        self.kept = self.timers.len();
        self.look_at_memory();
        match self.memory.is_empty() {
            true => next,
            false => Some(next.map_or(now + MEMORY_PERIOD, |next| next.min(now + MEMORY_PERIOD))),
        }
    }

    fn look_at_memory(&mut self) {
        if self.memory.is_empty() {
            return;
        }
        let resident = memory::resident().unwrap_or(0);
        self.memory.retain(|(limit, ended)| {
            let Some(ended) = ended.upgrade() else { return false };
            let over = resident > *limit;
            if over {
                // A budget that was cancelled before stays cancelled.
                _ = ended.compare_exchange(GOES_ON, OUT_OF_MEMORY, Ordering::Relaxed, Ordering::Relaxed);
            }
            !over
        });
    }
}
