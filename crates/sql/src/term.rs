//! Terms over integers and truth values: what a value is when it is not known.
//!
//! # Algorithm
//! Terms live in one arena. Equal terms are one (hash consing), and constants fold as terms are
//! made: what is known stays known, so that only what depends on something unknown is left for a
//! solver.
//!
//! # Invariants
//! - A term's parts have smaller numbers than the term: one pass in order evaluates all of them.
//! - A made term means what its constructor says, for all values of its variables.

use std::collections::HashMap;

use crate::value::Value;

/// A term of a [`Terms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term(u32);

impl Term {
    /// Truth.
    pub const TRUE: Term = Term(1);
    /// Falsity.
    pub const FALSE: Term = Term(0);

    /// The term of a number in an arena that has one.
    #[must_use]
    pub fn numbered(number: u32) -> Self {
        Term(number)
    }

    /// Its number in the arena.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a term is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// A truth value.
    Truth(bool),
    /// An integer.
    Int(i128),
    /// A truth value that is not known.
    Choice,
    /// An integer that is not known.
    Unknown,
    /// Not.
    Not(Term),
    /// All of them.
    And(Vec<Term>),
    /// One of them.
    Or(Vec<Term>),
    /// One integer or the other.
    If(Term, Term, Term),
    /// Equal integers.
    Equal(Term, Term),
    /// The first integer is less than the second.
    Less(Term, Term),
    /// The sum.
    Add(Term, Term),
    /// The product.
    Times(Term, Term),
}

impl Node {
    /// Whether it is a truth value rather than an integer.
    #[must_use]
    pub fn is_truth(&self) -> bool {
        use Node as N;
        matches!(
            self,
            N::Truth(_) | N::Choice | N::Not(_) | N::And(_) | N::Or(_) | N::Equal(..) | N::Less(..)
        )
    }

    /// The terms that it is made of.
    #[must_use]
    pub fn parts(&self) -> Vec<Term> {
        match self {
            Node::Truth(_) | Node::Int(_) | Node::Choice | Node::Unknown => Vec::new(),
            Node::Not(a) => vec![*a],
            Node::And(parts) | Node::Or(parts) => parts.clone(),
            Node::If(a, b, c) => vec![*a, *b, *c],
            Node::Equal(a, b) | Node::Less(a, b) | Node::Add(a, b) | Node::Times(a, b) => vec![*a, *b],
        }
    }
}

/// An arena of terms, and the values that integers stand for where a value is no number.
#[derive(Debug)]
pub struct Terms {
    nodes: Vec<Node>,
    known: HashMap<Node, Term>,
    values: Vec<Value>,
    numbers: HashMap<Value, usize>,
}

impl Default for Terms {
    fn default() -> Self {
        let mut terms =
            Terms { nodes: Vec::new(), known: HashMap::new(), values: Vec::new(), numbers: HashMap::new() };
        terms.make(Node::Truth(false));
        terms.make(Node::Truth(true));
        terms
    }
}

impl Terms {
    /// An arena with nothing but truth and falsity.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What a term is made of.
    #[must_use]
    pub fn node(&self, term: Term) -> &Node {
        &self.nodes[term.index()]
    }

    /// What all terms are made of, by their numbers.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The term of a number in the arena.
    #[must_use]
    pub fn term(&self, index: usize) -> Term {
        Term(u32::try_from(index).unwrap_or(u32::MAX))
    }

    fn make(&mut self, node: Node) -> Term {
        if let Some(&term) = self.known.get(&node) {
            return term;
        }
        let term = self.fresh(node.clone());
        self.known.insert(node, term);
        term
    }

    fn fresh(&mut self, node: Node) -> Term {
        let term = Term(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node);
        term
    }

    /// A truth value that is not known.
    pub fn choice(&mut self) -> Term {
        self.fresh(Node::Choice)
    }

    /// An integer that is not known.
    pub fn unknown(&mut self) -> Term {
        self.fresh(Node::Unknown)
    }

    /// A truth value.
    #[must_use]
    pub fn truth(known: bool) -> Term {
        if known { Term::TRUE } else { Term::FALSE }
    }

    /// An integer.
    pub fn int(&mut self, number: i128) -> Term {
        self.make(Node::Int(number))
    }

    /// The integer that stands for a value that is no number; equal values have equal ones.
    pub fn intern(&mut self, value: &Value) -> Term {
        let next = self.values.len();
        let number = *self.numbers.entry(value.clone()).or_insert(next);
        if number == next {
            self.values.push(value.clone());
        }
        self.int(number as i128)
    }

