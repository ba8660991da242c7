//! Lowering of CREATE TABLE and CREATE INDEX.

use sqlparser::ast::{self, ColumnOption, Ident, TableConstraint};

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::cast::Type;
use crate::reading::database::Catalog;
use crate::reading::exact;
use crate::reading::from::scope_table;
use crate::reading::lower::outside;
use crate::reading::query::single;
use crate::reading::schema::{Column, Schema};
use crate::reading::scope::Scope;

/// The schema that a CREATE TABLE declares.
pub(crate) fn create_table(create: &ast::CreateTable, catalog: &Catalog) -> Result<Schema, SqlError> {
    let dialect = catalog.dialect;
    exact::create_table(create, dialect)?;
    let name = folded(single(&create.name)?, dialect);
    let mut schema =
        Schema { name, columns: Vec::new(), key: Vec::new(), uniques: Vec::new(), checks: Vec::new() };
    for definition in &create.columns {
        let column = column(definition, catalog)?;
        let repeated = schema.columns.iter().any(|known| known.name.eq_ignore_ascii_case(&column.name));
        if repeated {
            return Err(SqlError::AmbiguousColumn(column.name));
        }
        schema.columns.push(column);
    }
    let mut checks = Vec::new();
    for (index, definition) in create.columns.iter().enumerate() {
        for option in &definition.options {
            match &option.option {
                ColumnOption::PrimaryKey(_) => set_key(&mut schema, vec![index])?,
                ColumnOption::Unique(_) => schema.uniques.push(vec![index]),
                ColumnOption::Check(check) => checks.push(check),
                _ => {}
            }
        }
    }
    for constraint in &create.constraints {
        table_constraint(constraint, &mut schema, &mut checks, dialect)?;
    }
    schema.checks = lower_checks(&checks, &schema, catalog)?;
    finish_key(&mut schema, create, dialect)?;
    Ok(schema)
}

/// The name under which a table or column is known: PostgreSQL folds what is not quoted.
pub(crate) fn folded(ident: &Ident, dialect: Dialect) -> String {
    if dialect.is_postgres() && ident.quote_style.is_none() {
        return ident.value.to_ascii_lowercase();
    }
    ident.value.clone()
}

fn column(definition: &ast::ColumnDef, catalog: &Catalog) -> Result<Column, SqlError> {
    let dialect = catalog.dialect;
    let (data_type, serial) = match serial(&definition.data_type, dialect) {
        Some(data_type) => (data_type, true),
        None => (Type::lower(&definition.data_type, dialect)?, false),
    };
    let name = folded(&definition.name, dialect);
    let mut column = Column { name, data_type, not_null: serial, auto: serial, default: None };
    for option in &definition.options {
        match &option.option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => column.not_null = true,
            ColumnOption::Default(expr) => {
                let mut scope = Scope::new(catalog, None);
                column.default = Some(scope.lowerer().output(expr)?.expr);
            }
            ColumnOption::PrimaryKey(_) | ColumnOption::Unique(_) | ColumnOption::Check(_) => {}
            ColumnOption::DialectSpecific(tokens) if is_auto_increment(tokens) => column.auto = true,
            ColumnOption::Generated { generation_expr: None, sequence_options: None, .. } => {
                (column.auto, column.not_null) = (true, true);
            }
            other => return Err(SqlError::unsupported(format!("the column option {other}"))),
        }
    }
    Ok(column)
}

fn serial(data_type: &ast::DataType, dialect: Dialect) -> Option<Type> {
    if !dialect.is_strict() {
        return None;
    }
    match data_type.to_string().to_ascii_uppercase().as_str() {
        "SERIAL" => Some(Type::Int(32)),
        "BIGSERIAL" => Some(Type::Int(64)),
        _ => None,
    }
}

fn is_auto_increment(tokens: &[sqlparser::tokenizer::Token]) -> bool {
    let text: String = tokens.iter().map(ToString::to_string).collect();
    matches!(text.to_ascii_uppercase().as_str(), "AUTO_INCREMENT" | "AUTOINCREMENT")
}

fn table_constraint<'a>(
    constraint: &'a TableConstraint,
    schema: &mut Schema,
    checks: &mut Vec<&'a ast::CheckConstraint>,
    dialect: Dialect,
) -> Result<(), SqlError> {
    match constraint {
        TableConstraint::PrimaryKey(key) => {
            let columns = index_columns(&key.columns, schema, dialect)?;
            set_key(schema, columns)
        }
        TableConstraint::Unique(unique) => {
            if unique.nulls_distinct != ast::NullsDistinctOption::None {
                return Err(SqlError::unsupported("NULLS NOT DISTINCT"));
            }
            let columns = index_columns(&unique.columns, schema, dialect)?;
            schema.uniques.push(columns);
            Ok(())
        }
        TableConstraint::Check(check) => {
            checks.push(check);
            Ok(())
        }
        // An index changes nothing about what statements mean.
        TableConstraint::Index(_) => Ok(()),
        other => Err(SqlError::unsupported(format!("the constraint {other}"))),
    }
}

/// The positions of an index's columns.
pub(crate) fn index_columns(
    columns: &[ast::IndexColumn],
    schema: &Schema,
    dialect: Dialect,
) -> Result<Vec<usize>, SqlError> {
    let position = |column: &ast::IndexColumn| match &column.column.expr {
        ast::Expr::Identifier(ident) => schema.position(ident, dialect),
        other => Err(outside(&format!("the index on {other}"), other)),
    };
    columns.iter().map(position).collect()
}

fn set_key(schema: &mut Schema, columns: Vec<usize>) -> Result<(), SqlError> {
    if !schema.key.is_empty() {
        return Err(SqlError::unsupported("a second primary key"));
    }
    schema.key = columns;
    Ok(())
}

/// Key columns are never NULL, except that SQLite allows it for all but INTEGER PRIMARY KEY, which
/// it numbers instead.
fn finish_key(schema: &mut Schema, create: &ast::CreateTable, dialect: Dialect) -> Result<(), SqlError> {
    let rowid = match schema.key.as_slice() {
        [only] => matches!(create.columns[*only].data_type, ast::DataType::Integer(None)),
        _ => false,
    };
    for &column in &schema.key {
        schema.columns[column].not_null = true;
        schema.columns[column].auto |= rowid && dialect == Dialect::Sqlite;
    }
    let numbered = schema.columns.iter().filter(|column| column.auto).count();
    let misplaced =
        schema.columns.iter().any(|column| column.auto && !matches!(column.data_type, Type::Int(_)));
    if numbered > 1 || misplaced {
        return Err(SqlError::unsupported("these numbered columns"));
    }
    Ok(())
}

fn lower_checks(
    checks: &[&ast::CheckConstraint],
    schema: &Schema,
    catalog: &Catalog,
) -> Result<Vec<(String, crate::reading::expr::Expr)>, SqlError> {
    let mut scope = Scope::new(catalog, None);
    let table = scope_table(schema, Ident::new(schema.name.clone()), 0, &scope);
    scope.tables.push(table);
    let mut lowered = Vec::new();
    for check in checks {
        if check.enforced == Some(false) || check.no_inherit {
            return Err(outside(&check.to_string(), check.expr.as_ref()));
        }
        let expr = scope.expr(&check.expr)?.expr;
        if expr.has_subquery() {
            return Err(outside("a subquery in CHECK", check.expr.as_ref()));
        }
        lowered.push((check.expr.to_string(), expr));
    }
    Ok(lowered)
}
