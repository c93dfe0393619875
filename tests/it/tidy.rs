//! Reads the gateway's sources and checks which modules use each other, and which modules name
//! outside crates.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use airlock_tests::root;

/// Modules that each module may use. `gateway` wires everything and nothing below it sees it.
const ARROWS: &[(&str, &[&str])] = &[
    // Leaves: they know nothing of the gateway.
    ("text", &[]),
    ("run", &[]),
    ("store", &["run"]),
    ("json", &[]),
    ("tenant", &[]),
    ("guests", &[]),
    ("telemetry", &[]),
    ("timer", &[]),
    ("tls", &[]),
    ("memory", &["tenant"]),
    ("process", &[]),
    // Plain data, and the policy decision about it.
    ("units", &["text"]),
    ("limit", &["units"]),
    ("schema", &["json", "text"]),
    ("tool", &["json", "run", "schema", "text"]),
    ("secret", &["text", "tool"]),
    ("door", &["json", "tenant", "text", "tool"]),
    // The door defines `Provider` and knows none of these. A script's calls go back through the
    // door.
    ("identity", &["json", "text"]),
    ("egress", &["limit", "secret", "tenant", "text", "tls"]),
    (
        "sandbox",
        &[
            "door", "egress", "json", "limit", "schema", "secret", "store", "tenant", "text",
            "threads", "tool",
        ],
    ),
    // Long work, among it the checks of arguments for the door.
    ("threads", &["door", "schema", "tenant", "tool"]),
    ("catalog", &["door", "json", "schema", "tenant", "text", "threads", "tool"]),
    ("results", &["door", "tenant", "text", "tool"]),
    ("recall", &["json", "results", "store", "tenant", "text", "threads"]),
    (
        "plugin",
        &[
            "catalog", "egress", "json", "limit", "sandbox", "schema", "secret", "store", "text",
            "tool", "units",
        ],
    ),
    // The lock file, which pins definitions too, is part of `plugin`.
    (
        "upstream",
        &[
            "catalog", "door", "egress", "json", "mcp", "plugin", "process", "secret", "store",
            "tenant", "text", "tls", "tool",
        ],
    ),
    ("native", &["door", "threads", "tool"]),
    ("runs", &["door", "json", "run", "sandbox", "store", "tenant", "text", "tool"]),
    (
        "code_mode",
        &["catalog", "door", "json", "run", "runs", "sandbox", "store", "tenant", "text", "tool"],
    ),
    (
        "model",
        &["json", "memory", "secret", "tenant", "text", "threads", "timer", "tls", "tool", "units"],
    ),
    (
        "agent",
        &[
            "catalog", "door", "json", "model", "recall", "results", "tenant", "text", "threads",
            "tool",
        ],
    ),
    // The list that the loop defines and waits on.
    ("approvals", &["agent", "json", "store", "tenant", "text", "tool"]),
    (
        "mcp",
        &["approvals", "catalog", "door", "json", "memory", "tenant", "text", "threads", "tool"],
    ),
    (
        "server",
        &[
            "agent",
            "approvals",
            "catalog",
            "door",
            "identity",
            "json",
            "mcp",
            "memory",
            "model",
            "recall",
            "results",
            "run",
            "runs",
            "store",
            "tenant",
            "text",
            "threads",
            "timer",
            "tool",
            "units",
        ],
    ),
    // The settings of each module, and no code that runs.
    (
        "config",
        &[
            "agent",
            "code_mode",
            "door",
            "egress",
            "identity",
            "limit",
            "mcp",
            "model",
            "plugin",
            "results",
            "runs",
            "sandbox",
            "secret",
            "server",
            "store",
            "text",
            "tool",
            "units",
            "upstream",
        ],
    ),
];

/// Top-level modules, which may use any other.
const TOP: [&str; 4] = ["cli", "demo", "gateway", "lib"];

/// Modules that may name an outside crate.
const PLACES: &[(&str, &[&str])] = &[
    ("hyper", &["egress", "server"]),
    ("hyper_util", &["server"]),
    ("wasmtime", &["sandbox"]),
    ("wasmtime_wasi", &["sandbox"]),
    ("wasmtime_wasi_http", &["sandbox"]),
    ("bollard", &["upstream"]),
    ("landlock", &["process"]),
    ("libc", &["process"]),
    ("rusqlite", &["store"]),
    ("rmcp", &["upstream", "mcp", "demo", "telemetry"]),
    ("sse_stream", &["mcp", "upstream"]),
    ("reqwest", &["cli", "demo", "egress", "identity", "mcp", "model", "tls", "upstream"]),
    ("rustls", &["tls"]),
    ("clap", &["cli", "telemetry"]),
];

struct Source {
    path: PathBuf,
    /// The module below the crate: `server` for `server/chat.rs`.
    module: String,
    /// Whether the module is a crate of its own, whose `crate::` names no module of the map.
    is_crate: bool,
    is_test: bool,
    /// The source without comments and without the tests at its end.
    code: String,
}

fn sources() -> Vec<Source> {
    let mut sources = sources_below(&root().join("host/src"), None);
    sources.extend(sources_below(&root().join("host/crates/core/src"), None));
    for name in ["egress", "identity", "process", "sandbox", "store"] {
        let base = root().join("host/crates").join(name).join("src");
        sources.extend(sources_below(&base, Some(name)));
    }
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    sources
}

