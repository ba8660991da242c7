//! The first line.

use hashbrown::HashSet;
use margay_history::{Invalid, Table, Unit};

use super::fields::unknown;
use super::json::{Fault, Json};
use super::values::ValueReader;

const FIELDS: [&str; 7] = ["margay", "unit", "skew", "dbms", "level", "tables", "initial"];

/// Reads the header into the builder.
pub(super) fn read(reader: &mut ValueReader, line: &[u8]) -> Result<(), Fault> {
    const EXAMPLE: &str = "the first line must be the header, such as {\"margay\":1}";
    if line.starts_with(b"\xef\xbb\xbf") {
        return Err(Fault::new(0, "the file begins with a byte order mark; remove it"));
    }
    let mut json = Json::new(line);
    if json.peek() != Some(b'{') {
        return json.fault(EXAMPLE);
    }
    let mut seen = HashSet::new();
    let mut versioned = false;
    json.object("the header", |json, name, at| {
        versioned |= name == "margay";
        if !seen.insert(name.to_string()) {
            return Err(Fault::new(at, format!("field {name:?} occurs twice")));
        }
        // A line of another kind is met here when the header is missing altogether. `level` and
        // `unit` are fields of both, and may stand before `margay`, as where a program sorts the
        // names.
        let of_operations = super::fields::Field::named(name).is_some() && !FIELDS.contains(&name);
        match !versioned && of_operations {
            true => Err(Fault::new(0, EXAMPLE)),
            false => field(reader, json, name, at),
        }
    })?;
    json.end()?;
    if versioned { Ok(()) } else { Err(Fault::new(0, EXAMPLE)) }
}

fn field(reader: &mut ValueReader, json: &mut Json<'_>, name: &str, at: usize) -> Result<(), Fault> {
    match name {
        "margay" => version(json)?,
        "unit" => reader.builder.header().unit = unit(json)?,
        "skew" => reader.builder.header().skew = skew(json)?,
        "dbms" => reader.builder.header().dbms = Some(json.text("the database's name")?.into_owned()),
        "level" => reader.builder.header().level = Some(json.text("the level's name")?.into_owned()),
        "tables" => tables(reader, json)?,
        "initial" => json.list("a list of pairs of object and value", |json| initial(reader, json))?,
        _ => return Err(Fault::new(at, unknown("field of the header", name, FIELDS))),
    }
    Ok(())
}

fn version(json: &mut Json<'_>) -> Result<(), Fault> {
    let at = json.place();
    match json.uint("the format's version")? {
        1 => Ok(()),
        other => {
            Err(Fault::new(at, format!("this is version {other} of the format; this Margay reads version 1")))
        }
    }
}

fn unit(json: &mut Json<'_>) -> Result<Unit, Fault> {
    let at = json.place();
    let name = json.text("a unit: ns, us, ms, s or index")?;
    Unit::from_name(&name).ok_or_else(|| {
        Fault::new(at, format!("unknown unit {name:?}; one of ns, us, ms, s, index is expected"))
    })
}

fn skew(json: &mut Json<'_>) -> Result<i64, Fault> {
    let at = json.place();
    match json.int("the clocks' skew")? {
        skew if skew >= 0 => Ok(skew),
        _ => Err(Fault::new(at, "the clocks' skew cannot be negative")),
    }
}

fn tables(reader: &mut ValueReader, json: &mut Json<'_>) -> Result<(), Fault> {
    let mut seen = HashSet::new();
    json.object("an object of tables", |json, name, at| {
        if !seen.insert(name.to_string()) {
            return Err(Fault::new(at, format!("table {name:?} occurs twice")));
        }
        let table = table(json, name)?;
        reader.builder.declare_table(table).map(drop).map_err(|Invalid { what, .. }| Fault::new(at, what))
    })
}

fn table(json: &mut Json<'_>, name: &str) -> Result<Table, Fault> {
    const FIELDS: [&str; 4] = ["key", "columns", "initial", "written-by"];
    let mut table = Table { name: name.to_string(), ..Table::default() };
    let mut seen = [false; FIELDS.len()];
    json.object("a table, such as {\"key\":[\"id\"],\"columns\":{\"id\":\"int\"}}", |json, field, at| {
        let Some(which) = FIELDS.iter().position(|&known| known == field) else {
            return Err(Fault::new(at, unknown("field of a table", field, FIELDS)));
        };
        if std::mem::replace(&mut seen[which], true) {
            return Err(Fault::new(at, format!("field {field:?} occurs twice")));
        }
        match which {
            0 => key(json, &mut table.key),
            1 => columns(json, &mut table),
            2 => the_word(json, "unknown").map(|()| table.initial_unknown = true),
            _ => the_word(json, "anything").map(|()| table.written_by_anything = true),
        }
    })?;
    table.columns_by_anything.sort_unstable();
    Ok(table)
}

/// Reads a text that can only be one.
fn the_word(json: &mut Json<'_>, word: &str) -> Result<(), Fault> {
    let (at, expected) = (json.place(), format!("{word:?}"));
    match json.text(&expected)? == word {
        true => Ok(()),
        false => Err(Fault::new(at, format!("only {expected} is expected here"))),
    }
}

fn key(json: &mut Json<'_>, key: &mut Vec<String>) -> Result<(), Fault> {
    json.list("a list of the key's columns", |json| {
        key.push(json.text("a column's name")?.into_owned());
        Ok(())
    })
}

fn columns(json: &mut Json<'_>, table: &mut Table) -> Result<(), Fault> {
    let mut seen = HashSet::new();
    json.object("an object of columns and their types", |json, name, at| {
        if !seen.insert(name.to_string()) {
            return Err(Fault::new(at, format!("column {name:?} occurs twice")));
        }
        let kind = match json.peek() {
            Some(b'{') => {
                let (kind, by_anything) = column(json)?;
                if by_anything {
                    table.columns_by_anything.push(name.to_string());
                }
                kind
            }
            _ => json.text("a column's type, as text")?.into_owned(),
        };
        table.columns.push((name.to_string(), kind));
        Ok(())
    })
}

/// Reads a column that has more than a type: its type, and whether anything may write it.
fn column(json: &mut Json<'_>) -> Result<(String, bool), Fault> {
    const FIELDS: [&str; 2] = ["type", "written-by"];
    let (start, mut kind, mut by_anything) = (json.place(), None, false);
    json.object("a column, such as {\"type\":\"int\"}", |json, field, at| {
        match field {
            "type" if kind.is_none() => kind = Some(json.text("a column's type, as text")?.into_owned()),
            "written-by" if !by_anything => {
                the_word(json, "anything")?;
                by_anything = true;
            }
            "type" | "written-by" => return Err(Fault::new(at, format!("field {field:?} occurs twice"))),
            _ => return Err(Fault::new(at, unknown("field of a column", field, FIELDS))),
        }
        Ok(())
    })?;
    let kind = kind.ok_or_else(|| Fault::new(start, "a column needs the field \"type\""))?;
    Ok((kind, by_anything))
}

pub(super) fn initial(reader: &mut ValueReader, json: &mut Json<'_>) -> Result<(), Fault> {
    let at = json.place();
    // Without a value the object was there, and nobody knows with what.
    let access = reader.pair(json)?;
    let given = reader.builder.initial(access.object, access.value);
    given.map_err(|Invalid { what, .. }| Fault::new(at, what))
}
