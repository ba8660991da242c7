//! What a product is known to do that our definition of its promise forbids.
//!
//! A deviation is no bug that is hushed up: the product's documentation describes it.
//! `margay check` at a level goes by the definition; `margay run` on the product sets such a
//! finding aside and says so.

/// One documented behaviour of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deviation {
    /// Its name.
    pub name: &'static str,
    /// What happens, and why the product does not count it; one paragraph.
    pub explanation: &'static str,
    /// Where it is documented, for people.
    pub documented: &'static str,
    /// Keys of the sources.
    pub cites: &'static [&'static str],
}

/// PostgreSQL at REPEATABLE READ.
pub const INSERT_OVER_UNSEEN_DELETION: Deviation = Deviation {
    name: "insert-over-unseen-deletion",
    explanation: "A transaction may insert a row whose key another transaction has deleted since its snapshot. For \
        PostgreSQL the new row is another row: its rule about concurrent updates is about rows that UPDATE, DELETE \
        and locking reads find, and the check of a unique index ignores rows whose deletion has committed. In a \
        history it is one object, which overlapping transactions have written.",
    documented: "PostgreSQL documentation, 13.2.2 (Repeatable Read Isolation Level) and the section on index \
        uniqueness checks",
    cites: &["PostgreSQL"],
};
