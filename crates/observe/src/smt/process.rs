//! A solver as a process: terms in, the values of a model out.

use std::io;
use std::process::{Command, Stdio};

use easy_smt::{Context, ContextBuilder, Response, SExpr};
use margay_sql::{Node, Term, Terms};
use margay_verdict::Budget;

/// A solver that may be installed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Solver {
    /// Z3.
    Z3,
    /// cvc5.
    Cvc5,
}

impl Solver {
    /// Both, the preferred one first.
    pub const ALL: [Solver; 2] = [Solver::Z3, Solver::Cvc5];

    /// The program's name, and that of the Debian package that brings it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Solver::Z3 => "z3",
            Solver::Cvc5 => "cvc5",
        }
    }

    /// Whether the program can be run.
    #[must_use]
    pub fn is_there(self) -> bool {
        let asked = Command::new(self.name()).arg("--version").stdin(Stdio::null()).output();
        asked.is_ok_and(|output| output.status.success())
    }

    /// The first that is installed.
    #[must_use]
    pub fn installed() -> Option<Solver> {
        Self::ALL.into_iter().find(|solver| solver.is_there())
    }

    fn arguments(self, milliseconds: Option<u128>) -> Vec<String> {
        let (fixed, limit): (&[&str], &str) = match self {
            Solver::Z3 => (&["-smt2", "-in", "-v:0"], "-t:"),
            Solver::Cvc5 => (&["--quiet", "--lang=smt2", "--incremental"], "--tlimit-per="),
        };
        let limit = milliseconds.map(|limit_ms| format!("{limit}{}", limit_ms.max(1)));
        fixed.iter().map(ToString::to_string).chain(limit).collect()
    }
}

/// The values of all terms in a model of the assertions; `None` if there is no model.
///
/// # Errors
/// Why the solver gave no answer.
pub fn solve(
    solver: Solver,
    terms: &Terms,
    asserted: &[Term],
    budget: &Budget,
) -> Result<Option<Vec<i128>>, String> {
    budget.poll().map_err(|exhausted| exhausted.to_string())?;
    if asserted.contains(&Term::FALSE) {
        return Ok(None);
    }
    let name = solver.name();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => format!("the program {name} is not there (Debian package {name})"),
        _ => format!("{name}: {error}"),
    };
    talk(solver, terms, asserted, budget).map_err(failed)?.ok_or_else(|| format!("{name} does not know"))
}

/// Asks; `Ok(None)` if the solver does not know.
fn talk(
    solver: Solver,
    terms: &Terms,
    asserted: &[Term],
    budget: &Budget,
) -> io::Result<Option<Option<Vec<i128>>>> {
    let limit = budget.remaining().map(|left| left.as_millis());
    let mut context =
        ContextBuilder::new().solver(solver.name()).solver_args(solver.arguments(limit)).build()?;
    context.set_logic(if is_linear(terms) { "QF_LIA" } else { "QF_NIA" })?;
    let leaves = define(&mut context, terms, asserted)?;
    match context.check()? {
        Response::Unsat => Ok(Some(None)),
        Response::Unknown => Ok(None),
        Response::Sat => Ok(Some(Some(values(&mut context, terms, &leaves)?))),
    }
}

/// Whether every product has a known factor.
fn is_linear(terms: &Terms) -> bool {
    let linear = |node: &Node| match node {
        Node::Times(a, b) => terms.known_int(*a).or(terms.known_int(*b)).is_some(),
        _ => true,
    };
    terms.nodes().iter().all(linear)
}

/// Defines every term that the assertions need, and asserts them; gives the unknowns among them.
fn define(context: &mut Context, terms: &Terms, asserted: &[Term]) -> io::Result<Vec<(Term, SExpr)>> {
    let mut needed = vec![false; terms.nodes().len()];
    asserted.iter().for_each(|term| needed[term.index()] = true);
    for (at, node) in terms.nodes().iter().enumerate().rev() {
        if needed[at] {
            node.parts().into_iter().for_each(|part| needed[part.index()] = true);
        }
    }
    let mut written: Vec<Option<SExpr>> = vec![None; needed.len()];
    let mut leaves = Vec::new();
    for (at, node) in terms.nodes().iter().enumerate().filter(|(at, _)| needed[*at]) {
        let sort = if node.is_truth() { context.bool_sort() } else { context.int_sort() };
        let expression = match node {
            Node::Choice | Node::Unknown => {
                let leaf = context.declare_const(format!("u{at}"), sort)?;
                leaves.push((terms.term(at), leaf));
                leaf
            }
            Node::Truth(_) | Node::Int(_) => written_node(context, node, &written),
            _ => {
                let body = written_node(context, node, &written);
                context.define_const(format!("t{at}"), sort, body)?
            }
        };
        written[at] = Some(expression);
    }
    for term in asserted {
        if let Some(expression) = written[term.index()] {
            context.assert(expression)?;
        }
    }
    Ok(leaves)
}

fn written_node(context: &Context, node: &Node, written: &[Option<SExpr>]) -> SExpr {
    let at = |term: &Term| written[term.index()].unwrap_or_else(|| context.true_());
    match node {
        Node::Truth(true) | Node::Choice | Node::Unknown => context.true_(),
        Node::Truth(false) => context.false_(),
        Node::Int(number) => {
            let size = context.numeral(number.unsigned_abs());
            if *number < 0 { context.list(vec![context.atom("-"), size]) } else { size }
        }
        Node::Not(a) => context.not(at(a)),
        Node::And(parts) => context.and_many(parts.iter().map(at)),
        Node::Or(parts) => context.or_many(parts.iter().map(at)),
        Node::If(condition, then, otherwise) => context.ite(at(condition), at(then), at(otherwise)),
        Node::Equal(a, b) => context.eq(at(a), at(b)),
        Node::Less(a, b) => context.lt(at(a), at(b)),
        Node::Add(a, b) => context.plus(at(a), at(b)),
        Node::Times(a, b) => context.times(at(a), at(b)),
    }
}

/// The values of all terms in the model.
fn values(context: &mut Context, terms: &Terms, leaves: &[(Term, SExpr)]) -> io::Result<Vec<i128>> {
    let mut given = vec![0; terms.nodes().len()];
    for (term, leaf) in leaves {
        for (_, value) in context.get_value(vec![*leaf])? {
            let truth = if value == context.true_() { Some(1) } else { None };
            given[term.index()] = truth.or(context.get_i128(value)).unwrap_or(0);
        }
    }
    Ok(terms.evaluate(&|term| given[term.index()]))
}
