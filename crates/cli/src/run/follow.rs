//! Engine follow beside a run: it settles the order of what clients do, while they do it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use margay_history::History;
use margay_levels::Level;
use margay_runner::{Followed, Follows};
use margay_stream::{End, Follower, Part, followed};
use margay_verdict::{Budget, Certificate, Question};

use crate::level::Asked;

/// The order that was settled so far.
#[derive(Clone, Default)]
pub struct Order(Arc<Mutex<Option<Part>>>);

impl Order {
    /// The certificate about the whole recording.
    pub fn certificate(&self, history: &History) -> Option<Certificate> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.certificate(history)
    }

    fn settle(&self, part: &Part) {
        let mut settled = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *settled {
            Some(all) => all.extend(part.clone()),
            none => *none = Some(part.clone()),
        }
    }
}

/// The level at which a run is followed, if it is: what is claimed, or what is promised, where real
/// time belongs to it or a horizon is given.
pub fn level(claim: Asked, promised: Level, horizon: Option<Duration>) -> Option<Level> {
    let levels = || claim.level().into_iter().chain([promised]);
    let strict = levels().filter(|level| level.real_time()).find_map(|level| followed(Question::new(level)));
    let plain = || levels().find(|&level| followed(Question::new(level)).is_some());
    strict.or_else(|| horizon.and_then(|_| plain()))
}

/// Follows a run.
pub struct Live {
    level: Level,
    horizon: Option<Duration>,
    budget: Budget,
    order: Order,
    follower: Option<Follower<'static>>,
    /// Why there is none, or none any more.
    stopped: Option<String>,
    whole: bool,
}

impl Live {
    /// At this level; the order is settled there.
    pub fn new(level: Level, horizon: Option<Duration>, order: Order) -> Self {
        let horizon = horizon.filter(|_| !level.real_time());
        let budget = Budget::unlimited();
        Self { level, horizon, budget, order, follower: None, stopped: None, whole: false }
    }

    fn with(&mut self, act: impl FnOnce(&mut Follower<'static>) -> Result<(), margay_stream::Trouble>) {
        let Some(follower) = self.follower.as_mut().filter(|_| self.stopped.is_none()) else { return };
        let done = act(follower);
        let stopped = follower.stopped().map(str::to_owned);
        let interrupted = || "the time was over before all was followed".to_owned();
        self.stopped = match done.err().map(|trouble| trouble.to_string()).or(stopped) {
            Some(_) if self.budget.poll().is_err() => Some(interrupted()),
            why => why,
        };
    }

    fn begin(&mut self, header: &[u8]) {
        let order = self.order.clone();
        let sink = Box::new(move |part: &Part, _: &[u64]| {
            order.settle(part);
            Ok(())
        });
        let follower = Follower::new(Question::new(self.level), header, self.budget.clone(), sink);
        let follower = match self.horizon {
            Some(horizon) => follower.and_then(|follower| follower.within(horizon)),
            None => follower,
        };
        match follower {
            Ok(follower) => self.follower = Some(follower),
            Err(trouble) => self.stop(&trouble.to_string()),
        }
    }
}

impl Follows for Live {
    fn interrupt(&self) -> Box<dyn Fn() + Send> {
        let budget = self.budget.clone();
        Box::new(move || budget.cancel())
    }

    fn line(&mut self, line: &[u8]) {
        if self.follower.is_none() && self.stopped.is_none() {
            return self.begin(line);
        }
        self.with(|follower| follower.line(line));
    }

    fn advance(&mut self, until: i64, now: bool) {
        self.with(|follower| follower.advance(until, now));
    }

    fn finish(&mut self) {
        let mut ended = None;
        self.with(|follower| follower.finish().map(|end| ended = Some(end)));
        if let Some(End::Partly { undecided, count }) = &ended {
            self.stop(&crate::stream::undecided(undecided, *count));
        }
        self.whole = ended == Some(End::Whole);
    }

    fn stop(&mut self, why: &str) {
        self.stopped.get_or_insert_with(|| why.to_owned());
    }

    fn followed(&self) -> Followed {
        let progress = self.follower.as_ref().map(Follower::progress).unwrap_or_default();
        Followed {
            level: self.level.name(),
            settled: progress.settled,
            open: progress.open,
            reached: progress.reached,
            memory: progress.memory,
            whole: self.whole,
            stopped: self.stopped.clone(),
            ..Followed::default()
        }
    }
}