/// Reads the sources of one crate: many modules of the map, or the whole of `module`.
fn sources_below(base: &Path, module: Option<&str>) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut directories = vec![base.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a directory of sources") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let within = path.strip_prefix(base).expect("it is below");
                let first = within.iter().next().expect("a name").to_string_lossy();
                let is_test = within.iter().any(|part| part == "tests" || part == "tests.rs");
                let code = code(&fs::read_to_string(&path).expect("UTF-8"));
                // `tls` is a module of the map in the crate `egress`.
                let own = module.filter(|_| first != "tls.rs");
                let (is_crate, first) = (module.is_some(), first.trim_end_matches(".rs"));
                let module = own.unwrap_or(first).to_owned();
                sources.push(Source { path, module, is_crate, is_test, code });
            }
        }
    }
    sources
}

/// Removes comments, and the tests at the end, which may use any module.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the modules of the map that a source uses.
fn used_by(source: &Source) -> BTreeSet<String> {
    let mut used = names_behind("airlock_core::", &source.code);
    if !source.is_crate {
        used.extend(names_behind("crate::", &source.code));
    }
    for name in ["egress", "identity", "process", "sandbox", "store"] {
        let behind = names_behind(&format!("airlock_{name}::"), &source.code);
        if behind.contains("tls") {
            used.insert("tls".to_owned());
        }
        if names_crate(&source.code, &format!("airlock_{name}"))
            && behind.iter().any(|it| it != "tls")
        {
            used.insert(name.to_owned());
        }
    }
    used
}

/// Returns the names that directly follow `prefix`, alone or in braces.
fn names_behind(prefix: &str, code: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for rest in code.split(prefix).skip(1) {
        match rest.strip_prefix('{') {
            None => used.extend(identifier(rest)),
            Some(group) => used.extend(first_names(group)),
        }
    }
    used
}

/// Returns the first name of each member of a group, up to its closing brace.
fn first_names(group: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0;
    let mut begins = true;
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            _ if character.is_whitespace() => {}
            _ if begins => {
                names.extend(identifier(&group[at..]));
                begins = false;
            }
            _ => {}
        }
    }
    names
}

fn identifier(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

fn names_crate(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back().unwrap_or(' ');
        let after = &code[at + name.len()..];
        !(before.is_alphanumeric() || before == '_' || before == ':' || before == '.')
            && (after.starts_with("::") || after.starts_with(';'))
    })
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

#[test]
fn modules_use_each_other_in_the_direction_of_the_arrows() {
    let arrows: BTreeMap<_, _> = ARROWS.iter().copied().collect();
    let sources = sources();
    let modules: BTreeSet<_> = sources.iter().map(|source| source.module.as_str()).collect();
    let mut wrong = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test && source.module != "main") {
        if TOP.contains(&source.module.as_str()) {
            continue;
        }
        let Some(allowed) = arrows.get(source.module.as_str()) else {
            wrong.push(format!(
                "{}: module `{}` is new; give it a line in ARROWS",
                shown(&source.path),
                source.module
            ));
            continue;
        };
        for used in used_by(source) {
            let is_module = modules.contains(used.as_str());
            if is_module && used != source.module && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{}: `{}` uses `{used}`", shown(&source.path), source.module));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn outside_crates_keep_to_their_places() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test) {
        for (name, places) in PLACES {
            if !places.contains(&source.module.as_str()) && names_crate(&source.code, name) {
                wrong.push(format!("{} names {name}", shown(&source.path)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_has_a_header() {
    let silent: Vec<_> = sources()
        .iter()
        .filter(|source| !source.is_test)
        .filter(|source| {
            !fs::read_to_string(&source.path).is_ok_and(|text| text.starts_with("//! "))
        })
        .map(|source| shown(&source.path))
        .collect();
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

#[test]
fn the_reader_of_sources_finds_uses_and_ignores_tests() {
    let code = code(
        "use crate::{\n    a::{b, c},\n    d,\n};\nfn f() { crate::e::g(); } // crate::h\n\n#[cfg(test)]\nmod tests {\n    use crate::i;\n}",
    );
    assert_eq!(names_behind("crate::", &code).into_iter().collect::<Vec<_>>(), ["a", "d", "e"]);
    assert!(names_crate("use hyper::body;", "hyper") && names_crate("x(hyper::f())", "hyper"));
    assert!(
        !names_crate("use hyper_util::rt;", "hyper")
            && !names_crate("my_hyper::x", "hyper")
            && !names_crate("a::hyper::x", "hyper")
    );
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
        for executor in ["plugins/starlark/Cargo.toml", "plugins/python/Cargo.toml"] {
            assert_eq!(table(executor, &format!("[lints.{kind}]")), ours, "{executor}");
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
        "tests/benches/native_script/Cargo.toml",
    ] {
        let text = fs::read_to_string(root().join(manifest)).expect("a manifest");
        assert!(
            !text.contains("[profile."),
            "{manifest} has a profile; they are in .cargo/config.toml"
        );
    }
}
