//! Settings for compiling: the place and the form.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

/// Place where components are compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compiling {
    /// This process, on a thread that cannot be stopped.
    InProcess {
        /// Keeps the machine code of single functions beside the cache of compiled code, so that the
        /// next build of a component is compiled in a part of the time: an interpreter stays the same
        /// when the program in it changes. For components of this user's own.
        reuses_functions: bool,
    },
    /// A child process for each component.
    InChild(CompilerChild),
}

/// Program and limits of the child processes that compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilerChild {
    /// Path of the `airlock` binary.
    pub program: PathBuf,
    /// Wall-clock time that a child may take. A Python interpreter of 18 MB takes half a minute on
    /// two cores.
    pub wall: Duration,
    /// Address space of a child, in bytes.
    pub memory_bytes: u64,
}

impl Compiling {
    /// This process, without reuse of functions.
    pub const IN_PROCESS: Self = Self::InProcess { reuses_functions: false };

    /// Returns a child of the running program, which must be Airlock itself. Its path is the one that
    /// the kernel knows, which stays the same file even if another file has since taken its name.
    pub fn in_child() -> Self {
        Self::InChild(CompilerChild::new("/proc/self/exe"))
    }
}

impl CompilerChild {
    /// Returns children of this program with ten minutes and 8 GiB each.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), wall: Duration::from_mins(10), memory_bytes: 8 << 30 }
    }
}

/// Form in which a component is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// The component as it is.
    Plain,
    /// The component as its function `prepare` leaves it.
    Prepared,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Prepared => "prepared",
        })
    }
}

impl FromStr for Form {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "plain" => Ok(Self::Plain),
            "prepared" => Ok(Self::Prepared),
            _ => Err("expected plain or prepared"),
        }
    }
}
