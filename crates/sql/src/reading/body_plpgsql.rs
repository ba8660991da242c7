//! What only PL/pgSQL's syntax of procedures has.

use sqlparser::ast::Ident;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::error::SqlError;
use crate::reading::body::Compiler;
use crate::reading::cast::Type;
use crate::reading::expr::{Class, Expr};
use crate::reading::plan::settled;
use crate::reading::procedure::{Block, Prepared, ProcedureStep, Range, type_of};
use crate::reading::statement::Plan;
use crate::reading::words;
use crate::value::Value;

impl Compiler<'_> {
    /// What stands between DECLARE and BEGIN.
    pub(crate) fn plpgsql_declarations(&mut self, block: &mut Block) -> Result<(), SqlError> {
        while !self.words.is(&["BEGIN"]) {
            let name = self.words.ident()?;
            self.plpgsql_declaration(name, block)?;
            self.words.expect(&[";"])?;
        }
        Ok(())
    }

    fn plpgsql_declaration(&mut self, name: Ident, block: &mut Block) -> Result<(), SqlError> {
        for word in ["CONSTANT", "ALIAS"] {
            if self.words.is(&[word]) {
                return Err(self.words.outside(&format!("{word} in a declaration")));
            }
        }
        let _ = self.words.take(&["NO", "SCROLL"]);
        if self.words.take(&["CURSOR"]) {
            if !self.words.take(&["FOR"]) && !self.words.take(&["IS"]) {
                return Err(self.words.outside("a cursor with parameters"));
            }
            let query = self.query(&[";"])?;
            block.cursors.push(self.cursor(name, Some(query)));
            return Ok(());
        }
        if self.words.take(&["REFCURSOR"]) {
            block.cursors.push(self.cursor(name, None));
            return Ok(());
        }
        if self.words.take(&["RECORD"]) {
            self.known.records.push(name);
            return Ok(());
        }
        let tokens = self.words.until(&["DEFAULT", ":=", "=", "NOT", ";"])?;
        if self.words.is(&["NOT"]) {
            return Err(self.words.outside("NOT NULL in a declaration"));
        }
        if matches!(tokens.last().map(|token| &token.token), Some(Token::Word(word)) if word.value.eq_ignore_ascii_case("rowtype"))
        {
            return self.row_variable(name, &tokens, block);
        }
        let of = type_of(tokens, self.catalog)?;
        let given = ["DEFAULT", ":=", "="].iter().any(|word| self.words.take(&[word]));
        let default = match given {
            true => {
                let tokens = self.words.until(&[";"])?;
                self.formula(tokens)?
            }
            false => Ok(Expr::Literal(Value::Null)),
        };
        block.initial.push((self.declare(&name, of), default));
        Ok(())
    }

    /// `name table%ROWTYPE`.
    fn row_variable(
        &mut self,
        name: Ident,
        tokens: &[TokenWithSpan],
        block: &mut Block,
    ) -> Result<(), SqlError> {
        let Some(Token::Word(table)) = tokens.first().map(|token| &token.token) else {
            return Err(self.words.expected("a table before %ROWTYPE"));
        };
        let table = self.catalog.table(&table.to_ident(tokens[0].span))?;
        if tokens.len() != 3 || !self.words.is(&[";"]) {
            return Err(self.words.outside("%ROWTYPE in this form"));
        }
        let record = crate::reading::ddl::folded(&name, self.catalog.dialect);
        let mut slots = Vec::new();
        for column in &self.catalog.schema(table).columns {
            let slot = self.slot(Some(column.data_type));
            let class = Class::of_type(column.data_type, self.catalog.dialect);
            self.name(Some(record.clone()), column.name.clone(), slot, class);
            block.initial.push((slot, Ok(Expr::Literal(Value::Null))));
            slots.push(slot);
        }
        self.known.rows.push((name, slots));
        Ok(())
    }

    /// FOR over integers or over the rows of a query.
    pub(crate) fn for_loop(&mut self, label: Option<&Ident>) -> Result<ProcedureStep, SqlError> {
        let outer = self.known.clone();
        let targets = self.words.until(&["IN"])?;
        self.words.expect(&["IN"])?;
        let reverse = self.words.take(&["REVERSE"]);
        let mut head = self.words.until(&["LOOP"])?;
        self.words.expect(&["LOOP"])?;
        let step = if let Some((low, high)) = words::range(&head) {
            let range = self.range(&targets, low, high, reverse)?;
            let (id, body) = self.loop_body(label, &["END"])?;
            ProcedureStep::Range(id, range, body)
        } else {
            if matches!(head.as_slice(), [TokenWithSpan { token: Token::Word(_), .. }]) {
                return Err(self.words.outside("FOR over a cursor"));
            }
            let query = self.prepare(std::mem::take(&mut head))?;
            let slots = self.row_targets(targets, &query)?;
            let (id, body) = self.loop_body(label, &["END"])?;
            ProcedureStep::Rows(id, query, slots, body)
        };
        self.end_loop(label)?;
        self.known = outer;
        Ok(step)
    }

    fn range(
        &mut self,
        targets: &[TokenWithSpan],
        low: Vec<TokenWithSpan>,
        mut high: Vec<TokenWithSpan>,
        reverse: bool,
    ) -> Result<Range, SqlError> {
        let by = match words::find(&high, "BY", 0) {
            Some(at) => {
                let by = high.split_off(at + 1);
                high.pop();
                Some(self.formula(by)?)
            }
            None => None,
        };
        let (low, high) = (self.formula(low)?, self.formula(high)?);
        let [TokenWithSpan { token: Token::Word(name), span }] = targets else {
            return Err(self.words.expected("one variable for the integers of a FOR loop"));
        };
        let slot = self.declare(&name.to_ident(*span), Type::Int(32));
        Ok(Range { slot, low, high, by, reverse })
    }

    /// The slots that a row of the query goes to. A record gets the query's columns as its fields.
    fn row_targets(&mut self, targets: Vec<TokenWithSpan>, query: &Prepared) -> Result<Vec<usize>, SqlError> {
        if let [TokenWithSpan { token: Token::Word(word), span }] = targets.as_slice() {
            let name = word.to_ident(*span);
            let dialect = self.catalog.dialect;
            let is_record = |known: &Ident| {
                crate::reading::names::fit(&name, &known.value, dialect) != crate::reading::names::Fit::None
            };
            if self.known.records.iter().any(is_record) {
                return self.record_fields(&crate::reading::ddl::folded(&name, dialect), query);
            }
        }
        self.targets_of(targets)
    }

    fn record_fields(&mut self, record: &str, query: &Prepared) -> Result<Vec<usize>, SqlError> {
        let Ok(statement) = query else { return Ok(Vec::new()) };
        let Plan::Select(select) = statement.plan() else {
            return Err(self.words.outside("FOR over something else than a SELECT"));
        };
        let select = select.clone();
        let mut slots = Vec::new();
        for (at, output) in select.outputs.iter().enumerate() {
            let repeated = select.outputs[..at].iter().any(|other| other.name == output.name);
            if repeated {
                return Err(self.words.outside(&format!("a record with two fields {}", output.name)));
            }
            let slot = self.slot(None);
            let class = settled(output.class, self.catalog.dialect);
            self.name(Some(record.to_string()), output.name.clone(), slot, class);
            slots.push(slot);
        }
        Ok(slots)
    }

    /// A statement without statements in it.
    pub(crate) fn plpgsql_step(&mut self) -> Result<ProcedureStep, SqlError> {
        if self.words.take(&["EXIT"]) {
            return self.jump(false);
        }
        if self.words.take(&["CONTINUE"]) {
            return self.jump(true);
        }
        if self.words.take(&["NULL"]) {
            return Ok(self.sequence(Vec::new()));
        }
        if self.words.take(&["RETURN"]) {
            return Ok(ProcedureStep::Return);
        }
        if self.words.take(&["RAISE"]) {
            return self.raise();
        }
        if self.words.is(&["PERFORM"]) {
            return self.perform();
        }
        for word in ["EXECUTE", "GET", "MOVE", "FOREACH", "ASSERT", "SET"] {
            if self.words.is(&[word]) {
                return Err(self.words.outside(&format!("{word} in a procedure")));
            }
        }
        let after = if self.words.ahead(1) == Some(&Token::Period) { 3 } else { 1 };
        if matches!(self.words.ahead(after), Some(Token::Assignment | Token::Eq)) {
            return self.assignment(&[";"]);
        }
        self.sql()
    }

    /// PERFORM is a SELECT whose rows go nowhere.
    fn perform(&mut self) -> Result<ProcedureStep, SqlError> {
        let mut tokens = self.words.until(&[";"])?;
        let word = Word { value: "SELECT".into(), quote_style: None, keyword: Keyword::SELECT };
        tokens[0].token = Token::Word(word);
        Ok(ProcedureStep::Perform(self.prepare(tokens)?))
    }

    /// RAISE EXCEPTION; messages of other levels change nothing.
    fn raise(&mut self) -> Result<ProcedureStep, SqlError> {
        for level in ["NOTICE", "INFO", "WARNING", "LOG", "DEBUG"] {
            if self.words.take(&[level]) {
                self.words.until(&[";"])?;
                return Ok(self.sequence(Vec::new()));
            }
        }
        let _ = self.words.take(&["EXCEPTION"]);
        let Some(Token::SingleQuotedString(text)) = self.words.next() else {
            return Err(self.words.outside("RAISE without a text"));
        };
        let mut values = Vec::new();
        while self.words.take(&[","]) {
            let tokens = self.words.until(&[",", ";", "USING"])?;
            values.push(self.formula(tokens)?);
        }
        let _ = self.words.until(&[";"])?;
        Ok(ProcedureStep::Raise(text, values))
    }
}
