//! The back ends against each other and against plain enumeration, and every way of searching
//! against every other.

use std::sync::Arc;

use margay_audit::audit;
use margay_history::History;
use margay_levels::Level;
use margay_order::{Graph, GraphBuilder, topological_order};
use margay_simdb::{Fault, Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_verdict::{Budget, Checker, Question, Verdict};

use crate::acyclic::Acyclic;
use crate::bat::Bat;
use crate::known::{KnownGraph, Reach, Saturated};
use crate::lit::{Lit, Sat};
use crate::prepare::prepare;
use crate::problem::Problem;
use crate::search::{Effort, Outcome, search_with};
use crate::strategy::{Strategies, Strategy};
use crate::{Solve, holds, points, violated};

/// Who is before the one candidate in its session, and the other candidate saw what nobody wrote,
/// so it did not commit.
#[test]
fn who_saw_the_impossible_was_not_seen() {
    let text = "T1@s1: r(x,1) | T2@s1: w(x,1) | T3@s2: w(x,1) r(y,7) unknown";
    let history = margay_testkit::history(text);
    let question = Question::new(Level::StrongSessionSerializable);
    let verdict = Solve.check(&history, question, &Budget::unlimited());
    assert_eq!(verdict.word(), "violated", "{verdict:?}");
    let audited = verdict.certificate().map(|certificate| audit(&history, question, certificate));
    assert_eq!(audited, Some(Ok(())));
}

/// At 3,000 transactions of a correct database this stayed `unknown`: a transaction of unknown
/// outcome deleted a row, or appended to a list, and a later one wrote the row in part, or appended
/// too. Nothing asked for the first until the result was read; then it only came too late.
#[test]
fn an_unknown_outcome_appears_before_what_was_made_of_it() {
    let row = "table t(id; id int, v int, w int) | init: t/1={v:1 w:1} | T1: d(t/1)@[1,2] unknown@[3,4]
        | T2: w(t/1,{v:2})@[5,6] commit@[7,8] | T3: r(t/1,{v:2 w:_})@[9,10] commit@[11,12]";
    let list = "T1: a(l,1)@[1,2] unknown@[3,4] | T2: a(l,2)@[5,6] commit@[7,8] | T3: r(l,[1 2])@[9,10] commit@[11,12]";
    for text in [row, list] {
        let history = margay_testkit::history(text);
        let question = Question::new(Level::ReadCommitted);
        let found = crate::commits::in_order(&history, question, &Budget::unlimited());
        assert!(found.is_some(), "{text}");
    }
}

/// At 5,000 transactions of a correct database, 3 of 20 histories stayed `unknown` for this: what a
/// transaction of unknown outcome saw needed another one of unknown outcome, which nobody else had
/// seen.
#[test]
fn an_unknown_outcome_may_need_another_one() {
    let text = "T1: w(x,1)@[1,2] unknown@[3,4] | T2: r(x,1)@[5,6] w(y,1)@[7,8] unknown@[9,10]
        | T3: r(y,1)@[11,12] commit@[13,14]";
    let history = margay_testkit::history(text);
    let question = Question::new(Level::ReadCommitted);
    assert!(crate::commits::in_order(&history, question, &Budget::unlimited()).is_some());
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, most: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % u64::from(most)) as u32
    }
}

/// A graph with choices: each variable turns on one set of edges or the other.
struct Polygraph {
    nodes: u32,
    fixed: Vec<(u32, u32)>,
    choices: Vec<[Vec<(u32, u32)>; 2]>,
    clauses: Vec<Vec<Lit>>,
}

impl Polygraph {
    fn random(rng: &mut Rng) -> Self {
        let nodes = 4 + rng.below(6);
        let edge = |rng: &mut Rng| {
            let from = rng.below(nodes);
            (from, (from + 1 + rng.below(nodes - 1)) % nodes)
        };
        let fixed = (0..rng.below(nodes)).map(|_| edge(rng)).map(|(a, b)| (a.min(b), a.max(b))).collect();
        let set = |rng: &mut Rng| (0..1 + rng.below(3)).map(|_| edge(rng)).collect::<Vec<_>>();
        let choices: Vec<_> = (0..1 + rng.below(10)).map(|_| [set(rng), set(rng)]).collect();
        let vars = choices.len() as u32;
        let lit = |rng: &mut Rng| Lit::new(rng.below(vars), rng.below(2) == 0);
        let clauses = (0..rng.below(4)).map(|_| vec![lit(rng), lit(rng), lit(rng)]).collect();
        Self { nodes, fixed, choices, clauses }
    }