    /// The values that integers stand for, by those.
    #[must_use]
    pub fn interned(&self) -> &[Value] {
        &self.values
    }

    /// The integer that a term is, if it is known.
    #[must_use]
    pub fn known_int(&self, term: Term) -> Option<i128> {
        match self.node(term) {
            Node::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// Not.
    pub fn not(&mut self, a: Term) -> Term {
        match *self.node(a) {
            Node::Truth(known) => Self::truth(!known),
            Node::Not(inner) => inner,
            _ => self.make(Node::Not(a)),
        }
    }

    /// All of them.
    pub fn and(&mut self, parts: &[Term]) -> Term {
        let mut flat = Vec::new();
        for &part in parts {
            match self.node(part) {
                Node::Truth(true) => {}
                Node::And(inner) => flat.extend(inner.iter().copied()),
                _ => flat.push(part),
            }
        }
        flat.sort_unstable();
        flat.dedup();
        let denied =
            |part: &Term| matches!(self.node(*part), Node::Not(inner) if flat.binary_search(inner).is_ok());
        if flat.contains(&Term::FALSE) || flat.iter().any(denied) {
            return Term::FALSE;
        }
        match flat.as_slice() {
            [] => Term::TRUE,
            [one] => *one,
            _ => self.make(Node::And(flat)),
        }
    }

    /// One of them.
    pub fn or(&mut self, parts: &[Term]) -> Term {
        let mut flat = Vec::new();
        for &part in parts {
            match self.node(part) {
                Node::Truth(false) => {}
                Node::Or(inner) => flat.extend(inner.iter().copied()),
                _ => flat.push(part),
            }
        }
        flat.sort_unstable();
        flat.dedup();
        let denied =
            |part: &Term| matches!(self.node(*part), Node::Not(inner) if flat.binary_search(inner).is_ok());
        if flat.contains(&Term::TRUE) || flat.iter().any(denied) {
            return Term::TRUE;
        }
        match flat.as_slice() {
            [] => Term::FALSE,
            [one] => *one,
            _ => self.make(Node::Or(flat)),
        }
    }

    /// If the first, then the second.
    pub fn implies(&mut self, a: Term, b: Term) -> Term {
        let not = self.not(a);
        self.or(&[not, b])
    }

    /// Both or neither.
    pub fn same_truth(&mut self, a: Term, b: Term) -> Term {
        let (both, not_a, not_b) = (self.and(&[a, b]), self.not(a), self.not(b));
        let neither = self.and(&[not_a, not_b]);
        self.or(&[both, neither])
    }

    /// One truth value or the other.
    pub fn if_truth(&mut self, condition: Term, then: Term, otherwise: Term) -> Term {
        if then == otherwise {
            return then;
        }
        let (not, first) = (self.not(condition), self.and(&[condition, then]));
        let second = self.and(&[not, otherwise]);
        self.or(&[first, second])
    }

    /// One integer or the other.
    pub fn if_int(&mut self, condition: Term, then: Term, otherwise: Term) -> Term {
        match condition {
            Term::TRUE => then,
            Term::FALSE => otherwise,
            _ if then == otherwise => then,
            _ => self.make(Node::If(condition, then, otherwise)),
        }
    }

    /// Equal integers.
    pub fn equal(&mut self, a: Term, b: Term) -> Term {
        if a == b {
            return Term::TRUE;
        }
        let (a, b) = if a < b { (a, b) } else { (b, a) };
        match (self.node(a).clone(), self.node(b).clone()) {
            (Node::Int(_), Node::Int(_)) => Term::FALSE,
            // What is one of two constants is one of them or none.
            (Node::If(condition, then, otherwise), Node::Int(_)) => {
                self.equal_if(condition, (then, otherwise), b)
            }
            (Node::Int(_), Node::If(condition, then, otherwise)) => {
                self.equal_if(condition, (then, otherwise), a)
            }
            _ => self.make(Node::Equal(a, b)),
        }
    }

    fn equal_if(&mut self, condition: Term, (then, otherwise): (Term, Term), to: Term) -> Term {
        let (first, second) = (self.equal(then, to), self.equal(otherwise, to));
        self.if_truth(condition, first, second)
    }

    /// The first integer is less than the second.
    pub fn less(&mut self, a: Term, b: Term) -> Term {
        match (self.known_int(a), self.known_int(b)) {
            (Some(a), Some(b)) => Self::truth(a < b),
            _ if a == b => Term::FALSE,
            _ => self.make(Node::Less(a, b)),
        }
    }

    /// The first integer is not greater than the second.
    pub fn at_most(&mut self, a: Term, b: Term) -> Term {
        let greater = self.less(b, a);
        self.not(greater)
    }

    /// The sum.
    pub fn add(&mut self, a: Term, b: Term) -> Term {
        let folded = self.known_int(a).zip(self.known_int(b)).and_then(|(a, b)| a.checked_add(b));
        match (folded, self.known_int(a), self.known_int(b)) {
            (Some(sum), _, _) => self.int(sum),
            (_, Some(0), _) => b,
            (_, _, Some(0)) => a,
            _ => self.make(Node::Add(a.min(b), a.max(b))),
        }
    }

    /// The sum of all.
    pub fn sum(&mut self, parts: &[Term]) -> Term {
        let zero = self.int(0);
        parts.iter().fold(zero, |sum, &part| self.add(sum, part))
    }

    /// The difference.
    pub fn subtract(&mut self, a: Term, b: Term) -> Term {
        let minus = self.negate(b);
        self.add(a, minus)
    }

    /// The negated integer.
    pub fn negate(&mut self, a: Term) -> Term {
        let minus = self.int(-1);
        self.times(minus, a)
    }

    /// The product.
    pub fn times(&mut self, a: Term, b: Term) -> Term {
        let folded = self.known_int(a).zip(self.known_int(b)).and_then(|(a, b)| a.checked_mul(b));
        match (folded, self.known_int(a), self.known_int(b)) {
            (Some(product), _, _) => self.int(product),
            (_, Some(1), _) => b,
            (_, _, Some(1)) => a,
            _ => self.make(Node::Times(a.min(b), a.max(b))),
        }
    }

    /// The values of all terms, truth as 1 and falsity as 0, where `given` says those that are not
    /// known. Sums beyond 128 bits wrap.
    #[must_use]
    pub fn evaluate(&self, given: &dyn Fn(Term) -> i128) -> Vec<i128> {
        let mut values: Vec<i128> = Vec::with_capacity(self.nodes.len());
        for (number, node) in (0..).zip(&self.nodes) {
            let at = |term: &Term| values[term.index()];
            let value = match node {
                Node::Truth(known) => i128::from(*known),
                Node::Int(number) => *number,
                Node::Choice | Node::Unknown => given(Term(number)),
                Node::Not(a) => 1 - at(a),
                Node::And(parts) => i128::from(parts.iter().all(|part| at(part) != 0)),
                Node::Or(parts) => i128::from(parts.iter().any(|part| at(part) != 0)),
                Node::If(condition, then, otherwise) => at(if at(condition) != 0 { then } else { otherwise }),
                Node::Equal(a, b) => i128::from(at(a) == at(b)),
                Node::Less(a, b) => i128::from(at(a) < at(b)),
                Node::Add(a, b) => at(a).wrapping_add(at(b)),
                Node::Times(a, b) => at(a).wrapping_mul(at(b)),
            };
            values.push(value);
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_folds() {
        let mut terms = Terms::new();
        let (two, three, x) = (terms.int(2), terms.int(3), terms.unknown());
        let five = terms.add(two, three);
        assert_eq!(terms.known_int(five), Some(5));
        let p = terms.less(x, two);
        let not_p = terms.not(p);
        assert_eq!(terms.and(&[p, not_p]), Term::FALSE);
        assert_eq!(terms.or(&[p, not_p, Term::FALSE]), Term::TRUE);
        let either = terms.if_int(p, two, three);
        assert_eq!(terms.equal(either, two), p);
        assert_eq!(terms.equal(either, five), Term::FALSE);
        assert_eq!(terms.intern(&Value::text("a")), terms.intern(&Value::text("a")));
    }

    #[test]
    fn terms_mean_what_their_constructors_say() {
        let mut terms = Terms::new();
        let (x, y, p) = (terms.unknown(), terms.unknown(), terms.choice());
        let (sum, less) = (terms.subtract(x, y), terms.less(x, y));
        let picked = terms.if_int(p, sum, x);
        let both = terms.same_truth(p, less);
        for (a, b, c) in [(1, 5, 1), (5, 1, 0), (2, 2, 1)] {
            let given = |term: Term| {
                if term == x {
                    a
                } else if term == y {
                    b
                } else {
                    c
                }
            };
            let values = terms.evaluate(&given);
            assert_eq!(values[picked.index()], if c == 1 { a - b } else { a });
            assert_eq!(values[both.index()] == 1, (c == 1) == (a < b));
        }
    }
}
