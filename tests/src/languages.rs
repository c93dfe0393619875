//! Plugins in every language that has a template, built as an author builds them: by `airlock
//! plugin build`.
//!
//! Those in JavaScript and Python have a few tools in addition to the example's. They are built
//! once and kept below the target directory until their sources change: an interpreter takes half a
//! minute to compile.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use sha2::{Digest as _, Sha256};

use crate::{Airlock, Finished, binary, root};

/// Time limit of one build, longer than an interpreter takes on two busy cores.
const LIMIT: Duration = Duration::from_mins(6);

/// Builds the example in JavaScript, with the additional tools `knock`, `visit` and `crash`.
pub async fn javascript() -> PathBuf {
    let fixture = [("plugin.js", "plugin.js")];
    let installed = ("node_modules", "node_modules");
    built("javascript", &fixture, "probe.js", installed, |directory| {
        copy(&root().join("guest-sdk/javascript"), &directory.join("airlock-plugin"))?;
        let package = fs::read_to_string(example("javascript").join("package.json"))?;
        fs::write(
            directory.join("package.json"),
            package.replace("\"main\": \"plugin.js\"", "\"main\": \"probe.js\""),
        )
    })
    .await
}

/// Builds the example in Python, with the additional tools `knock`, `visit` and `crash`.
pub async fn python() -> PathBuf {
    let fixture = [("app.py", "example.py")];
    built("python", &fixture, "app.py", ("componentize", ".venv"), |directory| {
        let package = "airlock_plugin";
        copy(&root().join("guest-sdk/python").join(package), &directory.join(package))?;
        fs::copy(example("python").join("requirements.txt"), directory.join("requirements.txt"))
            .map(drop)
    })
    .await
}

/// Builds the plugin in a directory, in any language, and prints a JSON document.
pub async fn build(directory: &Path) -> Finished {
    run(Airlock::new().arg("plugin").arg("build").arg(directory).arg("--json")).await
}

/// Builds the plugin in a directory, in any language, and prints text.
pub async fn build_for_people(directory: &Path) -> Finished {
    run(Airlock::new().arg("plugin").arg("build").arg(directory)).await
}

async fn run(build: Airlock) -> Finished {
    // The crates were downloaded when the guests of this repository were built. The target
    // directory is kept between runs.
    let build = build.env("CARGO_NET_OFFLINE", "true").env("CARGO_TARGET_DIR", kept().join("rust"));
    let build = match toolchain() {
        Some(name) => build.env("RUSTUP_TOOLCHAIN", name),
        None => build,
    };
    build.within(LIMIT).run().await
}

/// Returns the directory of the example in a language.
pub fn example(language: &str) -> PathBuf {
    root().join("plugins/examples").join(language)
}

/// Assembles a plugin from files of the example, renamed where needed, and one file of the tests.
/// Builds it unless the same sources were built before.
async fn built(
    language: &str,
    of_example: &[(&str, &str)],
    own: &str,
    (peer, place): (&str, &str),
    rest: impl FnOnce(&Path) -> std::io::Result<()>,
) -> PathBuf {
    let directory = kept().join(language);
    fs::create_dir_all(&directory).expect("a directory below the target directory");
    let lock = File::create(directory.join(".lock")).expect("a file in it");
    // Tests run in separate processes; one builds and the others wait.
    let _lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock))
        .await
        .expect("no panic in it")
        .expect("a lock");
    let fixtures = root().join("tests/guests/languages");
    let key = digest(&[
        example(language),
        root().join("guest-sdk").join(language),
        fixtures.clone(),
        root().join("wit"),
        root().join("host/crates/authoring/src/build"),
        root().join("host/crates/authoring/src/interfaces.rs"),
    ]);
    let component = directory.join("skies.wasm");
    let stamp = directory.join("stamp");
    if component.is_file() && fs::read_to_string(&stamp).is_ok_and(|found| found == key) {
        return component;
    }
    for (from, to) in of_example {
        fs::copy(example(language).join(from), directory.join(to)).expect("a file of the example");
    }
    fs::copy(fixtures.join(language).join(own), directory.join(own)).expect("a file of the tests");
    fs::copy(fixtures.join("plugin.toml"), directory.join("plugin.toml"))
        .expect("a file of the tests");
    rest(&directory).expect("the rest of the sources");
    link(&crate::peers::installed(peer), &directory.join(place));
    let _ = build(&directory).await.ok();
    fs::write(stamp, key).expect("a file in it");
    component
}

/// Copies a directory. A compiler follows no link out of the plugin.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?.path();
        let place = to.join(entry.file_name().unwrap_or_default());
        if entry.is_dir() {
            copy(&entry, &place)?;
        } else {
            fs::copy(&entry, &place)?;
        }
    }
    Ok(())
}

fn link(to: &Path, link: &Path) {
    if fs::symlink_metadata(link).is_err() {
        symlink(to, link).expect("a link");
    }
}

/// Returns the directory that keeps plugins from one run of the tests to the next.
fn kept() -> PathBuf {
    binary("airlock-under-test")
        .ancestors()
        .nth(2)
        .expect("it lies in target/<profile>")
        .join("languages")
}

/// Returns the toolchain that compiles to WebAssembly; `None` if the default one does.
fn toolchain() -> Option<String> {
    let script = root().join("plugins/wasm-toolchain.sh");
    let output =
        Command::new("bash").arg(script).arg("--check").output().expect("bash can be started");
    String::from_utf8_lossy(&output.stdout).trim().strip_prefix('+').map(str::to_owned)
}

/// Digests all files in some directories, by name and content.
fn digest(sources: &[PathBuf]) -> String {
    let mut files = Vec::new();
    let mut left = sources.to_vec();
    while let Some(directory) = left.pop() {
        if directory.is_file() {
            files.push(directory);
            continue;
        }
        for entry in fs::read_dir(&directory).expect("a directory of sources") {
            let path = entry.expect("it can be read").path();
            // Packages that were installed into the example are not its sources.
            let is_installed = ["node_modules", ".venv", "target", "wit", "__pycache__"]
                .iter()
                .any(|name| path.ends_with(name));
            if !path.is_dir() {
                files.push(path);
            } else if !is_installed {
                left.push(path);
            }
        }
    }
    files.sort();
    let mut digest = Sha256::new();
    for file in files {
        digest.update(file.to_string_lossy().as_bytes());
        digest.update(fs::read(file).expect("a file of the sources"));
    }
    format!("{:?}", digest.finalize())
}