    /// The graph under a model, one bit per variable.
    fn graph(&self, model: u32) -> Graph {
        let mut builder = GraphBuilder::new();
        let chosen = self.choices.iter().enumerate().flat_map(|(i, sets)| &sets[(model >> i & 1) as usize]);
        self.fixed.iter().chain(chosen).for_each(|&(from, to)| builder.add(from, to, 0));
        builder.build(self.nodes as usize)
    }

    fn allows(&self, model: u32) -> bool {
        let is_true = |lit: &Lit| (model >> lit.var() & 1 == 1) == lit.is_positive();
        self.clauses.iter().all(|clause| clause.iter().any(is_true))
            && topological_order(&self.graph(model)).is_some()
    }

    /// What a back end says; its model and its cycles are looked at closely.
    fn ask<S: Sat>(&self) -> bool {
        let mut fixed = GraphBuilder::new();
        self.fixed.iter().for_each(|&(from, to)| fixed.add(from, to, 0));
        let graph = Arc::new(fixed.build(self.nodes as usize));
        let order = topological_order(&graph).expect("fixed edges go upward");
        let reversed = Arc::new(fixed.build_reversed(self.nodes as usize));
        let mut solver = S::from(Acyclic::new(graph, reversed, &order));
        for sets in &self.choices {
            let var = solver.new_var(sets[0].len() > sets[1].len());
            solver.attach(Lit::new(var, false), &sets[0]);
            solver.attach(Lit::new(var, true), &sets[1]);
        }
        self.clauses.iter().for_each(|clause| solver.add(clause));
        let answer = solver.solve(u64::MAX, &Budget::unlimited()).expect("no limit").expect("no limit");
        if answer {
            let model = (0..self.choices.len() as u32).map(|var| u32::from(solver.value(var)) << var).sum();
            assert!(self.allows(model), "the model {model:b} has a cycle");
            let (graph, places) = (self.graph(model), solver.places());
            let forward = |from: u32, to: &u32| places[from as usize] < places[*to as usize];
            assert!((0..self.nodes).all(|from| graph.successors(from).iter().all(|to| forward(from, to))));
        }
        for cycle in solver.take_cycles() {
            let next = cycle.iter().cycle().skip(1);
            assert!(cycle.iter().zip(next).all(|(edge, next)| edge.1 == next.0), "not a cycle: {cycle:?}");
        }
        answer
    }
}

#[test]
fn back_ends_agree_with_enumeration() {
    let mut rng = Rng(7);
    let mut satisfiable = 0;
    for round in 0..4000 {
        let polygraph = Polygraph::random(&mut rng);
        let expected = (0..1 << polygraph.choices.len()).any(|model| polygraph.allows(model));
        assert_eq!(polygraph.ask::<Bat>(), expected, "batsat, round {round}");
        #[cfg(feature = "cadical")]
        assert_eq!(polygraph.ask::<crate::cadical::Cadical>(), expected, "CaDiCaL, round {round}");
        satisfiable += u32::from(expected);
    }
    assert!((1000..3500).contains(&satisfiable), "{satisfiable} of 4000 have a model");
}

/// Searches at once, without first looking for an easy way out; if not saturated, the search has to
/// find what saturation would.
fn search_only<S: Sat>(history: &History, question: Question, saturated: bool) -> Option<Verdict> {
    let points = points::of(question.level);
    let draft = prepare(history, question, &Budget::unlimited()).ok()?;
    let problem = Problem::new(history, question, &draft, &Budget::unlimited()).expect("no limits");
    let budget = Budget::unlimited();
    let mut known = KnownGraph::new(&problem, points, question.uses_session_order());
    let reach = match saturated {
        true => known.saturate(&budget).ok()?,
        false => Saturated::Acyclic(Reach::Unknown),
    };
    let Saturated::Acyclic(reach) = reach else { return None };
    match search_with::<S>(&known, &reach, Effort { lazy: 1, ..Effort::ALL }, &budget).ok()?? {
        Outcome::Order(order) => Some(holds(&problem, points, order)),
        Outcome::Refuted(lemmas) => Some(violated(&problem, points, lemmas, &budget)),
    }
}

