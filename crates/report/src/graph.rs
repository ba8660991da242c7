//! Where the cards and arrows of a cycle stand.
//!
//! # Algorithm
//! Two transactions stand beside each other with one arrow above and one below; more stand on an
//! ellipse, clockwise in the order of the cycle, so that every arrow is a short arc outside of it.
//! A chain stands in one row. Arrows bend away from the middle and end at the border of their
//! cards.
//!
//! On a phone the cards stand in one column. Arrows to the next card go straight down; the arrow
//! that closes the cycle runs along the right side, or, between two cards, beside the other arrow.
//!
//! # Invariants
//! Cards do not overlap, and everything lies inside `[0, width] × [0, height]`; a test holds it for
//! every size.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::f64::consts::{PI, TAU};

use serde::Serialize;

use crate::picture::{Cycle, Edge, Picture};
use crate::table::wrap;

/// The widths of a card and of a character in it, in pixels.
const CARD: f64 = 216.0;
const CHARACTER: f64 = 6.9;
const LINE: f64 = 17.0;
const HEAD: f64 = 30.0;
/// Lines that a card shows, while cards are few; an operation gets two at most.
const LINES: usize = 6;
const MARGIN: f64 = 26.0;
/// Characters of a label.
const LABEL: usize = 40;

/// A drawing of one cycle.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Drawing {
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
    /// The transactions.
    pub cards: Vec<Card>,
    /// The edges, in the order of the cycle.
    pub arrows: Vec<Arrow>,
}

/// A transaction.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Card {
    /// Its label.
    pub txn: u64,
    /// The left border.
    pub x: f64,
    /// The upper border.
    pub y: f64,
    /// The width.
    pub width: f64,
    /// The height.
    pub height: f64,
    /// The operations that matter.
    pub lines: Vec<String>,
}

/// An edge.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Arrow {
    /// Where it begins, the point that it bends towards, and where it ends.
    pub points: [(f64, f64); 3],
    /// The middle of its label.
    pub at: (f64, f64),
    /// Its label, cut.
    pub label: String,
}

impl Arrow {
    /// The path of an SVG.
    #[must_use]
    pub fn path(&self) -> String {
        let [(ax, ay), (bx, by), (cx, cy)] = self.points;
        format!("M{ax:.1} {ay:.1}Q{bx:.1} {by:.1} {cx:.1} {cy:.1}")
    }
}

/// Draws one cycle of a picture.
#[must_use]
pub fn draw(picture: &Picture, cycle: &Cycle) -> Drawing {
    let txns = order(cycle);
    let lines = if txns.len() <= 6 { LINES } else { 1 };
    let mut cards: Vec<Card> = txns.iter().map(|&txn| card(picture, cycle, txn, lines)).collect();
    match (cycle.open, cards.len()) {
        (true, _) | (_, 1 | 2) => in_a_row(&mut cards),
        _ => on_an_ellipse(&mut cards),
    }
    let arrows = arrows(cycle, &cards);
    let mut drawing = Drawing { width: 0.0, height: 0.0, cards, arrows };
    drawing.fit();
    drawing
}

/// Draws one cycle for a narrow page.
#[must_use]
pub fn draw_narrow(picture: &Picture, cycle: &Cycle) -> Drawing {
    let txns = order(cycle);
    let mut cards: Vec<Card> = txns.iter().map(|&txn| card(picture, cycle, txn, LINES)).collect();
    let gap = if cards.len() == 2 { 118.0 } else { 66.0 };
    let mut y = 0.0;
    for card in &mut cards {
        card.y = y;
        y += card.height + gap;
    }
    let arrows = cycle.edges.iter().map(|edge| column_arrow(edge, &cards)).collect();
    let mut drawing = Drawing { width: 0.0, height: 0.0, cards, arrows };
    drawing.fit();
    drawing
}

/// An arrow between cards that stand in a column.
fn column_arrow(edge: &Edge, cards: &[Card]) -> Arrow {
    let place = |txn: u64| cards.iter().position(|card| card.txn == txn).unwrap_or(0);
    let (at, to) = (place(edge.from), place(edge.to));
    let (from, next) = (&cards[at], &cards[to]);
    let bottom = |card: &Card| card.y + card.height;
    let label = cut(&edge.label, LABEL);
    let straight = |share: f64, points: [(f64, f64); 2]| {
        let [(x, a), (_, b)] = points;
        let (upper, lower) = (a.min(b), a.max(b));
        let middle = (CARD / 2.0, upper + (lower - upper) * share);
        Arrow { points: [(x, a), (x, (a + b) / 2.0), (x, b)], at: middle, label: label.clone() }
    };
    match (cards.len(), to.cmp(&at)) {
        (2, Ordering::Greater) => {
            straight(0.3, [(CARD * 0.2, bottom(from) + 2.0), (CARD * 0.2, next.y - 8.0)])
        }
        (2, Ordering::Less) => straight(0.7, [(CARD * 0.8, from.y - 2.0), (CARD * 0.8, bottom(next) + 8.0)]),
        _ if to == at + 1 => straight(0.45, [(CARD / 2.0, bottom(from) + 2.0), (CARD / 2.0, next.y - 8.0)]),
        _ => {
            let (start, end) = ((CARD + 2.0, point(from).1), (CARD + 8.0, point(next).1));
            let control = (CARD + 110.0, (start.1 + end.1) / 2.0);
            let above = (CARD / 2.0, next.y - 22.0);
            Arrow { points: [start, control, end], at: above, label: label.clone() }
        }
    }
}

