//! The configuration file, the files that it names, and the lock file.

use std::{slice, sync::Arc};

use tokio::{runtime::Handle, task::spawn_blocking, time::timeout};

use super::{
    checkup::{Check, LIMIT},
    finding::{DoctorFinding, Status},
};
use crate::cli::check;
use airlock_compile::Compiling;
use airlock_config::{Config, KeyPath};
use airlock_strings::with_causes;
use airlock_terminal::session::ConfigFile;

/// Code of findings about the file itself.
const CODE: &str = "configuration";
/// Code of findings about files that it names.
const FILES: &str = "files";
/// Code of findings about guards.
const GUARDS: &str = "guards";
/// Code of findings about `airlock.lock`.
const LOCK: &str = "lock";

/// Reads the configuration. Returns its valid parts, and the findings.
pub(super) async fn read(file: &ConfigFile) -> (Option<Config>, Vec<DoctorFinding>) {
    let path = file.path.clone();
    let reading = spawn_blocking(move || Config::load_valid_parts(&path));
    let name = file.path.display().to_string();
    match timeout(LIMIT, reading).await {
        Ok(Ok(Ok((config, problems)))) if problems.is_empty() => {
            (config, vec![DoctorFinding::ok(CODE, name, "it is valid")])
        }
        Ok(Ok(Ok((config, problems)))) => {
            let problems = problems.into_iter();
            let found =
                problems.map(|problem| DoctorFinding::problem(Status::Error, CODE, problem));
            (config, found.collect())
        }
        Ok(Ok(Err(error))) => (None, vec![unreadable(name, with_causes(&error))]),
        Ok(Err(_)) => (None, vec![unreadable(name, "it could not be read".to_owned())]),
        Err(_) => (None, vec![unreadable(name, "it could not be read in time".to_owned())]),
    }
}

fn unreadable(name: String, found: String) -> DoctorFinding {
    DoctorFinding::error(CODE, name, found)
        .valid("a JSON file that the user of the gateway can read")
        .fix("name it with `--config`")
}

/// Returns the checks of what the configuration names.
pub(super) fn checks(config: &Arc<Config>, file: &ConfigFile) -> Vec<Check> {
    let named = {
        let config = config.clone();
        let runtime = Handle::current();
        Check::blocking(FILES, "files", move || runtime.block_on(named_files(&config)))
    };
    let lock = {
        let config = config.clone();
        let file = file.clone();
        let runtime = Handle::current();
        Check::blocking(LOCK, "airlock.lock", move || runtime.block_on(locked(&config, &file)))
    };
    let guards = (!config.guards.is_empty()).then(|| {
        let config = config.clone();
        Check::new(GUARDS, "guards", async move { accepted(&config).await })
    });
    [named, lock].into_iter().chain(guards).collect()
}

/// Checks that the guards can be loaded and accept their settings.
async fn accepted(config: &Config) -> Vec<DoctorFinding> {
    let problems = config.check_guards(Compiling::in_child()).await;
    if problems.is_empty() {
        return vec![DoctorFinding::ok(GUARDS, "guards", "each accepts its settings")];
    }
    let problems = problems.into_iter();
    problems.map(|problem| DoctorFinding::problem(Status::Error, GUARDS, problem)).collect()
}

/// Checks the files that the configuration names.
async fn named_files(config: &Config) -> Vec<DoctorFinding> {
    let problems = config.check_named_files().await.into_iter();
    let mut found: Vec<_> =
        problems.map(|problem| DoctorFinding::problem(Status::Error, FILES, problem)).collect();
    // The check of certificates reports them with their times.
    let tls = KeyPath::parse("server.tls");
    let warnings = config.warnings().into_iter();
    let warnings = warnings.filter(|warning| warning.key.below(&tls).is_none());
    found.extend(warnings.map(|warning| DoctorFinding::problem(Status::Warning, FILES, warning)));
    if found.is_empty() {
        found.push(DoctorFinding::ok(
            FILES,
            "files",
            "all that the configuration names can be used",
        ));
    }
    found
}

/// Checks that the lock file permits the plugins, and that the definitions of servers in it can be used.
async fn locked(config: &Config, file: &ConfigFile) -> Vec<DoctorFinding> {
    let mut problems = config.check_pins(|drift| check::remedy(drift, file)).await;
    problems.extend(config.check_accepted());
    let problems = problems.into_iter();
    let mut found: Vec<_> =
        problems.map(|problem| DoctorFinding::problem(Status::Error, LOCK, problem)).collect();
    for client in config.unpinned() {
        let advice = check::advice(slice::from_ref(&client), file);
        found.push(DoctorFinding::warning(LOCK, client.to_string(), advice));
    }
    if found.is_empty() {
        found.push(DoctorFinding::ok(LOCK, "airlock.lock", "it permits every plugin and server"));
    }
    found
}