/// A serial execution of registers without time, dealt out to sessions.
fn serial(seed: u64, txns: u32, sessions: u32, keys: u32) -> History {
    let (mut rng, mut now, mut written) = (Rng(seed), vec![0; keys as usize], 0);
    let mut of_session = vec![Vec::new(); sessions as usize];
    for _ in 0..txns {
        let mut ops = String::new();
        for _ in 0..6 {
            let key = rng.below(keys);
            if rng.below(2) == 0 {
                ops += &format!(" r(k{key},{})", now[key as usize]);
            } else {
                written += 1;
                now[key as usize] = written;
                ops += &format!(" w(k{key},{written})");
            }
        }
        of_session[rng.below(sessions) as usize].push(ops);
    }
    let initial: String = (0..keys).map(|key| format!(" k{key}=0")).collect();
    let mut txns: Vec<String> = vec![format!("init:{initial}")];
    for (session, ops) in of_session.iter().enumerate() {
        txns.extend(
            ops.iter().enumerate().map(|(n, ops)| format!("T{}@s{session}:{ops}", 1000 * session + n)),
        );
    }
    margay_testkit::history(&txns.join(" | "))
}

/// The first schedule of a history without time is stuck, and saturation took most of the time of a
/// check. Repairs alone complete it; without them, it is stuck.
#[test]
fn a_schedule_that_is_stuck_is_repaired() {
    let budget = Budget::unlimited();
    let mut stuck = 0;
    for seed in 0..24 {
        let history = serial(seed, 300, 3 + seed as u32 % 6, 20 + 10 * (seed as u32 % 4));
        let levels = [Level::StrongSessionSerializable, Level::StrongSessionSnapshotIsolation];
        let question = Question::new(levels[seed as usize % 2]);
        let draft = prepare(&history, question, &budget).ok().expect("a draft");
        let problem = Problem::new(&history, question, &draft, &budget).expect("no limits");
        let found = |problem: &Problem<'_>| {
            let known = KnownGraph::new(problem, points::of(question.level), true);
            let order = crate::guess(&known, &budget).expect("no limits")?;
            Some(holds(problem, points::of(question.level), order))
        };
        let Some(Verdict::Holds(order)) = found(&problem) else { panic!("seed {seed} was not repaired") };
        assert_eq!(audit(&history, question, &order), Ok(()), "seed {seed}");
        let without = Strategies::ALL.without(Strategy::Repair);
        stuck += u32::from(found(&problem.with_strategies(without)).is_none());
    }
    assert!(stuck > 12, "{stuck} of 24 schedules need repairs");
}

#[test]
fn every_way_of_searching_agrees() {
    let (mut held, mut failed) = (0, 0);
    for seed in 0..150 {
        let protocol = [Protocol::Ss2pl, Protocol::SiFuw, Protocol::RcMvcc][seed as usize % 3];
        let mix = Mix::NAMED[seed as usize / 3 % Mix::NAMED.len()].1;
        let mut config = SimConfig {
            clients: 4,
            transactions: 30,
            ops: (1, 5),
            keys: 6,
            ..SimConfig::small(protocol, mix, seed)
        };
        if seed % 2 == 0 {
            config = config.with_fault(Fault::ALL[seed as usize % Fault::ALL.len()], Ppm::percent(10));
        }
        let (history, _) = simulate_history(&config).expect("a history");
        for level in [Level::Serializable, Level::StrongSessionSerializable, Level::SnapshotIsolation] {
            let question = Question::new(level);
            let expected = Solve.check(&history, question, &Budget::unlimited());
            let mut found = Vec::new();
            for saturated in [true, false] {
                found.push(search_only::<Bat>(&history, question, saturated));
                #[cfg(feature = "cadical")]
                found.push(search_only::<crate::cadical::Cadical>(&history, question, saturated));
            }
            for verdict in found.into_iter().flatten() {
                if matches!(expected, Verdict::Unknown(_)) {
                    continue;
                }
                assert_eq!(verdict.word(), expected.word(), "{level}: {}", config.command("OUT"));
                let audited = verdict.certificate().map(|certificate| audit(&history, question, certificate));
                assert!(!matches!(audited, Some(Err(_))), "{audited:?}: {}", config.command("OUT"));
                held += u32::from(matches!(verdict, Verdict::Holds(_)));
                failed += u32::from(matches!(verdict, Verdict::Violated(_)));
            }
        }
    }
    println!("{held} hold, {failed} are violated");
    assert!(held > 100 && failed > 10, "{held} hold, {failed} are violated");
}
