//! The bodies of procedures: a recursive-descent parser for MySQL's syntax and PL/pgSQL's, which
//! binds names while it reads. The statements inside go to the parser of statements.

use std::sync::Arc;

use sqlparser::ast::Ident;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::SqlError;
use crate::reading::cast::Type;
use crate::reading::database::Catalog;
use crate::reading::expr::Class;
use crate::reading::names::{self, Fit};
use crate::reading::parse;
use crate::reading::procedure::{
    Block, Formula, Handler, Parameter, Prepared, Procedure, ProcedureStep, Test, Variable, call,
};
use crate::reading::scope::Scope;
use crate::reading::statement::{Plan, Statement};
use crate::reading::words::{self, Words};

/// How deep blocks and loops may nest.
const MAX_NESTING: usize = 64;

/// What the names of a block mean.
#[derive(Clone, Default)]
pub(crate) struct BlockNames {
    pub variables: Vec<Variable>,
    pub cursors: Vec<(Ident, usize)>,
    /// PL/pgSQL's records, whose fields a FOR loop gives them.
    pub records: Vec<Ident>,
    /// Variables of a table's row type, with the slots of their fields.
    pub rows: Vec<(Ident, Vec<usize>)>,
    labels: Vec<Label>,
}

#[derive(Clone)]
struct Label {
    name: Option<Ident>,
    id: u32,
    is_loop: bool,
}

/// Compiles one body.
pub(crate) struct Compiler<'a> {
    pub catalog: &'a Catalog<'a>,
    pub words: Words,
    pub known: BlockNames,
    generation: u64,
    slots: Vec<Option<Type>>,
    cursors: Vec<(String, Option<Prepared>)>,
    ids: u32,
    nesting: usize,
}

type Steps = Result<Vec<ProcedureStep>, SqlError>;

impl<'a> Compiler<'a> {
    pub fn new(catalog: &'a Catalog<'a>, generation: u64, words: Words, parameters: &[Parameter]) -> Self {
        let mut compiler = Compiler {
            catalog,
            words,
            known: BlockNames::default(),
            generation,
            slots: Vec::new(),
            cursors: Vec::new(),
            ids: 0,
            nesting: 0,
        };
        let found = compiler.slot(Some(Type::Bool));
        if compiler.plpgsql() {
            compiler.name(None, "found".into(), found, Class::Bool);
        }
        for parameter in parameters {
            compiler.declare(&parameter.name, parameter.of);
        }
        compiler
    }

    pub fn plpgsql(&self) -> bool {
        !self.catalog.dialect.is_mysql()
    }

    /// The whole body.
    pub fn procedure(mut self, parameters: Vec<Parameter>) -> Result<Procedure, SqlError> {
        let wrong = self.plpgsql() && !self.words.is(&["DECLARE"]) && !self.words.is(&["BEGIN"]);
        if wrong && !self.words.is(&["<<"]) {
            return Err(self.words.expected("DECLARE or BEGIN"));
        }
        let step = self.step()?;
        if !self.words.done() {
            return Err(self.words.expected("the end of the procedure"));
        }
        let body = match step {
            ProcedureStep::Block(block) => block,
            step => {
                let id = self.id();
                Block { id, initial: Vec::new(), cursors: Vec::new(), handler: None, body: vec![step] }
            }
        };
        Ok(Procedure { parameters, slots: self.slots, cursors: self.cursors, body })
    }

    fn id(&mut self) -> u32 {
        self.ids += 1;
        self.ids
    }

    /// A new place in the frame.
    pub fn slot(&mut self, of: Option<Type>) -> usize {
        self.slots.push(of);
        self.slots.len() - 1
    }

    /// Lets a name mean a slot.
    pub fn name(&mut self, record: Option<String>, name: String, slot: usize, class: Class) {
        self.known.variables.push(Variable { record, name, slot, class });
    }

    /// A new variable.
    pub fn declare(&mut self, name: &Ident, of: Type) -> usize {
        let slot = self.slot(Some(of));
        let class = Class::of_type(of, self.catalog.dialect);
        self.name(None, crate::reading::ddl::folded(name, self.catalog.dialect), slot, class);
        slot
    }

