//! `--certificate-recovery`: what the database itself tells of the transactions that were recorded.

use std::path::Path;

use margay_drivers::Database;
use margay_formats::Format;
use margay_recover::{Plugin, Watched};
use margay_runner::Recording;

use crate::failure::Failure;
use crate::{files, terminal};

/// How many gaps are told one by one.
const TOLD: usize = 5;

/// The database of a run, watched or not.
pub enum Subject {
    Plain(Box<dyn Database>),
    Watched(Box<Watched>),
}

impl Subject {
    pub fn new(
        database: Box<dyn Database>,
        recover: bool,
        shadows: u32,
        plugin: Plugin,
    ) -> Result<Self, String> {
        if !recover {
            return Ok(Subject::Plain(database));
        }
        let watched = Watched::new(database)?.with_shadows(shadows).with_plugin(plugin);
        Ok(Subject::Watched(Box::new(watched)))
    }

    pub fn database(&self) -> &dyn Database {
        match self {
            Subject::Plain(database) => database.as_ref(),
            Subject::Watched(watched) => watched.database(),
        }
    }

    /// The recording with what was recovered, if the database was watched; the file that was
    /// recorded gets it too.
    pub fn recover(
        &self,
        recording: Recording,
        record: Option<&Path>,
        quiet: bool,
    ) -> Result<Recording, Failure> {
        let Subject::Watched(watched) = self else { return Ok(recording) };
        let recovered = watched.recover(&recording.history).map_err(Failure::new)?;
        if !quiet {
            for gap in recovered.gaps.iter().take(TOLD) {
                let gap = gap.show(&recording.history);
                terminal::warn(&format!("the certificate is incomplete: {gap}"));
            }
            if recovered.gaps.len() > TOLD {
                terminal::warn(&format!("and {} more", recovered.gaps.len() - TOLD));
            }
        }
        let history = recording.history.with_evidence(recovered.evidence);
        let history = history.map_err(|error| Failure::new(format!("what was recovered: {}", error.what)))?;
        if let Some(path) = record {
            margay_formats::write(&history, Format::Margay, files::target(path))?;
        }
        Ok(Recording { history, ..recording })
    }
}
