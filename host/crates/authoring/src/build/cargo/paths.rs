//! Keeps paths of the author's machine out of a component: each panic names the file of its source,
//! and that of a dependency has the author's home directory in it.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use airlock_config::environment;

/// Variables with flags of the compiler. One of them replaces the flags of cargo's configuration.
const FLAGS: [&str; 2] = ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS"];
/// Separates the flags of the first of [`FLAGS`].
const SEPARATOR: &str = "\u{1f}";

/// A way to pass flags to the compiler beside those of the author.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FlagPassing {
    /// An argument of cargo, `--config` before it. Cargo appends the flags to those in its files.
    Config(String),
    /// A variable of cargo's environment, because one is set already.
    Variable(&'static str, String),
}

/// Returns the flags that give the sources other names, for a plugin in `directory`. `sysroot` is the
/// directory of the compiler.
pub(super) fn renaming(directory: &Path, sysroot: Option<&Path>) -> Vec<String> {
    let home = environment("HOME").map(PathBuf::from);
    let cargo = environment("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| home.as_ref().map(|home| home.join(".cargo")));
    let built = environment("CARGO_TARGET_DIR").map(|built| directory.join(built));
    // The last prefix that fits is the one that counts.
    let named = [
        (home, "~"),
        (cargo, "cargo"),
        (sysroot.map(Path::to_owned), "rust"),
        (built, "target"),
        (Some(directory.to_owned()), "."),
    ];
    let named = named.into_iter().filter_map(|(path, name)| Some((path?, name)));
    let flags = named
        .filter(|(path, _)| path.is_absolute() && path.parent().is_some())
        .map(|(path, name)| format!("--remap-path-prefix={}={name}", path.display()));
    // Messages for the author keep the real names.
    std::iter::once("--remap-path-scope=object".to_owned()).chain(flags).collect()
}

/// Chooses how to pass flags for a target, so that no flag of the author's is lost. Of several places
/// for flags, cargo uses one alone.
pub(super) fn passing(directory: &Path, target: &str, flags: &[String]) -> FlagPassing {
    let set = FLAGS.into_iter().find_map(|name| Some((name, environment(name)?)));
    if let Some((name, own)) = set {
        let own = if name == FLAGS[0] {
            own
        } else {
            own.split_whitespace().collect::<Vec<_>>().join(SEPARATOR)
        };
        let all = std::iter::once(own.as_str()).filter(|own| !own.is_empty());
        let all: Vec<_> = all.chain(flags.iter().map(String::as_str)).collect();
        return FlagPassing::Variable(FLAGS[0], all.join(SEPARATOR));
    }
    let place = place(directory, target);
    FlagPassing::Config(format!("{place}.rustflags={}", Value::from(flags.to_vec())))
}

/// Returns the table of cargo's configuration whose flags count: that of the target, unless only
/// `build` has some.
fn place(directory: &Path, target: &str) -> String {
    let of_target = format!("target.{target}");
    let home = environment("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&environment("HOME")?).join(".cargo")));
    let directories = directory.ancestors().map(|directory| directory.join(".cargo"));
    let mut in_build = false;
    for directory in directories.chain(home) {
        let text = ["config.toml", "config"]
            .iter()
            .find_map(|name| std::fs::read_to_string(directory.join(name)).ok());
        let Some(config) = text.and_then(|text| text.parse::<Table>().ok()) else { continue };
        let targets = config.get("target").and_then(Value::as_table).into_iter().flatten();
        let mut may_fit = targets.filter(|(name, _)| *name == target || name.starts_with("cfg("));
        if may_fit.any(|(_, of_target)| of_target.get("rustflags").is_some()) {
            return of_target;
        }
        in_build |= config.get("build").is_some_and(|build| build.get("rustflags").is_some());
    }
    if in_build { "build".to_owned() } else { of_target }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn flags_go_beside_those_of_the_author() {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path();
        let of_target = "target.wasm32-unknown-unknown";
        assert_eq!(place_with(directory, ""), of_target);
        assert_eq!(place_with(directory, "[build]\nrustflags = ['--cfg=a']"), "build");
        let both = "[build]\nrustflags = ['--cfg=a']\n[target.wasm32-unknown-unknown]\nrustflags = ['--cfg=b']";
        assert_eq!(place_with(directory, both), of_target);
        assert_eq!(
            place_with(directory, "[build]\nrustflags = []\n[target.'cfg(all())']\nrustflags = []"),
            of_target
        );
        assert_eq!(place_with(directory, "not TOML"), of_target);
    }

    fn place_with(directory: &Path, config: &str) -> String {
        fs::create_dir_all(directory.join(".cargo")).expect("a directory");
        fs::write(directory.join(".cargo/config.toml"), config).expect("a file");
        place(&directory.join("plugin"), "wasm32-unknown-unknown")
    }

    #[test]
    fn the_directory_of_the_plugin_is_named_last() {
        let flags = renaming(Path::new("/p/weather"), Some(Path::new("/rust/stable")));
        assert_eq!(flags.first().map(String::as_str), Some("--remap-path-scope=object"));
        assert_eq!(flags.last().map(String::as_str), Some("--remap-path-prefix=/p/weather=."));
        assert!(flags.contains(&"--remap-path-prefix=/rust/stable=rust".to_owned()), "{flags:?}");
        assert!(!renaming(Path::new("/"), None).iter().any(|flag| flag.contains("=/=")));
    }
}
