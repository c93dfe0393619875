//! Imports. The modules are part of the executor, so an import only names them.

use airlock_starlark_library::MODULES;
use ruff_python_ast::{Alias, StmtImport, StmtImportFrom};
use ruff_text_size::Ranged;

use super::{Lowering, OWN};

/// Modules that the Python executor has and this one lacks.
const PYTHON_MODULES: [&str; 5] = ["asyncio", "base64", "binascii", "dataclasses", "unicodedata"];

impl<'a> Lowering<'a> {
    pub(super) fn import(&mut self, it: &'a StmtImport) {
        for alias in &it.names {
            let module = alias.name.as_str();
            if !self.knows(module, alias) {
                continue;
            }
            // `import a.b` binds `a`.
            let first = module.split('.').next().unwrap_or_default();
            let (bound, value) =
                alias.asname.as_ref().map_or((first, first), |name| (name, module));
            self.bind(bound, &format!("{OWN}mod_{value}"));
        }
    }

    pub(super) fn import_from(&mut self, it: &'a StmtImportFrom) {
        let module = it.module.as_ref().map_or("", |name| name.as_str());
        if module == "__future__" {
            return;
        }
        for alias in &it.names {
            if !self.knows(module, alias) {
                return;
            }
            let name = alias.name.as_str();
            if name == "*" {
                let message =
                    format!("there is no `import *`: import the names: `from {module} import …`");
                self.refuse(alias.range(), message);
                continue;
            }
            // `typing` has whatever is asked for.
            let value = match module {
                "typing" | "collections.abc" if name != "NamedTuple" => format!("{OWN}typing"),
                _ => format!("{OWN}import({OWN}mod_{module}, \"{module}\", \"{name}\")"),
            };
            let bound = alias.asname.as_ref().unwrap_or(&alias.name);
            let from = self.out.len();
            self.bind(bound.as_str(), &value);
            self.map.add(from..self.out.len(), alias.range());
        }
    }

    /// Returns whether there is such a module; refuses it otherwise.
    fn knows(&mut self, module: &str, alias: &Alias) -> bool {
        let part = (module, alias.name.as_str()) == ("urllib", "parse");
        if MODULES.contains(&module) || module == "collections.abc" || part {
            return true;
        }
        if let Some(message) = self.bindings.hint_for_import(module) {
            self.refuse(alias.range(), message);
            return false;
        }
        let say = match module.split('.').next().unwrap_or_default() {
            "asyncio" | "concurrent" | "threading" | "multiprocessing" => {
                "`gather([(tool, {\"argument\": value}), …])` makes several calls at once"
            }
            "os" | "pathlib" | "sys" | "shutil" | "glob" | "subprocess" | "tempfile" => {
                "scripts have no files or processes of their own: call a tool"
            }
            "urllib" if module != "urllib.request" => {
                "there is `urllib.parse`; scripts have no network of their own: call a tool"
            }
            "requests" | "httpx" | "urllib" | "http" | "socket" | "aiohttp" => {
                "scripts have no network of their own: call a tool"
            }
            "time" | "random" | "secrets" | "uuid" | "zoneinfo" => {
                "a run has no clock and no randomness: pass such values in, or call a tool"
            }
            "dataclasses" | "enum" | "abc" => "there are no classes: use dicts, or `namedtuple`",
            _ => "",
        };
        let modules = MODULES.join(", ");
        let say = if say.is_empty() { format!("there are {modules}") } else { say.into() };
        let message = format!("there is no module `{module}`: {say}");
        if PYTHON_MODULES.contains(&module) {
            self.refuse_here(alias.range(), message);
        } else {
            self.refuse(alias.range(), message);
        }
        false
    }

    /// Binds a name to a value that is written already.
    pub(super) fn bind(&mut self, name: &str, value: &str) {
        self.line();
        if self.scopes.in_cell(&self.facts, name) {
            self.push(&format!("{OWN}cell_{name}[0]"));
        } else {
            self.plain_name(name);
        }
        self.push(&format!(" = {value}"));
    }
}
