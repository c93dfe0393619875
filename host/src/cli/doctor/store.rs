//! The store: its key, its tables, damages of its file, the version and the clock of its server.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::task::spawn_blocking;

use super::{
    checkup::Check,
    finding::{DoctorFinding, Status},
};
use airlock_config::Config;
use airlock_core::unix_time::unix_milliseconds;
use airlock_store::{
    Database, Inspection, Location, OpenError, SchemaState, ServerState, Settings,
};
use airlock_strings::with_causes;
use airlock_terminal::session::ConfigFile;

const CODE: &str = "store";
const CLOCK: &str = "store_clock";
/// Difference to the clock of a server that an operator should know of.
const SMALL_DIFFERENCE: Duration = Duration::from_secs(5);
/// Difference to the clock of a server with which logins and records go wrong.
const LARGE_DIFFERENCE: Duration = Duration::from_mins(1);

/// Returns the check of the store. Nothing in it is changed.
pub(super) fn check(config: &Arc<Config>, file: &ConfigFile, is_offline: bool) -> Check {
    let config = config.clone();
    let file = file.clone();
    let place = config.store.to_string();
    Check::new(CODE, place, async move {
        let key = unusable_key(&config).await;
        let mut found: Vec<_> = key.into_iter().collect();
        if is_offline && matches!(config.store, Location::Server(_)) {
            return found;
        }
        match Database::inspect(Settings::at(config.store.clone())).await {
            Ok(inspection) => {
                found.extend(judge(&config.store, &inspection, &file, SystemTime::now()));
                found.extend(unassigned(config).await);
            }
            Err(error) => found.push(unusable(&config.store, &error)),
        }
        found
    })
}

/// Returns the finding of a key of the store that cannot be used.
async fn unusable_key(config: &Arc<Config>) -> Option<DoctorFinding> {
    let config = config.clone();
    let read = spawn_blocking(move || config.store_settings().map(drop)).await.ok()?;
    let error = read.err()?;
    let finding = DoctorFinding::error("store_key", "store_key", with_causes(&error))
        .valid("64 hexadecimal digits, in a variable or a file that the gateway can read")
        .fix("`store_key` and `store_old_keys`");
    Some(finding)
}

/// Returns the finding of a database that cannot be opened.
fn unusable(location: &Location, error: &OpenError) -> DoctorFinding {
    let (code, valid) = match error {
        OpenError::Foreign { .. } => ("store_foreign", "a database that Airlock has made"),
        OpenError::Newer { .. } => ("store_newer", "a database of this version or an older one"),
        OpenError::Damaged { .. } => ("store_damaged", "a database without damages"),
        OpenError::Unusable { .. } => ("store_unusable", "a database that this user can open"),
    };
    let fix = match error {
        OpenError::Foreign { .. } => "name another place in `store`",
        OpenError::Newer { .. } => "start a newer version, or name another place in `store`",
        OpenError::Damaged { .. } => "restore the database from a backup",
        OpenError::Unusable { .. } => {
            "`store`, the mode of the file, or the server of the database"
        }
    };
    DoctorFinding::error(code, location.to_string(), with_causes(error)).valid(valid).fix(fix)
}

/// Returns the findings about a database that can be read.
fn judge(
    location: &Location,
    inspection: &Inspection,
    file: &ConfigFile,
    now: SystemTime,
) -> Vec<DoctorFinding> {
    let place = location.to_string();
    let mut found = vec![tables(&place, inspection.schema, file)];
    if let Some(state) = &inspection.server {
        found.push(clock(&place, state, now));
    } else {
        found.extend(damages(&place, inspection.damages.as_deref()));
    }
    found
}

fn tables(place: &str, state: SchemaState, file: &ConfigFile) -> DoctorFinding {
    let SchemaState { found, known } = state;
    match found {
        None => DoctorFinding::ok(CODE, place, "it has no tables yet, and the gateway makes them"),
        Some(found) if state.needs_migration() => {
            let text = format!("it has tables of version {found}, which the next gateway migrates");
            let fix = format!("airlock store migrate{}", file.option());
            DoctorFinding::warning("store_tables", place, text)
                .valid(format!("version {known}"))
                .fix(fix)
        }
        Some(found) => DoctorFinding::ok(CODE, place, format!("it has tables of version {found}")),
    }
}

fn damages(place: &str, damages: Option<&[String]>) -> Option<DoctorFinding> {
    let Some(damages) = damages else {
        let text = "it is too large to look for damages in the time of a check";
        return Some(DoctorFinding::ok(CODE, place, text));
    };
    let first = damages.first()?;
    let text = format!("it has {} damages or more, the first: {first}", damages.len());
    let finding = DoctorFinding::error("store_damaged", place, text);
    Some(finding.valid("a database without damages").fix("restore the database from a backup"))
}

/// Checks the clock of a server, by which entries expire, against that of this machine.
fn clock(place: &str, state: &ServerState, now: SystemTime) -> DoctorFinding {
    let own_ms = unix_milliseconds(now);
    let difference = Duration::from_millis(own_ms.abs_diff(state.now_ms));
    let version = state.version / 10_000;
    let shown = humantime::format_duration(Duration::from_secs(difference.as_secs()));
    let found =
        format!("PostgreSQL {version}; its clock and that of this machine differ by {shown}");
    let status = match difference {
        difference if difference >= LARGE_DIFFERENCE => Status::Error,
        difference if difference >= SMALL_DIFFERENCE => Status::Warning,
        _ => return DoctorFinding::ok(CLOCK, place, found),
    };
    DoctorFinding::new(status, CLOCK, place, found)
        .valid(format!("a difference below {} seconds", SMALL_DIFFERENCE.as_secs()))
        .fix("set both clocks, for example with `timedatectl set-ntp true`")
}

/// Returns the findings about entries of plugins that have no holder.
async fn unassigned(config: Arc<Config>) -> Vec<DoctorFinding> {
    let problems = spawn_blocking(move || config.check_stores()).await.unwrap_or_default();
    let problems = problems.into_iter();
    problems
        .map(|problem| DoctorFinding::problem(Status::Error, "store_entries", problem))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(now_ms: i64) -> ServerState {
        ServerState { version: 160_004, now_ms }
    }

    #[test]
    fn a_clock_that_differs_is_a_warning_and_then_an_error() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
        let own_ms = unix_milliseconds(now);
        for (difference_ms, expected) in [
            (4_999, Status::Ok),
            (-4_999, Status::Ok),
            (5_000, Status::Warning),
            (-5_000, Status::Warning),
            (60_000, Status::Error),
            (-60_000, Status::Error),
        ] {
            let found = clock("db", &state(own_ms + difference_ms), now);
            assert_eq!(found.status, expected, "{difference_ms}");
            assert!(found.found.contains("PostgreSQL 16"), "{}", found.found);
        }
    }

    #[test]
    fn tables_of_an_older_version_name_the_command_that_migrates_them() {
        let file = ConfigFile { path: "/etc/gateway.json".into() };
        let old = tables("db", SchemaState { found: Some(3), known: 17 }, &file);
        assert_eq!((old.code, old.status), ("store_tables", Status::Warning));
        assert_eq!(old.fix.as_deref(), Some("airlock store migrate --config /etc/gateway.json"));
        for found in [None, Some(17)] {
            assert_eq!(tables("db", SchemaState { found, known: 17 }, &file).status, Status::Ok);
        }
        let damaged = damages("db", Some(&["row 1 missing".to_owned()])).expect("a finding");
        assert_eq!((damaged.code, damaged.status), ("store_damaged", Status::Error));
        assert_eq!(damages("db", Some(&[])), None);
    }
}
