//! Letters in containers of our own: within a process they are moved, between processes they are
//! bytes.
//!
//! # Algorithm
//! A letter becomes bytes at most once, when timely asks how long it is. Lengths are multiples of
//! eight, as timely wants them.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use margay_mirror::Letter;
use timely::Accountable;
use timely::bytes::arc::Bytes;
use timely::container::{DrainContainer, PushInto, SizableContainer};
use timely::dataflow::channels::ContainerBytes;

/// How many bytes have become letters for other processes.
pub(crate) static CROSSED: AtomicU64 = AtomicU64::new(0);

/// A letter on its way.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    pub to: usize,
    pub from: usize,
    pub round: u64,
    /// The how-many-th of its sender in this round.
    pub number: usize,
    /// Nothing if its bytes were none of a letter.
    pub letter: Option<Letter>,
    /// What stands for the letter, when it has been asked for.
    pub bytes: OnceLock<Vec<u8>>,
}

/// Receiver, sender, round, number and length of a letter.
const HEAD: usize = 5 * 8;

/// Several parcels.
#[derive(Clone, Default, Debug)]
pub(crate) struct Mail(Vec<Parcel>);

impl Parcel {
    fn bytes(&self) -> &[u8] {
        self.bytes.get_or_init(|| self.letter.as_ref().map_or_else(Vec::new, Letter::to_bytes))
    }
}

impl Accountable for Mail {
    fn record_count(&self) -> i64 {
        self.0.len() as i64
    }
}

impl DrainContainer for Mail {
    type Item<'a> = Parcel;
    type DrainIter<'a> = std::vec::Drain<'a, Parcel>;

    fn drain(&mut self) -> Self::DrainIter<'_> {
        self.0.drain(..)
    }
}

impl SizableContainer for Mail {
    fn at_capacity(&self) -> bool {
        !self.0.is_empty()
    }

    fn ensure_capacity(&mut self, _: &mut Option<Self>) {}
}

impl PushInto<Parcel> for Mail {
    fn push_into(&mut self, parcel: Parcel) {
        self.0.push(parcel);
    }
}

impl ContainerBytes for Mail {
    fn from_bytes(bytes: Bytes) -> Self {
        let mut rest = &bytes[..];
        let mut mail = Self::default();
        // What comes after the last one is padding.
        while let Some((head, more)) = rest.split_at_checked(HEAD) {
            let number = |place: usize| {
                let eight = head[8 * place..8 * place + 8].try_into().unwrap_or_default();
                u64::from_le_bytes(eight)
            };
            let Some((letter, more)) = more.split_at_checked(number(4) as usize) else { break };
            mail.0.push(Parcel {
                to: number(0) as usize,
                from: number(1) as usize,
                round: number(2),
                number: number(3) as usize,
                letter: Letter::from_bytes(letter),
                bytes: OnceLock::new(),
            });
            rest = more;
        }
        mail
    }

    fn length_in_bytes(&self) -> usize {
        let all: usize = self.0.iter().map(|parcel| HEAD + parcel.bytes().len()).sum();
        all.next_multiple_of(8)
    }

    fn into_bytes<W: Write>(&self, writer: &mut W) {
        let mut all = Vec::with_capacity(self.length_in_bytes());
        for parcel in &self.0 {
            let letter = parcel.bytes();
            let numbers = [parcel.to, parcel.from, parcel.round as usize, parcel.number, letter.len()];
            numbers.into_iter().for_each(|part| all.extend((part as u64).to_le_bytes()));
            all.extend(letter);
        }
        CROSSED.fetch_add(all.len() as u64, Ordering::Relaxed);
        all.resize(all.len().next_multiple_of(8), 0);
        // Timely's buffer was made as long as this; a socket's end is noticed elsewhere.
        let _ = writer.write_all(&all);
    }
}
