//! What a Jepsen operation did: forms to steps. `workload` makes operations of a history out of
//! them.
//!
//! A step is independent of the workload, because some workloads are told apart only by a later
//! read: `:add` is a counter's or a set's, `:write` a register's or a set's, `[:w k v]` a
//! register's or a row's of the closed-predicate workload.

use margay_history::{HistoryBuilder, Invalid, ValueId};

use super::forms::{Form, Items, Node};

/// One thing that an operation did. Keys and values are interned.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum OperationStep {
    Read(ValueId, ValueId),
    Write(ValueId, ValueId),
    Append(ValueId, ValueId),
    /// A read of a register of Knossos' multi-register workload, whose initial values are not in
    /// the log.
    ReadRegister(ValueId, ValueId),
    WriteRegister(ValueId, ValueId),
    /// Porcupine's key-value store: values are texts, and appending joins them.
    GetText(ValueId, ValueId),
    PutText(ValueId, ValueId),
    AppendText(ValueId, ValueId),
    /// A predicate and the rows it returned, if seen.
    Rows(String, Option<Vec<(ValueId, ValueId)>>),
    /// The initial rows of the closed-predicate workload.
    Init(Vec<(ValueId, ValueId)>),
    Balances(Vec<(ValueId, ValueId)>),
    Transfer {
        from: ValueId,
        to: ValueId,
        amount: ValueId,
    },
    /// To a counter or a set; to the set of a key if the value is a pair.
    Add(ValueId),
    /// A register's write, or an element's insertion.
    Store(ValueId),
    Swap(ValueId, ValueId),
    /// Of one of several independent registers: its key, the old value and the new one.
    SwapOf(ValueId, ValueId, ValueId),
    /// A read of one of several independent registers.
    ReadOf(ValueId, ValueId),
    Acquire,
    Release,
    /// A read of the one object there is, with its scalar value.
    Scalar(ValueId),
    /// A read of a set, or of the set of a key.
    Elements(Option<ValueId>, Vec<ValueId>),
    /// A read of the one object there is, or of the set of a key, whose result is not known.
    Unseen(Option<ValueId>),
}

/// What is wrong with a form, and where it is.
pub(crate) struct Fault {
    pub at: usize,
    pub what: String,
}

/// Why an operation is no part of a history: by itself, or after what came before it.
pub(crate) enum Problem {
    Fault(Fault),
    Invalid(Invalid),
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Problem::Fault(fault)
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Problem::Invalid(invalid)
    }
}

pub(crate) fn fault<T>(form: Form<'_>, what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { at: form.offset(), what: what.into() })
}

/// The value that a form stands for.
pub(crate) fn value(builder: &mut HistoryBuilder, form: Form<'_>) -> Result<ValueId, Fault> {
    let values = builder.values();
    Ok(match form.node() {
        Node::Nil => ValueId::NULL,
        Node::Bool(b) => values.bool(b),
        Node::Int(int) => values.int(int),
        Node::UInt(int) => values.uint(int),
        Node::Float(float) => values.float(float),
        Node::Keyword(span) => values.text(form.slice(span)),
        Node::Text(span) => values.text(form.slice(span)),
        Node::List(_) | Node::Vector(_) => {
            let mut items = Vec::new();
            for item in form.sequence().into_iter().flatten() {
                items.push(value(builder, item)?);
            }
            builder.values().list(&items)
        }
        Node::OddNumber => {
            return fault(form, "a ratio, an infinity or an integer of more than 64 bits cannot be carried");
        }
        Node::Symbol => return fault(form, "a symbol cannot be carried as a value"),
        Node::Tag => return fault(form, "a tagged element cannot be carried as a value"),
        Node::Map(_) => return fault(form, "a map cannot be carried as a value"),
        Node::Set(_) => return fault(form, "a set cannot be carried as a value"),
    })
}

/// What an operation tells of its reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// An invocation.
    Nothing,
    /// A failed or indeterminate completion: `nil` says nothing.
    Values,
    /// A successful completion: `nil` is what was seen.
    All,
}

/// The steps with all that was read forgotten: what was asked for.
pub(crate) fn asked(steps: &[OperationStep]) -> Vec<OperationStep> {
    let forget = |step: &OperationStep| match step {
        OperationStep::Read(key, _) => OperationStep::Read(*key, ValueId::UNKNOWN),
        OperationStep::ReadRegister(key, _) => OperationStep::ReadRegister(*key, ValueId::UNKNOWN),
        OperationStep::GetText(key, _) => OperationStep::GetText(*key, ValueId::UNKNOWN),
        OperationStep::Rows(condition, _) => OperationStep::Rows(condition.clone(), None),
        OperationStep::Balances(_) | OperationStep::Scalar(_) => OperationStep::Unseen(None),
        OperationStep::Elements(key, _) => OperationStep::Unseen(*key),
        OperationStep::ReadOf(key, _) => OperationStep::Unseen(Some(*key)),
        other => other.clone(),
    };
    steps.iter().map(forget).collect()
}

