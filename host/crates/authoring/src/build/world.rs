//! World of a component in JavaScript or Python, generated from its plugin.toml: of a plugin, the
//! interfaces that it requests, and no others. The compilers of these languages keep every import of the
//! world, used or not.

use std::{collections::BTreeMap, fs, path::Path};

use semver::Version;

use super::error::BuildError;
use crate::{
    interfaces::{GUARD, HOOKS, HOST, Interface, PACKAGES, PLUGIN, TOOLS},
    vendored::WIT,
};
use airlock_plugin::Manifest;

/// Name of the generated world.
pub(super) const NAME: &str = "plugin";

/// Kind of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum World {
    /// Exports tools.
    Plugin,
    /// Exports the hooks of a guard, and imports nothing.
    Guard,
}

impl World {
    /// Returns the world of a module by the name of its file: that of a guard is `guard`, with any extension.
    pub(super) fn of_module(file: &str) -> Self {
        let is_guard = Path::new(file).file_stem() == Some("guard".as_ref());
        if is_guard { Self::Guard } else { Self::Plugin }
    }
}

/// A package of the contract. Its files are those of one directory.
struct ContractPackage {
    name: &'static str,
    version: Version,
    files: Vec<(&'static str, &'static str)>,
}

/// Writes the world, and the packages of the contract that it refers to, to a directory.
pub(super) fn write(directory: &Path, manifest: &Manifest, world: World) -> Result<(), BuildError> {
    let packages = packages();
    let contract = manifest.contract.as_str();
    let fit: Vec<_> = packages.iter().filter(|package| package.is_of(contract)).collect();
    let Some(text) = text(manifest, world, &fit) else {
        let found = contract.to_owned();
        return Err(BuildError::Contract { found, known: known(&packages) });
    };
    let files = fit.iter().flat_map(|package| package.files());
    for (file, text) in files.chain([("world.wit".to_owned(), text)]) {
        let path = directory.join(file);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all);
        written
            .and_then(|()| fs::write(&path, text))
            .map_err(BuildError::io(format!("{} cannot be written", path.display())))?;
    }
    Ok(())
}

/// Returns the first version of a package. A plugin imports it although the host may have a later
/// one: its package for JavaScript or Python names the version that it was made for.
fn first<'p>(packages: &[&'p ContractPackage], name: &str) -> Option<&'p Version> {
    let versions = packages.iter().filter(|package| package.name == name);
    versions.map(|package| &package.version).min()
}

/// Returns the text of a world; `None` if a package that it refers to is missing.
fn text(manifest: &Manifest, world: World, packages: &[&ContractPackage]) -> Option<String> {
    let items = match world {
        World::Plugin => {
            let host = first(packages, HOST)?;
            let imports = Interface::of_contract(manifest)
                .map(|interface| format!("    import {HOST}/{}@{host};\n", interface.name));
            let imports: String = imports.collect();
            format!("{imports}    export {PLUGIN}/{TOOLS}@{};", first(packages, PLUGIN)?)
        }
        World::Guard => format!("    export {GUARD}/{HOOKS}@{};", first(packages, GUARD)?),
    };
    Some(format!("package airlock:generated;\n\nworld {NAME} {{\n{items}\n}}\n"))
}

/// Returns the packages of the contract that this program carries. A directory is a package; one
/// of its files names it.
fn packages() -> Vec<ContractPackage> {
    let mut directories = BTreeMap::<&str, Vec<_>>::new();
    for (path, text) in
        WIT.iter().filter(|(path, _)| Path::new(path).extension() == Some("wit".as_ref()))
    {
        let (directory, file) = path.rsplit_once('/').unwrap_or(("", path));
        directories.entry(directory).or_default().push((file, *text));
    }
    directories.into_values().filter_map(package).collect()
}

fn package(files: Vec<(&'static str, &'static str)>) -> Option<ContractPackage> {
    let mut lines = files.iter().flat_map(|(_, text)| text.lines());
    let id = lines.find_map(|line| line.strip_prefix("package ")?.strip_suffix(';'))?;
    let (name, version) = id.split_once('@')?;
    if !PACKAGES.contains(&name) {
        return None;
    }
    Some(ContractPackage { name, version: version.parse().ok()?, files })
}

impl ContractPackage {
    /// Returns whether the package is of a version of the contract, such as `0.1`.
    fn is_of(&self, contract: &str) -> bool {
        let Version { major, minor, .. } = self.version;
        contract == format!("{major}.{minor}")
    }

    /// Returns the files of the package with their paths below the generated world.
    fn files(&self) -> impl Iterator<Item = (String, String)> {
        let directory = format!("deps/{}-{}", self.name.replace(':', "-"), self.version);
        self.files
            .iter()
            .map(move |(file, text)| (format!("{directory}/{file}"), (*text).to_owned()))
    }
}

