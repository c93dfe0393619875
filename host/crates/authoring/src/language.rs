//! The languages that plugins and guards are written in.

use std::{fmt, path::Path};

/// A language with a template and a compiler to components.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Rust.
    Rust,
    /// JavaScript, and TypeScript, which a script of the package compiles.
    JavaScript,
    /// Python.
    Python,
}

/// Reason that a directory has no sources in one of the languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LanguageError {
    /// The directory lacks the files of every language.
    #[error("expected {}", expected())]
    None,
    /// The directory has the files of two languages.
    #[error(
        "found {} ({one}) and {} ({other}); a plugin is written in one language",
        files(*one),
        files(*other)
    )]
    Several {
        /// One of the languages.
        one: Language,
        /// Another one.
        other: Language,
    },
}

impl Language {
    pub(crate) const ALL: [Self; 3] = [Self::Rust, Self::JavaScript, Self::Python];

    /// Returns the files that mark a plugin in this language.
    pub(crate) fn marks(self) -> &'static [&'static str] {
        match self {
            Self::Rust => &["Cargo.toml"],
            Self::JavaScript => &["package.json"],
            Self::Python => &["app.py", "requirements.txt"],
        }
    }

    /// Returns the files that mark a guard in this language. In Rust and JavaScript, they are those of a plugin.
    pub(crate) fn guard_marks(self) -> &'static [&'static str] {
        match self {
            Self::Python => &["guard.py", "requirements.txt"],
            language => language.marks(),
        }
    }

    /// Determines the language of the plugin or the guard in a directory.
    pub(crate) fn detect(directory: &Path) -> Result<Self, LanguageError> {
        let mut found = Self::ALL.into_iter().filter(|language| language.is_in(directory));
        match (found.next(), found.next()) {
            (None, _) => Err(LanguageError::None),
            (Some(language), None) => Ok(language),
            (Some(one), Some(other)) => Err(LanguageError::Several { one, other }),
        }
    }

    fn is_in(self, directory: &Path) -> bool {
        let marks = [self.marks(), self.guard_marks()];
        marks.iter().any(|marks| marks.iter().all(|mark| directory.join(mark).is_file()))
    }
}

/// Lists the files that mark a plugin in each language, and those of a guard where they differ.
fn expected() -> String {
    let marks = Language::ALL.map(|language| format!("{} ({language})", files(language)));
    let guard = Language::Python.guard_marks().join(" and ");
    format!("{}, or {guard} (a guard in Python)", marks.join(", or "))
}

fn files(language: Language) -> String {
    language.marks().join(" and ")
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rust => "Rust",
            Self::JavaScript => "JavaScript",
            Self::Python => "Python",
        })
    }
}