/// The transactions in the order of the cycle.
fn order(cycle: &Cycle) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::new();
    for txn in cycle.edges.iter().flat_map(|edge| [edge.from, edge.to]) {
        if !all.contains(&txn) {
            all.push(txn);
        }
    }
    all
}

fn card(picture: &Picture, cycle: &Cycle, txn: u64, most: usize) -> Card {
    let lines = matters(picture, cycle, txn, most);
    let height = HEAD + LINE * lines.len() as f64 + if lines.is_empty() { 4.0 } else { 10.0 };
    Card { txn, x: 0.0, y: 0.0, width: CARD, height, lines }
}

/// The operations of a transaction that edges rest on, in program order.
fn matters(picture: &Picture, cycle: &Cycle, txn: u64, most: usize) -> Vec<String> {
    let mut ops: Vec<u32> = cycle
        .edges
        .iter()
        .flat_map(|edge| {
            let from = edge.from_op.filter(|_| edge.from == txn);
            from.into_iter().chain(edge.to_op.filter(|_| edge.to == txn))
        })
        .collect();
    ops.sort_unstable();
    ops.dedup();
    let Some(shown) = picture.transactions.iter().find(|shown| shown.txn == txn) else { return Vec::new() };
    let wide = ((CARD - 24.0) / CHARACTER) as usize;
    let ops = shown.ops.iter().filter(|op| ops.contains(&op.op));
    ops.flat_map(|op| two_lines(&op.text, wide)).take(most).collect()
}

/// A text in one line or two, the second indented and cut.
fn two_lines(text: &str, wide: usize) -> Vec<String> {
    let mut lines = wrap(text, wide, "", 2);
    if lines.len() > 2 {
        let rest = lines.split_off(1);
        lines.push(
            rest.iter()
                .enumerate()
                .map(|(i, line)| if i == 0 { line.clone() } else { format!(" {}", line.trim()) })
                .collect(),
        );
    }
    lines.iter().map(|line| cut(line, wide)).collect()
}

fn in_a_row(cards: &mut [Card]) {
    let gap = 190.0;
    let tallest = cards.iter().map(|card| card.height).fold(0.0, f64::max);
    for (i, card) in cards.iter_mut().enumerate() {
        card.x = i as f64 * (CARD + gap);
        card.y = (tallest - card.height) / 2.0;
    }
}

fn on_an_ellipse(cards: &mut [Card]) {
    let count = cards.len() as f64;
    let tallest = cards.iter().map(|card| card.height).fold(0.0, f64::max);
    let (mut rx, mut ry) = (300.0_f64, 190.0_f64);
    loop {
        for (i, card) in cards.iter_mut().enumerate() {
            let angle = TAU * i as f64 / count - PI / 2.0;
            card.x = rx * angle.cos() - card.width / 2.0;
            card.y = ry * angle.sin() - card.height / 2.0;
        }
        if apart(cards) || rx > 20_000.0 {
            return;
        }
        rx += 40.0;
        ry += (40.0 * 0.6_f64).min(tallest);
    }
}

/// Whether no two cards come closer than an arrow's head needs.
fn apart(cards: &[Card]) -> bool {
    let gap = 34.0;
    cards.iter().enumerate().all(|(i, a)| {
        cards[i + 1..].iter().all(|b| {
            a.x + a.width + gap < b.x
                || b.x + b.width + gap < a.x
                || a.y + a.height + gap < b.y
                || b.y + b.height + gap < a.y
        })
    })
}

fn arrows(cycle: &Cycle, cards: &[Card]) -> Vec<Arrow> {
    let place: HashMap<u64, &Card> = cards.iter().map(|card| (card.txn, card)).collect();
    let middle = center(cards);
    let mut drawn: HashMap<(u64, u64), usize> = HashMap::new();
    let draw = |edge: &Edge| {
        let before = drawn.entry((edge.from, edge.to)).or_default();
        *before += 1;
        let (from, to) = (place[&edge.from], place[&edge.to]);
        arrow(edge, from, to, middle, *before, cards.len())
    };
    cycle.edges.iter().map(draw).collect()
}

