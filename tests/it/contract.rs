//! The files of the contract: explained to authors, recorded, and not changed by accident.

use std::{collections::BTreeMap, env, fmt::Write as _, fs};

use airlock_tests::root;
use sha2::{Digest as _, Sha256};

const FILES: [&str; 3] = ["plugin.wit", "deps/host/host.wit", "deps/types/types.wit"];

/// Contents of `wit/contract.lock`: the status, then a line with digest and name for each file.
struct Record {
    status: String,
    digests: BTreeMap<String, String>,
}

fn record() -> Record {
    let text = fs::read_to_string(root().join("wit/contract.lock")).expect("the record");
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let status =
        lines.next().and_then(|line| line.strip_prefix("status ")).expect("a status").to_owned();
    let digests = lines
        .filter_map(|line| line.split_once("  "))
        .map(|(digest, file)| (file.to_owned(), digest.to_owned()));
    Record { status, digests: digests.collect() }
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
        let name = line.split([':', ',', '(']).next()?.trim();
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
fn the_contract_matches_its_record_and_frozen_files_do_not_change() {
    let record = record();
    assert!(["candidate", "frozen"].contains(&&*record.status), "{}", record.status);
    let changed: Vec<_> =
        FILES.iter().filter(|file| record.digests.get(**file) != Some(&digest(file))).collect();
    if changed.is_empty() {
        return;
    }
    assert_ne!(
        record.status, "frozen",
        "{changed:?} are frozen: a change is a new version in files of its own"
    );
    let mut text =
        "# Digests of the contract's files, and whether they may still change: wit/README.md, Versions.\nstatus candidate\n"
            .to_owned();
    for file in FILES {
        writeln!(text, "{}  {file}", digest(file)).expect("text grows");
    }
    assert!(
        env::var_os("UPDATE_CONTRACT").is_some(),
        "{changed:?} differ from wit/contract.lock; if that is meant, run this test with UPDATE_CONTRACT=1"
    );
    fs::write(root().join("wit/contract.lock"), text).expect("the record is written");
}

#[test]
fn all_packages_have_one_version_and_the_host_implements_it() {
    let versions: Vec<_> = FILES
        .iter()
        .map(|file| {
            let text =
                fs::read_to_string(root().join("wit").join(file)).expect("a file of the contract");
            let first = text
                .lines()
                .next()
                .and_then(|line| line.strip_prefix("package "))
                .expect("a package");
            first.trim_end_matches(';').split_once('@').expect("a version").1.to_owned()
        })
        .collect();
    assert!(versions.iter().all(|version| *version == versions[0]), "{versions:?}");
    let (major, rest) = versions[0].split_once('.').expect("a version");
    let minor = rest.split('.').next().expect("a version");
    let module = root().join(format!("host/crates/sandbox/src/contract/v{major}_{minor}.rs"));
    assert!(module.is_file(), "{} is the module of version {}", module.display(), versions[0]);
}