    /// A new cursor.
    pub fn cursor(&mut self, name: Ident, query: Option<Prepared>) -> usize {
        self.cursors.push((name.value.clone(), query));
        self.known.cursors.push((name, self.cursors.len() - 1));
        self.cursors.len() - 1
    }

    fn same(&self, a: &Ident, b: &Ident) -> bool {
        names::fit(a, &b.value, self.catalog.dialect) != Fit::None
    }

    /// The slots that an assignment or INTO writes: a variable, a field, or a whole row.
    fn target(&mut self) -> Result<Vec<usize>, SqlError> {
        let name = self.words.ident()?;
        let field = if self.words.take(&["."]) { Some(self.words.ident()?) } else { None };
        let catalog = self.bound();
        if let Some(field) = field {
            let variable = catalog.variable(Some(&name), &field);
            return variable.map(|found| vec![found.slot]).ok_or(SqlError::UnknownColumn(field.value));
        }
        if let Some(found) = catalog.variable(None, &name) {
            return Ok(vec![found.slot]);
        }
        if let Some((_, slots)) = self.known.rows.iter().rev().find(|(row, _)| self.same(&name, row)) {
            return Ok(slots.clone());
        }
        if self.known.records.iter().any(|record| self.same(&name, record)) {
            return Err(self.words.outside(&format!("the record {name} outside of a FOR loop")));
        }
        if name.value.starts_with('@') {
            return Err(self.words.outside(&format!("the user variable {name}")));
        }
        Err(SqlError::UnknownColumn(name.value))
    }

    fn targets(&mut self) -> Result<Vec<usize>, SqlError> {
        let mut targets = self.target()?;
        while self.words.take(&[","]) {
            targets.extend(self.target()?);
        }
        Ok(targets)
    }

    /// Targets that were cut out of the text.
    pub fn targets_of(&mut self, tokens: Vec<TokenWithSpan>) -> Result<Vec<usize>, SqlError> {
        let rest = std::mem::replace(&mut self.words, Words::new(tokens));
        let targets = self.targets();
        let whole = self.words.done();
        self.words = rest;
        if whole { targets } else { Err(self.words.outside("something else than variables as a target")) }
    }

