//! A database around another one.

use std::sync::Arc;

use margay_client::{DatabaseEvidence, Schema, Start};
use margay_levels::Level;

use crate::{Connection, Database, Harm, Witness};

/// What is done around a database.
pub trait Around: Send + Sync {
    /// Its objects have been made.
    ///
    /// # Errors
    /// When the run cannot begin.
    fn prepared(&self, _database: &dyn Database) -> Result<(), String> {
        Ok(())
    }

    /// Its objects are about to be removed.
    fn ending(&self) {}

    /// What it promises at one of its own levels.
    fn promise(&self, database: &dyn Database, own_name: &str) -> Option<Level> {
        database.promise(own_name)
    }

    /// Does harm to its server.
    ///
    /// # Errors
    /// As [`Database::inflict`].
    fn inflict(&self, database: &dyn Database, harm: Harm) -> Result<(), String> {
        database.inflict(harm)
    }
}

/// A database with something around it; everything else is as the database does it.
pub struct Wrapped<A> {
    /// The database.
    pub database: Box<dyn Database>,
    /// What is around it. It goes after the database.
    pub around: A,
}

impl<A: Around> Database for Wrapped<A> {
    fn identity(&self) -> (String, String) {
        self.database.identity()
    }

    fn levels(&self) -> Vec<&'static str> {
        self.database.levels()
    }

    fn promise(&self, own_name: &str) -> Option<Level> {
        self.around.promise(self.database.as_ref(), own_name)
    }

    fn reads_to_change(&self) -> bool {
        self.database.reads_to_change()
    }

    fn prepare(&self, own_name: &str, start: &Start) -> Result<(), String> {
        self.database.prepare(own_name, start)?;
        self.around.prepared(self.database.as_ref())
    }

    fn connect(&self, client: usize, own_name: &str) -> Result<Box<dyn Connection + '_>, String> {
        self.database.connect(client, own_name)
    }

    fn witness(&self) -> Option<Arc<Witness>> {
        self.database.witness()
    }

    fn address(&self) -> Option<String> {
        self.database.address()
    }

    fn told(&self) -> Option<DatabaseEvidence> {
        self.database.told()
    }

    fn inflict(&self, harm: Harm) -> Result<(), String> {
        self.around.inflict(self.database.as_ref(), harm)
    }

    fn prepare_sql(&self, own_name: &str, schema: &Schema) -> Result<(), String> {
        self.database.prepare_sql(own_name, schema)?;
        self.around.prepared(self.database.as_ref())
    }

    fn clean_up_sql(&self, schema: &Schema) {
        self.around.ending();
        self.database.clean_up_sql(schema);
    }

    fn clean_up(&self) {
        self.around.ending();
        self.database.clean_up();
    }
}
