//! Workers of timely that verify a history together.

use std::any::Any;
use std::cell::RefCell;
use std::net::TcpStream;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use margay_history::History;
use margay_mirror::{Account, Engine, Exchange, Letter, Lost, Mechanisms, Mirror, Workers};
use margay_remote::Token;
use margay_verdict::{Budget, Why};
use timely::WorkerConfig;
use timely::communication::Hooks;
use timely::communication::allocator::zero_copy::initialize::initialize_networking_from_sockets;
use timely::communication::allocator::{AllocatorBuilder, ProcessBuilder};
use timely::container::{CapacityContainerBuilder, DrainContainer};
use timely::dataflow::InputHandle;
use timely::dataflow::channels::pact::ExchangeCore;
use timely::dataflow::operators::generic::operator::Operator;
use timely::dataflow::operators::probe::{Handle as Probe, Probe as _};
use timely::execute::execute_from;
use timely::worker::Worker;

use crate::mail::{CROSSED, Mail, Parcel};
use crate::meet::{self, Hosts, Subject};
use crate::pulse::Pulses;
use crate::supervise::{Generation, LOST};

/// The other processes, and how this one proves that it belongs to them.
#[derive(Clone, Debug)]
pub struct Network {
    /// All processes in their order.
    pub hosts: Hosts,
    /// Which of them this is.
    pub process: usize,
    /// What all of them know and nobody else.
    pub token: Token,
    /// How long to wait for the others.
    pub patience: Duration,
    /// Which try it is.
    pub generation: Generation,
}

/// Nobody may say nothing for longer.
const SILENCE: Duration = Duration::from_secs(10);

/// Workers of one process, or of several.
#[derive(Debug)]
pub struct Cluster {
    workers: usize,
    /// The others, until they have been met: a history is verified with them once.
    network: Mutex<Option<Network>>,
    /// Why they were not met.
    trouble: Mutex<Option<String>>,
}

/// How many bytes this process has sent to others.
#[must_use]
pub fn crossed() -> u64 {
    CROSSED.load(Ordering::Relaxed)
}

impl Cluster {
    /// So many workers in this process, and as many in each of the others.
    #[must_use]
    pub fn new(workers: usize, network: Option<Network>) -> Self {
        Self { workers: workers.max(1), network: Mutex::new(network), trouble: Mutex::default() }
    }

    /// What kept processes from meeting, if that is for whoever started them to repair: another
    /// token, version, shape or history, or no answer on the first try.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Meets the others; answers the connections to them.
    fn meet(&self, network: &Network, subject: &Subject) -> Result<(Vec<Option<TcpStream>>, Pulses), Why> {
        if let Generation::GivenUp(why) = &network.generation {
            return Err(Why::Incomplete(why.clone()));
        }
        let met = meet::meet(network, subject);
        met.map(|met| (met.streams, Pulses::start(met.pulses, network.patience.min(SILENCE)))).map_err(
            |why| {
                if network.generation == Generation::Try(0) {
                    *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.clone());
                }
                Why::Incomplete(why)
            },
        )
    }
}

impl Workers for Cluster {
    fn verify(&self, history: &History, mechanisms: Mechanisms, budget: &Budget) -> Found {
        let local = ProcessBuilder::new_typed_vector(self.workers, Hooks::default().refill, None);
        let network = self.network.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(network) = network else {
            let builders = local.into_iter().map(AllocatorBuilder::Process).collect();
            return run(builders, Box::new(()), 0, (history, mechanisms, budget))
                .unwrap_or_else(|| Err(Why::Incomplete("a worker ended before the history did".to_owned())));
        };
        let subject = Subject::of(history, &mechanisms, self.workers);
        let (streams, pulses) = self.meet(&network, &subject)?;
        let (me, workers) = (network.process, self.workers);
        let made = initialize_networking_from_sockets(local, streams, me, workers, Hooks::default());
        let (builders, guard) = made.map_err(|why| Why::Incomplete(format!("the connections: {why}")))?;
        let builders = builders.into_iter().map(AllocatorBuilder::Tcp).collect();
        let Some(found) = run(builders, Box::new(guard), me * workers, (history, mechanisms, budget)) else {
            // The other threads of timely may never end: the parent takes over.
            std::process::exit(LOST);
        };
        pulses.finish();
        found
    }
}

type Found = Result<Account, Why>;

