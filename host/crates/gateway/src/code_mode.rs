//! Code mode of a gateway: the executors of its languages, and its settings, which may change while the
//! gateway runs.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use airlock_catalog::Catalog;
use airlock_compile::{CompileHook, compiling};
use airlock_config::Config;
use airlock_core::door::ScriptLanguage;
use airlock_executors::EmbeddedExecutor;
use airlock_sandbox::{Limits, LoadError, Sandbox};
use airlock_scripts::{
    CodeMode, CodeModeSettings, Layout, LazyExecutor,
    runs::{RunSettings, Runs},
};

/// Code mode of a gateway.
pub(super) struct LiveCodeMode {
    catalog: Arc<Catalog>,
    executors: BTreeMap<ScriptLanguage, LazyExecutor>,
    state: Mutex<CodeModeState>,
}

struct CodeModeState {
    terms: CodeModeTerms,
    code_mode: Arc<CodeMode>,
}

/// The parts of a configuration that code mode depends on.
#[derive(PartialEq)]
struct CodeModeTerms {
    language: ScriptLanguage,
    limits: Limits,
    layout: Layout,
    runs: RunSettings,
    search_above: usize,
}

impl CodeModeTerms {
    fn new(config: &Config) -> Self {
        let budget = &config.budget;
        let host_calls = Limits::SCRIPT.host_calls.saturating_add(budget.nested_calls);
        let cpu = config.runs.cpu_time;
        Self {
            language: config.script_language,
            limits: Limits { deadline: budget.script, cpu, host_calls, ..Limits::SCRIPT },
            layout: config.layout(),
            runs: config.runs,
            search_above: config.search_above,
        }
    }

    fn settings(&self, runs: Option<Runs>) -> CodeModeSettings {
        CodeModeSettings {
            language: self.language,
            limits: self.limits,
            layout: self.layout.clone(),
            runs,
        }
    }
}

impl LiveCodeMode {
    /// Installs code mode in the catalog. No executor is loaded yet.
    pub(super) fn new(
        config: &Config,
        catalog: &Arc<Catalog>,
        sandbox: &Sandbox,
        runs: Option<Runs>,
        on_compile: Option<&Arc<CompileHook>>,
    ) -> Self {
        let executors = ScriptLanguage::ALL.map(|language| {
            // Another language is compiled when a request first selects it.
            let on_compile = on_compile.filter(|_| language == config.script_language).cloned();
            (language, executor(language, sandbox.clone(), on_compile))
        });
        let executors = BTreeMap::from(executors);
        let terms = CodeModeTerms::new(config);
        let code_mode = CodeMode::new(&executors, terms.settings(runs));
        code_mode.install(catalog, terms.search_above);
        let state = Mutex::new(CodeModeState { terms, code_mode });
        Self { catalog: catalog.clone(), executors, state }
    }

    /// Makes code mode follow a configuration. Scripts that run keep their settings.
    pub(super) fn configure(&self, config: &Config, runs: Option<Runs>) {
        let terms = CodeModeTerms::new(config);
        let mut state = self.state.lock();
        if terms == state.terms {
            return;
        }
        let code_mode = state.code_mode.with_settings(&self.executors, terms.settings(runs));
        code_mode.install(&self.catalog, terms.search_above);
        *state = CodeModeState { terms, code_mode };
    }

    /// Returns code mode as it is now.
    pub(super) fn now(&self) -> Arc<CodeMode> {
        self.state.lock().code_mode.clone()
    }

    /// Returns the executor of a language.
    pub(super) fn executor(&self, language: ScriptLanguage) -> Option<LazyExecutor> {
        self.executors.get(&language).cloned()
    }

    /// Returns the executor of a language, or of scripts that select none, if a client is in code mode; `None`
    /// if none is.
    pub(super) fn needed_executor(&self, language: Option<ScriptLanguage>) -> Option<LazyExecutor> {
        let is_needed = self.catalog.snapshot().clients().any(|client| client.policy.code_mode);
        let language = language.unwrap_or_else(|| self.state.lock().terms.language);
        self.executors.get(&language).filter(|_| is_needed).cloned()
    }
}

/// Returns the executor of a language, which is loaded when it is first needed.
fn executor(
    language: ScriptLanguage,
    sandbox: Sandbox,
    on_compile: Option<Arc<CompileHook>>,
) -> LazyExecutor {
    LazyExecutor::new(move || {
        let sandbox = sandbox.clone();
        let on_compile = on_compile.clone();
        async move {
            let EmbeddedExecutor { wasm, sha256 } =
                embedded(language, airlock_executors::executor(language))?;
            let load = sandbox.executor(wasm, sha256);
            compiling(on_compile.as_deref(), "the script executor", wasm, load).await
        }
    })
}

/// Returns the executor of a language. Fails if it is not part of this build.
fn embedded(
    language: ScriptLanguage,
    built: Option<EmbeddedExecutor>,
) -> Result<EmbeddedExecutor, LoadError> {
    built.ok_or(LoadError::Language { language: language.name() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_that_is_not_built_in_is_refused_by_the_name_of_its_feature() {
        for language in ScriptLanguage::ALL {
            let refused = embedded(language, None).expect_err("there is no component");
            let LoadError::Language { language: named } = refused else { panic!("{refused}") };
            assert_eq!(named, language.name());
            let built = EmbeddedExecutor { wasm: b"wasm", sha256: [0; 32] };
            assert!(embedded(language, Some(built)).is_ok());
        }
    }
}
