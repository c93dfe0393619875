//! Templates of new plugins and guards: the examples of `plugins/examples`, with the plugin's name in place of
//! theirs. A plugin carries the SDK of its language as directories of its own.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use crate::{
    Language, PluginName,
    sdk::{self, SdkFile},
};

/// Name of the examples, wherever they name themselves. The word has no other use in them.
const EXAMPLE: &str = "skies";
/// Name of the examples of guards.
const GUARD_EXAMPLE: &str = "sentry";
/// Path of the SDK, as seen from the example in this repository, and as seen from a plugin that
/// carries its own copy.
const SDK_PATH: (&str, &str) = ("../../../guest-sdk", "sdk/guest-sdk");

macro_rules! example {
    ($directory:literal: $($file:literal)*) => {
        &[$(($file, include_str!(concat!("../../../../plugins/examples/", $directory, "/", $file)))),*]
    };
}

const RUST: &[SdkFile] =
    example!("rust": ".gitignore" "Cargo.lock" "Cargo.toml" "README.md" "plugin.toml" "src/lib.rs");
const RUST_GUARD: &[SdkFile] = example!("guard": ".gitignore" "Cargo.lock" "Cargo.toml" "README.md" "plugin.toml" "src/lib.rs");
const JAVASCRIPT_GUARD: &[SdkFile] = example!("guard-javascript": ".gitignore" "README.md" "guard.js" "guard.test.js" "package.json" "plugin.toml");
const PYTHON_GUARD: &[SdkFile] = example!("guard-python": ".gitignore" "README.md" "guard.py" "plugin.toml" "requirements.txt" "test_guard.py");
const JAVASCRIPT: &[SdkFile] = example!("javascript": ".gitignore" "README.md" "package.json" "plugin.js" "plugin.test.js" "plugin.toml");
const TYPESCRIPT: &[SdkFile] = example!("typescript": ".gitignore" "README.md" "package.json" "plugin.test.js" "plugin.toml" "plugin.ts" "tsconfig.json");
const PYTHON: &[SdkFile] = example!("python": ".gitignore" "README.md" "app.py" "plugin.toml" "requirements.txt" "test_app.py");

/// A template of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// With an SDK; the smallest and fastest plugins.
    Rust,
    /// On `StarlingMonkey`.
    JavaScript,
    /// Compiled to JavaScript, with packages of npm in one module.
    TypeScript,
    /// On `CPython`.
    Python,
    /// A guard in one of the languages.
    Guard(Language),
}

/// Reason that no plugin is made of a template.
#[derive(Debug, thiserror::Error)]
pub enum NewPluginError {
    /// Cargo would refuse the name.
    #[error("`{0}` is a keyword of Rust and cannot name a package; choose another name")]
    Keyword(PluginName),
    /// The directory exists.
    #[error("{} exists already and is not overwritten; choose another name", .0.display())]
    Exists(PathBuf),
    /// The directory cannot be made.
    #[error("{directory} cannot be made")]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("{file} cannot be written")]
    File {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl Template {
    /// Those of plugins.
    #[cfg(test)]
    const ALL: [Self; 4] = [Self::Rust, Self::JavaScript, Self::TypeScript, Self::Python];

    /// Makes the directory of a new plugin with every file of it. Leaves nothing behind after a failure.
    pub fn write(self, name: &PluginName, directory: &Path) -> Result<(), NewPluginError> {
        if self.language() == Language::Rust && name.is_word_of_rust() {
            return Err(NewPluginError::Keyword(name.clone()));
        }
        fs::create_dir(directory).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => NewPluginError::Exists(directory.to_owned()),
            _ => NewPluginError::Directory { directory: directory.to_owned(), source },
        })?;
        let written =
            self.files(name).try_for_each(|(file, text)| write_file(directory.join(file), &text));
        written.inspect_err(|_| {
            // Everything in the directory was written here.
            let _ = fs::remove_dir_all(directory);
        })
    }

    /// Returns every file of a new plugin, by its path in the plugin's directory.
    fn files(self, name: &PluginName) -> impl Iterator<Item = (&'static str, String)> {
        let example = match self {
            Self::Rust => RUST,
            Self::JavaScript => JAVASCRIPT,
            Self::TypeScript => TYPESCRIPT,
            Self::Python => PYTHON,
            Self::Guard(Language::Rust) => RUST_GUARD,
            Self::Guard(Language::JavaScript) => JAVASCRIPT_GUARD,
            Self::Guard(Language::Python) => PYTHON_GUARD,
        };
        let own = if matches!(self, Self::Guard(_)) { GUARD_EXAMPLE } else { EXAMPLE };
        // The name of a tool contains the client that the plugin becomes.
        let example_tool = format!("{EXAMPLE}-get_weather");
        let tool = format!("{}-get_weather", name.client());
        let example = example.iter().map(|(file, text)| {
            let text = text.replace(&example_tool, &tool).replace(own, name.as_str());
            (*file, text.replace(SDK_PATH.0, SDK_PATH.1))
        });
        let example: Vec<_> = example.collect();
        let unused = self.unused_package();
        let beside = sdk::files(self.language()).filter(move |(file, _)| {
            unused.is_none_or(|unused| !Path::new(file).starts_with(unused))
        });
        example.into_iter().chain(beside.map(|(file, text)| (file, text.to_owned())))
    }

    /// Returns the directory of the SDK for its language that it does not carry.
    fn unused_package(self) -> Option<&'static str> {
        match self {
            Self::Python => Some(sdk::PYTHON_GUARDS),
            Self::Guard(Language::Python) => Some(sdk::PYTHON_PLUGINS),
            _ => None,
        }
    }

    /// Returns the language that a build takes the plugin for.
    fn language(self) -> Language {
        match self {
            Self::Guard(language) => language,
            Self::Rust => Language::Rust,
            Self::JavaScript | Self::TypeScript => Language::JavaScript,
            Self::Python => Language::Python,
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TypeScript => f.write_str("TypeScript"),
            template => fmt::Display::fmt(&template.language(), f),
        }
    }
}

