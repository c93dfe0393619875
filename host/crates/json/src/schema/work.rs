//! Work of the compiler, counted before it is done.

use super::{limits::MAX_COMPILE_WORK, problem::Problem};

/// Price of a subschema that is compiled.
pub(super) const SUBSCHEMA: u64 = 2;

/// Work that the compiler may do for the schemas of one source. A schema takes from it whether it
/// can be used or not; one that would take more than is left is not compiled.
///
/// A unit is about a microsecond of an optimized build. The compiler may do the work five times: it
/// tries several limits on the size of a pattern.
#[derive(Debug)]
pub struct CompileWork {
    left: u64,
}

impl CompileWork {
    /// Creates the work that `documents` documents may take if each takes as much as it may.
    pub const fn of_documents(documents: u64) -> Self {
        Self { left: MAX_COMPILE_WORK.saturating_mul(documents) }
    }

    /// Creates the work for a list of ordinary schemas: a tenth of what one document may take.
    pub const fn quick() -> Self {
        Self { left: MAX_COMPILE_WORK / 10 }
    }

    /// Returns the work that the next document may take.
    pub(super) fn next(&self) -> DocumentWork {
        let left = self.left.min(MAX_COMPILE_WORK);
        DocumentWork { begun: left, left }
    }

    /// Takes the work that was done for a document.
    pub(super) fn spend(&mut self, work: &DocumentWork) {
        self.left = self.left.saturating_sub(work.begun - work.left);
    }
}

/// Work that may be done for one document.
pub(super) struct DocumentWork {
    begun: u64,
    left: u64,
}

impl DocumentWork {
    /// Takes work. Fails if it is more than is left; then none is left.
    pub(super) fn take(&mut self, units: u64) -> Result<(), Problem> {
        let left = self.left.checked_sub(units);
        self.left = left.unwrap_or(0);
        left.map(drop).ok_or(Problem::TooMuchWork)
    }
}
