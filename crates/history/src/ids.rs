//! Ids: `u32` newtypes, so that a transaction can never be taken for an object.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into a column.
            #[inline]
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of the element at `index` of a column.
            ///
            /// # Panics
            /// If `index` needs more than 32 bits: [`crate::HistoryBuilder`] refuses such histories
            /// first.
            #[inline]
            #[must_use]
            pub fn at(index: usize) -> Self {
                Self(u32::try_from(index).expect("a history holds at most 2^32 of anything"))
            }
        }
    )*};
}

ids! {
    /// A session, in order of its label.
    SessionId
    /// A transaction; within one session, `<` is session order.
    TxnId
    /// An operation; within one transaction, `<` is program order.
    OpId
    /// An object: a row (table, key) or a key of a key-value store.
    ObjectId
    /// An interned value. Equal ids mean equal values. See [`crate::Values`] for what the number
    /// means.
    ValueId
    /// A table.
    TableId
    /// A column's name.
    NameId
    /// A predicate: a table and the text of a WHERE clause.
    PredicateId
}
