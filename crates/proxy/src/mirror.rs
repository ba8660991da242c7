//! Verification while the application runs.
//!
//! # Algorithm
//! Transactions come as wholes when they have ended. Their operations wait in a heap until no
//! connection can bring an earlier one, and go through the mirror in the order of time.
//!
//! # Invariants
//! The mirror knows the mechanisms of one level. At the first transaction of another level, or of
//! an unknown one, it ends and says so: what READ COMMITTED forbids, REPEATABLE READ may do, and
//! the reverse. It does not begin if something may write a table without being recorded.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use margay_history::{HistoryBuilder, Interval, OpKind, Table};
use margay_runner::{Live, Mechanisms, MirrorInput, Statements, Verified, declare};

use crate::catalog::Catalog;
use crate::initial::FirstState;
use crate::level::OwnLevel;

pub(crate) struct Mirror {
    live: Live,
    statements: Statements,
    level: OwnLevel,
    held: BinaryHeap<Reverse<Held>>,
    count: u64,
    /// Whether all statements of the transaction so far were followed, and how many transactions
    /// were.
    follows: bool,
    followed: u64,
    ended: Option<String>,
}

/// An operation that waits.
struct Held {
    label: u64,
    number: u64,
    at: Interval,
    told: MirrorInput,
}

impl Held {
    fn place(&self) -> (i64, u64) {
        (self.at.before, self.number)
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place().cmp(&other.place())
    }
}

impl Mirror {
    /// A mirror for transactions of this level, if its mechanisms are known. Without `looks_up`,
    /// rows that were there before must all be known.
    pub fn new(level: OwnLevel, dbms: &str, builder: &HistoryBuilder, looks_up: bool) -> Option<Self> {
        let mechanisms = Mechanisms::of(level.profile(dbms)?);
        let mut live = Live::new(mechanisms, 1, []);
        Statements::declare(builder, live.searches());
        builder.initial_values().for_each(|access| live.initial(access));
        let statements = Statements::new(builder, dbms, &mechanisms, 1);
        let unseen = |table: &&Table| table.has_unseen_writers() || (table.initial_unknown && !looks_up);
        let unseen = builder.tables().iter().find(unseen);
        let ended = unseen.map(|table| format!("the content of table {} is not known", table.name));
        Some(Self {
            live,
            statements,
            level,
            held: BinaryHeap::new(),
            count: 0,
            follows: true,
            followed: 0,
            ended,
        })
    }

    /// Something was done that is not recorded.
    pub fn give_up(&mut self) {
        self.ended.get_or_insert_with(|| "a transaction that may have done anything".to_owned());
        self.held.clear();
    }

    /// A transaction of this level comes.
    pub fn enter(&mut self, level: Option<OwnLevel>) {
        if level != Some(self.level) && self.ended.is_none() {
            self.ended = Some(match level {
                Some(level) => format!("transactions at {} and {}", self.level.name(), level.name()),
                None => "a transaction whose level is not known".to_owned(),
            });
            self.held.clear();
        }
    }

    /// The operation that was pushed last to the builder.
    pub fn push(
        &mut self,
        label: u64,
        kind: OpKind,
        at: Interval,
        builder: &mut HistoryBuilder,
        first: Option<&mut FirstState>,
        catalog: &Catalog,
    ) {
        if self.ended.is_some() && first.is_none() {
            return;
        }
        let told = match kind {
            OpKind::Sql => self.statements.statement(0, builder, self.live.searches()),
            _ => MirrorInput { kind, accesses: Vec::new(), asked: Default::default() },
        };
        // A statement that is none of these, and a query whose rows say nothing, is not followed.
        self.follows &= kind != OpKind::Sql
            || matches!(told.kind, OpKind::Read | OpKind::Write | OpKind::Update)
            || (told.kind == OpKind::Scan && told.asked.observed);
        if kind.outcome().is_some() {
            self.statements.ended(0);
            self.followed += u64::from(std::mem::replace(&mut self.follows, true));
        }
        told.accesses.iter().for_each(|access| declare(builder, *access, self.live.searches()));
        if let Some(first) = first {
            for access in &told.accesses {
                let found = first.look_up(access.object, catalog, builder);
                found.into_iter().for_each(|access| self.live.initial(access));
            }
        }
        if self.ended.is_some() {
            return;
        }
        self.count += 1;
        self.held.push(Reverse(Held { label, number: self.count, at, told }));
    }

    /// Judges whatever nothing can come before any more.
    pub fn advance(&mut self, until: i64, builder: &mut HistoryBuilder) {
        self.feed(until);
        self.live.promise(0, until);
        self.live.advance(builder.values(), || true);
    }

    fn feed(&mut self, until: i64) {
        while self.held.peek().is_some_and(|Reverse(held)| held.at.before < until) {
            let Some(Reverse(Held { label, at, told, .. })) = self.held.pop() else { return };
            self.live.push_asked(0, label, told.kind, at, &told.accesses, Some(told.asked));
        }
    }

    pub fn verified(&self) -> &Verified {
        self.live.verified()
    }

    /// How many transactions were followed as a whole.
    pub fn followed(&self) -> u64 {
        self.followed
    }

    /// All has come.
    pub fn finish(mut self, builder: &mut HistoryBuilder) -> Verified {
        self.feed(i64::MAX);
        let verified = self.live.finish(builder.values(), || true);
        Verified { ended: self.ended.or(verified.ended.clone()), ..verified }
    }
}
