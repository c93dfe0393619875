//! Reads the manifests and sources of the gateway. Cargo keeps the arrows between crates; what it
//! cannot check is here: arrows that would compile and must not be drawn.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use airlock_tests::root;

/// Crates that must not depend on others: directly, and those in [`CLOSED`] not through further crates either.
const FORBIDDEN: &[(&str, &[&str])] = &[
    // The door knows neither what calls it nor what it calls.
    ("core", &["agent", "catalog", "mcp-client", "mcp-server", "model", "plugin", "scripts"]),
    // Each end of MCP knows the wire and not the other end.
    ("mcp-client", &["mcp-server", "plugin", "upstream"]),
    ("mcp-server", &["mcp-client", "plugin", "upstream"]),
    // Logins know no connection.
    ("mcp-oauth", &["mcp-client", "mcp-server", "process", "upstream"]),
    // Sources of tools do not know each other.
    ("upstream", &["plugin", "scripts"]),
    ("plugin", &["mcp-client", "scripts", "upstream"]),
    ("scripts", &["mcp-client", "plugin", "upstream"]),
    // Guards know a call, and not where it comes from.
    ("guards", &["agent", "mcp-server", "scripts", "server", "upstream"]),
    // Who asks does not know where tools come from.
    ("agent", &["plugin", "sandbox", "scripts", "upstream"]),
    ("server", &["config", "management", "plugin", "sandbox", "upstream"]),
    // Connections know no API, and no API knows another one.
    (
        "ingress",
        &[
            "agent",
            "config",
            "http",
            "mcp-server",
            "model",
            "requests",
            "sandbox",
            "scripts",
            "server",
            "store",
        ],
    ),
    (
        "http",
        &[
            "agent",
            "config",
            "mcp-server",
            "model",
            "operator-api",
            "replicas",
            "requests",
            "responses",
            "server",
            "store",
        ],
    ),
    (
        "replicas",
        &["config", "mcp-server", "model", "operator-api", "requests", "responses", "server"],
    ),
    (
        "responses",
        &["config", "ingress", "mcp-server", "model", "operator-api", "replicas", "server"],
    ),
    ("operator-api", &["config", "management", "mcp-server", "replicas", "responses", "server"]),
    ("management", &["mcp-server", "server"]),
    // Scripts as a library need neither a gateway nor the world outside.
    (
        "runner",
        &["config", "egress", "gateway", "mcp-client", "plugin", "scripts", "server", "store"],
    ),
    ("executors", &["catalog", "compile", "runner", "sandbox"]),
    // Requests know neither the form in which they came nor where tools come from.
    (
        "requests",
        &[
            "config",
            "http",
            "ingress",
            "mcp-server",
            "plugin",
            "sandbox",
            "server",
            "upstream",
            "wire",
        ],
    ),
    // Records know what happened, and not what made it happen.
    ("records", &["agent", "catalog", "config", "limits", "management", "mcp-server", "server"]),
    // The compiler knows components and native code, not what runs them or for whom.
    (
        "compile",
        &[
            "bounds", "catalog", "core", "egress", "json", "plugin", "process", "sandbox", "store",
            "wire",
        ],
    ),
    // Every crate that is traced sees telemetry, which knows none of them.
    (
        "telemetry",
        &["agent", "bounds", "config", "core", "egress", "model", "scripts", "server", "upstream"],
    ),
    // What authors do needs no gateway.
    ("authoring", &["agent", "catalog", "gateway", "mcp-server", "scripts", "server", "upstream"]),
    // The file as it is written knows no settings but the values of its keys.
    (
        "config-file",
        &["agent", "config", "mcp-client", "plugin", "sandbox", "server", "store", "upstream"],
    ),
    // Connections and tables know none of what is kept in them.
    ("database", &["limits", "store"]),
    // Commands alone need them.
    (
        "gateway",
        &["authoring", "config-import", "mcp-bridge", "plugin-cli", "registry", "terminal"],
    ),
];

/// Crates that are built early: one dependency on a crate of the middle would bring all that it depends on.
const CLOSED: &[&str] = &["config-file", "core", "http", "ingress"];

/// Outside crates, and the only crates that may depend on them.
const PLACES: &[(&str, &[&str])] = &[
    ("wasmtime", &["compile", "sandbox"]),
    ("wasmtime-wizer", &["compile"]),
    ("wasmparser", &["compile"]),
    ("rusqlite", &["database"]),
    ("tokio-postgres", &["database"]),
    ("hyper", &["egress", "http", "ingress", "server"]),
    ("bollard", &["mcp-client"]),
    ("rmcp", &["mcp-oauth"]),
    ("landlock", &["process"]),
    ("opentelemetry", &["telemetry"]),
    ("opentelemetry-otlp", &["telemetry"]),
    ("opentelemetry-proto", &["telemetry"]),
    ("opentelemetry_sdk", &["telemetry"]),
    ("libc", &["process"]),
    ("clap", &["plugin-cli", "terminal"]),
    ("pyo3", &[]),
    ("napi", &[]),
];

fn crates() -> Vec<(String, PathBuf)> {
    let mut crates = Vec::new();
    for entry in fs::read_dir(root().join("host/crates")).expect("the crates of the gateway") {
        let path = entry.expect("it can be read").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        crates.push((name, path));
    }
    crates.sort();
    crates
}

