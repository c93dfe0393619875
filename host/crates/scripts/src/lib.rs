//! Code mode: a model reads the available tools as Python stubs, and calls them from a script.
//!
//! A few meta-tools replace the tools of all clients in code mode. A script may call the tools of
//! the request's [`View`], and the door decides about each of its calls. This crate handles names,
//! stubs, texts, runs and their journals; the [`sandbox`] runs the scripts.
//!
//! | module | purpose |
//! |---|---|
//! | `names`, `scope` | names of the tools of a view; they are made once for each view |
//! | `types`, `classes`, `literal`, `budget` | JSON Schemas → Python types, within bounds |
//! | `stub`, `signature`, `cache` | one tool as text, rendered once |
//! | `stubs`, `layout`, `missing` | virtual files |
//! | `docs`, `constraints` | one tool in full |
//! | `search`, `terms` | finds tools by words |
//! | `shape`, `observed` | observed types of results that no schema declares |
//! | `execute`, `ask` | runs a script; asks a person about its calls |
//! | `runs` | runs, their journals, the decisions about their calls, and how they are resumed |
//! | `lazy` | an executor that is compiled in the background, or when a script first needs it |
//! | `advice` | advice about a call whose arguments the script wrote wrongly |
//! | `meta`, `language`, `text`, `report` | texts and arguments of the meta-tools |
//!
//! [`View`]: airlock_core::door::View
//! [`sandbox`]: airlock_sandbox

mod advice;
mod ask;
mod budget;
mod cache;
mod classes;
mod constraints;
mod docs;
mod execute;
mod language;
mod layout;
mod lazy;
mod literal;
mod meta;
mod missing;
mod names;
mod observed;
mod report;
pub mod runs;
mod scope;
mod search;
mod shape;
mod signature;
mod stub;
mod stubs;
mod terms;
mod text;
mod types;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use prometheus_client::registry::Registry;

use self::{
    cache::StubCache,
    language::LanguageTexts,
    lazy::LimitedExecutor,
    meta::MetaArguments,
    names::Namespace,
    observed::Observations,
    scope::{ScriptScope, ScriptScopes},
    stub::ShownTool,
};
pub use self::{
    layout::{BindingLevel, Layout},
    lazy::LazyExecutor,
};
use crate::runs::Runs;
use airlock_catalog::Catalog;
use airlock_core::{
    door::{Admitted, Chain, Origin, OwnTools, Provider, ScriptLanguage, View},
    tool::{Answers, CallError, Tool, ToolOutput},
};
use airlock_sandbox::{Limits, Script, ScriptCalls, ScriptResult};

/// Runs the meta-tools.
pub struct CodeMode {
    /// Runs scripts of requests that select no language.
    runner: DefaultRunner,
    /// Runs scripts in other languages.
    others: BTreeMap<ScriptLanguage, Arc<dyn Runner>>,
    layout: Layout,
    stubs: Arc<StubCache>,
    scopes: Arc<ScriptScopes>,
    observations: Arc<Observations>,
    /// Keeps the runs of scripts; `None` if nothing is kept.
    runs: Option<Runs>,
}

/// Settings of code mode.
pub struct CodeModeSettings {
    /// Language of scripts of requests that select none.
    pub language: ScriptLanguage,
    /// Limits of one script.
    pub limits: Limits,
    /// Layout of the virtual files.
    pub layout: Layout,
    /// Keeps the runs of scripts. Without it, a script that needs an approval ends there.
    pub runs: Option<Runs>,
}

/// The language of scripts that select none, and what runs them.
type DefaultRunner = (ScriptLanguage, Arc<dyn Runner>);

/// Runs scripts. Implemented by the sandbox executor and by a fake in tests.
trait Runner: Send + Sync {
    fn run_script<'a>(
        &'a self,
        script: Script,
        chain: &'a Chain,
        calls: Arc<dyn ScriptCalls>,
    ) -> BoxFuture<'a, ScriptResult>;
}

impl CodeMode {
    /// Creates code mode with an executor for each language. Panics if the language of the settings has
    /// none.
    pub fn new(
        executors: &BTreeMap<ScriptLanguage, LazyExecutor>,
        settings: CodeModeSettings,
    ) -> Arc<Self> {
        let CodeModeSettings { language, limits, layout, runs } = settings;
        let (runner, others) = runners(executors, language, limits);
        Self::with_runners(runner, others, layout, runs)
    }

