//! Histories without any sense: every operation is drawn by itself, from so few values that many
//! hold all the same.
//!
//! [`random`](margay_testkit::random) runs transactions on a model, which only sees what a database
//! might show. What an audit overlooks is rather in what no database would do: rows that are shown
//! in part, conditions on several columns, lists that are replaced, outcomes that nobody learned.

use margay_history::History;
use margay_testkit::{Rng, parse};

const LISTS: [&str; 11] =
    ["[]", "[1]", "[2]", "[1 2]", "[2 1]", "[1 2 3]", "[9 1]", "[9 1 2]", "[3]", "[1 1]", "_"];

const CONDITIONS: [&str; 8] =
    ["v = 0", "v = 1", "w IS NULL", "v < w", "v = 1 OR w = 1", "v = 0 AND w = 1", "v + w > 0", "value = 1"];

/// The same history for the same seed.
pub fn wild(seed: u64) -> History {
    let mut rng = Rng::new(seed ^ 0x5eed_0000);
    loop {
        if let Ok(history) = parse(&Wild::new(&mut rng).text()) {
            return history;
        }
    }
}

struct Wild<'r> {
    rng: &'r mut Rng,
    objects: &'static [&'static str],
    /// Columns are shown only as wholes, or left out too.
    partial: bool,
}

impl<'r> Wild<'r> {
    fn new(rng: &'r mut Rng) -> Self {
        let objects: &[&str] = rng.pick::<&[&str]>(&[
            &["x", "y"],
            &["l"],
            &["l", "m"],
            &["t/1"],
            &["t/1", "t/2"],
            &["t/1", "x"],
        ]);
        let partial = rng.chance(60);
        Self { rng, objects, partial }
    }

    fn text(&mut self) -> String {
        let count = 2 + self.rng.below(3);
        let sessions = if self.rng.chance(40) { 2 } else { 9 };
        let timed = self.rng.chance(30);
        let mut segments = vec![self.initial()];
        for txn in 1..=count {
            let ops: Vec<String> = (0..1 + self.rng.below(2)).map(|_| self.timed_op(timed)).collect();
            let end =
                if self.rng.chance(75) { "" } else { *self.rng.pick(&[" unknown", " unknown", " abort"]) };
            let session = if sessions == 9 { 10 + txn } else { self.rng.below(sessions) };
            segments.push(format!("T{txn}@s{session}: {}{end}", ops.join(" ")));
        }
        if self.rng.chance(30) {
            self.evidence(count, &mut segments);
        }
        segments.join(" | ")
    }

    fn initial(&mut self) -> String {
        let mut text = String::from("init:");
        for object in self.objects {
            if self.rng.chance(60) {
                continue;
            }
            text += &match object.as_bytes()[0] {
                b'l' | b'm' => format!(" {object}=[9]"),
                b't' => format!(" {object}={{v:{} w:{}}}", self.rng.below(2), self.rng.below(2)),
                _ => format!(" {object}=0"),
            };
        }
        text
    }

    fn timed_op(&mut self, timed: bool) -> String {
        let start = 10 * self.rng.below(8);
        let at = if timed { format!("@[{start},{}]", start + 5 + self.rng.below(30)) } else { String::new() };
        self.op() + &at
    }

    fn op(&mut self) -> String {
        let object = *self.rng.pick(self.objects);
        match (object.as_bytes()[0], self.rng.below(10)) {
            (b't', 0 | 1) => format!("scan(t, {}){}", self.condition(), self.rows(true)),
            (b't', 2 | 3) => {
                let set = *self.rng.pick(&["v = 1", "w = 0", "v = v + 1", "v = w", "w = v, v = 0"]);
                format!("upd(t, {}, {set}){}", self.condition(), self.rows(false))
            }
            (b't', 4) => format!("del(t, {}){}", self.condition(), self.deleted()),
            (_, 5) => format!("d({object})"),
            (b't', 6 | 7) => format!("w({object},{})", self.row(false)),
            (b't', _) => format!("r({object},{})", self.row(true)),
            (b'l' | b'm', 6) => format!("w({object},{})", self.list()),
            (b'l' | b'm', 0..=3) => format!("a({object},{})", 1 + self.rng.below(4)),
            (b'l' | b'm', _) => format!("r({object},{})", self.list()),
            (_, 0..=4) => format!("w({object},{})", self.rng.below(3)),
            _ => format!("r({object},{})", self.rng.pick(&["0", "1", "2", "_"])),
        }
    }

    fn list(&mut self) -> &'static str {
        LISTS[self.rng.below(LISTS.len())]
    }

    fn condition(&mut self) -> &'static str {
        CONDITIONS[self.rng.below(CONDITIONS.len())]
    }

    fn row(&mut self, seen: bool) -> String {
        match self.rng.below(10) {
            0 if seen => return "_".to_string(),
            1 if self.rng.chance(30) => return self.rng.below(2).to_string(),
            _ => {}
        }
        let mut columns = Vec::new();
        let skip = if self.partial { 45 } else { 0 };
        for name in ["v", "w"] {
            if !self.rng.chance(skip) {
                let value = match self.rng.below(12) {
                    0 => "_".to_string(),
                    1 if seen => "?".to_string(),
                    _ => self.rng.below(2).to_string(),
                };
                columns.push(format!("{name}:{value}"));
            }
        }
        format!("{{{}}}", columns.join(" "))
    }

    fn rows(&mut self, seen: bool) -> String {
        if self.rng.chance(12) {
            return String::new();
        }
        let mut rows = Vec::new();
        for object in self.objects.iter().filter(|o| o.starts_with('t')) {
            if self.rng.chance(45) {
                rows.push(format!("{}:{}", &object[2..], self.row(seen)));
            }
        }
        format!("{{{}}}", rows.join(" "))
    }

    fn deleted(&mut self) -> String {
        if self.rng.chance(12) {
            return String::new();
        }
        let rows = self.objects.iter().filter(|o| o.starts_with('t') && self.rng.chance(45));
        let rows: Vec<String> = rows.map(|object| format!("{}:_", &object[2..])).collect();
        format!("{{{}}}", rows.join(" "))
    }

    fn evidence(&mut self, count: usize, segments: &mut Vec<String>) {
        let object = *self.rng.pick(self.objects);
        match self.rng.below(3) {
            0 => {
                let mut writers: Vec<usize> = (1..=count).filter(|_| self.rng.chance(60)).collect();
                (0..writers.len()).for_each(|i| writers.swap(i, self.rng.below(i + 1)));
                let names: Vec<String> = writers.iter().map(|w| format!("T{w}")).collect();
                segments.push(format!("order {object}: init {}", names.join(" ")));
            }
            1 => {
                let (txn, from) = (1 + self.rng.below(count), self.rng.below(count + 1));
                let from = if from == 0 { "init".to_string() } else { format!("T{from}") };
                segments.push(format!("saw T{txn}.0 {object}={from}"));
            }
            _ => {
                for txn in 1..=count {
                    for word in ["commit", "snapshot", "serialization"] {
                        if self.rng.chance(50) {
                            segments.push(format!("{word} T{txn}={}", 1 + self.rng.below(5)));
                        }
                    }
                }
            }
        }
    }
}
