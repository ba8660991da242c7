//! How a statement that takes too long is ended from outside.

use std::fmt;
use std::sync::Arc;

use crate::error::SqlError;

/// Asked for every row that a statement looks at; if it says so, the statement ends with
/// [`SqlError::Stopped`].
#[derive(Clone, Default)]
pub(crate) struct Stop(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Stop {
    pub fn when(over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(over)))
    }

    #[inline]
    pub fn check(&self) -> Result<(), SqlError> {
        match &self.0 {
            Some(over) if over() => Err(SqlError::Stopped),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stop({})", self.0.is_some())
    }
}
