//! Templates of new plugins: the examples of `plugins/examples`, with the plugin's name in place of
//! theirs.

use super::{
    super::{
        language::Language,
        vendored::{SDK, WIT},
    },
    Name,
};

/// Name of the examples, wherever they name themselves. The word has no other use in them.
const EXAMPLE: &str = "skies";
/// Path of the SDK, as seen from the example in this repository, and as seen from a plugin that
/// carries its own copy.
const SDK_PATH: (&str, &str) = ("../../../guest-sdk", "sdk/guest-sdk");

/// A file's name and its text.
type File = (&'static str, &'static str);

macro_rules! example {
    ($directory:literal: $($file:literal)*) => {
        &[$(($file, include_str!(concat!("../../../../../plugins/examples/", $directory, "/", $file)))),*]
    };
}

const RUST: &[File] =
    example!("rust": ".gitignore" "Cargo.lock" "Cargo.toml" "README.md" "plugin.toml" "src/lib.rs");
const JAVASCRIPT: &[File] = example!("javascript": ".gitignore" "README.md" "airlock.js" "package.json" "plugin.js" "plugin.toml");
const PYTHON: &[File] = example!("python": ".gitignore" "README.md" "airlock.py" "app.py" "plugin.toml" "requirements.txt");

/// Returns every file of a new plugin, by its path in the plugin's directory.
pub(super) fn files(
    language: Language,
    name: &Name,
) -> impl Iterator<Item = (&'static str, String)> {
    let (example, beside) = match language {
        Language::Rust => (RUST, SDK),
        Language::JavaScript => (JAVASCRIPT, WIT),
        Language::Python => (PYTHON, WIT),
    };
    // The name of a tool contains the client that the plugin becomes.
    let tool = |client: &str| format!("{client}-get_weather");
    let named = |text: &str| {
        let text =
            text.replace(&tool(EXAMPLE), &tool(&name.client())).replace(EXAMPLE, name.as_str());
        text.replace(SDK_PATH.0, SDK_PATH.1)
    };
    let example: Vec<_> = example.iter().map(|(file, text)| (*file, named(text))).collect();
    example.into_iter().chain(beside.iter().map(|(file, text)| (*file, (*text).to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(language: Language) -> Vec<(&'static str, String)> {
        files(language, &"my-plugin".parse().expect("a name")).collect()
    }

    #[test]
    fn a_new_plugin_carries_its_name_and_no_path_into_this_repository() {
        for language in Language::ALL {
            let files = of(language);
            let text = |name: &str| &files.iter().find(|(file, _)| *file == name).expect(name).1;
            assert!(language.marks().iter().all(|mark| !text(mark).is_empty()), "{language}");
            assert!(text("plugin.toml").contains("id = \"my-plugin\""), "{language}");
            let page = text("README.md");
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
        let manifest = of(Language::Rust)
            .into_iter()
            .find(|(file, _)| *file == "Cargo.toml")
            .expect("it is there")
            .1;
        assert!(manifest.contains("path = \"sdk/guest-sdk\""), "{manifest}");
    }

    #[test]
    fn a_new_plugin_comes_with_the_sdk_or_the_contract() {
        let has = |language, wanted: &str| {
            of(language).iter().any(|(file, text)| *file == wanted && !text.is_empty())
        };
        for file in [
            "sdk/Cargo.toml",
            "sdk/guest-sdk/src/lib.rs",
            "sdk/guest-sdk/macros/src/lib.rs",
            "sdk/wit/plugin.wit",
        ] {
            assert!(has(Language::Rust, file), "{file}");
        }
        for language in [Language::JavaScript, Language::Python] {
            assert!(
                has(language, "wit/plugin.wit") && has(language, "wit/deps/host/host.wit"),
                "{language}"
            );
        }
    }
}