    /// Returns code mode with other settings, like [`Self::new`]. It shares the rendered stubs and the
    /// observed results, which [`Self::follow`] of either keeps up to date.
    #[must_use]
    pub fn with_settings(
        &self,
        executors: &BTreeMap<ScriptLanguage, LazyExecutor>,
        settings: CodeModeSettings,
    ) -> Arc<Self> {
        let CodeModeSettings { language, limits, layout, runs } = settings;
        let (runner, others) = runners(executors, language, limits);
        Arc::new(Self {
            runner,
            others,
            layout,
            stubs: self.stubs.clone(),
            scopes: self.scopes.clone(),
            observations: self.observations.clone(),
            runs,
        })
    }

    fn with_runners(
        runner: DefaultRunner,
        others: BTreeMap<ScriptLanguage, Arc<dyn Runner>>,
        layout: impl Into<Layout>,
        runs: Option<Runs>,
    ) -> Arc<Self> {
        Arc::new(Self {
            runner,
            others,
            layout: layout.into(),
            stubs: Arc::new(StubCache::new()),
            scopes: Arc::default(),
            observations: Observations::new(),
            runs,
        })
    }

    /// Installs the meta-tools, the search and the observer of results in `catalog`. A view with more
    /// than `search_above` tools for scripts has the search. The descriptions are those for the layout
    /// of the files and the language of scripts that a request selects.
    pub fn install(self: &Arc<Self>, catalog: &Catalog, search_above: usize) {
        // The default language too: it may be another one than before.
        for language in self.others.keys().chain([&self.runner.0]) {
            catalog.set_meta_tools_in(*language, self.meta_tools(*language));
        }
        catalog.set_meta_tools(self.meta_tools(self.runner.0));
        let search = OwnTools { tools: vec![meta::search()], provider: self.clone() };
        catalog.set_search(search, search_above);
        catalog.set_observer(self.observations.clone());
    }

