//! A statement in the making: its text in the words of MySQL and in those of the others, and its
//! places for parameters.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use margay_client::Rng;

use super::tables::{SHOWN, Shown};

/// A place for a parameter: what it is filled with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hole {
    /// A number that is a part of a key.
    Key,
    /// The same, one that nobody has used.
    Fresh,
    /// A text that is a key.
    Name,
    /// The same, one that nobody has used.
    FreshName,
    /// A number that is a part of a key, one that was used lately.
    Recent,
    /// A text that is a key, one that was used lately.
    RecentName,
    /// A small number.
    Int,
    /// A number of rows.
    Few,
    /// A text.
    Text,
    /// A small number or NULL.
    IntOrNull,
    /// A text or NULL.
    TextOrNull,
}

/// A statement with places for parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    plain: &'static str,
    mysql: &'static str,
    pub holes: Vec<Hole>,
}

impl Shape {
    pub fn text(&self, mysql: bool) -> &'static str {
        if mysql { self.mysql } else { self.plain }
    }
}

pub(super) struct Draft<'a> {
    rng: &'a mut Rng,
    /// Keys from here on may be deleted.
    pub first: i64,
    plain: String,
    mysql: String,
    holes: Vec<Hole>,
}

impl<'a> Draft<'a> {
    pub fn new(rng: &'a mut Rng, first: i64) -> Self {
        Self { rng, first, plain: String::new(), mysql: String::new(), holes: Vec::new() }
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.rng.below(limit)
    }

    /// Whether something happens that does so once in so many times.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    pub fn table(&mut self) -> Shown {
        self.pick(&SHOWN)
    }

    /// A table other than this one: no database minds that a statement looks at one and changes the
    /// other.
    pub fn other(&mut self, than: Shown) -> Shown {
        let others: Vec<Shown> = SHOWN.into_iter().filter(|table| table.name != than.name).collect();
        self.pick(&others)
    }

    pub fn say(&mut self, text: &str) {
        self.say_either(text, text);
    }

    pub fn say_either(&mut self, plain: &str, mysql: &str) {
        self.plain += plain;
        self.mysql += mysql;
    }

    pub fn hole(&mut self, hole: Hole) {
        self.holes.push(hole);
        let place = format!("${}", self.holes.len());
        self.say(&place);
    }

    /// A key of a row that may be deleted.
    pub fn recent(&self, table: Shown) -> Hole {
        match (self.first, table.named) {
            (0, true) => Hole::Name,
            (0, false) => Hole::Key,
            (_, true) => Hole::RecentName,
            (_, false) => Hole::Recent,
        }
    }

    /// Parts with a text between them.
    pub fn list<T>(&mut self, between: &str, of: &[T], mut each: impl FnMut(&mut Self, &T)) {
        for (at, one) in of.iter().enumerate() {
            if at > 0 {
                self.say(between);
            }
            each(self, one);
        }
    }

    pub fn finish(self) -> Shape {
        Shape { plain: kept(self.plain), mysql: kept(self.mysql), holes: self.holes }
    }
}

/// Texts are recorded where they stand, without copies, so they stay as long as the process. Each
/// stays once; a seed has not many.
static KEPT: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);

fn kept(text: String) -> &'static str {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = kept.get_or_insert_default();
    if let Some(known) = kept.get(text.as_str()) {
        return known;
    }
    let text: &'static str = text.leak();
    kept.insert(text);
    text
}
