//! Queries over rows that are not known: joins, aggregates without groups, what is shown and what
//! it is sorted by.

use crate::error::SqlError;
use crate::reading::plan::{AggregateKind, Group, OrderBy, Output, Select, TableId};
use crate::reading::store::Key;
use crate::reading::symbolic::{Answer, Joined, Run, ShownRow, SymbolicView};
use crate::reading::symbolic_expr::{Cell, Kind, outside};
use crate::term::Term;

/// The most rows of a join.
const MAX_JOIN_ROWS: usize = 4096;

impl Run<'_> {
    /// The joined rows that satisfy all conditions.
    fn joined(
        &mut self,
        select: &Select,
        view: &mut dyn SymbolicView,
        reads: &mut Vec<(TableId, Key, Term)>,
    ) -> Result<Vec<Joined>, SqlError> {
        let mut rows = vec![Joined { when: self.hold(&select.constant, &[])?, cells: Vec::new() }];
        for source in &select.sources {
            let mut next = Vec::new();
            for before in &rows {
                for (_, when, row) in self.found(source, before, view, reads)? {
                    let cells: Vec<Cell> = before.cells.iter().chain(&row.cells).copied().collect();
                    let filters = self.hold(&source.filters, &cells)?;
                    let when = self.terms.and(&[when, filters]);
                    if when != Term::FALSE {
                        next.push(Joined { when, cells });
                    }
                }
            }
            rows = next;
            if rows.len() > MAX_JOIN_ROWS {
                return Err(outside("a join of so many rows"));
            }
        }
        Ok(rows)
    }

    pub(crate) fn select(
        &mut self,
        select: &Select,
        view: &mut dyn SymbolicView,
    ) -> Result<Answer, SqlError> {
        if select.distinct {
            return Err(outside("DISTINCT"));
        }
        if select.limit.is_some() || select.offset.is_some() {
            return Err(outside("LIMIT"));
        }
        let mut answer = Answer::new(self.terms);
        answer.locks = select.lock.is_some();
        answer.order = select.order.iter().map(|order| (order.descending, order.nulls_first)).collect();
        let mut rows = self.joined(select, view, &mut answer.reads)?;
        if let Some(group) = &select.group {
            rows = vec![self.group(group, &rows)?];
        }
        for row in &rows {
            let shown = self.shown(&select.outputs, row)?;
            let keys = select.order.iter().map(|order| match &order.by {
                OrderBy::Output(index) => Ok(shown.cells[*index]),
                OrderBy::Expr(expr) => self.symbols(&row.cells).cell(expr),
            });
            let keys = keys.collect::<Result<_, _>>()?;
            answer.rows.push(ShownRow { keys, ..shown });
        }
        Ok(answer)
    }

    pub(crate) fn shown(&mut self, outputs: &[Output], row: &Joined) -> Result<ShownRow, SqlError> {
        let cells = outputs.iter().map(|output| self.symbols(&row.cells).cell(&output.expr));
        Ok(ShownRow { when: row.when, cells: cells.collect::<Result<_, _>>()?, keys: Vec::new() })
    }

    /// The one row of a query without group keys.
    fn group(&mut self, group: &Group, rows: &[Joined]) -> Result<Joined, SqlError> {
        if !group.keys.is_empty() {
            return Err(outside("GROUP BY"));
        }
        let mut cells = Vec::new();
        for aggregate in &group.aggregates {
            let plain = matches!(aggregate.kind, AggregateKind::Min | AggregateKind::Max);
            if aggregate.distinct && !plain {
                return Err(outside("an aggregate with DISTINCT"));
            }
            let mut values = Vec::new();
            for row in rows {
                let one = self.terms.int(1);
                let cell = match &aggregate.arg {
                    Some(arg) => self.symbols(&row.cells).cell(arg)?,
                    None => Cell { null: Term::FALSE, value: one, kind: Kind::Int },
                };
                let there = self.terms.not(cell.null);
                values.push((self.terms.and(&[row.when, there]), cell));
            }
            cells.push(self.aggregate(aggregate.kind, &values)?);
        }
        let when = match &group.having {
            Some(having) => self.hold(std::slice::from_ref(having), &cells)?,
            None => Term::TRUE,
        };
        Ok(Joined { when, cells })
    }

    fn aggregate(&mut self, kind: AggregateKind, values: &[(Term, Cell)]) -> Result<Cell, SqlError> {
        let (zero, one) = (self.terms.int(0), self.terms.int(1));
        let counted: Vec<Term> = values.iter().map(|(when, _)| self.terms.if_int(*when, one, zero)).collect();
        let any: Vec<Term> = values.iter().map(|(when, _)| *when).collect();
        let any = self.terms.or(&any);
        let null = self.terms.not(any);
        match kind {
            AggregateKind::Count => {
                Ok(Cell { null: Term::FALSE, value: self.terms.sum(&counted), kind: Kind::Int })
            }
            AggregateKind::Sum => {
                if values.iter().any(|(_, cell)| !matches!(cell.kind, Kind::Int | Kind::Null)) {
                    return Err(outside("a sum beyond integers"));
                }
                let parts: Vec<Term> =
                    values.iter().map(|(when, cell)| self.terms.if_int(*when, cell.value, zero)).collect();
                Ok(Cell { null, value: self.terms.sum(&parts), kind: Kind::Int })
            }
            AggregateKind::Min => self.best(values, null, false),
            AggregateKind::Max => self.best(values, null, true),
            AggregateKind::Avg => Err(outside("AVG")),
        }
    }

    fn best(&mut self, values: &[(Term, Cell)], null: Term, largest: bool) -> Result<Cell, SqlError> {
        let mut kinds: Vec<Kind> = values.iter().map(|(_, cell)| cell.kind).collect();
        kinds.retain(|kind| *kind != Kind::Null);
        let kind = kinds.first().copied().unwrap_or(Kind::Null);
        let ordered = matches!(kind, Kind::Int | Kind::Date | Kind::Timestamp | Kind::Null);
        if !ordered || kinds.iter().any(|other| *other != kind) {
            return Err(outside("MIN or MAX beyond integers and dates"));
        }
        let (mut has, mut best) = (Term::FALSE, self.terms.int(0));
        for (when, cell) in values {
            let better =
                if largest { self.terms.less(best, cell.value) } else { self.terms.less(cell.value, best) };
            let first = self.terms.not(has);
            let takes = self.terms.or(&[first, better]);
            let takes = self.terms.and(&[*when, takes]);
            best = self.terms.if_int(takes, cell.value, best);
            has = self.terms.or(&[has, *when]);
        }
        Ok(Cell { null, value: best, kind })
    }
}