/// Returns the names of the dependencies of a crate, those of its tests left out.
fn dependencies(directory: &Path) -> Vec<String> {
    let text = fs::read_to_string(directory.join("Cargo.toml")).expect("a manifest");
    let manifest: toml::Table = text.parse().expect("TOML");
    manifest["dependencies"].as_table().expect("a table").keys().cloned().collect()
}

/// The dependencies of each crate of the gateway.
type Manifests = BTreeMap<String, Vec<String>>;

/// Returns the crates of the gateway that a crate depends on directly.
fn direct<'m>(manifests: &'m Manifests, name: &str) -> impl Iterator<Item = &'m str> {
    let dependencies = manifests.get(name).into_iter().flatten();
    dependencies.filter_map(|dependency| dependency.strip_prefix("airlock-"))
}

/// Returns a way to each crate of the gateway that a crate depends on, directly or through others: the crates
/// from the direct dependency to the crate itself.
fn ways<'m>(manifests: &'m Manifests, name: &str) -> Vec<Vec<&'m str>> {
    let mut seen: BTreeSet<_> = direct(manifests, name).collect();
    let mut ways: Vec<_> = seen.iter().map(|dependency| vec![*dependency]).collect();
    let mut next = 0;
    while let Some(way) = ways.get(next).cloned() {
        for dependency in way.last().into_iter().flat_map(|last| direct(manifests, last)) {
            if seen.insert(dependency) {
                let further = way.iter().copied().chain([dependency]);
                ways.push(further.collect());
            }
        }
        next += 1;
    }
    ways
}

#[test]
fn no_crate_depends_on_one_that_it_must_not_know() {
    let manifests: Manifests =
        crates().into_iter().map(|(name, directory)| (name, dependencies(&directory))).collect();
    let mut wrong = Vec::new();
    for (from, to) in FORBIDDEN {
        let is_closed = CLOSED.contains(from);
        for way in ways(&manifests, from) {
            let is_forbidden = way.last().is_some_and(|last| to.contains(last));
            if is_forbidden && (is_closed || way.len() == 1) {
                wrong.push(format!("{from} depends on {}", way.join(" → ")));
            }
        }
    }
    for (name, dependencies) in &manifests {
        for (outside, places) in PLACES {
            let depends = dependencies.iter().any(|dependency| dependency == outside);
            if depends && !places.contains(&name.as_str()) {
                wrong.push(format!("{name} depends on {outside}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn there_is_one_way_to_each_direct_and_indirect_dependency() {
    let manifests: Manifests = [
        ("ingress", &["airlock-core", "airlock-requests", "hyper"][..]),
        ("requests", &["airlock-core", "airlock-agent"][..]),
        ("agent", &["airlock-core"][..]),
    ]
    .into_iter()
    .map(|(name, dependencies)| {
        (name.to_owned(), dependencies.iter().map(|&dependency| dependency.to_owned()).collect())
    })
    .collect();
    assert_eq!(
        ways(&manifests, "ingress"),
        [vec!["core"], vec!["requests"], vec!["requests", "agent"]]
    );
}

#[test]
fn crates_that_are_closed_exist_and_have_rules() {
    let names: BTreeSet<_> = crates().into_iter().map(|(name, _)| name).collect();
    for closed in CLOSED {
        let has_rule = FORBIDDEN.iter().any(|(from, _)| from == closed);
        assert!(names.contains(*closed) && has_rule, "{closed}");
    }
}

fn sources_below(directory: &Path) -> Vec<PathBuf> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            sources.extend(sources_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path);
        }
    }
    sources
}

#[test]
fn every_module_has_a_header() {
    let mut sources = sources_below(&root().join("host/src"));
    for (_, directory) in crates() {
        sources.extend(sources_below(&directory.join("src")));
    }
    let is_test = |path: &PathBuf| {
        path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
    };
    sources.retain(|path| !is_test(path));
    let has_header =
        |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.starts_with("//! "));
    let silent: Vec<_> = sources
        .iter()
        .filter(|path| !has_header(path))
        .map(|path| path.strip_prefix(root()).unwrap_or(path).display().to_string())
        .collect();
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

/// Returns the settings of a table of a manifest, without comments.
fn table(manifest: &str, header: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(manifest)).expect("a manifest");
    let lines = text
        .lines()
        .skip_while(|line| *line != header)
        .skip(1)
        .take_while(|line| !line.starts_with('['));
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn the_executors_have_the_lints_of_the_workspace() {
    // Each is its own workspace, and cargo does not share lints across workspaces.
    for kind in ["rust", "clippy"] {
        let ours = table("Cargo.toml", &format!("[workspace.lints.{kind}]"));
        assert!(!ours.is_empty());
        for (executor, lints) in [
            ("plugins/starlark/Cargo.toml", "workspace.lints"),
            ("plugins/python/Cargo.toml", "lints"),
        ] {
            assert_eq!(table(executor, &format!("[{lints}.{kind}]")), ours, "{executor}");
        }
    }
}

#[test]
fn profiles_are_in_one_file() {
    // The example is exempt, because it is copied out of the repository.
    for manifest in [
        "Cargo.toml",
        "plugins/python/Cargo.toml",
        "plugins/starlark/Cargo.toml",
        "plugins/starlark/library/Cargo.toml",
        "tests/benches/native_script/Cargo.toml",
    ] {
        let text = fs::read_to_string(root().join(manifest)).expect("a manifest");
        assert!(
            !text.contains("[profile."),
            "{manifest} has a profile; they are in .cargo/config.toml"
        );
    }
}
