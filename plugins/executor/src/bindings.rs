//! The tools of a run by their names in the script, looked up when the script first uses each.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{SourceCall, ToolFlow, WrongCall, hints::quoted_list};

/// One tool as the script sees it: `namespace.name(…)`, or `name(…)` if it is a global function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Name of the global that holds the tool; `None` if the tool itself is a global.
    pub namespace: Option<String>,
    /// Name of the callable in the namespace, or of the global.
    pub name: String,
    /// Alternative spelling of `name`, if there is one. A binding that the host has found has none.
    pub alias: Option<String>,
    /// Name by which the host knows the tool.
    pub tool: String,
    /// Names of the arguments by position, in order. Without them, the tool takes its arguments by name
    /// or as one dict.
    pub parameters: Vec<String>,
}

impl Binding {
    /// Creates the binding of a tool in a namespace.
    pub fn in_namespace(
        namespace: impl Into<String>,
        name: impl Into<String>,
        tool: impl Into<String>,
    ) -> Self {
        Self { namespace: Some(namespace.into()), ..Self::function(name, tool, Vec::new()) }
    }

    /// Creates the binding of a tool that is a global function.
    pub fn function(
        name: impl Into<String>,
        tool: impl Into<String>,
        parameters: Vec<String>,
    ) -> Self {
        Self { namespace: None, name: name.into(), alias: None, tool: tool.into(), parameters }
    }

    /// Returns the names of so many arguments by position. Fails with what is wrong with the call if it
    /// has more than there are names for, or one that is among the `keywords` too.
    pub fn by_position<'n>(
        &self,
        count: usize,
        mut keywords: impl Iterator<Item = &'n str>,
    ) -> Result<&[String], String> {
        let Some(names) = self.parameters.get(..count) else {
            return Err(format!(
                "takes by position only {}: write the name of any other parameter, like `{self}(name = …)`",
                quoted_list(&self.parameters)
            ));
        };
        match keywords.find(|name| names.iter().any(|known| known == name)) {
            Some(twice) => Err(format!("takes `{twice}` once: by position or by name")),
            None => Ok(names),
        }
    }
}

/// The tool as the script writes it.
impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}.")?;
        }
        f.write_str(&self.name)
    }
}

/// All tools that a script may call: the host's import in WebAssembly, a list in tests.
pub trait Catalogue: Send + Sync {
    /// Finds a tool by its name, or by its alias if no tool of the namespace has that name. Of two with
    /// the same name, the first is found.
    fn find(&self, namespace: &str, name: &str) -> Option<Binding>;

    /// Returns the names of the tools of a namespace.
    fn names(&self, namespace: &str) -> Vec<String>;

    /// Returns the names of all namespaces, each once.
    fn namespaces(&self) -> Vec<String>;

    /// Returns the names of all global functions.
    fn functions(&self) -> Vec<String>;

    /// Returns those calls of a source that would fail if the script reached them. A list of tools without
    /// schemas knows of none.
    fn check(&self, calls: &[SourceCall]) -> Vec<WrongCall> {
        let _ = calls;
        Vec::new()
    }

    /// Takes what the arguments of the script's calls may come from. A list of tools does not ask for it.
    fn follow(&self, flows: &[ToolFlow]) {
        let _ = flows;
    }
}

/// The tools of one run. Cheap to clone.
///
/// A tool of a namespace is asked for when the script first uses it, so that a run costs the same with ten
/// tools and with a thousand.
#[derive(Clone)]
pub struct Bindings(Arc<BindingTables>);

struct BindingTables {
    catalogue: Box<dyn Catalogue>,
    named: Vec<String>,
    functions: Vec<Arc<Binding>>,
    found: Mutex<Vec<Asked>>,
    /// Namespace and name of the last tool that was looked up and not found.
    missed: Mutex<Option<(String, String)>>,
}

/// A name that the script has used, and the tool if there is one.
struct Asked {
    namespace: String,
    name: String,
    found: Option<Arc<Binding>>,
}

impl Bindings {
    /// Creates the tools of a run. `named` are the namespaces that the script can name, and `functions`
    /// the global functions.
    pub fn new(named: Vec<String>, functions: Vec<Binding>, catalogue: Box<dyn Catalogue>) -> Self {
        let functions = functions.into_iter().map(Arc::new).collect();
        let found = Mutex::default();
        Self(Arc::new(BindingTables {
            catalogue,
            named,
            functions,
            found,
            missed: Mutex::default(),
        }))
    }

