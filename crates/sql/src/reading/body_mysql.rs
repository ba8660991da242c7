//! What only MySQL's syntax of procedures has.

use sqlparser::tokenizer::Token;

use crate::error::SqlError;
use crate::reading::body::Compiler;
use crate::reading::expr::Expr;
use crate::reading::procedure::{Block, ProcedureStep, type_of};
use crate::value::Value;

impl Compiler<'_> {
    /// The DECLAREs at the beginning of a block.
    pub(crate) fn mysql_declarations(&mut self, block: &mut Block) -> Result<(), SqlError> {
        while self.words.take(&["DECLARE"]) {
            let exit = self.words.take(&["EXIT", "HANDLER"]);
            if exit || self.words.take(&["CONTINUE", "HANDLER"]) {
                self.mysql_handler(exit, block)?;
                continue;
            }
            if self.words.is(&["UNDO", "HANDLER"]) {
                return Err(self.words.outside("an UNDO handler"));
            }
            self.mysql_declaration(block)?;
            self.semicolon()?;
        }
        Ok(())
    }

    fn mysql_declaration(&mut self, block: &mut Block) -> Result<(), SqlError> {
        let mut names = vec![self.words.ident()?];
        if self.words.is(&["CONDITION"]) {
            return Err(self.words.outside("a named condition"));
        }
        if self.words.take(&["CURSOR", "FOR"]) {
            let query = self.query(&[";"])?;
            let cursor = self.cursor(names.remove(0), Some(query));
            block.cursors.push(cursor);
            return Ok(());
        }
        while self.words.take(&[","]) {
            names.push(self.words.ident()?);
        }
        let of = type_of(self.words.until(&["DEFAULT", ";"])?, self.catalog)?;
        let default = match self.words.take(&["DEFAULT"]) {
            true => {
                let tokens = self.words.until(&[";"])?;
                self.formula(tokens)?
            }
            false => Ok(Expr::Literal(Value::Null)),
        };
        for name in names {
            block.initial.push((self.declare(&name, of), default.clone()));
        }
        Ok(())
    }

    /// A handler for NOT FOUND, by whatever name; others are outside.
    fn mysql_handler(&mut self, exit: bool, block: &mut Block) -> Result<(), SqlError> {
        self.words.expect(&["FOR"])?;
        let named: [&[&str]; 4] =
            [&["NOT", "FOUND"], &["SQLSTATE", "'02000'"], &["SQLSTATE", "VALUE", "'02000'"], &["1329"]];
        if !named.iter().any(|condition| self.words.take(condition)) || self.words.is(&[","]) {
            return Err(self.words.outside("a handler for something else than NOT FOUND"));
        }
        if block.handler.is_some() {
            return Err(self.words.outside("a second handler for NOT FOUND"));
        }
        block.handler = Some(self.handler(exit)?);
        Ok(())
    }

    /// A statement without statements in it.
    pub(crate) fn mysql_step(&mut self) -> Result<ProcedureStep, SqlError> {
        if self.words.take(&["LEAVE"]) {
            return self.jump(false);
        }
        if self.words.take(&["ITERATE"]) {
            return self.jump(true);
        }
        if self.words.take(&["SIGNAL"]) {
            return self.signal();
        }
        for word in ["RETURN", "RESIGNAL", "GET", "FOR", "DECLARE", "DO"] {
            if self.words.is(&[word]) {
                return Err(self.words.outside(&format!("{word} at this place of a procedure")));
            }
        }
        if self.words.take(&["SET"]) {
            return self.set();
        }
        self.sql()
    }

    /// `SET a = 1, b = 2`: one after the other.
    fn set(&mut self) -> Result<ProcedureStep, SqlError> {
        if matches!(self.words.ahead(1), Some(Token::Word(_))) {
            return Err(self.words.outside("SET of something else than a variable in a procedure"));
        }
        let mut steps = vec![self.assignment(&[";", ","])?];
        while self.words.take(&[","]) {
            steps.push(self.assignment(&[";", ","])?);
        }
        Ok(match steps.len() {
            1 => steps.remove(0),
            _ => self.sequence(steps),
        })
    }

    /// `SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '…'`.
    fn signal(&mut self) -> Result<ProcedureStep, SqlError> {
        self.words.expect(&["SQLSTATE"])?;
        let _ = self.words.take(&["VALUE"]);
        let Some(Token::SingleQuotedString(state)) = self.words.next() else {
            return Err(self.words.expected("a state in quotes"));
        };
        if ["00", "01", "02"].iter().any(|class| state.starts_with(class)) {
            return Err(self.words.outside("a SIGNAL that is no error"));
        }
        if !self.words.take(&["SET", "MESSAGE_TEXT", "="]) {
            return Ok(ProcedureStep::Raise(format!("SQLSTATE {state}"), Vec::new()));
        }
        let tokens = self.words.until(&[";"])?;
        Ok(ProcedureStep::Raise("%".into(), vec![self.formula(tokens)?]))
    }
}
