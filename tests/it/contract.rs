//! The files of the contract: explained to authors, recorded, and not changed by accident.

use std::{collections::BTreeMap, env, fmt::Write as _, fs};

use airlock::tool::HostCode;
use airlock_tests::root;
use sha2::{Digest as _, Sha256};

/// The released WIT files. `wit/executor` is private to the gateway.
const FILES: [&str; 4] = [
    "types/0.1.0/types.wit",
    "host/0.1.0/host.wit",
    "plugin/0.1.0/plugin.wit",
    "guard/0.1.0/guard.wit",
];

/// JSON Schemas of the custom sections of a component.
const SCHEMAS: [&str; 3] = [
    "sections/0.1.0/manifest.schema.json",
    "sections/0.1.0/tools.schema.json",
    "sections/0.1.1/manifest.schema.json",
];

/// Plugins, manifests and guards of released versions, which tests load.
const GOLDEN: [&str; 3] =
    ["../tests/golden/0.1.0", "../tests/golden/0.1.1", "../tests/golden/guard-0.1.0"];

/// Returns the files that `wit/contract.lock` records, by their paths from `wit`.
fn recorded() -> Vec<String> {
    let own = FILES.iter().chain(&SCHEMAS).map(|file| (*file).to_owned());
    let mut golden = Vec::new();
    let mut waiting = GOLDEN.map(str::to_owned).to_vec();
    while let Some(path) = waiting.pop() {
        if root().join("wit").join(&path).is_dir() {
            waiting.extend(entries(&path).into_iter().map(|entry| format!("{path}/{entry}")));
        } else {
            golden.push(path);
        }
    }
    golden.sort();
    own.chain(golden).collect()
}

/// A line of `wit/contract.lock`.
#[derive(Debug, PartialEq)]
struct Line {
    /// `candidate`, or `frozen` for a file that never changes again.
    status: String,
    digest: String,
}

/// Contents of `wit/contract.lock`, by file.
type Record = BTreeMap<String, Line>;

fn record() -> Record {
    let text = fs::read_to_string(root().join("wit/contract.lock")).expect("the record");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [status @ ("candidate" | "frozen"), digest, file] => {
            (file.to_owned(), Line { status: status.to_owned(), digest: digest.to_owned() })
        }
        _ => panic!("wit/contract.lock: {line:?} is not `frozen|candidate DIGEST FILE`"),
    });
    lines.collect()
}

fn digest(file: &str) -> String {
    let bytes = fs::read(root().join("wit").join(file)).expect("a file of the contract");
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("text grows");
        text
    })
}

/// Returns the names that a WIT file defines: interfaces, worlds, types, functions, and the members
/// of types.
fn items(file: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("wit").join(file)).expect("a file of the contract");
    let lines =
        text.lines().map(str::trim).filter(|line| !line.starts_with("//") && !line.is_empty());
    let item = |line: &str| {
        let keywords =
            ["interface ", "world ", "record ", "variant ", "enum ", "resource ", "type "];
        if let Some(rest) = keywords.iter().find_map(|keyword| line.strip_prefix(keyword)) {
            return rest.split([' ', '{', '=']).next().map(str::to_owned);
        }
        let is_other = ["package ", "use ", "import ", "export ", "include ", "}"]
            .iter()
            .any(|start| line.starts_with(start));
        let name = line.split([':', ',', '(']).next()?.trim().trim_start_matches('%');
        let is_name = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        (!is_other && is_name).then(|| name.to_owned())
    };
    lines.filter_map(item).collect()
}

#[test]
fn every_item_of_the_contract_is_explained_to_authors() {
    let page = fs::read_to_string(root().join("wit/README.md")).expect("the page");
    let missing: Vec<_> = FILES
        .iter()
        .flat_map(|file| items(file))
        .filter(|item| !page.contains(&format!("`{item}`")))
        .collect();
    assert!(items(FILES[1]).len() > 60, "the reader of items finds them");
    assert!(missing.is_empty(), "wit/README.md says nothing of {missing:?}");
}

#[test]
fn every_code_of_the_host_is_in_the_table_for_authors() {
    let page = fs::read_to_string(root().join("wit/README.md")).expect("the page");
    let missing: Vec<_> = HostCode::ALL
        .iter()
        // The tool's own error has the tool's code.
        .filter(|code| **code != HostCode::ToolError)
        .filter(|code| !page.contains(&format!("`{}`", code.prefixed())))
        .collect();
    assert!(missing.is_empty(), "wit/README.md says nothing of {missing:?}");
}

#[test]
fn the_contract_matches_its_record_and_frozen_files_do_not_change() {
    let record = record();
    let files = recorded();
    let changed: Vec<_> = files
        .iter()
        .filter(|file| record.get(*file).is_none_or(|line| line.digest != digest(file)))
        .chain(record.keys().filter(|file| !files.contains(file)))
        .collect();
    let is_frozen = |file: &str| record.get(file).is_some_and(|line| line.status == "frozen");
    let frozen: Vec<_> = changed.iter().filter(|file| is_frozen(file)).collect();
    assert!(
        frozen.is_empty(),
        "{frozen:?} are frozen: a change is a new version in files of its own"
    );
    if changed.is_empty() {
        return;
    }
    assert!(
        env::var_os("UPDATE_CONTRACT").is_some(),
        "{changed:?} differ from wit/contract.lock; if that is meant, run this test with UPDATE_CONTRACT=1"
    );
    let mut text =
        "# Files of the contract, and whether they may still change: wit/README.md, Versions.\n"
            .to_owned();
    for file in &files {
        let status = if is_frozen(file) { "frozen" } else { "candidate" };
        writeln!(text, "{status:9} {}  {file}", digest(file)).expect("text grows");
    }
    fs::write(root().join("wit/contract.lock"), text).expect("the record is written");
}

/// Returns the names of the entries of a directory in `wit`, sorted.
fn entries(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join("wit").join(directory)).expect("a directory");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("UTF-8");
    let mut names: Vec<_> = entries.map(|entry| name(entry.expect("an entry"))).collect();
    names.sort();
    names
}

#[test]
fn every_version_of_a_package_is_recorded_and_stands_in_the_directory_of_its_number() {
    let of_packages = ["types", "host", "plugin", "guard"].iter().flat_map(|package| {
        entries(package)
            .into_iter()
            .map(move |version| format!("{package}/{version}/{package}.wit"))
    });
    assert_eq!(of_packages.collect::<Vec<_>>(), FILES);
    for file in FILES {
        let mut parts = file.split('/');
        let package = parts.next().expect("a package");
        let version = parts.next().expect("a version");
        let text =
            fs::read_to_string(root().join("wit").join(file)).expect("a file of the contract");
        let first = format!("package airlock:{package}@{version};");
        assert_eq!(text.lines().next(), Some(first.as_str()), "{file}");
        assert_eq!(entries(&format!("{package}/{version}")).len(), 1, "{file} stands alone");
    }
}

#[test]
fn the_host_has_a_module_for_every_version_that_a_plugin_can_export() {
    for version in entries("plugin") {
        let mut numbers = version.split('.');
        let major = numbers.next().expect("a number");
        let minor = numbers.next().expect("a number");
        let module = root().join(format!("host/crates/sandbox/src/contract/v{major}_{minor}.rs"));
        assert!(module.is_file(), "{} is the module of version {version}", module.display());
    }
}
