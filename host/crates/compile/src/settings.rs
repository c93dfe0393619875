//! Settings for compiling: where it happens, and in which form.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

/// Settings for compiling components.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiling {
    /// Path of the `airlock` binary, which is started as a child process for each component. `None`
    /// compiles in this process, on a thread that cannot be stopped. A program that is Airlock
    /// itself uses [`Compiling::SELF`].
    pub program: Option<PathBuf>,
    /// Wall-clock time that a child may take. A Python interpreter of 18 MB takes half a minute on
    /// two cores.
    pub wall: Duration,
    /// Address space of a child, in bytes.
    pub memory_bytes: u64,
    /// Keeps the machine code of single functions beside the cache of compiled code, so that the next
    /// build of a component is compiled in a part of the time: an interpreter stays the same when the
    /// program in it changes. For components of this user's own. It has no effect with a `program`,
    /// because it works in this process alone.
    pub reuses_functions: bool,
}

impl Compiling {
    /// Path of the running program as the kernel knows it. It stays the same file even if another
    /// file has since taken its name.
    pub const SELF: &'static str = "/proc/self/exe";

    /// Returns settings that compile in this process. A child, if a `program` is set, gets ten
    /// minutes and 8 GiB.
    pub const fn in_process() -> Self {
        Self {
            program: None,
            wall: Duration::from_mins(10),
            memory_bytes: 8 << 30,
            reuses_functions: false,
        }
    }

    /// Returns settings that compile in a child, for a program that is Airlock itself.
    pub fn in_child() -> Self {
        Self { program: Some(Self::SELF.into()), ..Self::in_process() }
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
