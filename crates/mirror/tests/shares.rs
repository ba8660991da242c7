//! Several workers find what one finds, byte for byte, in whatever shape: workers of one process
//! and of several.

mod blur;

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use blur::blurred;
use margay_history::{Access, History, HistoryBuilder, Interval, OpDetail, OpKind};
use margay_levels::profile;
use margay_mirror::{Engine, Exchange, Letter, Lost, Mechanisms, Mirror, Violation, simulated};
use margay_simdb::{Fault, Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_verdict::{Broken, Budget, Why};

/// How many seeds a protocol is run with, unless the environment variable `MARGAY_SHARE_SEEDS` says
/// otherwise.
const SEEDS: u64 = 1;

/// Processes, and workers of each.
const SHAPES: [(usize, usize); 7] = [(1, 1), (1, 2), (1, 3), (1, 7), (2, 1), (2, 2), (3, 2)];

type Parcel = (usize, Vec<Letter>);

/// A worker's end of channels to all.
struct Post {
    index: usize,
    workers: usize,
    to: Vec<Sender<Parcel>>,
    from: Receiver<Parcel>,
    /// What came too early: each sender is at most one round ahead.
    early: Vec<Parcel>,
    random: u64,
    /// So many rounds it takes part in.
    rounds: u64,
}

impl Post {
    fn all(processes: usize, workers: usize, seed: u64, rounds: u64) -> Vec<Self> {
        let count = processes * workers;
        let (to, from): (Vec<_>, Vec<_>) = (0..count).map(|_| channel()).unzip();
        let post = |(index, from)| Post {
            index,
            workers,
            to: to.clone(),
            from,
            early: Vec::new(),
            random: seed * 1_000 + index as u64,
            rounds,
        };
        from.into_iter().enumerate().map(post).collect()
    }

    /// Waits for a while that nobody can foresee.
    fn dawdle(&mut self) {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        for _ in 0..(self.random >> 33) % 1_024 {
            std::hint::spin_loop();
        }
    }
}

impl Exchange for Post {
    fn index(&self) -> usize {
        self.index
    }

    fn count(&self) -> usize {
        self.to.len()
    }

    fn process(&self) -> Range<usize> {
        let first = self.index / self.workers * self.workers;
        first..first + self.workers
    }

    fn exchange(&mut self, letters: Vec<(usize, Letter)>) -> Result<Vec<Letter>, Lost> {
        self.rounds = self.rounds.checked_sub(1).ok_or_else(|| Lost("enough".to_owned()))?;
        let mut parcels: Vec<Vec<Letter>> = vec![Vec::new(); self.count()];
        for (to, letter) in letters {
            let crosses = !self.process().contains(&to);
            let again = |letter: &Letter| Letter::from_bytes(&letter.to_bytes()).expect("a letter");
            parcels[to].push(if crosses { again(&letter) } else { letter });
        }
        for (to, parcel) in parcels.into_iter().enumerate() {
            self.dawdle();
            // Whoever is gone misses nothing.
            let _ = self.to[to].send((self.index, parcel));
        }
        let mut came: Vec<Option<Vec<Letter>>> = vec![None; self.count()];
        for (from, parcel) in std::mem::take(&mut self.early) {
            came[from] = Some(parcel);
        }
        while came.iter().any(Option::is_none) {
            let (from, parcel) = self.from.recv().map_err(|_| Lost("all are gone".to_owned()))?;
            match &mut came[from] {
                Some(_) => self.early.push((from, parcel)),
                none => *none = Some(parcel),
            }
        }
        Ok(came.into_iter().flatten().flatten().collect())
    }
}

/// What several workers find.
fn together(
    history: &History,
    mechanisms: Mechanisms,
    longest: i64,
    posts: Vec<Post>,
) -> Vec<Result<Vec<Violation>, Why>> {
    let work = |mut post: Post| {
        let mut mirror = Mirror::new(mechanisms, history.header().skew)
            .with_share(post.index, post.count())
            .with_epochs(longest);
        Engine::play_share(&mut mirror, history, &Budget::unlimited(), &mut post)?;
        Ok(std::iter::from_fn(|| mirror.next_violation()).collect())
    };
    thread::scope(|scope| {
        let all: Vec<_> = posts.into_iter().map(|post| scope.spawn(move || work(post))).collect();
        all.into_iter().map(|one| one.join().expect("no panic")).collect()
    })
}

/// What one thread finds in the same epochs.
fn alone(history: &History, mechanisms: Mechanisms, longest: i64) -> Vec<Violation> {
    let mut mirror = Mirror::new(mechanisms, history.header().skew).with_epochs(longest);
    Engine::play(&mut mirror, history, &Budget::unlimited()).expect("a timed history");
    std::iter::from_fn(|| mirror.next_violation()).collect()
}

fn config(protocol: Protocol, seed: u64) -> SimConfig {
    let mut config = SimConfig::new(protocol, seed);
    (config.transactions, config.clients, config.domain) = (120, [3, 6, 10][seed as usize % 3], 6);
    config.keys = [2, 4, 10, 30][seed as usize % 4];
    config.mix = Mix::NAMED[seed as usize % 4].1;
    (config.aborts, config.unknown) = (Ppm::percent(8), Ppm::percent(6));
    config.skew = [0, 0, 20_000][seed as usize % 3];
    let mut faults = Fault::ALL.into_iter().filter(|fault| fault.breaks(protocol).is_some()).cycle();
    if let Some(fault) = faults.nth(seed as usize) {
        config = config.with_fault(fault, Ppm::percent(15));
    }
    config
}

#[test]
fn every_shape_finds_the_same_byte_for_byte() {
    let seeds = std::env::var("MARGAY_SHARE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(SEEDS);
    let all: Vec<Mechanisms> = profile::all().map(Mechanisms::of).collect();
    let (mut count, mut next, mut kinds) = (0, 0, [0; 4]);
    for protocol in Protocol::ALL {
        let own = simulated(&format!("simdb-{protocol}")).expect("a simulated database");
        for seed in 0..4 * seeds {
            let clear = simulate_history(&config(protocol, seed)).expect("a history").0;
            let history = if seed % 4 == 3 { blurred(&clear, seed) } else { clear };
            next += 7;
            for mechanisms in [own, all[next % all.len()]] {
                let longest = Engine::epoch(&history) >> [0, 4, 6, 9][next % 4];
                let one = alone(&history, mechanisms, longest);
                // Each history in one of the shapes; all of them have their turn.
                next += 1;
                let (processes, workers) = SHAPES[next % SHAPES.len()];
                let posts = Post::all(processes, workers, seed, u64::MAX);
                let several = together(&history, mechanisms, longest, posts);
                let place = format!("{protocol} {seed} {processes}x{workers} {mechanisms:?}");
                assert!(several.iter().all(|found| found.as_ref() == Ok(&one)), "{place}");
                for Violation { breach, .. } in &one {
                    kinds[match breach.broken {
                        Broken::Read { .. } => 0,
                        Broken::Locks { .. } => 1,
                        Broken::Updates { .. } => 2,
                        Broken::Dependencies(_) => 3,
                    }] += 1;
                }
                count += one.len();
            }
        }
    }
    println!("{count} found: {kinds:?}");
    assert!(count > 300 && kinds.iter().all(|kind| *kind > 10), "{count} {kinds:?}");
}

/// The last epoch ends with time itself; nobody waits for operations after it.
#[test]
fn operations_at_the_end_of_time_are_taken() {
    let mut builder = HistoryBuilder::new();
    let values = builder.values();
    let (old, new, key) = (values.int(0), values.int(1), values.text("x"));
    let x = builder.object(None, key);
    for (txn, at, value) in [(0, i64::MAX - 1, new), (1, i64::MAX, old)] {
        let kind = if value == new { OpKind::Write } else { OpKind::Read };
        let (at, accesses) = (Some(Interval::new(at, at)), [Access { object: x, value }]);
        builder.push(txn, txn, at, kind, &accesses, OpDetail::None).expect("an operation");
        builder.push(txn, txn, at, OpKind::Commit, &[], OpDetail::None).expect("a commit");
    }
    let history = builder.finish().expect("a history");
    let mechanisms = simulated("simdb-serial").expect("a simulated database");
    let one = alone(&history, mechanisms, 1);
    for found in together(&history, mechanisms, 1, Post::all(1, 2, 1, 1_000)) {
        assert_eq!(found.as_ref(), Ok(&one));
    }
}

#[test]
fn who_loses_another_worker_knows_nothing_of_the_whole() {
    let history = simulate_history(&config(Protocol::Ssi, 1)).expect("a history").0;
    let mechanisms = simulated("simdb-ssi").expect("a simulated database");
    for rounds in [0, 1, 2, 5, 9] {
        let mut posts = Post::all(2, 1, 1, u64::MAX);
        // One stops, and the other waits for it in vain until its own patience is at its end.
        posts[1].rounds = rounds;
        posts[0].rounds = rounds;
        let all = together(&history, mechanisms, Engine::epoch(&history) >> 6, posts);
        assert!(all.iter().all(|found| matches!(found, Err(Why::Incomplete(_)))), "{rounds}: {all:?}");
    }
}