/// Verifies a history by workers, the first of which has this number; answers what the first one
/// found, or nothing if one of them did not come to an end.
fn run(
    builders: Vec<AllocatorBuilder>,
    others: Box<dyn Any + Send>,
    first: usize,
    (history, mechanisms, budget): (&History, Mechanisms, &Budget),
) -> Option<Found> {
    let (process, count) = (first..first + builders.len(), builders.len());
    let (ends, lines): (Vec<End>, Vec<Line>) = (0..count).map(|_| line()).unzip();
    let lines = Mutex::new(lines.into_iter().map(Some).collect::<Vec<_>>());
    let serve = move |worker: &mut Worker| {
        let place = worker.index() - first;
        let line = lines.lock().unwrap_or_else(PoisonError::into_inner).get_mut(place).and_then(Option::take);
        if let Some(line) = line {
            Post::new(worker).serve(&line);
        }
    };
    let guards = execute_from(builders, others, WorkerConfig::default(), serve).ok()?;
    let work = |end: End| -> Found {
        let (index, count) = end.to.recv().map_err(|_| Why::Incomplete("a worker ended".to_owned()))?;
        let mut mirror = Mirror::new(mechanisms, history.header().skew)
            .with_share(index, count)
            .with_epochs(Engine::epoch(history));
        let mut seat = Seat { index, count, process: process.clone(), end };
        Engine::play_share(&mut mirror, history, budget, &mut seat)?;
        let statistics = mirror.statistics();
        Ok((std::iter::from_fn(|| mirror.next_violation()).collect(), statistics))
    };
    let all: Vec<Option<Found>> = thread::scope(|scope| {
        let all: Vec<_> = ends.into_iter().map(|end| scope.spawn(|| work(end))).collect();
        all.into_iter().map(|one| one.join().ok()).collect()
    });
    let served = guards.join().iter().all(Result::is_ok);
    let all: Option<Vec<Found>> = all.into_iter().collect();
    all.filter(|_| served)?.into_iter().reduce(|first, other| match other {
        // Nobody knows the whole where one of them does not.
        Err(why) if first.is_ok() => Err(why),
        _ => first,
    })
}

/// A worker of timely, with one dataflow: letters come in, go to whom they are for, and are
/// collected there.
struct Post<'w> {
    worker: &'w mut Worker,
    input: InputHandle<u64, CapacityContainerBuilder<Mail>>,
    probe: Probe<u64>,
    inbox: Rc<RefCell<Vec<Parcel>>>,
    round: u64,
}

impl<'w> Post<'w> {
    fn new(worker: &'w mut Worker) -> Self {
        let (mut input, probe) = (InputHandle::new_with_builder(), Probe::new());
        let inbox: Rc<RefCell<Vec<Parcel>>> = Rc::default();
        let collected = Rc::clone(&inbox);
        worker.dataflow::<u64, _, _>(|scope| {
            let pact =
                ExchangeCore::<CapacityContainerBuilder<Mail>, _>::new(|parcel: &Parcel| parcel.to as u64);
            let letters = input.to_stream(scope);
            let done = letters.unary::<CapacityContainerBuilder<Mail>, _, _, _>(pact, "Post", |_, _| {
                move |input, _| input.for_each(|_, mail| collected.borrow_mut().extend(mail.drain()))
            });
            done.probe_with(&probe);
        });
        Self { worker, input, probe, inbox, round: 0 }
    }

    /// Goes through rounds as long as somebody asks for them.
    fn serve(mut self, line: &Line) {
        if line.to.send((self.worker.index(), self.worker.peers())).is_err() {
            return;
        }
        while let Ok(letters) = line.letters.recv() {
            if line.answers.send(self.exchange(letters)).is_err() {
                return;
            }
        }
    }

    fn exchange(&mut self, letters: Vec<(usize, Letter)>) -> Result<Vec<Letter>, Lost> {
        let (from, round) = (self.worker.index(), self.round);
        for (number, (to, letter)) in letters.into_iter().enumerate() {
            let letter = Some(letter);
            self.input.send(Parcel { to, from, round, number, letter, bytes: OnceLock::new() });
        }
        self.round += 1;
        self.input.advance_to(self.round);
        while self.probe.less_than(&self.round) {
            self.worker.step_or_park(None);
        }
        let all = std::mem::take(&mut *self.inbox.borrow_mut());
        // Who is done with this round may have begun the next one.
        let (mut now, later): (Vec<Parcel>, Vec<Parcel>) = all.into_iter().partition(|p| p.round == round);
        *self.inbox.borrow_mut() = later;
        now.sort_unstable_by_key(|parcel| (parcel.from, parcel.number));
        let read = |parcel: Parcel| {
            parcel.letter.ok_or_else(|| Lost(format!("worker {} sent what is no letter", parcel.from)))
        };
        now.into_iter().map(read).collect()
    }
}

/// Timely owns its threads, and they may outlive a history. So whoever verifies has a thread of its
/// own, which can borrow the history, and asks that of timely for each round.
struct End {
    to: Receiver<(usize, usize)>,
    letters: Sender<Vec<(usize, Letter)>>,
    answers: Receiver<Result<Vec<Letter>, Lost>>,
}

/// The other end of it.
struct Line {
    to: Sender<(usize, usize)>,
    letters: Receiver<Vec<(usize, Letter)>>,
    answers: Sender<Result<Vec<Letter>, Lost>>,
}

fn line() -> (End, Line) {
    let ((who, to), (ask, letters), (answers, answer)) = (channel(), channel(), channel());
    (End { to, letters: ask, answers: answer }, Line { to: who, letters, answers })
}

/// One who verifies.
struct Seat {
    index: usize,
    count: usize,
    process: Range<usize>,
    end: End,
}

impl Exchange for Seat {
    fn index(&self) -> usize {
        self.index
    }

    fn count(&self) -> usize {
        self.count
    }

    fn process(&self) -> Range<usize> {
        self.process.clone()
    }

    fn exchange(&mut self, letters: Vec<(usize, Letter)>) -> Result<Vec<Letter>, Lost> {
        let gone = || Lost("a worker ended before the history did".to_owned());
        self.end.letters.send(letters).map_err(|_| gone())?;
        self.end.answers.recv().map_err(|_| gone())?
    }
}
