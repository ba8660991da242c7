//! Cycles of dependencies: eight shapes, each plain, with session order, and with real time
//! \[Adya1999, Elle\].

use super::{Anomaly, Cycle, Entry, Kind, Order, Rw};

/// One shape, with its three examples.
struct Shape {
    plain: Anomaly,
    wr: bool,
    rw: Rw,
    predicate_rw: bool,
    summary: &'static str,
    definition: &'static str,
    /// Shapes that this one is a special case of.
    implies: &'static [Anomaly],
    /// A further implication that only the plain variant has.
    plain_implies: &'static [Anomaly],
    /// Plain, session order, real time.
    examples: [&'static str; 3],
}

const SHAPES: &[Shape] = &[
    Shape {
        plain: Anomaly::G0,
        wr: false,
        rw: Rw::None,
        predicate_rw: false,
        summary: "a cycle of writes: two transactions each overwrite the other",
        definition: "The version orders of several objects put transactions in a cycle: each overwrote a \
            version of the next. Adya calls it a write cycle, the ANSI critique a dirty write.",
        implies: &[Anomaly::G1c],
        plain_implies: &[],
        examples: [
            "T1: a(x,1) a(y,1) | T2: a(x,2) a(y,2) | T3: r(x,[1 2]) r(y,[2 1])",
            "T1@s1: a(x,1) | T2@s1: a(x,2) | T3@s2: r(x,[2 1])",
            "T1: a(x,1)@[10,20] | T2: a(x,2)@[30,40] | T3: r(x,[2 1])@[50,60]",
        ],
    },
    Shape {
        plain: Anomaly::G1c,
        wr: true,
        rw: Rw::None,
        predicate_rw: false,
        summary: "circular information flow: transactions read each other's writes in a cycle",
        definition: "A cycle of write and read dependencies with at least one read dependency: information \
            flowed from each transaction to the next and back to the first.",
        implies: &[Anomaly::G1],
        plain_implies: &[],
        examples: [
            "T1: w(x,1) r(y,1) | T2: w(y,1) r(x,1)",
            "T1@s1: r(x,1) | T2@s1: w(x,1)",
            "T1: r(x,1)@[10,20] | T2: w(x,1)@[30,40]",
        ],
    },
    Shape {
        plain: Anomaly::GSingleItem,
        wr: true,
        rw: Rw::One,
        predicate_rw: false,
        summary: "a cycle with exactly one anti-dependency, over items: read skew",
        definition: "A cycle with exactly one rw edge, and that over a single object: one transaction missed a \
            write whose effects (or those of a later one) it depends on. Read skew and lost update have this shape.",
        implies: &[Anomaly::GNonadjacentItem, Anomaly::GSingle],
        plain_implies: &[],
        examples: [
            "init: x=0 y=0 | T1: w(x,1) w(y,1) | T2: r(x,0) r(y,1)",
            "init: x=0 | T1@s1: w(x,1) | T2@s1: r(x,0)",
            "init: x=0 | T1: w(x,1)@[10,20] | T2: r(x,0)@[30,40]",
        ],
    },
    Shape {
        plain: Anomaly::GSingle,
        wr: true,
        rw: Rw::One,
        predicate_rw: true,
        summary: "a cycle with exactly one anti-dependency",
        definition: "A cycle with exactly one rw edge, here one over a predicate: a transaction's scan missed a \
            write whose effects it depends on elsewhere.",
        implies: &[Anomaly::GNonadjacent],
        plain_implies: &[Anomaly::GSIb],
        examples: [
            "init: t/1={v:0} | T1: w(t/1,{v:9}) | T2: scan(t, v > 5){} r(t/1,{v:9})",
            "init: t/1={v:0} | T1@s1: w(t/1,{v:9}) | T2@s1: scan(t, v > 5){}",
            "init: t/1={v:0} | T1: w(t/1,{v:9})@[10,20] | T2: scan(t, v > 5){}@[30,40]",
        ],
    },
    Shape {
        plain: Anomaly::GNonadjacentItem,
        wr: true,
        rw: Rw::NonAdjacent,
        predicate_rw: false,
        summary: "a cycle with anti-dependencies over items, no two of them adjacent: a long fork",
        definition: "A cycle with two or more rw edges, all over single objects, with another dependency between \
            any two of them. No order of snapshots explains it, so snapshot isolation forbids it.",
        implies: &[Anomaly::GNonadjacent, Anomaly::G2Item],
        plain_implies: &[],
        examples: [
            "init: x=0 y=0 | T1: w(x,1) | T2: w(y,1) | T3: r(x,1) r(y,0) | T4: r(x,0) r(y,1)",
            "init: x=0 y=0 | T1@s1: w(x,1) | T2@s1: r(y,0) | T3@s2: w(y,1) | T4@s2: r(x,0)",
            "init: x=0 y=0 | T1: w(x,1)@[10,20] | T2: w(y,1)@[10,20] | T3: r(y,0)@[30,40] | T4: r(x,0)@[30,40]",
        ],
    },
    Shape {
        plain: Anomaly::GNonadjacent,
        wr: true,
        rw: Rw::NonAdjacent,
        predicate_rw: true,
        summary: "a cycle with anti-dependencies, no two of them adjacent",
        definition: "A cycle with two or more rw edges, some over a predicate, no two of them adjacent.",
        implies: &[Anomaly::G2],
        plain_implies: &[],
        examples: [
            "init: t/1={v:0} u/1={v:0} | T1: w(t/1,{v:9}) | T2: w(u/1,{v:9}) \
             | T3: r(t/1,{v:9}) scan(u, v > 5){} | T4: scan(t, v > 5){} r(u/1,{v:9})",
            "init: t/1={v:0} u/1={v:0} | T1@s1: w(t/1,{v:9}) | T2@s1: scan(u, v > 5){} \
             | T3@s2: w(u/1,{v:9}) | T4@s2: scan(t, v > 5){}",
            "init: t/1={v:0} u/1={v:0} | T1: w(t/1,{v:9})@[10,20] | T2: w(u/1,{v:9})@[10,20] \
             | T3: scan(u, v > 5){}@[30,40] | T4: scan(t, v > 5){}@[30,40]",
        ],
    },
    Shape {
        plain: Anomaly::G2Item,
        wr: true,
        rw: Rw::Adjacent,
        predicate_rw: false,
        summary: "a cycle with adjacent anti-dependencies over items: write skew",
        definition: "A cycle with two or more rw edges over single objects, two of them adjacent: each of several \
            transactions missed the next one's write. Snapshot isolation allows it.",
        implies: &[Anomaly::G2],
        plain_implies: &[],
        examples: [
            "init: x=0 y=0 | T1: r(y,0) w(x,1) | T2: r(x,0) w(y,1)",
            "init: x=0 y=0 | T1@s1: w(y,1) | T2@s1: r(x,0) | T3@s2: r(y,0) w(x,1)",
            "init: x=0 y=0 | T1: w(y,1)@[20,30] | T2: r(x,0)@[40,50] | T3: r(y,0)@[10,20] w(x,1)@[60,70]",
        ],
    },
    Shape {
        plain: Anomaly::G2,
        wr: true,
        rw: Rw::Adjacent,
        predicate_rw: true,
        summary: "a cycle with anti-dependencies: not serializable",
        definition: "A cycle with rw edges, two of them adjacent and some over a predicate: each transaction's scan \
            missed a row that the next one made match. Repeatable read in Adya's sense (PL-2.99) allows it.",
        implies: &[],
        plain_implies: &[],
        examples: [
            "T1: scan(t, v > 5){} w(t/1,{v:9}) | T2: scan(t, v > 5){} w(t/2,{v:9})",
            "T1@s1: w(t/1,{v:9}) | T2@s1: scan(u, v > 5){} | T3@s2: scan(t, v > 5){} w(u/1,{v:9})",
            "T1: w(t/1,{v:9})@[20,30] | T2: scan(u, v > 5){}@[40,50] \
             | T3: scan(t, v > 5){}@[10,20] w(u/1,{v:9})@[60,70]",
        ],
    },
];

const ORDERS: [Order; 3] = [Order::Dependencies, Order::Session, Order::RealTime];

pub(super) fn entries() -> Vec<Entry> {
    SHAPES.iter().flat_map(|s| ORDERS.map(|o| s.entry(o))).collect()
}

impl Shape {
    fn entry(&self, order: Order) -> Entry {
        let cycle = Cycle { wr: self.wr, rw: self.rw, predicate_rw: self.predicate_rw, order };
        let (short, long) = order.words();
        Entry {
            anomaly: with_order(self.plain, order),
            kind: Kind::Cycle(cycle),
            summary: format!("{}{short}", self.summary),
            definition: format!("{}{long}", self.definition),
            implies: self.implied(order),
            example: Some(self.examples[order as usize]),
            cites: if order == Order::Dependencies { &["Adya1999", "Elle"] } else { &["Elle"] },
        }
    }

    /// A shape implies the wider shapes with the same order, and itself with the next larger order.
    fn implied(&self, order: Order) -> Vec<(Anomaly, &'static str)> {
        let mut all: Vec<Anomaly> = self.implies.iter().map(|&a| with_order(a, order)).collect();
        match order {
            Order::Dependencies => all.push(with_order(self.plain, Order::Session)),
            Order::Session => all.push(with_order(self.plain, Order::RealTime)),
            Order::RealTime => {}
        }
        if order == Order::Dependencies {
            all.extend(self.plain_implies);
        }
        all.into_iter().map(|a| (a, "Elle")).collect()
    }
}

impl Order {
    /// What the order adds to a summary and to a definition.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Order::Dependencies => ("", ""),
            Order::Session => (
                ", counting session order",
                " Here session order counts as an edge too: a later transaction of a session may not come first.",
            ),
            Order::RealTime => (
                ", counting real time",
                " Here real time counts as an edge too: what ended before something else started comes first.",
            ),
        }
    }
}

/// The variant of a plain cycle (or of G1) with an order added: the next ones in the table.
fn with_order(plain: Anomaly, order: Order) -> Anomaly {
    Anomaly::ALL[plain as usize + order as usize]
}
