//! The machine: what its kernel and processor can do, the cache of compiled code, the clock, and proxies in the
//! environment.

use std::{
    any::Any,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use rustix::fs::{Access, access};

use super::{
    checkup::Check,
    finding::{DoctorFinding, Status},
    modes::nearest_existing,
};
use airlock_compile::{CodeCache, check_mappings, compiler_engine};
use airlock_config::{Config, Source, environment};
use airlock_mcp_client::{Network, NetworkIsolation, Process};
use airlock_model::Kind;
use airlock_process::can_confine_paths;

const KERNEL: &str = "kernel";
const ENGINE: &str = "engine";
const CACHE: &str = "code_cache";
const CLOCK: &str = "clock";
const PROXY: &str = "proxy";
/// A time that has passed, since 1970: the first of January 2025.
const PAST: Duration = Duration::from_hours(482_136);
/// Variables by which programs find proxies.
const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// Returns the checks of the machine, against the configuration if there is one.
pub(super) fn checks(config: Option<&Arc<Config>>) -> Vec<Check> {
    let mut checks = vec![
        Check::blocking(ENGINE, "processor", || vec![engine()]),
        Check::blocking(CLOCK, "clock", || vec![clock(SystemTime::now())]),
    ];
    let Some(config) = config else { return checks };
    let needs = Needs::from(&**config);
    checks.push(Check::blocking(KERNEL, "kernel", move || kernel(&needs)));
    let slots = config.sandbox.slots();
    checks.push(Check::blocking(ENGINE, "vm.max_map_count", move || vec![mappings(slots)]));
    let directory = config.sandbox.cache.clone();
    checks.push(Check::blocking(CACHE, "compiled code", move || vec![cache(directory.as_deref())]));
    let found = proxies(config);
    checks.push(Check::new(PROXY, "environment", async move { vec![found] }));
    checks
}

/// The confinement that the MCP servers of a configuration need.
struct Needs {
    /// Names of those that are confined to paths.
    confined: Vec<String>,
    /// Names of those that do not start without their confinement.
    required: Vec<String>,
    /// Names of those that have no network.
    without_network: Vec<String>,
}

impl From<&Config> for Needs {
    fn from(config: &Config) -> Self {
        let mut needs =
            Self { confined: Vec::new(), required: Vec::new(), without_network: Vec::new() };
        for client in &config.clients {
            let Source::Upstream(settings) = &client.source else { continue };
            let transport: &dyn Any = &*settings.transport;
            let Some(process) = transport.downcast_ref::<Process>() else { continue };
            let name = client.name.to_string();
            match &process.confinement {
                Some(confinement) if confinement.required => needs.required.push(name.clone()),
                Some(_) => needs.confined.push(name.clone()),
                None => {}
            }
            if process.network == Network::None {
                needs.without_network.push(name);
            }
        }
        needs
    }
}

/// Checks what the kernel can keep from MCP servers that are processes.
fn kernel(needs: &Needs) -> Vec<DoctorFinding> {
    vec![
        paths(needs, can_confine_paths()),
        network(&needs.without_network, NetworkIsolation::detect()),
    ]
}

fn paths(needs: &Needs, can_confine: bool) -> DoctorFinding {
    let subject = "Landlock";
    if can_confine {
        return DoctorFinding::ok(KERNEL, subject, "the kernel can confine processes to paths");
    }
    let (status, names) = match (&needs.required[..], &needs.confined[..]) {
        ([], []) => {
            return DoctorFinding::ok(
                KERNEL,
                subject,
                "the kernel does not have it, and no server needs it",
            );
        }
        ([], confined) => (Status::Warning, confined),
        (required, _) => (Status::Error, required),
    };
    let found = format!("the kernel cannot confine processes to paths: {}", names.join(", "));
    DoctorFinding::new(status, KERNEL, subject, found)
        .valid("Linux 5.13 or later, with `landlock` in /sys/kernel/security/lsm")
        .fix("boot with Landlock, or change `stdio_config.confine` of these clients")
}

fn network(servers: &[String], isolation: NetworkIsolation) -> DoctorFinding {
    let subject = "seccomp";
    let found = match isolation {
        NetworkIsolation::Full => "the kernel can keep processes from the network",
        NetworkIsolation::WithoutAbstractSockets => {
            "the kernel can keep processes from the network, and not from abstract Unix sockets"
        }
        NetworkIsolation::Unavailable => "the kernel cannot keep processes from the network",
    };
    let status = match isolation {
        _ if servers.is_empty() => Status::Ok,
        NetworkIsolation::Full => Status::Ok,
        NetworkIsolation::WithoutAbstractSockets => Status::Warning,
        NetworkIsolation::Unavailable => Status::Error,
    };
    let finding = DoctorFinding::new(status, KERNEL, subject, found);
    if status == Status::Ok {
        return finding;
    }
    finding
        .valid("Linux 6.12 or later, with seccomp and Landlock")
        .fix(format!("another kernel, or another `stdio_config.network` of {}", servers.join(", ")))
}

/// Checks that the processor has what compiled components need.
fn engine() -> DoctorFinding {
    match compiler_engine() {
        Ok(_) => DoctorFinding::ok(ENGINE, "processor", "it runs compiled components"),
        Err(error) => DoctorFinding::error(ENGINE, "processor", format!("{error:#}"))
            .valid(
                "a processor that the engine has a compiler for: x86-64, AArch64, RISC-V or s390x",
            )
            .fix("run the gateway on another machine"),
    }
}

/// Checks that the kernel permits the mappings of the pool of instances.
fn mappings(slots: u32) -> DoctorFinding {
    match check_mappings(slots) {
        Ok(()) => {
            DoctorFinding::ok(ENGINE, "vm.max_map_count", "it suffices for the pool of instances")
        }
        Err(reason) => DoctorFinding::warning(ENGINE, "vm.max_map_count", reason)
            .valid("65530, the default of Linux")
            .fix("sysctl -w vm.max_map_count=65530"),
    }
}

/// Checks that compiled code can be kept. Makes no directory.
fn cache(directory: Option<&Path>) -> DoctorFinding {
    let Some(directory) = directory else {
        let found = "no directory is known, so components are compiled at each start";
        return DoctorFinding::warning(CACHE, "compiled code", found)
            .valid("a directory of the gateway's user")
            .fix("set AIRLOCK_CACHE_DIR or HOME in the environment of the gateway");
    };
    let shown = directory.display().to_string();
    let usable = if directory.exists() {
        CodeCache::check_directory(directory).map_err(|error| error.to_string())
    } else {
        Ok(())
    };
    let usable = usable.and_then(|()| writable(&nearest_existing(directory)));
    match usable {
        Ok(()) => DoctorFinding::ok(CACHE, shown, "compiled code is kept here"),
        Err(problem) => DoctorFinding::warning(CACHE, shown, problem)
            .valid("a directory that the gateway's user alone can write to")
            .fix("change its owner and mode, or set AIRLOCK_CACHE_DIR"),
    }
}

fn writable(directory: &Path) -> Result<(), String> {
    let allowed = access(directory, Access::WRITE_OK | Access::EXEC_OK);
    allowed.map_err(|error| format!("this user may not write to {}: {error}", directory.display()))
}

/// Checks that the clock of the machine is set.
fn clock(now: SystemTime) -> DoctorFinding {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let shown = humantime::format_rfc3339_seconds(now);
    let found = format!("it is {shown}");
    if since >= PAST {
        return DoctorFinding::ok(CLOCK, "clock", found);
    }
    DoctorFinding::error(CLOCK, "clock", found)
        .valid("the present time: certificates, tokens and limits depend on it")
        .fix("set the clock, for example with `timedatectl set-ntp true`")
}

/// Reports variables of proxies, which the gateway does not use where an operator may expect it. Their values are not
/// shown: they may have passwords.
fn proxies(config: &Config) -> DoctorFinding {
    let set: Vec<_> = PROXIES
        .into_iter()
        .filter(|name| environment(name).is_some_and(|value| !value.is_empty()))
        .collect();
    if set.is_empty() {
        return DoctorFinding::ok(PROXY, "environment", "it names no proxy");
    }
    let direct = config.providers.iter().filter(|provider| match &provider.kind {
        Kind::Service(service) => service.proxy.is_none(),
        Kind::Scripted { .. } => false,
    });
    let direct: Vec<_> = direct.map(|provider| provider.name.as_str()).collect();
    let found = format!(
        "{} is set, which neither providers nor MCP servers over HTTP nor plugins use",
        set.join(", ")
    );
    if direct.is_empty() {
        return DoctorFinding::ok(PROXY, "environment", found);
    }
    DoctorFinding::warning(PROXY, "environment", found)
        .valid("`proxy` of each provider that is reached through one")
        .fix(format!("`proxy` of {}, if a proxy is needed", direct.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_never_set_is_an_error() {
        let past = SystemTime::UNIX_EPOCH + PAST;
        assert_eq!(clock(past).status, Status::Ok);
        assert_eq!(clock(past - Duration::from_secs(1)).status, Status::Error);
        assert_eq!(clock(SystemTime::UNIX_EPOCH).status, Status::Error);
    }

    #[test]
    fn a_kernel_that_lacks_what_servers_need_is_reported_by_their_names() {
        assert_eq!(paths(&needs(&[], &["a"]), true).status, Status::Ok);
        assert_eq!(paths(&needs(&[], &[]), false).status, Status::Ok);
        assert_eq!(paths(&needs(&["b"], &[]), false).status, Status::Warning);
        let missing = paths(&needs(&["b"], &["a"]), false);
        assert_eq!(missing.status, Status::Error);
        assert!(missing.found.ends_with(": a"), "{}", missing.found);
        let servers = ["a".to_owned()];
        for (isolation, expected) in [
            (NetworkIsolation::Full, Status::Ok),
            (NetworkIsolation::WithoutAbstractSockets, Status::Warning),
            (NetworkIsolation::Unavailable, Status::Error),
        ] {
            assert_eq!(network(&servers, isolation).status, expected);
            assert_eq!(network(&[], isolation).status, Status::Ok);
        }
    }

    fn needs(confined: &[&str], required: &[&str]) -> Needs {
        Needs {
            confined: confined.iter().map(|&name| name.to_owned()).collect(),
            required: required.iter().map(|&name| name.to_owned()).collect(),
            without_network: Vec::new(),
        }
    }

    #[test]
    fn a_cache_that_others_may_write_to_is_a_warning_and_none_is_made() {
        let home = tempfile::tempdir().expect("a directory");
        let directory = home.path().join("code");
        assert_eq!(cache(Some(&directory)).status, Status::Ok);
        assert!(!directory.exists());
        std::fs::create_dir(&directory).expect("a directory");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&directory, mode).expect("changed");
        assert_eq!(cache(Some(&directory)).status, Status::Warning);
        assert_eq!(cache(None).status, Status::Warning);
    }
}