/// Turns the value of an operation into steps.
pub(crate) struct Converter<'b> {
    pub builder: &'b mut HistoryBuilder,
    /// What of its reads is known.
    pub seen: Seen,
    /// EDN tells keywords from strings, so a string must not look like a keyword in the history.
    pub keywords: bool,
    /// The key of the set that the invocation asked for.
    pub key: Option<ValueId>,
    /// Whether a micro-operation of the closed-predicate workload was met.
    pub closed: bool,
}

impl Converter<'_> {
    /// The steps of an operation with function `f` and value `form`.
    pub fn steps(
        &mut self,
        f: &str,
        form: Option<Form<'_>>,
        whole: Form<'_>,
    ) -> Result<Vec<OperationStep>, Fault> {
        if let Some(form) = form
            && is_transaction(f, form)
        {
            return form.sequence().into_iter().flatten().map(|mop| self.mop(mop)).collect();
        }
        let form = form.filter(|form| !form.is_nil());
        let step = match (f, form) {
            ("read", form) => return Ok(vec![self.read(form)?]),
            ("acquire", _) => OperationStep::Acquire,
            ("release", _) => OperationStep::Release,
            ("txn", None) => return Ok(Vec::new()),
            (_, None) => return fault(whole, format!("an operation {f:?} without a value")),
            ("init", Some(form)) => {
                self.meet_closed(form)?;
                OperationStep::Init(self.entries(form, "the initial rows")?)
            }
            ("transfer", Some(form)) => self.transfer(form)?,
            ("add", Some(form)) => OperationStep::Add(self.value(form)?),
            ("write", Some(form)) => OperationStep::Store(self.value(form)?),
            ("cas", Some(form)) => self.swap(form)?,
            (_, Some(form)) => {
                return fault(form, format!("what an operation {f:?} with this value does is not known"));
            }
        };
        Ok(vec![step])
    }

    /// `[old new]`, or `[key [old new]]` of one of several registers.
    fn swap(&mut self, form: Form<'_>) -> Result<OperationStep, Fault> {
        let parts: Vec<_> = form.sequence().into_iter().flatten().take(3).collect();
        if let [key, inner] = parts[..]
            && let Some((old, new)) = self.pair(inner)?
        {
            return Ok(OperationStep::SwapOf(self.value(key)?, old, new));
        }
        match self.pair(form)? {
            Some((old, new)) => Ok(OperationStep::Swap(old, new)),
            None => fault(form, "a cas wants a pair of values"),
        }
    }

    /// Notes that the closed-predicate workload was met. JSON would turn the keys of its rows into
    /// texts.
    fn meet_closed(&mut self, form: Form<'_>) -> Result<(), Fault> {
        self.closed = true;
        match self.keywords {
            true => Ok(()),
            false => fault(form, "predicates are read from EDN only: JSON spells the keys of rows as texts"),
        }
    }

    fn value(&mut self, form: Form<'_>) -> Result<ValueId, Fault> {
        if self.keywords
            && let Node::Text(span) = form.node()
            && form.slice(span).starts_with(':')
        {
            return fault(form, "a string that begins with ':' cannot be carried, for keywords are kept so");
        }
        value(self.builder, form)
    }

    /// What a read saw; an empty list is what a list is before its first append.
    fn result(&mut self, form: Option<Form<'_>>) -> Result<ValueId, Fault> {
        match form.filter(|form| !form.is_nil()) {
            _ if self.seen == Seen::Nothing => Ok(ValueId::UNKNOWN),
            None if self.seen == Seen::Values => Ok(ValueId::UNKNOWN),
            None => Ok(ValueId::NULL),
            Some(form) if is_empty(form) => Ok(ValueId::NULL),
            Some(form) => self.value(form),
        }
    }

    /// An operation of Porcupine's key-value store. The empty text is what an absent key reads as.
    pub fn pair_store(
        &mut self,
        f: &str,
        key: Form<'_>,
        value: Option<Form<'_>>,
        whole: Form<'_>,
    ) -> Result<OperationStep, Fault> {
        let key = self.value(key)?;
        let value = value.filter(|value| !value.is_nil());
        let text = match value.map(|value| (value, value.node())) {
            None => ValueId::UNKNOWN,
            Some((_, Node::Text(span))) if span.start == span.end => ValueId::NULL,
            Some((value, Node::Text(_))) => self.value(value)?,
            Some((value, _)) => return fault(value, "a value of a key-value store is a text"),
        };
        match f {
            "get" if self.seen == Seen::Nothing => Ok(OperationStep::GetText(key, ValueId::UNKNOWN)),
            "get" => Ok(OperationStep::GetText(key, text)),
            _ if text == ValueId::UNKNOWN => fault(whole, format!("an operation {f:?} without a value")),
            "put" => Ok(OperationStep::PutText(key, text)),
            _ => Ok(OperationStep::AppendText(key, text)),
        }
    }

    fn mop(&mut self, mop: Form<'_>) -> Result<OperationStep, Fault> {
        let mut parts = mop.sequence().into_iter().flatten();
        let name = parts.next().and_then(Form::word).unwrap_or_default();
        let Some(first) = parts.next() else { return fault(mop, "a micro-operation without a key") };
        let second = parts.next();
        if let Some(extra) = parts.next() {
            return fault(extra, "a micro-operation has a name, a key and a value");
        }
        if matches!(name, "rp" | "insert" | "delete") {
            self.meet_closed(mop)?;
        }
        if name == "rp" {
            return self.rows(first, second);
        }
        let key = self.value(first)?;
        match (name, second) {
            ("r", seen) => Ok(OperationStep::Read(key, self.result(seen)?)),
            // Knossos takes a read of nothing for one whose result is not known.
            ("read", seen) if seen.is_none_or(Form::is_nil) => {
                Ok(OperationStep::ReadRegister(key, ValueId::UNKNOWN))
            }
            ("read", seen) => Ok(OperationStep::ReadRegister(key, self.result(seen)?)),
            ("write", Some(form)) if !is_empty(form) => {
                Ok(OperationStep::WriteRegister(key, self.value(form)?))
            }
            ("delete", _) => Ok(OperationStep::Write(key, ValueId::NULL)),
            ("w" | "write" | "insert" | "append", None) => fault(mop, "a write without its value"),
            ("w" | "write", Some(form)) if is_empty(form) => {
                fault(form, "an empty list cannot be written: it is how an absent one reads")
            }
            ("w" | "insert", Some(form)) => Ok(OperationStep::Write(key, self.value(form)?)),
            ("append", Some(form)) => Ok(OperationStep::Append(key, self.value(form)?)),
            _ => fault(mop, format!("an unknown micro-operation {name:?}")),
        }
    }

    fn rows(&mut self, predicate: Form<'_>, seen: Option<Form<'_>>) -> Result<OperationStep, Fault> {
        let condition = self.condition(predicate)?;
        let rows = match seen.filter(|rows| self.seen != Seen::Nothing && !rows.is_nil()) {
            Some(rows) => Some(self.entries(rows, "the rows of a predicate read")?),
            None => None,
        };
        Ok(OperationStep::Rows(condition, rows))
    }

    /// The condition that a closed predicate stands for.
    fn condition(&mut self, form: Form<'_>) -> Result<String, Fault> {
        if form.word() == Some("true") {
            return Ok("TRUE".to_string());
        }
        let parts: Vec<_> = form.sequence().into_iter().flatten().take(4).collect();
        match parts[..] {
            [name, value] if name.word() == Some("=") => self.equality(value),
            [name, modulus, rest] if name.word() == Some("mod") => match (modulus.int(), rest.int()) {
                (Some(modulus), Some(rest)) => Ok(format!("value % {modulus} = {rest}")),
                _ => fault(form, "[:mod m r] wants two integers"),
            },
            _ => fault(form, "a predicate is :true, [:= value] or [:mod m r]"),
        }
    }

    fn equality(&mut self, form: Form<'_>) -> Result<String, Fault> {
        self.value(form)?;
        match form.node() {
            Node::Nil => Ok("value IS NULL".to_string()),
            Node::Int(int) => Ok(format!("value = {int}")),
            Node::Text(span) | Node::Keyword(span) => {
                Ok(format!("value = '{}'", form.slice(span).replace('\'', "''")))
            }
            _ => fault(form, "a predicate compares with an integer, a text or nil"),
        }
    }

    fn entries(&mut self, form: Form<'_>, what: &str) -> Result<Vec<(ValueId, ValueId)>, Fault> {
        let Some(pairs) = form.pairs() else { return fault(form, format!("{what} are a map")) };
        let mut entries = Vec::new();
        for (key, value) in pairs {
            entries.push((self.value(key)?, self.value(value)?));
        }
        Ok(entries)
    }

    /// A read of the one object there is.
    fn read(&mut self, form: Option<Form<'_>>) -> Result<OperationStep, Fault> {
        let Some(form) = form.filter(|_| self.seen != Seen::Nothing) else {
            return Ok(match self.seen {
                Seen::All => OperationStep::Scalar(ValueId::NULL),
                _ => OperationStep::Unseen(self.asked_key(form)?),
            });
        };
        if form.is_map() {
            return self.balances(form);
        }
        // Old logs give the reason of a failure in place of a result.
        if self.seen == Seen::Values && matches!(form.node(), Node::Keyword(_)) {
            return Ok(OperationStep::Unseen(self.key));
        }
        match form.collection() {
            Some(items) => self.elements(form, items),
            None => Ok(OperationStep::Scalar(self.value(form)?)),
        }
    }

    /// The key in the `[key nil]` of an invocation.
    fn asked_key(&mut self, form: Option<Form<'_>>) -> Result<Option<ValueId>, Fault> {
        let Some(mut items) = form.and_then(Form::sequence) else { return Ok(None) };
        match (items.next(), items.next(), items.next()) {
            (Some(key), Some(nothing), None) if nothing.is_nil() => self.value(key).map(Some),
            _ => Ok(None),
        }
    }

    fn elements(&mut self, form: Form<'_>, items: Items<'_>) -> Result<OperationStep, Fault> {
        let parts: Vec<_> = items.clone().take(3).collect();
        if let [key, inner] = parts[..]
            && let Some(inner) = inner.collection()
            && form.sequence().is_some()
        {
            let key = self.value(key)?;
            return Ok(OperationStep::Elements(Some(key), self.all(inner)?));
        }
        // What was asked for is a register of a key, so this is no set of two elements.
        if let ([key, seen], Some(asked)) = (&parts[..], self.key)
            && self.value(*key)? == asked
        {
            let told = !seen.is_nil() || self.seen == Seen::All;
            let seen = if told { self.value(*seen)? } else { ValueId::UNKNOWN };
            return Ok(OperationStep::ReadOf(asked, seen));
        }
        Ok(OperationStep::Elements(self.key, self.all(items)?))
    }

    fn all<'t>(&mut self, items: impl Iterator<Item = Form<'t>>) -> Result<Vec<ValueId>, Fault> {
        items.map(|item| self.value(item)).collect()
    }

    fn balances(&mut self, form: Form<'_>) -> Result<OperationStep, Fault> {
        let mut all = Vec::new();
        for (account, balance) in form.pairs().into_iter().flatten() {
            all.push((self.account(account)?, self.value(balance)?));
        }
        // The order of a map says nothing; small integers, as accounts are, sort by their ids.
        all.sort_unstable();
        Ok(OperationStep::Balances(all))
    }

    /// An account. JSON spells its number as a text.
    fn account(&mut self, form: Form<'_>) -> Result<ValueId, Fault> {
        match form.word().and_then(|word| word.parse().ok()) {
            Some(number) => Ok(self.builder.values().int(number)),
            None => self.value(form),
        }
    }

    fn transfer(&mut self, form: Form<'_>) -> Result<OperationStep, Fault> {
        let mut parts = [None; 3];
        for (key, value) in form.pairs().into_iter().flatten() {
            match key.word() {
                Some("from") => parts[0] = Some(self.account(value)?),
                Some("to") => parts[1] = Some(self.account(value)?),
                Some("amount") => parts[2] = Some(self.value(value)?),
                _ => {}
            }
        }
        match parts {
            [Some(from), Some(to), Some(amount)] => Ok(OperationStep::Transfer { from, to, amount }),
            _ => fault(form, "a transfer wants from, to and amount"),
        }
    }

    fn pair(&mut self, form: Form<'_>) -> Result<Option<(ValueId, ValueId)>, Fault> {
        let Some(mut items) = form.sequence() else { return Ok(None) };
        match (items.next(), items.next(), items.next()) {
            (Some(a), Some(b), None) => Ok(Some((self.value(a)?, self.value(b)?))),
            _ => Ok(None),
        }
    }
}

/// Whether a value is a list of micro-operations.
fn is_transaction(f: &str, form: Form<'_>) -> bool {
    let Some(mut items) = form.sequence() else { return false };
    let named =
        |mop: Form<'_>| mop.sequence().and_then(|mut parts| parts.next()).and_then(Form::word).is_some();
    match items.next() {
        None => f == "txn" || f.is_empty(),
        Some(first) => named(first) && items.all(named),
    }
}

fn is_empty(form: Form<'_>) -> bool {
    form.sequence().is_some_and(|mut items| items.next().is_none())
}
