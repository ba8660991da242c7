//! The mechanisms of a database, as far as intervals can show them.
//!
//! A database keeps a level by mechanisms: snapshots, locks, a rule for concurrent updates, a
//! certifier. A level says what clients may see; a mechanism says more, and says it of points in
//! time. What they allow is defined in the crate `margay-mechanisms`.

use margay_levels::Level;
use margay_levels::profile::{
    Certifier, Granularity, Lock, Mode, PredicateLock, Profile, Read, Snapshot, Statement,
};

/// The mechanisms of one database at one level, as far as intervals can tell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mechanisms {
    /// What plain reads see.
    pub view: ReadView,
    /// Whether what one snapshot shows of different objects belongs to one point in time. Where
    /// each object is read at a point of its own, each is explained by itself.
    pub together: bool,
    /// Whether plain reads lock what they return to the end of their transaction.
    pub read_locks: bool,
    /// What writes lock to the end of their transaction, if anything.
    pub write_locks: Option<Granularity>,
    /// Whether plain reads also lock what they searched, so that nobody makes a row match.
    pub read_regions: bool,
    /// Whether predicate updates do.
    pub write_regions: bool,
    /// Whether predicate updates search what plain reads see.
    pub update_search: bool,
    /// Of two transactions that write one object, one must have committed before the other's
    /// snapshot.
    pub first_updater_wins: bool,
    /// Whether a write that leaves an object as it was makes no version, so that nobody is refused
    /// because of it.
    pub skips_unchanged: bool,
    /// What reads that lock see, and whether they lock for certain.
    pub locking: Locking,
    /// What must not commit.
    pub certifier: Certified,
    /// Where the point lies at which a transaction takes place, if dependencies follow the order of
    /// these points.
    pub points: Option<Points>,
}

/// What reads see that lock what they return to the end of their transaction (FOR UPDATE, FOR
/// SHARE).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Locking {
    /// Nothing is known of them.
    Nothing,
    /// They are as plain reads.
    Plain,
    /// What plain reads see; a row that was changed since is refused where concurrent updates are.
    Snapshot,
    /// Each row as it is when it is locked, at a point of the statement of its own.
    Newest,
    /// As [`Locking::Newest`], and they lock what they searched: nobody makes a row match.
    NewestGaps,
}

impl Locking {
    /// All, with their words.
    pub const ALL: [(Locking, &'static str); 5] = [
        (Locking::Nothing, "nothing"),
        (Locking::Plain, "plain"),
        (Locking::Snapshot, "snapshot"),
        (Locking::Newest, "newest"),
        (Locking::NewestGaps, "newest-gaps"),
    ];

    /// Whether locking reads lock rows for certain.
    #[must_use]
    pub fn locks(self) -> bool {
        !matches!(self, Locking::Nothing | Locking::Plain)
    }

    /// Whether they see something else than plain reads.
    #[must_use]
    pub fn sees_newest(self) -> bool {
        matches!(self, Locking::Newest | Locking::NewestGaps)
    }
}

/// Where the point lies at which a transaction takes place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Points {
    /// Anywhere between its beginning and its end: timestamp order, and every level that keeps real
    /// time.
    Within,
    /// At its commit, where what it read is validated; of a transaction that wrote nothing
    /// anywhere.
    Commit,
}

impl Points {
    /// All, with their words.
    pub const ALL: [(Points, &'static str); 2] = [(Points::Within, "within"), (Points::Commit, "commit")];
}

/// What plain reads see.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReadView {
    /// The newest versions, committed or not, each object at a point of the statement of its own.
    /// An abort takes away what its transaction wrote, and nothing else.
    Uncommitted,
    /// The newest committed versions at one point of each statement.
    Statement,
    /// As [`ReadView::Statement`], but a transaction that writes nothing may read all at one point
    /// since its beginning.
    StatementOrBefore,
    /// Those at one point of BEGIN.
    Begin,
    /// Those at one point of the first statement.
    FirstStatement,
    /// Those at one point from BEGIN to the first read.
    FirstRead,
    /// The transaction takes place at one point between its beginning and its end, where its
    /// versions are installed too.
    Within,
}

/// Which cycles of dependencies must not commit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Certified {
    /// Cycles of ww and wr.
    Committed,
    /// All cycles.
    Serializable,
    /// All cycles, and dangerous structures: `A → B → C` over rw, each to the writer of the version
    /// right after the one that was read, where C committed first of the three, and if A wrote
    /// nothing before A's snapshot.
    Ssi,
}