/// Lists the versions of the contract that this program carries.
fn known(packages: &[ContractPackage]) -> String {
    let versions = packages.iter().filter(|package| package.name == PLUGIN);
    let versions = versions.map(|package| format!("{:?}", package.version.to_string()));
    versions.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifest_with;

    fn manifest(contract: &str) -> Manifest {
        let kv = json!({"notes": {"max_bytes": "1MiB", "reason": "r"}});
        let mut manifest = manifest_with(&json!({"request": {"kv": kv}}));
        contract.clone_into(&mut manifest.contract);
        manifest
    }

    #[test]
    fn the_world_imports_what_is_requested_and_its_packages_are_beside_it() {
        let directory = tempfile::tempdir().expect("a directory");
        write(directory.path(), &manifest("0.1"), World::Plugin).expect("it is written");
        let world = fs::read_to_string(directory.path().join("world.wit")).expect("a world");
        insta::assert_snapshot!(world, @r"
        package airlock:generated;

        world plugin {
            import airlock:host/log@0.1.0;
            import airlock:host/context@0.1.0;
            import airlock:host/kv@0.1.0;
            export airlock:plugin/tools@0.1.0;
        }
        ");
        for package in ["types", "host", "plugin"] {
            let place = directory.path().join(format!("deps/airlock-{package}-0.1.0"));
            assert!(place.read_dir().expect(package).next().is_some(), "{package}");
        }
    }

    #[test]
    fn the_world_of_a_guard_imports_nothing_whatever_is_requested() {
        let directory = tempfile::tempdir().expect("a directory");
        write(directory.path(), &manifest("0.1"), World::Guard).expect("it is written");
        let world = fs::read_to_string(directory.path().join("world.wit")).expect("a world");
        insta::assert_snapshot!(world, @r"
        package airlock:generated;

        world plugin {
            export airlock:guard/hooks@0.1.0;
        }
        ");
        assert!(directory.path().join("deps/airlock-guard-0.1.0/guard.wit").is_file());
    }

    #[test]
    fn the_name_of_a_module_determines_its_world() {
        for guard in ["guard.js", "dist/guard.js", "./guard.mjs", "guard.py"] {
            assert_eq!(World::of_module(guard), World::Guard, "{guard}");
        }
        for plugin in ["plugin.js", "app.py", "guards.js", "guard/plugin.js"] {
            assert_eq!(World::of_module(plugin), World::Plugin, "{plugin}");
        }
    }

    #[test]
    fn the_world_imports_the_first_version_although_the_host_has_a_later_one() {
        let packages = [empty(HOST, "0.1.1"), empty(HOST, "0.1.0"), empty(PLUGIN, "0.1.2")];
        let packages: Vec<_> = packages.iter().collect();
        assert_eq!(first(&packages, HOST), Some(&Version::new(0, 1, 0)));
        assert_eq!(first(&packages, PLUGIN), Some(&Version::new(0, 1, 2)));
        assert_eq!(first(&packages[2..], HOST), None);
    }

    fn empty(name: &'static str, version: &str) -> ContractPackage {
        ContractPackage { name, version: version.parse().expect("a version"), files: Vec::new() }
    }

    #[test]
    fn every_interface_of_the_table_is_in_the_contract() {
        let packages = packages();
        let host = packages.iter().find(|package| package.name == HOST).expect("the host's");
        let text: String = host.files.iter().map(|(_, text)| *text).collect();
        let everything = manifest_with(&json!({
            "config": {"schema": {"type": "object"}},
            "request": {
                "http": {"api": {"url": "https://api.example.com", "reason": "r"}},
                "secret": {"token": {"reveal": true, "reason": "r"}},
                "kv": {"notes": {"max_bytes": "1MiB", "reason": "r"}},
                "tools": {"call": ["text-count"], "reason": "r"},
            },
        }));
        let names: Vec<_> =
            Interface::of_contract(&everything).map(|interface| interface.name).collect();
        for name in &names {
            assert!(text.contains(&format!("\ninterface {name} {{")), "{name}");
        }
        assert_eq!(names.len(), text.matches("\ninterface ").count(), "an interface is missing");
    }

    #[test]
    fn an_unknown_version_of_the_contract_is_refused_with_the_known_ones() {
        let directory = tempfile::tempdir().expect("a directory");
        for world in [World::Plugin, World::Guard] {
            let refused = write(directory.path(), &manifest("0.9"), world);
            assert_eq!(
                refused.expect_err("no such version").to_string(),
                "plugin.toml: contract: found \"0.9\", this airlock builds for \"0.1.0\""
            );
        }
    }
}