/// An arrow that bends away from the middle; the `nth` between the same cards bends more.
fn arrow(edge: &Edge, from: &Card, to: &Card, middle: (f64, f64), nth: usize, cards: usize) -> Arrow {
    let (a, b) = (point(from), point(to));
    let half = ((a.0 + b.0) / 2.0, (a.1 + b.1) / 2.0);
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let length = dx.hypot(dy).max(1.0);
    let tall = from.height.max(to.height);
    let bend = match cards {
        1 => tall + 40.0,
        2 => tall / 2.0 + 56.0 * nth as f64,
        _ => 46.0 * nth as f64,
    };
    // To the left of the direction of travel; on a clockwise ellipse, that is outside.
    let mut away = (dy / length, -dx / length);
    if cards > 2
        && (half.0 + away.0 - middle.0).hypot(half.1 + away.1 - middle.1)
            < (half.0 - middle.0).hypot(half.1 - middle.1)
    {
        away = (-away.0, -away.1);
    }
    if edge.from == edge.to {
        away = (0.0, -1.0);
    }
    let control = (half.0 + away.0 * bend, half.1 + away.1 * bend);
    let (start, end) = (border(from, control, 2.0), border(to, control, 8.0));
    let at =
        (0.25 * start.0 + 0.5 * control.0 + 0.25 * end.0, 0.25 * start.1 + 0.5 * control.1 + 0.25 * end.1);
    Arrow { points: [start, control, end], at, label: cut(&edge.label, LABEL) }
}

fn point(card: &Card) -> (f64, f64) {
    (card.x + card.width / 2.0, card.y + card.height / 2.0)
}

fn center(cards: &[Card]) -> (f64, f64) {
    let count = cards.len().max(1) as f64;
    let sum = cards.iter().map(point).fold((0.0, 0.0), |sum, p| (sum.0 + p.0, sum.1 + p.1));
    (sum.0 / count, sum.1 / count)
}

/// Where the line from a card's middle towards `target` leaves the card, and `gap` further.
fn border(card: &Card, target: (f64, f64), gap: f64) -> (f64, f64) {
    let from = point(card);
    let (dx, dy) = (target.0 - from.0, target.1 - from.1);
    let scale = |half: f64, d: f64| if d.abs() < 1e-9 { f64::INFINITY } else { (half + gap) / d.abs() };
    let t = scale(card.width / 2.0, dx).min(scale(card.height / 2.0, dy)).min(1e6);
    (from.0 + dx * t, from.1 + dy * t)
}

impl Drawing {
    /// Moves everything into the frame, and makes the frame just large enough.
    fn fit(&mut self) {
        let labels = self.arrows.iter().map(|arrow| {
            let half = arrow.label.chars().count() as f64 * CHARACTER / 2.0 + 12.0;
            (arrow.at.0 - half, arrow.at.1 - 14.0, arrow.at.0 + half, arrow.at.1 + 14.0)
        });
        let cards = self.cards.iter().map(|card| (card.x, card.y, card.x + card.width, card.y + card.height));
        let (left, top, right, bottom) =
            cards.chain(labels).fold((f64::MAX, f64::MAX, f64::MIN, f64::MIN), |all, one| {
                (all.0.min(one.0), all.1.min(one.1), all.2.max(one.2), all.3.max(one.3))
            });
        if self.cards.is_empty() {
            return;
        }
        let (dx, dy) = (MARGIN - left, MARGIN - top);
        let moved = |p: (f64, f64)| (p.0 + dx, p.1 + dy);
        self.cards.iter_mut().for_each(|card| (card.x, card.y) = moved((card.x, card.y)));
        for arrow in &mut self.arrows {
            arrow.points = arrow.points.map(moved);
            arrow.at = moved(arrow.at);
        }
        (self.width, self.height) = (right - left + 2.0 * MARGIN, bottom - top + 2.0 * MARGIN);
    }
}

/// At most `most` characters, the last of them an ellipsis.
#[must_use]
pub fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(count: u64) -> Cycle {
        let edge = |i: u64| Edge {
            from: i,
            to: (i + 1) % count,
            kind: "rw".to_owned(),
            label: "read x before the write of".to_owned(),
            reason: String::new(),
            object: None,
            from_op: None,
            to_op: None,
        };
        Cycle { edges: (0..count).map(edge).collect(), open: false }
    }

    #[test]
    fn cards_are_apart_and_inside() {
        for count in 1..30 {
            let drawing = draw(&Picture::default(), &ring(count));
            assert_eq!((drawing.cards.len(), drawing.arrows.len()), (count as usize, count as usize));
            assert!(count < 2 || apart(&drawing.cards), "{count}");
            let inside =
                |(x, y): (f64, f64)| x >= 0.0 && y >= 0.0 && x <= drawing.width && y <= drawing.height;
            for card in &drawing.cards {
                assert!(
                    inside((card.x, card.y)) && inside((card.x + card.width, card.y + card.height)),
                    "{count}"
                );
            }
            assert!(drawing.arrows.iter().all(|arrow| inside(arrow.at)), "{count}");
            let narrow = draw_narrow(&Picture::default(), &ring(count));
            assert_eq!(narrow.arrows.len(), count as usize);
            assert!(count < 2 || apart(&narrow.cards), "{count}");
            assert!(narrow.width < 340.0, "{count}: a phone shows {} pixels", narrow.width);
        }
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert_eq!(draw(&Picture::default(), &Cycle::default()).cards.len(), 0);
    }
}