    /// Iterates over the namespaces that the script can name.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        self.0.named.iter().map(String::as_str)
    }

    /// Returns whether there is a namespace of this name that the script can name.
    pub fn has(&self, namespace: &str) -> bool {
        self.named().any(|name| name == namespace)
    }

    /// Iterates over the global functions that the script can name.
    pub fn functions(&self) -> impl Iterator<Item = &Arc<Binding>> {
        self.0.functions.iter()
    }

    /// Finds a global function that the script can name.
    pub fn function(&self, name: &str) -> Option<&Arc<Binding>> {
        self.functions().find(|function| function.name == name)
    }

    /// Returns whether a global of this name is a tool, or holds tools.
    pub fn is_tool_or_namespace(&self, name: &str) -> bool {
        self.has(name) || self.function(name).is_some()
    }

    /// Finds a tool as [`Catalogue::find`], and keeps the answer.
    pub fn find(&self, namespace: &str, name: &str) -> Option<Arc<Binding>> {
        let mut asked = locked(&self.0.found);
        let known = asked.iter().find(|known| known.name == name && known.namespace == namespace);
        if let Some(known) = known {
            return known.found.clone();
        }
        let found = self.0.catalogue.find(namespace, name).map(Arc::new);
        asked.push(Asked {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            found: found.clone(),
        });
        found
    }

    /// Finds a tool that the script uses. [`Bindings::missed`] returns it if there is none.
    pub fn look_up(&self, namespace: &str, name: &str) -> Option<Arc<Binding>> {
        let found = self.find(namespace, name);
        if found.is_none() {
            *locked(&self.0.missed) = Some((namespace.to_owned(), name.to_owned()));
        }
        found
    }

    /// Returns namespace and name of the last tool that [`Bindings::look_up`] did not find; `None` if it
    /// found all.
    pub fn missed(&self) -> Option<(String, String)> {
        locked(&self.0.missed).clone()
    }

    /// Returns the tool that a script means by one name, as the script must write it: the name of
    /// the tool alone, or with the namespace and an underscore before it. `None` if there is no such
    /// tool.
    pub fn spelled(&self, name: &str) -> Option<String> {
        self.namespaces().into_iter().find_map(|namespace| {
            let own = name.strip_prefix(&*namespace).and_then(|rest| rest.strip_prefix('_'));
            let tool = own.and_then(|own| self.find(&namespace, own));
            tool.or_else(|| self.find(&namespace, name)).map(|tool| tool.to_string())
        })
    }

    /// Returns the names of the tools of a namespace.
    pub fn names(&self, namespace: &str) -> Vec<String> {
        self.0.catalogue.names(namespace)
    }

    /// Returns those calls of the script that would fail if it reached them, as [`Catalogue::check`].
    pub fn check(&self, calls: &[SourceCall]) -> Vec<WrongCall> {
        if calls.is_empty() { Vec::new() } else { self.0.catalogue.check(calls) }
    }

    /// Tells the host what the arguments of the script's calls may come from.
    pub fn follow(&self, flows: &[ToolFlow]) {
        self.0.catalogue.follow(flows);
    }

    /// Returns the names of all namespaces, each once.
    pub fn namespaces(&self) -> Vec<String> {
        self.0.catalogue.namespaces()
    }

    /// Returns the names of all global functions, also of those that the script cannot name.
    pub fn function_names(&self) -> Vec<String> {
        self.0.catalogue.functions()
    }
}

/// A script has one thread, and nothing panics while it holds a lock.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Bindings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bindings").field(&self.0.named).finish()
    }
}

/// All tools are known, and the script can name every namespace and every function.
impl From<Vec<Binding>> for Bindings {
    fn from(all: Vec<Binding>) -> Self {
        let functions = global_functions(&all).cloned().collect();
        Self::new(all.namespaces(), functions, Box::new(all))
    }
}

impl Catalogue for Vec<Binding> {
    fn find(&self, namespace: &str, name: &str) -> Option<Binding> {
        let mut tools =
            self.iter().filter(|binding| binding.namespace.as_deref() == Some(namespace));
        let aliased = tools.clone().find(|binding| binding.alias.as_deref() == Some(name));
        tools.find(|binding| binding.name == name).or(aliased).cloned()
    }

    fn names(&self, namespace: &str) -> Vec<String> {
        of_namespace(self, namespace).map(|binding| binding.name.clone()).collect()
    }

    fn namespaces(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for namespace in self.iter().filter_map(|binding| binding.namespace.as_ref()) {
            if !names.contains(namespace) {
                names.push(namespace.clone());
            }
        }
        names
    }

    fn functions(&self) -> Vec<String> {
        global_functions(self).map(|binding| binding.name.clone()).collect()
    }
}

fn of_namespace<'b>(bindings: &'b [Binding], namespace: &str) -> impl Iterator<Item = &'b Binding> {
    bindings.iter().filter(move |binding| binding.namespace.as_deref() == Some(namespace))
}

