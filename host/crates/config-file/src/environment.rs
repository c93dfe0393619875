//! The process's environment.

/// Looks up a variable of an environment.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns a variable of the process's environment; `None` if it is not set or not UTF-8. No setting
/// comes from the environment in another way.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
