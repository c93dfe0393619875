//! The imports that a component may have. Every known import is linked, whether it was granted or
//! not; a guest that was not granted it is denied at run time. A component that imports any other
//! name is refused, so that no new interface of a library is provided by accident.

use wasmtime::component::Component;

use super::version::is_of;

/// Interfaces that the host provides, by package and range of versions.
const KNOWN: [(&str, &str, &[&str]); 9] = [
    ("airlock:types", "0.1", &["types"]),
    (
        "airlock:host",
        "0.1",
        &["config", "context", "http", "kv", "log", "secrets", "secrets-reveal", "tools"],
    ),
    (
        "wasi:cli",
        "0.2",
        &[
            "environment",
            "exit",
            "stderr",
            "stdin",
            "stdout",
            "terminal-input",
            "terminal-output",
            "terminal-stderr",
            "terminal-stdin",
            "terminal-stdout",
        ],
    ),
    ("wasi:clocks", "0.2", &["monotonic-clock", "wall-clock"]),
    ("wasi:filesystem", "0.2", &["preopens", "types"]),
    ("wasi:http", "0.2", &["outgoing-handler", "types"]),
    ("wasi:io", "0.2", &["error", "poll", "streams"]),
    ("wasi:random", "0.2", &["insecure", "insecure-seed", "random"]),
    (
        "wasi:sockets",
        "0.2",
        &[
            "instance-network",
            "ip-name-lookup",
            "network",
            "tcp",
            "tcp-create-socket",
            "udp",
            "udp-create-socket",
        ],
    ),
];

/// Returns the names of the imports that the host does not provide.
pub(super) fn unknown_imports(component: &Component) -> Vec<String> {
    let imports = component.component_type();
    let imports = imports.imports(component.engine());
    imports.map(|(name, _)| name.to_owned()).filter(|name| !is_known(name)).collect()
}

fn is_known(import: &str) -> bool {
    let Some((path, version)) = import.split_once('@') else { return false };
    let Some((package, interface)) = path.split_once('/') else { return false };
    KNOWN.iter().any(|(known, range, interfaces)| {
        *known == package && is_of(range, version) && interfaces.contains(&interface)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_is_known_by_package_interface_and_version_together() {
        for known in [
            "airlock:host/kv@0.1.0",
            "wasi:clocks/wall-clock@0.2.9",
            "wasi:http/outgoing-handler@0.2.0",
        ] {
            assert!(is_known(known), "{known}");
        }
        for unknown in [
            "airlock:host/kv",
            "airlock:host/kv@0.2.0",
            "airlock:host/admin@0.1.0",
            "wasi:clocks/timezone@0.2.0",
            "wasi:cli/stdin@0.3.0",
            "kv@0.1.0",
        ] {
            assert!(!is_known(unknown), "{unknown}");
        }
    }
}