fn global_functions(bindings: &[Binding]) -> impl Iterator<Item = &Binding> {
    bindings.iter().filter(|binding| binding.namespace.is_none())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts the tools that are asked for.
    struct Counted(Arc<AtomicUsize>, Vec<Binding>);

    impl Catalogue for Counted {
        fn find(&self, namespace: &str, name: &str) -> Option<Binding> {
            self.0.fetch_add(1, Ordering::Relaxed);
            self.1.find(namespace, name)
        }

        fn names(&self, namespace: &str) -> Vec<String> {
            self.1.names(namespace)
        }

        fn namespaces(&self) -> Vec<String> {
            self.1.namespaces()
        }

        fn functions(&self) -> Vec<String> {
            self.1.functions()
        }
    }

    fn binding(namespace: &str, name: &str, alias: Option<&str>) -> Binding {
        let tool = format!("{namespace}-{name}");
        let alias = alias.map(Into::into);
        Binding { alias, ..Binding::in_namespace(namespace, name, tool) }
    }

    #[test]
    fn a_tool_is_asked_for_once_and_a_missing_one_too() {
        let all =
            vec![binding("a", "x", Some("y")), binding("a", "y", None), binding("b", "x", None)];
        let times = Arc::new(AtomicUsize::new(0));
        let counted = Box::new(Counted(times.clone(), all.clone()));
        let bindings = Bindings::new(all.namespaces(), Vec::new(), counted);
        for _ in 0..3 {
            // A name comes before an alias.
            for (namespace, name, tool) in [
                ("a", "x", Some("a-x")),
                ("a", "y", Some("a-y")),
                ("b", "x", Some("b-x")),
                ("b", "y", None),
            ] {
                let found = bindings.find(namespace, name);
                assert_eq!(found.as_ref().map(|binding| &*binding.tool), tool);
            }
        }
        assert_eq!(times.load(Ordering::Relaxed), 4);
        assert_eq!(
            (bindings.names("a"), bindings.namespaces()),
            (vec!["x".into(), "y".into()], vec!["a".into(), "b".into()])
        );
        assert!(bindings.has("a") && !bindings.has("c"));
    }

    #[test]
    fn the_last_tool_that_a_script_missed_is_known_for_its_hint() {
        let bindings = Bindings::from(vec![binding("a", "x", None)]);
        assert!(bindings.look_up("a", "x").is_some() && bindings.find("a", "y").is_none());
        assert_eq!(bindings.missed(), None);
        assert!(bindings.look_up("a", "z").is_none());
        let hint = bindings.hint_for_missed("there is no `z`");
        assert_eq!(hint.as_deref(), Some("`a` has no tool `z`; it has `x`"));
        assert_eq!(bindings.hint_for_missed("there is no `y`"), None);
    }

    #[test]
    fn a_tool_is_found_by_its_name_with_or_without_the_namespace() {
        let all = vec![binding("a", "a_x", None), binding("a", "x", None), binding("b", "y", None)];
        let bindings = Bindings::from(all);
        for (name, spelled) in [
            ("x", Some("a.x")),
            ("a_x", Some("a.x")),
            ("b_y", Some("b.y")),
            ("y", Some("b.y")),
            ("b_x", None),
            ("z", None),
        ] {
            assert_eq!(bindings.spelled(name).as_deref(), spelled, "{name}");
        }
    }

    fn save() -> Binding {
        Binding::function("save", "notes-save", vec!["id".into(), "text".into()])
    }

    #[test]
    fn a_global_function_is_in_no_namespace() {
        let bindings = Bindings::from(vec![binding("a", "x", None), save()]);
        assert_eq!(bindings.namespaces(), ["a"]);
        assert_eq!(
            (bindings.names("a"), bindings.function_names()),
            (vec!["x".into()], vec!["save".into()])
        );
        assert!(bindings.find("a", "save").is_none() && !bindings.has("save"));
        assert_eq!(
            bindings.function("save").map(|found| found.name.clone()).as_deref(),
            Some("save")
        );
        assert!(bindings.function("x").is_none());
        assert_eq!(
            ["a", "save", "x"].map(|name| bindings.is_tool_or_namespace(name)),
            [true, true, false]
        );
    }

    #[test]
    fn arguments_by_position_have_the_names_of_the_parameters() {
        let save = save();
        for (count, named, names) in [
            (0, &["id", "more"][..], Ok(&[][..])),
            (1, &["text"], Ok(&["id"][..])),
            (2, &["more"], Ok(&["id", "text"][..])),
            (1, &["id"], Err("takes `id` once: by position or by name")),
            (
                3,
                &[],
                Err(
                    "takes by position only `id`, `text`: write the name of any other parameter, like `save(name = …)`",
                ),
            ),
        ] {
            let found = save.by_position(count, named.iter().copied());
            let found = found.map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(
                found,
                names.map(<[&str]>::to_vec).map_err(str::to_owned),
                "{count} {named:?}"
            );
        }
    }

    #[test]
    fn hints_name_the_functions_and_the_namespaces() {
        let namespaced = vec![binding("a", "x", None)];
        let both = vec![binding("a", "x", None), save()];
        for (all, hint) in [
            (Vec::new(), "no tools are bound to this script"),
            (namespaced, "the tools are under `a`"),
            (vec![save()], "the functions are `save`"),
            (both, "the functions are `save`, and the tools are under `a`"),
        ] {
            assert_eq!(Bindings::from(all).hint_for_name("nothing"), hint);
        }
        let bindings = Bindings::from(vec![binding("a", "x", None), save()]);
        for (name, call) in [("a", Some("`a.TOOL(…)`")), ("save", Some("`save(…)`")), ("x", None)]
        {
            let hint = bindings.hint_for_import(name);
            assert_eq!(hint.is_some(), call.is_some(), "{name}");
            assert!(hint.is_none_or(|hint| hint.ends_with(call.unwrap_or_default())), "{name}");
        }
    }
}
