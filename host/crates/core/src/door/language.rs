//! The languages that scripts are written in. The door knows their names alone.

/// Header that selects the language of scripts for one request.
pub const SCRIPT_LANGUAGE: &str = "x-airlock-code-mode-language";

airlock_strings::named_enum! {
    /// Language of scripts. The names are those in configuration, headers and stored runs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub enum ScriptLanguage {
        /// A small Python without exceptions and classes.
        #[default]
        Starlark = "starlark",
        /// A subset of Python.
        Python = "python",
    }
}

impl ScriptLanguage {
    /// File name of a script in messages.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Starlark => "code.star",
            Self::Python => "code.py",
        }
    }

    /// Finds a language by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.name() == name)
    }
}
