//! The languages that plugins are written in.

use std::{fmt, path::Path};

/// A language with a template and a compiler to components.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    /// With TypeScript, which a script of the package compiles.
    JavaScript,
    Python,
}

impl Language {
    pub(super) const ALL: [Self; 3] = [Self::Rust, Self::JavaScript, Self::Python];

    /// Returns the files that mark a plugin in this language.
    pub(super) fn marks(self) -> &'static [&'static str] {
        match self {
            Self::Rust => &["Cargo.toml"],
            Self::JavaScript => &["package.json"],
            Self::Python => &["app.py", "requirements.txt"],
        }
    }

    /// Returns whether a directory holds a plugin in this language.
    pub(super) fn is_in(self, directory: &Path) -> bool {
        self.marks().iter().all(|mark| directory.join(mark).is_file())
    }
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