fn write_file(file: PathBuf, text: &str) -> Result<(), NewPluginError> {
    let made = file.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(&file, text))
        .map_err(|source| NewPluginError::File { file, source })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn generate(template: Template) -> Vec<(&'static str, String)> {
        template.files(&"my-plugin".parse().expect("a name")).collect()
    }

    #[test]
    fn a_new_plugin_carries_its_name_and_no_path_into_this_repository() {
        for template in Template::ALL {
            let language = template.language();
            let files = generate(template);
            let marks = language.marks();
            assert!(marks.iter().all(|mark| !text_of(&files, mark).is_empty()), "{language}");
            assert!(text_of(&files, "plugin.toml").contains("id = \"my-plugin\""), "{language}");
            let page = text_of(&files, "README.md");
            for line in
                ["airlock plugin install my-plugin.wasm", "airlock call my_plugin-get_weather "]
            {
                assert!(page.contains(line), "{language}: {line}");
            }
            for (file, text) in &files {
                assert!(
                    !text.contains(EXAMPLE) && !text.contains("../../.."),
                    "{language}: {file}"
                );
            }
        }
        let manifest = generate(Template::Rust)
            .into_iter()
            .find(|(file, _)| *file == "Cargo.toml")
            .expect("it is there")
            .1;
        assert!(manifest.contains("path = \"sdk/guest-sdk\""), "{manifest}");
    }

    #[test]
    fn a_new_guard_carries_its_name_and_the_contract_of_guards() {
        for language in Language::ALL {
            let files = generate(Template::Guard(language));
            let marks = language.guard_marks();
            assert!(marks.iter().all(|mark| !text_of(&files, mark).is_empty()), "{language}");
            assert!(text_of(&files, "plugin.toml").contains("id = \"my-plugin\""), "{language}");
            let page = text_of(&files, "README.md");
            assert!(page.contains("\"component\": \"my-plugin.wasm\""), "{language}");
            for (file, text) in &files {
                let is_own = !text.contains(GUARD_EXAMPLE) && !text.contains("../../..");
                assert!(is_own, "{language}: {file}");
            }
            let contract = "wit/guard/0.1.0/guard.wit";
            assert!(files.iter().any(|(file, _)| file.ends_with(contract)), "{language}");
        }
        let rust = Template::Guard(Language::Rust);
        assert!(text_of(&generate(rust), "Cargo.toml").contains("path = \"sdk/guest-sdk\""));
        let keyword = rust.write(&"match".parse().expect("a name"), Path::new("none"));
        assert!(matches!(keyword, Err(NewPluginError::Keyword(_))));
    }

    #[test]
    fn a_project_in_python_carries_the_package_of_its_kind_alone() {
        let guard = Template::Guard(Language::Python);
        assert!(has(guard, "airlock_guard/testing.py") && !has(guard, "airlock_plugin/_wire.py"));
        let plugin = Template::Python;
        assert!(has(plugin, "airlock_plugin/_wire.py") && !has(plugin, "airlock_guard/testing.py"));
    }

    fn text_of<'f>(files: &'f [(&'static str, String)], name: &str) -> &'f str {
        &files.iter().find(|(file, _)| *file == name).expect(name).1
    }

    /// Returns the files of a directory of the repository, by their paths in it.
    fn files_in(directory: &str, below: &str) -> BTreeSet<String> {
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("the repository");
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(root.join(directory).join(below)).expect("a directory") {
            let entry = entry.expect("an entry");
            let name = Path::new(below).join(entry.file_name()).display().to_string();
            if !entry.file_type().expect("a type").is_dir() {
                found.insert(name);
            } else if !["test", "__pycache__"].contains(&name.as_str()) {
                found.extend(files_in(directory, &name));
            }
        }
        found
    }

    #[test]
    fn a_new_plugin_carries_every_file_of_its_package() {
        for (template, source, directory) in [
            (Template::JavaScript, "guest-sdk/javascript", "airlock-plugin/"),
            (Template::Python, "guest-sdk/python/airlock_plugin", "airlock_plugin/"),
            (Template::Guard(Language::Python), "guest-sdk/python/airlock_guard", "airlock_guard/"),
        ] {
            let files = generate(template);
            let written = files.iter().filter_map(|(file, _)| file.strip_prefix(directory));
            let written: BTreeSet<_> = written.map(str::to_owned).collect();
            let mut package = files_in(source, "");
            // For the tests of the package alone.
            package.remove("tsconfig.json");
            assert_eq!(written, package, "{template}");
        }
    }

    #[test]
    fn a_new_plugin_comes_with_the_sdk_or_the_contract() {
        for file in [
            "sdk/Cargo.toml",
            "sdk/guest-sdk/src/lib.rs",
            "sdk/guest-sdk/macros/src/lib.rs",
            "sdk/guest-sdk/wit/plugin/0.1.0/plugin.wit",
        ] {
            assert!(has(Template::Rust, file), "{file}");
        }
        for template in [Template::JavaScript, Template::TypeScript, Template::Python] {
            assert!(
                has(template, "wit/plugin/0.1.0/plugin.wit")
                    && has(template, "wit/host/0.1.0/host.wit"),
                "{template}"
            );
        }
    }

    fn has(template: Template, wanted: &str) -> bool {
        generate(template).iter().any(|(file, text)| *file == wanted && !text.is_empty())
    }
}
