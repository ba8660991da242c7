//! What `--level` may name.

use margay_levels::{Level, Model, UnknownName};

/// A level that engines decide, or one of Elle's models that none does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// A level.
    Level(Level),
    /// A model that is no level.
    Model(Model),
}

impl Asked {
    /// Reads a level's name; where there is no such level, a model's.
    pub fn parse(name: &str) -> Result<Self, String> {
        let unknown = match name.parse::<Level>() {
            Ok(level) => return Ok(Asked::Level(level)),
            Err(unknown) => unknown,
        };
        match name.parse::<Model>() {
            Ok(model) => Ok(model.level().map_or(Asked::Model(model), Asked::Level)),
            Err(_) => Err(advice(&unknown)),
        }
    }

    /// The names of the levels, weakest first.
    pub fn names() -> Vec<&'static str> {
        Level::ALL.map(Level::name).to_vec()
    }

    /// The level, if it is one.
    pub fn level(self) -> Option<Level> {
        match self {
            Asked::Level(level) => Some(level),
            Asked::Model(_) => None,
        }
    }

    /// The name that is printed.
    pub fn name(self) -> &'static str {
        match self {
            Asked::Level(level) => level.name(),
            Asked::Model(model) => model.name(),
        }
    }
}

fn advice(unknown: &UnknownName) -> String {
    if unknown.nearest.is_empty() {
        format!("{unknown}; `margay levels` lists them")
    } else {
        unknown.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_models_and_neither() {
        assert_eq!(Asked::parse("SI"), Ok(Asked::Level(Level::SnapshotIsolation)));
        assert_eq!(Asked::parse("strong-serializable"), Ok(Asked::Level(Level::StrictSerializable)));
        assert_eq!(Asked::parse("cursor-stability"), Ok(Asked::Model(Model::CursorStability)));
        assert!(Asked::parse("serialisable").unwrap_err().contains("did you mean serializable"));
        assert!(Asked::parse("qqqqqqqq").unwrap_err().contains("margay levels"));
    }
}
