//! A script in, a result out.

/// How the virtual files of code mode are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindingLevel {
    /// One file a client.
    Server,
    /// One file a tool.
    Tool,
}