impl ReadView {
    /// All, with their words.
    pub const ALL: [(ReadView, &'static str); 7] = [
        (ReadView::Uncommitted, "uncommitted"),
        (ReadView::Statement, "statement"),
        (ReadView::StatementOrBefore, "statement-or-before"),
        (ReadView::Begin, "begin"),
        (ReadView::FirstStatement, "first-statement"),
        (ReadView::FirstRead, "first-read"),
        (ReadView::Within, "within"),
    ];

    /// Whether all plain reads of a transaction see one snapshot.
    #[must_use]
    pub fn is_shared(self) -> bool {
        matches!(self, ReadView::Begin | ReadView::FirstStatement | ReadView::FirstRead | ReadView::Within)
    }
}

impl Certified {
    /// All, with their words.
    pub const ALL: [(Certified, &'static str); 3] = [
        (Certified::Committed, "committed"),
        (Certified::Serializable, "serializable"),
        (Certified::Ssi, "ssi"),
    ];
}

/// The word for a value of such a table.
#[must_use]
pub fn word<T: Copy + PartialEq>(all: &[(T, &'static str)], value: T) -> &'static str {
    all.iter().find(|(v, _)| *v == value).map_or("", |(_, word)| word)
}

impl Mechanisms {
    /// The mechanisms of a profile.
    ///
    /// # Differs from the paper
    /// Whatever intervals cannot prove is left out: share locks that end with their statement,
    /// locks of a database whose readers and writers exclude each other only at commit (granularity
    /// [`Granularity::Database`]), writes that lock only at commit. Reads that lock instead of
    /// seeing a snapshot read each object at a time of its own. Where timestamps come from clocks
    /// of several servers, a snapshot is no point in real time: there a transaction takes place
    /// somewhere between its beginning and its end, object by object.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        let select = profile.mode(Statement::Select);
        let serializable = profile.promises(Level::Serializable);
        let snapshots = profile.promises(Level::SnapshotIsolation);
        let loose = !profile.one_clock;
        let checks_writes = matches!(profile.certifier, Some(Certifier::Percolator | Certifier::Occ));
        let (view, update) = (view(profile, select.read), profile.mode(Statement::Update));
        let rows = profile.mutual_exclusion == Some(Granularity::Row);
        let blocks = |mode: Mode| mode.predicate == PredicateLock::Blocking;
        Self {
            view: if loose && view.is_shared() { ReadView::Within } else { view },
            together: !loose && !matches!(select.read, Read::Newest | Read::Uncommitted),
            read_locks: select.lock == Lock::Share && rows,
            write_locks: profile.mutual_exclusion.filter(|_| update.lock == Lock::Exclusive),
            read_regions: rows && blocks(select) && select.lock == Lock::Share,
            write_regions: rows && blocks(update) && update.lock == Lock::Exclusive,
            update_search: !loose && select.read == Read::Snapshot && update.read == Read::Snapshot,
            first_updater_wins: !loose
                && (profile.first_updater_wins || (checks_writes && snapshots && !serializable)),
            skips_unchanged: profile.skips_unchanged,
            locking: if loose || !rows { Locking::Nothing } else { locking(profile) },
            certifier: match profile.certifier {
                Some(Certifier::Ssi) => Certified::Ssi,
                _ if serializable => Certified::Serializable,
                _ => Certified::Committed,
            },
            points: match profile.certifier {
                _ if loose => None,
                Some(Certifier::Occ) if serializable => Some(Points::Commit),
                _ => profile.promises(Level::StrictSerializable).then_some(Points::Within),
            },
        }
    }

    /// Whether a transaction computes what it writes from the one state that it reads: a row that
    /// was changed since is refused.
    #[must_use]
    pub fn sees_one_state(&self) -> bool {
        self.view.is_shared() && self.together && self.update_search && self.first_updater_wins
    }

    /// Whether what a transaction wrote stays as it is until it ends, so that its own reads show
    /// that. Others overwrite it where they neither wait nor make a version of their own.
    #[must_use]
    pub fn keeps_own(&self) -> bool {
        self.view != ReadView::Uncommitted || self.write_locks.is_some()
    }

    /// Whether a transaction that has written a row sees no older version of it beside its own.
    /// PostgreSQL shows both where an INSERT met a newer state than the snapshot.
    #[must_use]
    pub fn sees_own_alone(&self) -> bool {
        self.view.is_shared() && self.together && self.locking.sees_newest()
    }

    /// Whether a transaction may see a row that somebody has deleted since its snapshot beside the
    /// one that it has inserted in its place, or alone if its condition is true of that one only.
    #[must_use]
    pub fn sees_both(&self) -> bool {
        self.view.is_shared() && !self.sees_own_alone()
    }

    /// Whether some searches lock what they searched.
    #[must_use]
    pub fn locks_regions(&self) -> bool {
        self.read_regions || self.write_regions || self.locking == Locking::NewestGaps
    }

    /// Whether a row that a scan did not return was not there to be returned. Where rows are locked
    /// one by one, without what lies between them, a row may move past a scan.
    #[must_use]
    pub fn scans_whole(&self) -> bool {
        self.view != ReadView::Uncommitted && (self.together || self.read_regions)
    }
}

fn locking(profile: &Profile) -> Locking {
    let (share, update) = (profile.mode(Statement::SelectForShare), profile.mode(Statement::SelectForUpdate));
    let locks = share.lock == Lock::Share && update.lock == Lock::Exclusive;
    let both = |test: fn(&Mode) -> bool| test(&share) && test(&update);
    match locks {
        true if both(|mode| mode.read == Read::Snapshot) => Locking::Snapshot,
        true if both(|mode| mode.read == Read::Newest && mode.predicate == PredicateLock::Blocking) => {
            Locking::NewestGaps
        }
        true if both(|mode| matches!(mode.read, Read::Newest | Read::SnapshotThenNewest)) => Locking::Newest,
        _ => Locking::Nothing,
    }
}

fn view(profile: &Profile, read: Read) -> ReadView {
    match (read, profile.consistent_read) {
        (Read::Uncommitted, _) => ReadView::Uncommitted,
        (Read::Newest, None) if profile.protocol.contains("MVCC") => ReadView::StatementOrBefore,
        (Read::Newest, _) | (_, None | Some(Snapshot::Statement)) => ReadView::Statement,
        (_, Some(Snapshot::Begin)) => ReadView::Begin,
        (_, Some(Snapshot::FirstStatement)) => ReadView::FirstStatement,
        (_, Some(Snapshot::FirstRead)) => ReadView::FirstRead,
        (_, Some(Snapshot::Within)) => ReadView::Within,
    }
}

/// How the dependencies of one kind came to be known.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Dependencies {
    /// The intervals do not overlap: time alone tells.
    pub certain: u64,
    /// They overlap, and values, snapshots, locks or the rule for concurrent updates tell.
    pub deduced: u64,
    /// Nothing tells.
    pub uncertain: u64,
}

impl Dependencies {
    /// One more.
    pub fn count(&mut self, known: bool, by_time: bool) {
        let kind = match (known, by_time) {
            (true, true) => &mut self.certain,
            (true, false) => &mut self.deduced,
            (false, _) => &mut self.uncertain,
        };
        *kind += 1;
    }

    /// All of these, too.
    pub fn add(&mut self, more: Dependencies) {
        self.certain += more.certain;
        self.deduced += more.deduced;
        self.uncertain += more.uncertain;
    }

    /// The part of the dependencies that is known, from 0 to 1; 1 if there are none.
    #[must_use]
    pub fn known(&self) -> f64 {
        part(self.certain + self.deduced, self.uncertain)
    }
}

/// The dependencies that an engine looked at while it verified mechanisms.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Deduced {
    /// Pairs of versions of one object.
    pub ww: Dependencies,
    /// Reads.
    pub wr: Dependencies,
    /// Reads and later versions of what they saw.
    pub rw: Dependencies,
}

impl Deduced {
    /// Leopard's β: the part of all dependencies whose intervals overlap, from 0 to 1. Time alone
    /// does not tell them.
    #[must_use]
    pub fn overlap_ratio(&self) -> f64 {
        let all = self.all();
        1.0 - part(all.certain, all.deduced + all.uncertain)
    }

    /// The part of those that is deduced all the same, from 0 to 1; 1 if none overlap.
    #[must_use]
    pub fn deduced_ratio(&self) -> f64 {
        let all = self.all();
        part(all.deduced, all.uncertain)
    }

    fn all(&self) -> Dependencies {
        let mut all = self.ww;
        all.add(self.wr);
        all.add(self.rw);
        all
    }
}

fn part(these: u64, others: u64) -> f64 {
    if these + others == 0 { 1.0 } else { these as f64 / (these + others) as f64 }
}
