//! Harm that is done to a server while clients use it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use margay_client::Harm;

use crate::Shared;

/// How long a look at the clock takes.
const STEP: Duration = Duration::from_millis(10);

/// A harm, and how often it is done.
pub type Every = (Harm, Duration);

/// Does what is due, from when all clients are connected until they have ended; answers how often
/// what was done.
pub(crate) fn inflict(shared: &Shared<'_>, over: &AtomicBool) -> Vec<(Harm, u32)> {
    let harms = &shared.job.harms;
    let mut done: Vec<(Harm, u32)> = harms.iter().map(|(harm, _)| (*harm, 0)).collect();
    // Who cannot even connect once has nothing to come back to.
    shared.ready.wait();
    let begun = shared.clock.elapsed();
    let mut due: Vec<Duration> = harms.iter().map(|(_, every)| begun + *every).collect();
    while !over.load(Ordering::Relaxed) {
        thread::sleep(STEP);
        for (at, (harm, every)) in harms.iter().enumerate() {
            if shared.clock.elapsed() < due[at] {
                continue;
            }
            if let Err(why) = shared.database.inflict(*harm) {
                shared.fail(format!("{harm}: {why}"));
                return done;
            }
            done[at].1 += 1;
            // From the end of it on: a server that takes long to come back has time to work.
            due[at] = shared.clock.elapsed() + *every;
        }
    }
    done
}
