//! Reasons for which a component is not usable as a set of tools.

/// Reasons for which a component is not usable as a set of tools.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadComponent {
    /// It is a program, or serves requests.
    #[error(
        "it exports only {0}, which is to be run by a host rather than called as a tool; this release cannot run it"
    )]
    Program(String),
    /// It exports an interface of Airlock's other than the plugin contract.
    #[error(
        "it exports {0}, which is not the contract of plugins; plugins export airlock:plugin/tools"
    )]
    OtherContract(String),
    /// It exports no function that can be a tool. The text lists the exports with the reasons.
    #[error("it exports neither airlock:plugin/tools nor a function that can be a tool: {0}")]
    NoTools(String),
    /// Two functions would have the same tool name.
    #[error("its exports {one} and {other} would both be the tool {name:?}; rename one of them")]
    Collision {
        /// The export of one function.
        one: String,
        /// The export of the other function.
        other: String,
        /// The tool name of both.
        name: String,
    },
    /// The name of a function cannot be the name of a tool.
    #[error(
        "its export {export} would be the tool {name:?}; a tool's name has 1 to 64 of the characters a-z, A-Z, 0-9, _ and -"
    )]
    Name {
        /// The export of the function.
        export: String,
        /// The tool name that it would have.
        name: String,
    },
    /// It exports more functions and other items than the limit.
    #[error("it exports more than {limit} functions")]
    TooManyExports {
        /// The limit.
        limit: usize,
    },
    /// Its types unfold to more parts, or more bytes of names, than the limit.
    #[error("the types of its functions have more than {limit} parts, or more than 1 MiB of names")]
    TooManyParts {
        /// The limit on parts.
        limit: usize,
    },
}
