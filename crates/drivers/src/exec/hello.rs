//! What a driver says of itself.

use margay_client::sql::Upsert;
use margay_levels::Level;
use serde_json::{Map, Value as Json};

/// The answer to `hello`.
#[derive(Clone, Debug)]
pub(super) struct Hello {
    pub name: String,
    pub version: String,
    /// Its levels in its own words, the default first, and what it promises there. As long as the
    /// program lives, which opens one driver.
    pub levels: Vec<(&'static str, Option<Level>)>,
    pub speaks: Speaks,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Speaks {
    /// Reads and writes of keys.
    Keys {
        /// Whether it answers scans.
        scans: bool,
    },
    /// SQL.
    Sql(Dialect),
}

/// What SQL a driver wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Dialect {
    pub parameters: Parameters,
    pub upsert: Upsert,
    /// Whether UPDATE and DELETE can return rows.
    pub returning: bool,
}

/// How parameters stand in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Parameters {
    /// `$1`, `$2`, …
    Numbered,
    /// `?`, in the order of their places.
    Marks,
    /// `%s`, in the order of their places, as Python's drivers want it.
    Formats,
}

impl Hello {
    pub fn read(mut told: Map<String, Json>) -> Result<Self, String> {
        let name = text(&mut told, "name")?.ok_or("it has no `name`")?;
        let version = text(&mut told, "version")?.unwrap_or_else(|| "0".to_owned());
        let own = texts(&mut told, "levels")?.unwrap_or_else(|| vec!["SERIALIZABLE".to_owned()]);
        let promised = texts(&mut told, "promises")?.unwrap_or_default();
        if own.is_empty() || promised.len() > own.len() {
            return Err("`levels` and `promises` are two lists of the same length".to_owned());
        }
        let promised = promised.iter().map(|name| name.parse::<Level>().map_err(|error| error.to_string()));
        let promised = promised.collect::<Result<Vec<_>, _>>()?;
        let level = |(at, own): (usize, String)| (&*own.leak(), promised.get(at).copied());
        let levels = own.into_iter().enumerate().map(level).collect();
        let speaks = speaks(&mut told)?;
        match told.keys().next() {
            Some(key) => Err(format!("`{key}` means nothing here")),
            None => Ok(Self { name, version, levels, speaks }),
        }
    }
}

fn speaks(told: &mut Map<String, Json>) -> Result<Speaks, String> {
    match text(told, "speaks")?.as_deref() {
        None | Some("keys") => Ok(Speaks::Keys { scans: truth(told, "scans")?.unwrap_or(false) }),
        Some("sql") => Ok(Speaks::Sql(Dialect {
            parameters: match text(told, "parameters")?.as_deref() {
                None | Some("?") => Parameters::Marks,
                Some("$1") => Parameters::Numbered,
                Some("%s") => Parameters::Formats,
                Some(other) => return Err(format!("`parameters` is `?`, `$1` or `%s`, not `{other}`")),
            },
            upsert: match text(told, "upsert")?.as_deref() {
                None | Some("on conflict") => Upsert::OnConflict,
                Some("on duplicate key") => Upsert::OnDuplicateKey,
                Some(other) => {
                    return Err(format!("`upsert` is `on conflict` or `on duplicate key`, not `{other}`"));
                }
            },
            returning: truth(told, "returning")?.unwrap_or(false),
        })),
        Some(other) => Err(format!("`speaks` is `keys` or `sql`, not `{other}`")),
    }
}

fn text(told: &mut Map<String, Json>, key: &str) -> Result<Option<String>, String> {
    match told.remove(key) {
        None => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(other) => Err(format!("`{key}` is a text, not {other}")),
    }
}

fn truth(told: &mut Map<String, Json>, key: &str) -> Result<Option<bool>, String> {
    match told.remove(key) {
        None => Ok(None),
        Some(Json::Bool(is)) => Ok(Some(is)),
        Some(other) => Err(format!("`{key}` is true or false, not {other}")),
    }
}

fn texts(told: &mut Map<String, Json>, key: &str) -> Result<Option<Vec<String>>, String> {
    let Some(json) = told.remove(key) else { return Ok(None) };
    let texts =
        json.as_array().and_then(|all| all.iter().map(|one| one.as_str().map(str::to_owned)).collect());
    texts.map(Some).ok_or_else(|| format!("`{key}` is a list of texts, not {json}"))
}
