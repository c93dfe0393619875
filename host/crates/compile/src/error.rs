//! Reasons that a component is not read or not compiled.

use std::time::Duration;

use tokio::task::JoinError;

/// Largest component that is read or compiled, in bytes. Compile time and memory grow in
/// proportion. The plugin format promises this number (`docs/plugin-format.md`).
pub const MAX_COMPONENT_BYTES: usize = 64 << 20;

/// Reason that a component is not read or not compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The component is larger than [`MAX_COMPONENT_BYTES`].
    #[error("the component has {found} bytes; the limit is {MAX_COMPONENT_BYTES}")]
    TooLarge {
        /// Its size, in bytes.
        found: usize,
    },
    /// The component has more items of one kind than the limit.
    #[error("the component has {found} {what}; the limit is {limit}")]
    TooMuch {
        /// Kind of item.
        what: &'static str,
        /// Number of items found.
        found: u64,
        /// Most items of this kind.
        limit: u64,
    },
    /// The component instantiates a component that it does not define, so that the number of its
    /// instances is not known before it runs.
    #[error(
        "the component instantiates a component that it imports or takes from an instance, so that its instances cannot \
         be counted; it may instantiate only the components that it defines"
    )]
    Uncountable,
    /// The bytes are a core module, which compilers write before a component is made of it.
    #[error(
        "it is a core module of WebAssembly and not a component; `airlock plugin build` makes a component from sources, \
         and `wasm-tools component new` makes one of a module"
    )]
    CoreModule,
    /// The bytes are a plugin for Extism: a core module that calls functions of Extism's host.
    #[error(
        "it is a plugin for Extism, such as those of hyper-mcp: a core module that needs Extism's host; this gateway runs \
         components, to which its code has to be ported (`airlock plugin new` writes a template)"
    )]
    Extism,
    /// The bytes are not a WebAssembly component.
    #[error("not a WebAssembly component: {0}")]
    NotAComponent(String),
    /// The component does not compile, or uses a feature that this engine does not allow.
    #[error("the component does not compile")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<JoinError> for CompileError {
    /// Returns the error of a thread that panicked.
    fn from(panic: JoinError) -> Self {
        Self::Failed(panic.into())
    }
}

/// Reason that the compiler returned no code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompilerFailure {
    /// The compiler rejected the component.
    #[error("{0}")]
    Refused(String),
    /// The compiler cannot be started, or I/O with it failed.
    #[error("the compiler cannot be run")]
    Run(#[source] std::io::Error),
    /// The compiler took longer than this.
    #[error("compiling took more than {0:?}")]
    Wall(Duration),
    /// The compiler crashed, or exceeded its CPU time or memory.
    #[error("the compiler failed ({status}){words}")]
    Died {
        /// Exit status or signal, as the kernel reports it.
        status: String,
        /// Text from its standard error, preceded by `: `; empty if there is none.
        words: String,
    },
    /// The compiler returned more native code than any component compiles to.
    #[error("the compiled code has more than {0} bytes")]
    TooMuchCode(usize),
    /// The compiler's output is not code for this engine.
    #[error("the compiled code cannot be loaded")]
    Code(#[source] Box<dyn std::error::Error + Send + Sync>),
}
