//! Builds a plugin: compiles sources to a component that embeds its tools and its requests.

mod cargo;
mod componentize;
mod error;
mod finish;
mod process;
mod profile;
mod project;
mod reporter;
mod world;

use std::path::{Path, PathBuf};

pub use self::{
    error::BuildError, finish::BuiltComponent, profile::BuildProfile, reporter::Reporter,
};

use self::project::Project;
use crate::{Language, sdk};
use airlock_compile::CompileHook;

/// Builds the plugin in a directory. The default for `output` is the plugin's id there, with `.wasm`
/// for a release and `.dev.wasm` for a development build. `on_compile` shows that the component is
/// being compiled to native code, to ask it for its tools. Dropping the future ends the compiler;
/// nothing was written then.
pub async fn build(
    directory: &Path,
    output: Option<PathBuf>,
    profile: BuildProfile,
    reporter: &mut dyn Reporter,
    on_compile: &CompileHook,
) -> Result<BuiltComponent, BuildError> {
    let mut project = Project::find(directory)?;
    if let Some(warning) = sdk::warning(&project.directory, project.language) {
        reporter.output("airlock", &warning);
    }
    let compiled = match project.language {
        Language::Rust => cargo::compile(&project, profile, reporter).await?,
        Language::JavaScript => componentize::javascript(&project, reporter).await?,
        Language::Python => componentize::python(&project, reporter).await?,
    };
    let file =
        output.unwrap_or_else(|| project.directory.join(profile.file_name(&project.manifest.id)));
    finish::finish(&mut project, compiled, file, on_compile).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_development_build_does_not_replace_the_component_to_install() {
        assert_eq!(BuildProfile::Release.file_name("skies"), "skies.wasm");
        assert_eq!(BuildProfile::Development.file_name("skies"), "skies.dev.wasm");
    }
}
