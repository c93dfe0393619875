//! Names of the tools of a view in a script. Stubs, docs and bindings all use these names, so they
//! cannot disagree.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::json;
use sha2::{Digest, Sha256};

use airlock_core::{
    script_names,
    tool::{CallError, ClientName, ErrorKind, Tool, ToolError, ToolName},
};
use airlock_sandbox::{Binding, Bindings};
use airlock_strings as text;

/// A client in a script: a global that holds its tools.
#[derive(Debug)]
pub(super) struct Namespace {
    /// Name of the global: the client's name, unless the language reserves it.
    pub(super) identifier: String,
    /// The client.
    pub(super) client: ClientName,
    /// Its tools, sorted by identifier.
    pub(super) functions: Vec<ScriptFunction>,
}

/// A tool in a script.
#[derive(Debug)]
pub(super) struct ScriptFunction {
    /// Name under the namespace, in lower case.
    pub(super) identifier: String,
    /// Second spelling, closer to the tool's original name.
    pub(super) alias: Option<String>,
    /// The tool.
    pub(super) tool: Arc<Tool>,
}

/// Result of the search for a name that a model wrote.
#[derive(Debug)]
pub(super) enum NamespaceMatch<'a> {
    /// One namespace.
    One(&'a Namespace),
    /// Several namespaces that differ only in case.
    Many(Vec<&'a Namespace>),
    /// No namespace.
    Nothing,
}

/// Assigns names to all tools that a script may call.
pub(super) fn namespaces(scripted: BTreeMap<ClientName, Vec<Arc<Tool>>>) -> Vec<Namespace> {
    let wanted: Vec<_> =
        scripted.keys().map(|client| (client.as_str(), global(client.as_str()))).collect();
    let identifiers = distinct(&wanted);
    let named = scripted.into_iter().zip(identifiers);
    named
        .map(|((client, tools), identifier)| Namespace {
            identifier,
            client,
            functions: functions(tools),
        })
        .collect()
}

/// Returns the bindings of all tools that a run may call, for the executor. They have the full names of the tools: a run
/// keeps them while it waits, and names on the wire change with the tools of other clients.
pub(super) fn bindings(namespaces: &[Namespace]) -> Bindings {
    every_function(namespaces)
        .map(|(namespace, function)| Binding {
            namespace: namespace.identifier.clone(),
            name: function.identifier.clone(),
            alias: function.alias.clone(),
            tool: function.tool.full_name.clone(),
        })
        .collect()
}

/// Returns every function with its namespace.
pub(super) fn every_function(
    namespaces: &[Namespace],
) -> impl Iterator<Item = (&Namespace, &ScriptFunction)> {
    namespaces
        .iter()
        .flat_map(|namespace| namespace.functions.iter().map(move |function| (namespace, function)))
}

/// A binding as it is stored: namespace, name, alias and tool.
type StoredBinding = (String, String, Option<String>, String);

/// Returns bindings as the journal of a run stores them.
pub(super) fn stored(bindings: &Bindings) -> String {
    let rows = bindings
        .iter()
        .map(|binding| (&binding.namespace, &binding.name, &binding.alias, binding.tool.as_str()));
    json!(rows.collect::<Vec<_>>()).to_string()
}

/// Reads bindings that [`stored`] has written. Fails if the text is not theirs.
pub(super) fn read(stored: &str) -> Result<Bindings, CallError> {
    let rows: Vec<StoredBinding> = serde_json::from_str(stored).map_err(|_| {
        let message = "the tools of the run cannot be read; another version of Airlock stored them";
        ToolError::new(ErrorKind::Unsupported, message).with_code("run_refused")
    })?;
    let bindings = rows.into_iter().map(|(namespace, name, alias, tool)| Binding {
        namespace,
        name,
        alias,
        tool: ToolName::alias(&tool),
    });
    Ok(bindings.collect())
}

/// Finds a namespace by its client's name or its own identifier: exactly, or else
/// case-insensitively.
pub(super) fn find<'a>(namespaces: &'a [Namespace], name: &str) -> NamespaceMatch<'a> {
    let exact = namespaces
        .iter()
        .find(|namespace| namespace.client.as_str() == name)
        .or_else(|| namespaces.iter().find(|namespace| namespace.identifier == name));
    if let Some(namespace) = exact {
        return NamespaceMatch::One(namespace);
    }
    let similar = namespaces.iter().filter(|namespace| {
        namespace.client.as_str().eq_ignore_ascii_case(name)
            || namespace.identifier.eq_ignore_ascii_case(name)
    });
    match similar.collect::<Vec<_>>()[..] {
        [] => NamespaceMatch::Nothing,
        [only] => NamespaceMatch::One(only),
        ref several => NamespaceMatch::Many(several.to_vec()),
    }
}

