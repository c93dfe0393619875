//! Looks at a database without changing it, for an operator who wants to know what is wrong with it.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    error::OpenError,
    location::Location,
    open::{self, ServerState},
    schema::{self, SchemaState},
    settings::Settings,
};

/// Most damages of a file that are named, for a person. `SQLite` searches no further, and a damaged
/// file may have one on each page.
const MAX_DAMAGES: u32 = 10;
/// Longest time of the search for damages, which reads the whole file.
const SEARCH: Duration = Duration::from_secs(3);
/// Instructions between two looks at the time, which are well below a millisecond.
const STEPS: i32 = 10_000;

/// The state of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// State of the tables.
    pub schema: SchemaState,
    /// Damages of a file, in the words of `SQLite`; `None` if the file is too large to search all of it, and for
    /// a server.
    pub damages: Option<Vec<String>>,
    /// The server; `None` for a file.
    pub server: Option<ServerState>,
}

/// Looks at the database of these settings. Fails as [`open`](crate::open::open) does.
pub fn inspect(settings: &Settings) -> Result<Inspection, OpenError> {
    match &settings.location {
        Location::File(path) => inspect_file(path),
        Location::Server(url) => {
            let (server, found) = open::inspect_server(url, settings)?;
            Ok(Inspection { schema: state(found), damages: None, server: Some(server) })
        }
    }
}

fn inspect_file(path: &Path) -> Result<Inspection, OpenError> {
    let Some((connection, found)) = open::look(path)? else {
        return Ok(Inspection { schema: state(None), damages: Some(Vec::new()), server: None });
    };
    let damages = damages(connection).map_err(|error| OpenError::new(path.display(), error))?;
    Ok(Inspection { schema: state(Some(found)), damages, server: None })
}

fn state(found: Option<i32>) -> SchemaState {
    SchemaState { found: found.filter(|version| *version > 0), known: schema::VERSION }
}

/// Returns the damages of a file; `None` if the time does not suffice.
fn damages(mut connection: rusqlite::Connection) -> rusqlite::Result<Option<Vec<String>>> {
    let end = Instant::now() + SEARCH;
    connection.progress_handler(STEPS, Some(move || Instant::now() >= end))?;
    let mut found = Vec::new();
    let searched = connection.pragma(None, "quick_check", MAX_DAMAGES, |row| {
        found.push(row.get::<_, String>(0)?);
        Ok(())
    });
    match searched {
        Err(error)
            if error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
        Ok(()) => {
            found.retain(|text| text != "ok");
            Ok(Some(found))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, OpenOptions},
        io::{Seek as _, SeekFrom, Write as _},
    };

    use super::*;

    fn inspected(path: &Path) -> Result<Inspection, OpenError> {
        inspect(&Settings::new(path))
    }

    #[test]
    fn a_file_is_looked_at_and_not_made_or_changed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("airlock.db");
        let absent = inspected(&path).expect("it can be made");
        assert_eq!((absent.schema.found, absent.damages), (None, Some(Vec::new())));
        assert!(!path.exists());
        drop(open::open(&Settings::new(&path)).expect("it is made"));
        let good = inspected(&path).expect("it can be read");
        assert_eq!((good.schema.found, good.server), (Some(schema::VERSION), None));
        assert_eq!(good.damages, Some(Vec::new()));
    }

    #[test]
    fn a_file_whose_pages_were_overwritten_is_damaged() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("airlock.db");
        // Without a write-ahead log, whose pages would hide the damage.
        let mut connection = rusqlite::Connection::open(&path).expect("it is made");
        schema::migrate(&mut connection, &path).expect("it gets its tables");
        drop(connection);
        let bytes = fs::metadata(&path).expect("it is there").len();
        let mut file = OpenOptions::new().write(true).open(&path).expect("it can be written");
        file.seek(SeekFrom::Start(8_192)).expect("it has more pages");
        let garbage = vec![0xAA; usize::try_from(bytes - 8_192).expect("a small file")];
        file.write_all(&garbage).expect("written");
        let is_damaged = match inspected(&path) {
            Ok(inspection) => inspection.damages.is_some_and(|damages| !damages.is_empty()),
            Err(error) => matches!(error, OpenError::Damaged { .. }),
        };
        assert!(is_damaged);
    }
}
