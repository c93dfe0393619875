//! Landlock: the paths that a child may use.

use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    PathFdError, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use crate::{command::Confinement, error::SpawnError};

/// The version whose rights are used. On an older kernel, the rights that it does not know are
/// neither restricted nor granted.
const RIGHTS: ABI = ABI::V6;

/// Paths of the system that most programs read: programs, libraries, certificates, the names of
/// users and hosts. None of them holds a secret of this machine.
const SYSTEM: [&str; 38] = [
    "/bin",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
    "/gnu/store",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    // Memory and environment of processes outside stay hidden: Landlock forbids to trace them, and
    // a child of root loses the capability that would permit it nonetheless.
    "/proc",
    "/run/systemd/resolve",
    "/sbin",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/usr",
];
/// Devices that hold nothing.
const DEVICES: [&str; 6] =
    ["/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"];

/// Builds the rules for a child that runs `program`. Returns `None` if the system cannot confine
/// processes and the confinement is not required.
pub(super) fn rules(
    confinement: &Confinement,
    program: &Path,
) -> Result<Option<OwnedFd>, SpawnError> {
    let read = AccessFs::from_read(RIGHTS);
    let all = AccessFs::from_all(RIGHTS);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)
        .and_then(|rules| rules.scope(Scope::from_all(RIGHTS)))
        .and_then(Ruleset::create)
        .map_err(refused)?;
    for path in &confinement.read {
        rules = named(rules, "read", path, read)?;
    }
    for path in &confinement.write {
        rules = named(rules, "write", path, all)?;
    }
    let system = SYSTEM.iter().map(|path| (Path::new(path), read));
    let device = AccessFs::ReadFile | AccessFs::WriteFile;
    let devices = DEVICES.iter().map(|path| (Path::new(path), device));
    for (path, access) in system.chain(devices).chain([(program, read)]) {
        // What a system does not have needs no rule.
        if let Ok(open) = PathFd::new(path) {
            rules = allow(rules, open, path, access)?;
        }
    }
    match Option::<OwnedFd>::from(rules) {
        Some(rules) => Ok(Some(rules)),
        None if confinement.required => Err(SpawnError::NoLandlock),
        None => Ok(None),
    }
}

/// Builds the rules for a child that may use all paths, but neither TCP nor the abstract Unix sockets of
/// other processes. Under any rules, it cannot trace processes outside, and so not use their network
/// either. Returns `None` if the kernel knows no such rules (before Linux 6.7).
pub(super) fn socket_rules() -> Result<Option<OwnedFd>, SpawnError> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessNet::from_all(RIGHTS))
        .and_then(|rules| rules.scope(Scope::AbstractUnixSocket))
        .and_then(Ruleset::create)
        .map_err(refused)?;
    Ok(Option::<OwnedFd>::from(rules))
}

/// Returns whether the kernel can confine a process to paths (Linux 5.13, with Landlock turned on).
pub(crate) fn can_confine_paths() -> bool {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(Ruleset::create);
    rules.is_ok_and(|rules| Option::<OwnedFd>::from(rules).is_some())
}

/// Returns whether the kernel can keep a process from abstract Unix sockets (Linux 6.12).
pub(super) fn scopes_abstract_sockets() -> bool {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::AbstractUnixSocket)
        .and_then(Ruleset::create);
    rules.is_ok_and(|rules| Option::<OwnedFd>::from(rules).is_some())
}

/// Allows a path of the configuration, which must exist.
fn named(
    rules: RulesetCreated,
    key: &'static str,
    path: &PathBuf,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, SpawnError> {
    match PathFd::new(path) {
        Ok(open) => allow(rules, open, path, access),
        Err(error) => {
            let cause = match error {
                PathFdError::OpenCall { source, .. } => source,
                other => io::Error::other(other),
            };
            Err(SpawnError::ConfinedPath { key, path: path.clone(), cause })
        }
    }
}

fn allow(
    rules: RulesetCreated,
    open: PathFd,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, SpawnError> {
    // Some rights, such as to create files, make no sense for a file.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(RIGHTS) };
    rules.add_rule(PathBeneath::new(open, access)).map_err(refused)
}

fn refused(error: RulesetError) -> SpawnError {
    SpawnError::Confine(io::Error::other(error))
}