impl Namespace {
    /// Returns the tools, in the order of the functions.
    pub(super) fn tools(&self) -> Vec<Arc<Tool>> {
        self.functions.iter().map(|function| function.tool.clone()).collect()
    }

    /// Finds a function by identifier, alias, or any of the tool's names: exactly, or else
    /// case-insensitively.
    pub(super) fn find(&self, name: &str) -> Option<&ScriptFunction> {
        self.find_by(|known| known == name)
            .or_else(|| self.find_by(|known| known.eq_ignore_ascii_case(name)))
    }

    /// Finds the function one of whose names meets a condition: its identifier, or else its alias,
    /// or else a name of its tool.
    fn find_by(&self, is_meant: impl Fn(&str) -> bool) -> Option<&ScriptFunction> {
        let functions = &self.functions;
        functions
            .iter()
            .find(|function| is_meant(&function.identifier))
            .or_else(|| {
                let mut functions = functions.iter();
                functions.find(|function| function.alias.as_deref().is_some_and(&is_meant))
            })
            .or_else(|| functions.iter().find(|function| is_meant(&function.tool.original)))
            .or_else(|| functions.iter().find(|function| is_meant(function.tool.name.as_str())))
    }
}

fn functions(tools: Vec<Arc<Tool>>) -> Vec<ScriptFunction> {
    let wanted: Vec<_> =
        tools.iter().map(|tool| (tool.original.as_str(), canonical(&tool.original))).collect();
    let identifiers = distinct(&wanted);
    let taken: BTreeSet<_> = identifiers.iter().cloned().collect();
    let mut spellings: BTreeMap<String, usize> = BTreeMap::new();
    for tool in &tools {
        *spellings.entry(spelling(&tool.original)).or_default() += 1;
    }
    let named = tools.into_iter().zip(identifiers);
    let mut functions: Vec<_> = named
        .map(|(tool, identifier)| ScriptFunction {
            identifier,
            alias: alias(&tool, &spellings, &taken),
            tool,
        })
        .collect();
    functions.sort_by(|a, b| a.identifier.cmp(&b.identifier));
    functions
}

/// Returns the original spelling of a tool's name as an alias. `spellings` has the number of tools of
/// each spelling, `taken` the identifiers.
fn alias(
    tool: &Tool,
    spellings: &BTreeMap<String, usize>,
    taken: &BTreeSet<String>,
) -> Option<String> {
    let spelling = spelling(&tool.original);
    // A spelling that two tools could claim is an alias of neither, so that a script never calls the
    // wrong one.
    let is_free = spellings.get(&spelling) == Some(&1) && !taken.contains(&spelling);
    (is_free && script_names::is_identifier(&spelling)).then_some(spelling)
}

/// Returns the preferred global name of a client.
fn global(client: &str) -> String {
    if script_names::is_identifier(client) && !script_names::is_taken(client) {
        client.to_owned()
    } else {
        format!("{client}_")
    }
}

/// Returns the preferred identifier of a tool: lower case, with `_` for blanks and hyphens, and
/// without other invalid characters.
pub(super) fn canonical(original: &str) -> String {
    let mut out = String::new();
    let mut after_gap = false;
    for c in original.chars() {
        let is_gap = c == '-' || c.is_whitespace();
        match c.to_ascii_lowercase() {
            letter if letter.is_ascii_alphabetic() || letter == '_' => out.push(letter),
            digit if digit.is_ascii_digit() => {
                if out.is_empty() {
                    out.push('_');
                }
                out.push(digit);
            }
            _ if out.is_empty() || is_gap && !after_gap => out.push('_'),
            _ => {}
        }
        after_gap = is_gap;
    }
    out.truncate(out.trim_end_matches('_').len());
    if out.is_empty() {
        out.push_str("tool");
    }
    if !script_names::is_identifier(&out) {
        out.push('_');
    }
    out
}

