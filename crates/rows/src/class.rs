//! Values and types that mean the same in every database: whole numbers and texts.

use margay_history::{Table, Value};

/// What a column holds, as far as values are compared here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    Int,
    Text,
    /// Anything else: a value may be stored in another form than it was given.
    Other,
}

impl Class {
    /// The class of a declared type.
    pub fn of(kind: &str) -> Class {
        let word: String = kind.chars().take_while(char::is_ascii_alphanumeric).collect();
        match word.to_ascii_lowercase().as_str() {
            "int" | "integer" | "bigint" | "int8" | "int4" | "smallint" | "int2" | "mediumint" => Class::Int,
            "text" | "varchar" | "string" => Class::Text,
            _ => Class::Other,
        }
    }

    /// The class of a table's column.
    pub fn column(table: &Table, column: usize) -> Class {
        Class::of(&table.columns[column].1)
    }

    /// Whether a value of such a column is stored as it is given.
    pub fn keeps(self, value: Value<'_>) -> bool {
        matches!(
            (self, value),
            (Class::Int | Class::Text, Value::Null)
                | (Class::Int, Value::Int(_))
                | (Class::Text, Value::Text(_))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_classes() {
        assert_eq!(["int", "BIGINT", "varchar(20)"].map(Class::of), [Class::Int, Class::Int, Class::Text]);
        assert_eq!(["decimal(12,2)", "char(3)", ""].map(Class::of), [Class::Other; 3]);
        assert!(Class::Int.keeps(Value::Int(3)) && !Class::Int.keeps(Value::Text("3")));
        assert!(!Class::Other.keeps(Value::Int(3)));
    }
}
