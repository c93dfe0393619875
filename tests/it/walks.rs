//! The documents name functions and types of the code by links such as
//! [`Caller::admit`](../host/crates/core/src/door/caller.rs). Each of them exists where the link
//! says.

use std::{fs, path::Path};

use airlock_tests::root;
use regex::Regex;

/// Names of a document that are defined in no file that their link leads to.
fn missing(document: &Path) -> (usize, Vec<String>) {
    let text = fs::read_to_string(document).expect("a document");
    let base = document.parent().expect("it is in a directory");
    let link = Regex::new(r"\[`([A-Za-z_0-9:]+)`\]\(([^)#]+\.rs)\)").expect("a pattern");
    let found: Vec<_> = link.captures_iter(&text).collect();
    let wrong = found.iter().filter_map(|link| {
        let name = &link[1];
        let path = &link[2];
        let source = fs::read_to_string(base.join(path)).unwrap_or_default();
        (!defines(&source, name))
            .then(|| format!("{}: {name} is not in {path}", document.display()))
    });
    (found.len(), wrong.collect())
}

/// Returns whether a source defines a function or type. Of a method, the source has to name the
/// type too.
fn defines(source: &str, name: &str) -> bool {
    let (owner, item) =
        name.rsplit_once("::").map_or((None, name), |(owner, item)| (Some(owner), item));
    let defined = |item: &str| {
        let item = regex::escape(item);
        let pattern = format!(
            r"(?m)^\s*(pub(\([a-z: ]+\))? )?((const |async )*fn|struct|enum|trait) {item}\b"
        );
        Regex::new(&pattern).expect("a pattern").is_match(source)
    };
    let names = |owner: &str| {
        let pattern = format!(r"(impl|trait)\b[^{{]*\b{}\b", regex::escape(owner));
        Regex::new(&pattern).expect("a pattern").is_match(source)
    };
    defined(item) && owner.is_none_or(names)
}

#[test]
fn every_name_that_a_document_links_to_is_defined_in_that_file() {
    let mut links = 0;
    let mut wrong = Vec::new();
    for entry in fs::read_dir(root().join("docs")).expect("the documents") {
        let path = entry.expect("it can be read").path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let (found, missing) = missing(&path);
            links += found;
            wrong.extend(missing);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(links >= 50, "the walks have {links} links");
}

#[test]
fn a_name_counts_only_where_it_is_defined() {
    let source = "impl Caller {\n    pub fn admit(&self) {}\n}\nasync fn run() { admit(); }\n";
    assert!(defines(source, "Caller::admit") && defines(source, "run"));
    assert!(!defines(source, "Chain::admit") && !defines(source, "Caller"));
    assert!(!defines("fn other() { run(); }", "run"));
}
