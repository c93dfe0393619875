//! Faults of a manifest.

use std::error::Error;
use std::fmt;

use crate::key_path::KeyPath;

/// The most faults that are reported. A hostile manifest of 256 KiB could have one for every few bytes.
pub(crate) const MAX_FAULTS: usize = 50;

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Path of the key; empty for the whole manifest.
    pub key: KeyPath,
    /// The found value and the valid ones.
    pub problem: String,
    /// Position in `plugin.toml`; `None` in the embedded form, which has no lines.
    pub position: Option<Position>,
    /// True if the fault is the key itself and not its value.
    pub(crate) is_about_name: bool,
}

/// Position in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Fault {
    /// Creates a fault of a value.
    pub fn new(key: KeyPath, problem: impl Into<String>) -> Self {
        Self { key, problem: problem.into(), position: None, is_about_name: false }
    }

    /// Creates a fault of a key.
    pub(crate) fn of_name(key: KeyPath, problem: impl Into<String>) -> Self {
        Self { is_about_name: true, ..Self::new(key, problem) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.0.as_slice() {
            [] => f.write_str(&self.problem),
            _ => write!(f, "{}: {}", self.key, self.problem),
        }
    }
}

/// Faults found so far.
#[derive(Debug, Default)]
pub struct Faults {
    list: Vec<Fault>,
    has_more: bool,
}

impl Faults {
    /// Adds a fault, unless there are too many already.
    pub fn push(&mut self, fault: Fault) {
        if self.list.len() < MAX_FAULTS {
            self.list.push(fault);
        } else {
            self.has_more = true;
        }
    }

    /// Returns whether no more faults are taken.
    pub fn is_full(&self) -> bool {
        self.has_more
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns whether one is at a key or inside it.
    pub fn are_within(&self, key: &KeyPath) -> bool {
        self.list.iter().any(|fault| fault.key.is_within(key))
    }

    pub(crate) fn extend(&mut self, faults: impl IntoIterator<Item = Fault>) {
        faults.into_iter().for_each(|fault| self.push(fault));
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Fault> {
        self.list.iter_mut()
    }

    /// Returns `Ok` if there is no fault.
    pub fn result(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }

    /// Returns the error about the embedded form.
    pub fn of_embedded(self) -> BadManifest {
        BadManifest { file: None, faults: self.list, has_more: self.has_more }
    }

    /// Returns the error about a file, with the faults in the order of the file.
    pub(crate) fn of_file(mut self, file: &str) -> BadManifest {
        self.list.sort_by_key(|fault| fault.position);
        BadManifest { file: Some(file.to_owned()), ..self.of_embedded() }
    }
}

/// All faults of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadManifest {
    /// Name of the file; `None` for the embedded form.
    pub file: Option<String>,
    /// The faults; never empty.
    pub faults: Vec<Fault>,
    /// True if there are more faults, which are not listed.
    pub(crate) has_more: bool,
}

impl BadManifest {
    /// Creates an error about the embedded form as a whole.
    pub fn whole(problem: impl Into<String>) -> Self {
        let faults = vec![Fault::new(KeyPath::default(), problem)];
        Self { file: None, faults, has_more: false }
    }

    /// Returns a line for each fault: position, key and problem.
    pub fn lines(&self) -> Vec<String> {
        let more = self.has_more.then(|| "there are more, which are not listed".to_owned());
        self.faults.iter().map(|fault| self.line(fault)).chain(more).collect()
    }

    fn line(&self, fault: &Fault) -> String {
        match (&self.file, fault.position) {
            (None, _) => fault.to_string(),
            (Some(file), None) => format!("{file}: {fault}"),
            (Some(file), Some(Position { line, column })) => {
                format!("{file}:{line}:{column}: {fault}")
            }
        }
    }
}

impl fmt::Display for BadManifest {
    /// Writes the faults of a file as lines, those of the embedded form on one line for a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.lines();
        let count = self.faults.len();
        match (lines.as_slice(), &self.file) {
            ([only], _) => f.write_str(only),
            (_, Some(file)) => write!(f, "{file} has {count} errors:\n  {}", lines.join("\n  ")),
            (_, None) => write!(f, "{count} errors: {}", lines.join("; ")),
        }
    }
}

impl Error for BadManifest {}