/// Returns a tool's original name with `_` for common word separators.
fn spelling(original: &str) -> String {
    original.replace(['-', '.', '/', ':', ' '], "_")
}

/// Assigns each pair of (original name, preferred identifier) a distinct identifier.
///
/// A name that equals its preferred identifier keeps it. Of the others, the first one gets its
/// preferred identifier. The rest get a suffix, a digest of their original name. A number would not
/// do: in a narrower view, the same identifier could mean another tool.
fn distinct(wanted: &[(&str, String)]) -> Vec<String> {
    let mut taken: BTreeSet<String> = wanted
        .iter()
        .filter(|(own, preferred)| own == preferred)
        .map(|(_, kept)| kept.clone())
        .collect();
    // Next number per base, so that many names of one digest do not each count from the start.
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    let mut identifiers = Vec::with_capacity(wanted.len());
    for (own, preferred) in wanted {
        identifiers.push(if own == preferred || taken.insert(preferred.clone()) {
            preferred.clone()
        } else {
            suffixed(own, preferred, &mut taken, &mut numbers)
        });
    }
    identifiers
}

/// Returns an identifier that is not taken, and takes it.
fn suffixed(
    own: &str,
    preferred: &str,
    taken: &mut BTreeSet<String>,
    numbers: &mut BTreeMap<String, u32>,
) -> String {
    let digest = Sha256::digest(own.as_bytes());
    let base = format!("{preferred}_{}", text::hex(&digest[..3]));
    if taken.insert(base.clone()) {
        return base;
    }
    // Needed because a server that knows this rule can name a tool like the digest of another.
    let number = numbers.entry(base.clone()).or_insert(1);
    loop {
        *number += 1;
        let numbered = format!("{base}_{number}");
        if taken.insert(numbered.clone()) {
            return numbered;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::tests::client;

    fn tool(client: &ClientName, name: &str) -> Arc<Tool> {
        let definition =
            serde_json::from_value(json!({"name": name, "inputSchema": {}})).expect("a definition");
        Arc::new(Tool::adopt(client, definition).expect("a good tool"))
    }

    fn named(clients: &[(&str, &[&str])]) -> Vec<Namespace> {
        namespaces(clients.iter().map(|(name, list)| (client(name), tools(name, list))).collect())
    }

    fn tools(client_name: &str, names: &[&str]) -> Vec<Arc<Tool>> {
        let client = client(client_name);
        let mut tools: Vec<_> = names.iter().map(|name| tool(&client, name)).collect();
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        tools
    }

    fn shown(names: &[&str]) -> String {
        let functions = functions(names.iter().map(|name| tool(&client("x"), name)).collect());
        functions.iter().map(line).collect()
    }

    fn line(function: &ScriptFunction) -> String {
        let alias = function.alias.as_deref().unwrap_or("-");
        format!("{} -> {} {alias}\n", function.tool.original, function.identifier)
    }

    #[test]
    fn identifiers_are_lower_case_with_the_original_spelling_as_alias() {
        insta::assert_snapshot!(shown(&["getUser", "resolve-library-id", "2fa", "a  - b", "a.b/c", "read_", "查询", "$x", "for"]), @r#"
        2fa -> _2fa -
        $x -> _x -
        a  - b -> a_b a____b
        a.b/c -> abc a_b_c
        for -> for_ -
        getUser -> getuser getUser
        read_ -> read read_
        resolve-library-id -> resolve_library_id -
        查询 -> tool -
        "#);
    }

    #[test]
    fn tools_with_the_same_preferred_identifier_get_distinct_ones() {
        insta::assert_snapshot!(shown(&["a-b", "a_b", "A b", "查询", "写", "for", "For", "for_"]), @r#"
        a_b -> a_b -
        A b -> a_b_a760b0 A_b
        a-b -> a_b_d44362 -
        for_ -> for_ -
        for -> for__10c22b -
        For -> for__ca15eb For
        查询 -> tool -
        写 -> tool_eecaf7 -
        "#);
    }

    #[test]
    fn a_client_named_like_a_reserved_word_or_global_gets_a_suffix() {
        let names: Vec<_> = named(&[
            ("for", &["a"]),
            ("load", &["a"]),
            ("load_", &["a"]),
            ("print", &["a"]),
            ("fs", &["a"]),
        ])
        .into_iter()
        .map(|namespace| namespace.identifier)
        .collect();
        insta::assert_debug_snapshot!(names, @r#"
        [
            "for_",
            "fs",
            "load__0cf67f",
            "load_",
            "print_",
        ]
        "#);
    }

    #[test]
    fn stored_bindings_are_read_as_they_were_and_other_texts_are_an_error() {
        let made = bindings(&named(&[("fs", &["getUser", "x"]), ("FS", &["a"])]));
        assert_eq!(read(&stored(&made)).expect("theirs"), made);
        for text in ["", "{", "{}", "[[1]]"] {
            let error = read(text).expect_err("not theirs");
            assert_eq!(error.tool_code(), Some("run_refused"), "{text}");
        }
    }

    #[test]
    fn a_name_is_found_exactly_or_else_case_insensitively() {
        let namespaces =
            named(&[("fs", &["getUser", "get_user", "x/y"]), ("FS", &["a"]), ("load", &["a"])]);
        assert_eq!(
            ["fs", "FS", "Fs", "load_", "LOAD", "x"].map(|name| found(&namespaces, name)),
            ["fs", "FS", "2 of them", "load", "load", "nothing"]
        );
        let fs = namespaces.iter().find(|namespace| namespace.client.as_str() == "fs");
        let fs = fs.expect("it is there");
        for (name, expected) in [
            ("getuser", Some("getUser")),
            ("getUser", Some("getUser")),
            ("GETUSER", Some("getUser")),
            ("xy", Some("x/y")),
            ("x_y", Some("x/y")),
            ("x/y", Some("x/y")),
            ("X/Y", Some("x/y")),
            ("fs-get_user", Some("get_user")),
            ("x", None),
            ("", None),
        ] {
            let found = fs.find(name).map(|function| function.tool.original.as_str());
            assert_eq!(found, expected, "{name}");
        }
    }

    fn found(namespaces: &[Namespace], name: &str) -> String {
        match find(namespaces, name) {
            NamespaceMatch::One(one) => one.client.as_str().to_owned(),
            NamespaceMatch::Many(many) => format!("{} of them", many.len()),
            NamespaceMatch::Nothing => "nothing".to_owned(),
        }
    }

    proptest! {
        #[test]
        fn each_identifier_is_valid_and_names_exactly_one_tool(names in prop::collection::btree_set("[aAbB_.\\- 1$]{1,4}|for|For|\\PC{1,8}", 1..40)) {
            let tools: Vec<_> = names.iter().map(|name| tool(&client("x"), name)).collect();
            let count = tools.len();
            let functions = functions(tools);
            let tools: BTreeSet<_> = functions.iter().map(|function| &function.tool.name).collect();
            prop_assert_eq!(tools.len(), count, "no tool is lost");
            let identifiers = functions.iter().map(|function| &function.identifier);
            let aliases = functions.iter().filter_map(|function| function.alias.as_ref());
            let spellings: Vec<_> = identifiers.chain(aliases).collect();
            prop_assert!(spellings.iter().all(|spelling| script_names::is_identifier(spelling)), "{spellings:?}");
            prop_assert_eq!(spellings.iter().collect::<BTreeSet<_>>().len(), spellings.len(), "{:?}", spellings);
            let namespace = Namespace { identifier: "x".into(), client: client("x"), functions };
            for function in &namespace.functions {
                for name in [Some(&function.identifier), function.alias.as_ref()].into_iter().flatten() {
                    prop_assert_eq!(&namespace.find(name).expect("it has this name").tool.name, &function.tool.name);
                }
            }
        }

        #[test]
        fn each_namespace_is_valid_and_has_one_client(names in prop::collection::btree_set("for_?|load_{0,20}|print_?|[a-b_]{1,3}", 1..20)) {
            let named = namespaces(names.iter().map(|name| (client(name), Vec::new())).collect());
            let identifiers: BTreeSet<_> = named.iter().map(|namespace| &namespace.identifier).collect();
            prop_assert!(identifiers.iter().all(|name| script_names::is_identifier(name) && !script_names::is_taken(name)));
            prop_assert_eq!(identifiers.len(), names.len());
        }
    }
}