    /// Registers the metrics of code mode.
    pub fn register_metrics(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.observations.clone()));
    }

    fn meta_tools(self: &Arc<Self>, language: ScriptLanguage) -> OwnTools {
        let tools = meta::tools(&self.layout, self.described(language));
        OwnTools { tools, provider: self.clone() }
    }

    /// Returns the language of a request's scripts.
    fn selected(&self, chain: &Chain) -> ScriptLanguage {
        chain.view().language().unwrap_or(self.runner.0)
    }

    /// Returns the properties of a language, and what runs its scripts.
    fn runner(&self, language: ScriptLanguage) -> (&'static LanguageTexts, &dyn Runner) {
        let (default, runner) = &self.runner;
        match self.others.get(&language) {
            Some(other) => (self.described(language), &**other),
            None => (self.described(*default), &**runner),
        }
    }

    /// Returns the properties of a language. Scripts see a clock only if their runs are stored.
    fn described(&self, language: ScriptLanguage) -> &'static LanguageTexts {
        let has_clock = self.runs.as_ref().is_some_and(|runs| runs.settings().clock);
        if has_clock { language::with_clock(language) } else { language::describe(language) }
    }

    /// Renders the stubs of published code mode tools whenever the catalog changes, and reads observed
    /// results. Runs until the catalog or the future is dropped. If a request names a tool whose stub
    /// is not rendered yet, that request renders it.
    pub async fn follow(&self, catalog: &Catalog) {
        tokio::select! {
            () = self.follow_tools(catalog) => {}
            () = self.observations.follow() => {}
        }
    }

    async fn follow_tools(&self, catalog: &Catalog) {
        let mut changes = catalog.changes();
        loop {
            changes.mark_unchanged();
            let clients: Vec<_> = catalog
                .snapshot()
                .clients()
                .filter(|client| client.policy.code_mode)
                .cloned()
                .collect();
            let mut existing = BTreeSet::new();
            for client in clients {
                existing.extend(client.tools.iter().map(|tool| tool.full_name.clone()));
                self.stubs.stubs(&client.tools).await;
            }
            self.scopes.prune();
            self.stubs.prune();
            self.observations.retain(&existing);
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    async fn answer(
        &self,
        call: &Admitted,
        answers: Option<&Answers>,
    ) -> Result<ToolOutput, CallError> {
        let arguments = MetaArguments::new(call.arguments());
        let view = call.chain().view();
        let scope = self.scopes.get(view);
        let namespaces = &scope.namespaces[..];
        match call.tool().name.as_str() {
            meta::LIST if namespaces.is_empty() => Ok(ToolOutput::text(stubs::nothing_to_list(
                view.list(&Origin::Model).next().is_some(),
            ))),
            meta::LIST => Ok(ToolOutput::text(stubs::list(namespaces, &self.layout))),
            meta::READ => {
                let name = arguments.text("fileName")?;
                let range = arguments.range()?;
                Ok(ToolOutput::text(self.read(view, namespaces, name, range).await))
            }
            meta::DOCS => {
                let server = arguments.text("server")?;
                let tool = arguments.text("tool")?;
                let language = self.runner(self.selected(call.chain())).0;
                Ok(ToolOutput::text(self.docs(view, language, namespaces, server, tool).await))
            }
            meta::SEARCH => {
                let query = arguments.query()?;
                let server = arguments.optional("server")?;
                let limit = arguments.limit()?;
                Ok(ToolOutput::text(self.search(view, &scope, query, server, limit).await))
            }
            meta::EXECUTE => match answers {
                None => self.execute(call, &scope, arguments.code()?).await,
                Some(answers) => self.resume(call, namespaces, arguments.code()?, answers).await,
            },
            other => Err(CallError::not_found(other)),
        }
    }

    /// Returns the stubs of tools as the tenant of `view` sees them.
    async fn shown(&self, view: &View, tools: &[Arc<Tool>]) -> Vec<ShownTool> {
        let stubs = self.stubs.stubs(tools).await;
        let shown = stubs.into_iter().zip(tools).map(|(stub, tool)| ShownTool {
            stub,
            observed: self.observations.shown(view.tenant(), tool),
        });
        shown.collect()
    }

    async fn read(
        &self,
        view: &View,
        namespaces: &[Namespace],
        file_name: &str,
        range: stubs::LineRange,
    ) -> String {
        match stubs::find(namespaces, &self.layout, file_name) {
            Ok(file) => file.show(&self.shown(view, &file.tools()).await, range),
            Err(missing) => missing,
        }
    }

    async fn docs(
        &self,
        view: &View,
        language: &LanguageTexts,
        namespaces: &[Namespace],
        server: &str,
        tool: &str,
    ) -> String {
        match docs::find(namespaces, server, tool) {
            Ok((namespace, function)) => {
                let shown = self.shown(view, std::slice::from_ref(&function.tool)).await;
                let entry = view.find(&Origin::Script, function.tool.name.as_str());
                let is_auto = entry.is_some_and(|entry| entry.auto);
                docs::page(namespace, function, &shown[0], is_auto, language)
            }
            Err(missing) => missing,
        }
    }

    async fn search(
        &self,
        view: &View,
        scope: &ScriptScope,
        query: &str,
        server: Option<&str>,
        limit: usize,
    ) -> String {
        let namespaces = &scope.namespaces[..];
        let only = server.map(|server| missing::server(namespaces, server)).transpose();
        let only = match only {
            Ok(only) => only,
            Err(missing) => return missing,
        };
        let hits = scope.index(&self.stubs).await.search(namespaces, query, only, limit);
        let tools: Vec<_> = hits.best.iter().map(|hit| hit.function.tool.clone()).collect();
        let all = only.map_or(scope.len(), |only| only.functions.len());
        search::render(query, &hits, &self.shown(view, &tools).await, all)
    }
}

/// Returns the runner of scripts that select no language, and those of the other languages.
fn runners(
    executors: &BTreeMap<ScriptLanguage, LazyExecutor>,
    language: ScriptLanguage,
    limits: Limits,
) -> (DefaultRunner, BTreeMap<ScriptLanguage, Arc<dyn Runner>>) {
    let runners = executors.iter().map(|(language, executor)| {
        let executor = LimitedExecutor { executor: executor.clone(), limits };
        (*language, Arc::new(executor) as Arc<dyn Runner>)
    });
    let mut runners: BTreeMap<_, _> = runners.collect();
    let default = runners.remove(&language).expect("the caller has an executor for each language");
    ((language, default), runners)
}

impl Provider for CodeMode {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move { self.answer(&call, None).await })
    }

    fn resume(
        &self,
        call: Admitted,
        answers: Answers,
    ) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move { self.answer(&call, Some(&answers)).await })
    }
}

#[cfg(test)]
mod tests;