    /// The catalog with the variables that are known here.
    fn bound(&self) -> Catalog<'_> {
        Catalog { variables: &self.known.variables, ..*self.catalog }
    }

    /// Errors that a database finds when it creates the procedure, or that name a construct, come
    /// at once; others wait until the statement is reached.
    fn deferred<T>(&self, result: Result<T, SqlError>) -> Result<Result<T, SqlError>, SqlError> {
        match result.map_err(|error| error.in_dialect(self.catalog.dialect)) {
            Err(error @ (SqlError::Unsupported { .. } | SqlError::Parse { .. })) => Err(error),
            other => Ok(other),
        }
    }

    /// An expression.
    pub fn formula(&self, tokens: Vec<TokenWithSpan>) -> Result<Formula, SqlError> {
        let tree = parse::run(tokens, self.catalog.dialect, Parser::parse_expr)?;
        self.deferred(Scope::new(&self.bound(), None).expr(&tree).map(|typed| typed.expr))
    }

    /// A statement on rows.
    pub fn prepare(&self, tokens: Vec<TokenWithSpan>) -> Result<Prepared, SqlError> {
        let prepared = self.deferred(Statement::of_tokens(tokens, &self.bound(), self.generation))?;
        let Ok(statement) = &prepared else { return Ok(prepared) };
        match statement.plan() {
            Plan::Select(_) | Plan::Insert(_) | Plan::Update(_) | Plan::Delete(_) => Ok(prepared),
            Plan::Control(control) => Err(SqlError::unsupported(format!("{control:?} in a procedure"))),
            _ => Err(SqlError::unsupported("a change of the schema in a procedure")),
        }
    }

    /// Statements up to one of `stops`.
    fn steps(&mut self, stops: &[&str]) -> Steps {
        let mut steps = Vec::new();
        while !stops.iter().any(|stop| self.words.is(&[stop])) {
            if self.words.done() {
                return Err(self.words.expected(&stops.join(" or ")));
            }
            steps.push(self.step()?);
        }
        Ok(steps)
    }

    /// One statement with its label.
    pub fn step(&mut self) -> Result<ProcedureStep, SqlError> {
        if self.nesting >= MAX_NESTING {
            return Err(self.words.outside("blocks that nest this deep"));
        }
        self.nesting += 1;
        let label = self.label()?;
        let step = match self.compound(label.as_ref())? {
            Some(step) => step,
            None if label.is_some() => return Err(self.words.expected("a block or a loop")),
            None => self.simple()?,
        };
        self.nesting -= 1;
        Ok(step)
    }

    /// `label:` or `<<label>>`.
    fn label(&mut self) -> Result<Option<Ident>, SqlError> {
        if self.plpgsql() && self.words.take(&["<<"]) {
            let label = self.words.ident()?;
            self.words.expect(&[">>"])?;
            return Ok(Some(label));
        }
        if !self.plpgsql() && self.words.ahead(1) == Some(&Token::Colon) {
            let label = self.words.ident()?;
            self.words.expect(&[":"])?;
            return Ok(Some(label));
        }
        Ok(None)
    }

    fn compound(&mut self, label: Option<&Ident>) -> Result<Option<ProcedureStep>, SqlError> {
        let block = self.words.is(&["BEGIN"]) || (self.plpgsql() && self.words.is(&["DECLARE"]));
        Ok(Some(if block {
            ProcedureStep::Block(self.block(label)?)
        } else if self.words.take(&["WHILE"]) {
            self.while_loop(label)?
        } else if self.words.take(&["LOOP"]) {
            let (id, body) = self.loop_body(label, &["END"])?;
            self.end(&["LOOP"], label)?;
            ProcedureStep::Loop(id, Test::Never, body)
        } else if !self.plpgsql() && self.words.take(&["REPEAT"]) {
            let (id, body) = self.loop_body(label, &["UNTIL"])?;
            self.words.expect(&["UNTIL"])?;
            let tokens = self.words.until(&["END"])?;
            let until = self.formula(tokens)?;
            self.end(&["REPEAT"], label)?;
            ProcedureStep::Loop(id, Test::Until(until), body)
        } else if self.plpgsql() && self.words.take(&["FOR"]) {
            self.for_loop(label)?
        } else {
            return Ok(None);
        }))
    }

    fn block(&mut self, label: Option<&Ident>) -> Result<Block, SqlError> {
        let outer = self.known.clone();
        let id = self.id();
        self.known.labels.push(Label { name: label.cloned(), id, is_loop: false });
        let mut block =
            Block { id, initial: Vec::new(), cursors: Vec::new(), handler: None, body: Vec::new() };
        if self.plpgsql() {
            if self.words.take(&["DECLARE"]) {
                self.plpgsql_declarations(&mut block)?;
            }
            self.words.expect(&["BEGIN"])?;
        } else {
            self.words.expect(&["BEGIN"])?;
            let _ = self.words.take(&["NOT", "ATOMIC"]);
            self.mysql_declarations(&mut block)?;
        }
        block.body = self.steps(&["END", "EXCEPTION"])?;
        if self.words.is(&["EXCEPTION"]) {
            return Err(self.words.outside("EXCEPTION handlers"));
        }
        self.end(&[], label)?;
        self.known = outer;
        Ok(block)
    }

    /// `END word label;`. The end of the text stands for the last semicolon.
    fn end(&mut self, words: &[&str], label: Option<&Ident>) -> Result<(), SqlError> {
        self.words.expect(&["END"])?;
        if !words.is_empty() {
            self.words.expect(words)?;
        }
        if let Some(Token::Word(_)) = self.words.peek() {
            let name = self.words.ident()?;
            if !label.is_some_and(|label| self.same(&name, label)) {
                return Err(self.words.expected("the label of what ends here"));
            }
        }
        self.semicolon()
    }

    /// The end of a FOR loop.
    pub fn end_loop(&mut self, label: Option<&Ident>) -> Result<(), SqlError> {
        self.end(&["LOOP"], label)
    }

    /// Statements that stand for one.
    pub fn sequence(&mut self, body: Vec<ProcedureStep>) -> ProcedureStep {
        let id = self.id();
        ProcedureStep::Block(Block { id, initial: Vec::new(), cursors: Vec::new(), handler: None, body })
    }

    /// A semicolon, or the end of the text.
    pub fn semicolon(&mut self) -> Result<(), SqlError> {
        if self.words.done() { Ok(()) } else { self.words.expect(&[";"]) }
    }

    /// The statements of a loop.
    pub fn loop_body(
        &mut self,
        label: Option<&Ident>,
        stops: &[&str],
    ) -> Result<(u32, Vec<ProcedureStep>), SqlError> {
        let id = self.id();
        self.known.labels.push(Label { name: label.cloned(), id, is_loop: true });
        let body = self.steps(stops)?;
        self.known.labels.pop();
        Ok((id, body))
    }

    fn while_loop(&mut self, label: Option<&Ident>) -> Result<ProcedureStep, SqlError> {
        let (begin, end) = if self.plpgsql() { ("LOOP", "LOOP") } else { ("DO", "WHILE") };
        let tokens = self.words.until(&[begin])?;
        let test = self.formula(tokens)?;
        self.words.expect(&[begin])?;
        let (id, body) = self.loop_body(label, &["END"])?;
        self.end(&[end], label)?;
        Ok(ProcedureStep::Loop(id, Test::While(test), body))
    }

    fn simple(&mut self) -> Result<ProcedureStep, SqlError> {
        if self.words.take(&["IF"]) {
            return self.branches();
        }
        if self.words.is(&["CASE"]) {
            return Err(self.words.outside("the statement CASE"));
        }
        let step = match self.cursor_step()? {
            Some(step) => step,
            None if self.words.take(&["CALL"]) => self.nested_call()?,
            None if self.plpgsql() => self.plpgsql_step()?,
            None => self.mysql_step()?,
        };
        self.semicolon()?;
        Ok(step)
    }

    fn branches(&mut self) -> Result<ProcedureStep, SqlError> {
        let mut branches = Vec::new();
        loop {
            let tokens = self.words.until(&["THEN"])?;
            let test = self.formula(tokens)?;
            self.words.expect(&["THEN"])?;
            branches.push((test, self.steps(&["END", "ELSE", "ELSEIF", "ELSIF"])?));
            let more = self.words.take(&["ELSEIF"]) || (self.plpgsql() && self.words.take(&["ELSIF"]));
            if !more {
                break;
            }
        }
        let otherwise = if self.words.take(&["ELSE"]) { self.steps(&["END"])? } else { Vec::new() };
        self.words.expect(&["END"])?;
        self.words.expect(&["IF"])?;
        self.semicolon()?;
        Ok(ProcedureStep::If(branches, otherwise))
    }

    /// OPEN, FETCH and CLOSE.
    fn cursor_step(&mut self) -> Result<Option<ProcedureStep>, SqlError> {
        if self.words.take(&["OPEN"]) {
            let cursor = self.known_cursor()?;
            let query = match self.plpgsql() && self.words.take(&["FOR"]) {
                true => Some(self.query(&[";"])?),
                false => None,
            };
            if query.is_some() == self.cursors[cursor].1.is_some() {
                return Err(self.words.outside("OPEN … FOR exactly where the cursor has a query"));
            }
            return Ok(Some(ProcedureStep::Open(cursor, query)));
        }
        if self.words.take(&["FETCH"]) {
            let _ = self.words.take(&["NEXT"]);
            let _ = self.words.take(&["FROM"]) || (self.plpgsql() && self.words.take(&["IN"]));
            let cursor = self.known_cursor()?;
            self.words.expect(&["INTO"])?;
            return Ok(Some(ProcedureStep::Fetch(cursor, self.targets()?)));
        }
        if self.words.take(&["CLOSE"]) {
            return Ok(Some(ProcedureStep::Close(self.known_cursor()?)));
        }
        Ok(None)
    }

    fn known_cursor(&mut self) -> Result<usize, SqlError> {
        let name = self.words.ident()?;
        let found = self.known.cursors.iter().rev().find(|(known, _)| self.same(&name, known));
        match found {
            Some((_, cursor)) => Ok(*cursor),
            None => Err(self.words.outside(&format!("{name}, which is no declared cursor, as a cursor"))),
        }
    }

    /// A query up to one of `stops`.
    pub fn query(&mut self, stops: &[&str]) -> Result<Prepared, SqlError> {
        let tokens = self.words.until(stops)?;
        let query = self.prepare(tokens)?;
        match &query {
            Ok(statement) if !matches!(statement.plan(), Plan::Select(_)) => {
                Err(self.words.outside("a cursor or loop over something else than a SELECT"))
            }
            _ => Ok(query),
        }
    }

    /// A call of another procedure; its OUT parameters go to variables.
    fn nested_call(&mut self) -> Result<ProcedureStep, SqlError> {
        let tokens = self.words.until(&[";"])?;
        let called = call(&mut Words::new(tokens), &self.bound(), self.generation);
        let (called, outs) = match self.deferred(called)? {
            Ok(called) => called,
            Err(error) => return Ok(ProcedureStep::Run(Err(error))),
        };
        let statement = Statement::of_call(Arc::new(called), self.generation);
        if outs.is_empty() {
            return Ok(ProcedureStep::Run(Ok(statement)));
        }
        let mut targets = Vec::new();
        for tokens in outs {
            targets.extend(self.targets_of(tokens)?);
        }
        Ok(ProcedureStep::Into(Ok(statement), targets, false))
    }

    /// A statement on rows, with its INTO.
    pub fn sql(&mut self) -> Result<ProcedureStep, SqlError> {
        let mut tokens = self.words.until(&[";"])?;
        let from = match words::find(&tokens, "SELECT", 0) {
            Some(0) => Some(0),
            _ => words::find(&tokens, "RETURNING", 0),
        };
        let into = from.and_then(|from| words::find(&tokens, "INTO", from));
        let Some(at) = into else {
            let prepared = self.prepare(tokens)?;
            let shows = prepared.as_ref().is_ok_and(|statement| !statement.columns().is_empty());
            if shows && self.plpgsql() {
                let message = "a query in a procedure has no destination for its rows";
                return Ok(ProcedureStep::Run(Err(SqlError::Procedure(message.into()))));
            }
            return Ok(ProcedureStep::Run(prepared));
        };
        let after = Words::new(tokens.split_off(at + 1));
        tokens.pop();
        let rest = std::mem::replace(&mut self.words, after);
        let strict = self.plpgsql() && self.words.take(&["STRICT"]);
        let targets = self.targets();
        tokens.extend(self.words.rest());
        self.words = rest;
        Ok(ProcedureStep::Into(self.prepare(tokens)?, targets?, strict))
    }

    /// `variable := value`, after the name has been seen to be one.
    pub fn assignment(&mut self, stops: &[&str]) -> Result<ProcedureStep, SqlError> {
        let slots = self.target()?;
        if !self.words.take(&[":="]) {
            self.words.expect(&["="])?;
        }
        let [slot] = slots.as_slice() else {
            return Err(self.words.outside("the assignment of a whole row"));
        };
        let tokens = self.words.until(stops)?;
        Ok(ProcedureStep::Assign(*slot, self.formula(tokens)?))
    }

    /// What LEAVE and EXIT (`iterate`: ITERATE and CONTINUE) mean.
    pub fn jump(&mut self, iterate: bool) -> Result<ProcedureStep, SqlError> {
        let named = matches!(self.words.peek(), Some(Token::Word(_))) && !self.words.is(&["WHEN"]);
        let name = if named { Some(self.words.ident()?) } else { None };
        let label = self.known.labels.iter().rev().find(|label| match (&name, &label.name) {
            (None, _) => label.is_loop,
            (Some(name), Some(label)) => self.same(name, label),
            (Some(_), None) => false,
        });
        let Some(label) = label.filter(|label| label.is_loop || !iterate).cloned() else {
            return Err(self.words.expected("a jump inside of the loop that it names"));
        };
        let when = match self.plpgsql() && self.words.take(&["WHEN"]) {
            true => {
                let tokens = self.words.until(&[";"])?;
                Some(self.formula(tokens)?)
            }
            false => None,
        };
        Ok(if iterate {
            ProcedureStep::Iterate(label.id, when)
        } else {
            ProcedureStep::Leave(label.id, when)
        })
    }

    /// MySQL's handler.
    pub fn handler(&mut self, exit: bool) -> Result<Handler, SqlError> {
        Ok(Handler { exit, body: vec![self.step()?] })
    }
}
