//! Bytes for what workers of several processes tell each other.
//!
//! # Algorithm
//! Numbers are written seven bits at a time, the low ones first; signed ones with their sign in the
//! lowest bit. A time is written as it is. Whatever is not what it should be is nothing, never a
//! panic.
//!
//! # Invariants
//! All processes have read the same history, so ids mean the same everywhere. What was written is
//! read again as it was.

use margay_history::{Interval, NameId, ObjectId, OpId, PredicateId, TxnId, ValueId, Version};
use margay_mechanisms::{Fact, Pattern, Saw};
use margay_verdict::{Broken, Edge, Reason};

use crate::judge::{Explained, SharedRead, Spot, What};
use crate::record::{MarkedEdge, Reader};
use crate::shard::{Alarm, Of, Ordered};
use crate::statistics::{Dependencies, OpenReads};
use crate::txn::Seen;

/// What has a form in bytes.
pub(crate) trait Wire: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(bytes: &mut &[u8]) -> Option<Self>;
}

impl Wire for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let (&byte, rest) = bytes.split_first()?;
            *bytes = rest;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

impl Wire for i64 {
    fn put(&self, out: &mut Vec<u8>) {
        (((*self as u64) << 1) ^ ((*self >> 63) as u64)).put(out);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let number = u64::take(bytes)?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        match u64::take(bytes)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// Numbers that are not as long.
macro_rules! numbers {
    ($($name:ty)*) => {$(
        impl Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                (*self as u64).put(out);
            }

            fn take(bytes: &mut &[u8]) -> Option<Self> {
                Self::try_from(u64::take(bytes)?).ok()
            }
        }
    )*};
}

numbers!(u8 u32 usize);

macro_rules! ids {
    ($($name:ident)*) => {$(
        impl Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }

            fn take(bytes: &mut &[u8]) -> Option<Self> {
                u32::take(bytes).map($name)
            }
        }
    )*};
}

ids!(ObjectId OpId TxnId ValueId NameId PredicateId);

/// Structures field by field.
macro_rules! fields {
    ($($name:ident { $($field:ident)* })*) => {$(
        impl Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn take(bytes: &mut &[u8]) -> Option<Self> {
                Some($name { $($field: Wire::take(bytes)?),* })
            }
        }
    )*};
}

fields! {
    Interval { before after }
    Seen { op at object saw current }
    Spot { of group plain op index object }
    SharedRead { spot seen only }
    Fact { installed certain locked snapshot gone unchanged pattern }
    Reader { txn op saw version by sole number }
    MarkedEdge { edge direct }
    Edge { from to reason }
    Dependencies { certain deduced uncertain }
    OpenReads { all open shared }
    Explained { broken edges readers wr rw open }
    Ordered { alarms edges ww rw }
    Alarm { place txns broken }
}

/// Alternatives: a number for each, then what it has.
macro_rules! alternatives {
    ($($name:ident { $($number:literal $variant:ident $(($($part:ident)*))? $({$($field:ident)*})?)* })*) => {$(
        impl Wire for $name {
            #[allow(unreachable_patterns, reason = "some have all variants here, some have not")]
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$variant $(($($part),*))? $({$($field),*})? => {
                        out.push($number);
                        $($($part.put(out);)*)?
                        $($($field.put(out);)*)?
                    })*
                    // Nobody makes it, and nobody could read it.
                    _ => out.push(0x7F),
                }
            }

            fn take(bytes: &mut &[u8]) -> Option<Self> {
                Some(match u8::take(bytes)? {
                    $($number => {
                        $($(let $part = Wire::take(bytes)?;)*)?
                        $($(let $field = Wire::take(bytes)?;)*)?
                        $name::$variant $(($($part),*))? $({$($field),*})?
                    })*
                    _ => return None,
                })
            }
        }
    )*};
}

alternatives! {
    Version { 0 Initial 1 Of(txn) }
    Saw { 0 Value(value) 1 Without(predicate) 2 With(predicate) 3 Column(name value) }
    Pattern { 0 Any 1 Value(value) 2 Row(columns) 3 New(columns) 4 Tail(values) 5 List(values) }
    What { 0 Own 1 Search 2 Newest 3 Snapshot }
    Of { 0 Lock 1 Search 2 Write }
    Reason { 0 Read { op object } 1 Write { object } 2 AntiRead { op object version } }
    Broken { 0 Read { op } 1 Locks { object ops } 2 Updates { object txns } 3 Dependencies(edges) }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|some| some.put(out));
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        match bool::take(bytes)? {
            true => T::take(bytes).map(Some),
            false => Some(None),
        }
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        self.iter().for_each(|part| part.put(out));
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let count = usize::take(bytes)?;
        // Each takes a byte at least: whoever promises more lies.
        if count > bytes.len() {
            return None;
        }
        (0..count).map(|_| T::take(bytes)).collect()
    }
}

impl<T: Wire + Copy> Wire for [T; 2] {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|part| part.put(out));
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some([T::take(bytes)?, T::take(bytes)?])
    }
}

macro_rules! tuples {
    ($(($($part:ident)*))*) => {$(
        impl<$($part: Wire),*> Wire for ($($part,)*) {
            #[allow(non_snake_case, reason = "a part is named as its type")]
            fn put(&self, out: &mut Vec<u8>) {
                let ($($part,)*) = self;
                $($part.put(out);)*
            }

            fn take(bytes: &mut &[u8]) -> Option<Self> {
                Some(($($part::take(bytes)?,)*))
            }
        }
    )*};
}

tuples!((A B) (A B C) (A B C D));

#[cfg(test)]
mod tests {
    use super::*;

    fn again<T: Wire + PartialEq + std::fmt::Debug>(all: &[T]) {
        for one in all {
            let mut bytes = Vec::new();
            one.put(&mut bytes);
            let mut rest = bytes.as_slice();
            assert_eq!(T::take(&mut rest).as_ref(), Some(one), "{bytes:?}");
            assert!(rest.is_empty());
            // Whatever is cut off is nothing, and no panic.
            for length in 0..bytes.len() {
                assert!(T::take(&mut &bytes[..length]).is_none(), "{one:?} {length}");
            }
        }
    }

    #[test]
    fn what_was_written_is_read_again() {
        again(&[0, 1, 127, 128, 1 << 40, u64::MAX]);
        again(&[0, -1, 1, i64::MIN, i64::MAX, -12_345_678]);
        again(&[u32::MAX, 7]);
        again(&[None, Some(Version::Initial), Some(Version::Of(TxnId(9)))]);
        let columns = vec![(NameId(1), ValueId(2)), (NameId(3), ValueId(4))];
        again(&[Pattern::Any, Pattern::Row(columns), Pattern::List(Vec::new())]);
        let object = ObjectId(3);
        again(&[
            Broken::Read { op: OpId(1) },
            Broken::Locks { object, ops: [OpId(1), OpId(2)] },
            Broken::Dependencies(vec![Edge {
                from: TxnId(1),
                to: TxnId(2),
                reason: Reason::AntiRead { op: OpId(5), object, version: Version::Initial },
            }]),
        ]);
    }

    #[test]
    fn what_promises_too_much_is_nothing() {
        let mut bytes = Vec::new();
        u64::MAX.put(&mut bytes);
        assert_eq!(Vec::<u32>::take(&mut bytes.as_slice()), None);
        assert_eq!(u64::take(&mut &[0xFF; 11][..]), None);
        assert_eq!(Version::take(&mut &[9][..]), None);
        assert_eq!(u32::take(&mut bytes.as_slice()), None);
    }
}
