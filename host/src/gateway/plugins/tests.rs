use std::{fs, path::Path, time::Duration};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    plugin::{Facts, LOCK_FILE, Lock},
    sandbox,
};

/// Longer than any step of these tests takes.
const LONG: Duration = Duration::from_secs(20);

/// Returns plugins with one configured plugin, `guest`, whose file does not exist.
fn plugins(home: &Path) -> Plugins {
    let guest = json!({
        "name": "guest",
        "connection_type": "wasm",
        "wasm_config": {"component": "guest.wasm"},
        "tools_to_execute": ["*"],
    });
    let file = json!({"mcp": {"client_configs": [guest]}}).to_string();
    let path = home.join("airlock.json").display().to_string();
    let mut config = Config::parse(&file, &path, &|_| None).expect("a good configuration");
    config.lock = Some(home.join(LOCK_FILE));
    let settings =
        sandbox::Settings { instances_per_depth: 1, depths: 1, ..sandbox::Settings::new(None) };
    let sandbox = Sandbox::new(&settings).expect("a sandbox");
    Plugins::new(Catalog::new(), sandbox, &config, MultiProgress::new())
}

#[tokio::test]
async fn a_missing_lock_is_accepted_only_if_there_never_was_one() {
    let home = tempfile::tempdir().expect("a directory");
    let plugins = plugins(home.path());
    let client = ClientName::parse("guest").expect("a name");
    let facts = Facts::new(b"one", Vec::new(), None, Vec::new());
    let check = || plugins.check_lock(&client, &facts);
    assert!(check().is_ok() && check().is_ok(), "nothing was ever accepted");
    let path = home.path().join(LOCK_FILE);
    let mut lock = Lock::default();
    lock.accept(&client, &facts);
    lock.save(&path).expect("written");
    assert!(check().is_ok());
    fs::remove_file(&path).expect("removed");
    let error = check().expect_err("refused");
    assert!(matches!(error, PluginError::Lock(LockError::Gone { .. })), "{error:?}");
    lock.save(&path).expect("written");
    assert!(check().is_ok(), "it is back");
}

#[tokio::test]
async fn an_unreadable_lock_counts_as_an_existing_one() {
    let home = tempfile::tempdir().expect("a directory");
    let plugins = plugins(home.path());
    let client = ClientName::parse("guest").expect("a name");
    let facts = Facts::new(b"one", Vec::new(), None, Vec::new());
    let path = home.path().join(LOCK_FILE);
    fs::write(&path, "this is a text").expect("written");
    assert!(plugins.check_lock(&client, &facts).is_err());
    fs::remove_file(&path).expect("removed");
    assert!(plugins.check_lock(&client, &facts).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_hangs_while_loading_does_not_delay_the_stop() {
    let home = tempfile::tempdir().expect("a directory");
    let plugins = plugins(home.path());
    let entry = plugins.0.entries.values().next().expect("one is configured");
    let _turn = entry.turn.lock().await;
    let stop = CancellationToken::new();
    let mut watch = std::pin::pin!(plugins.watch(stop.clone()));
    // By then `watch` has checked the files more than twice, and waits for the turn, which is never
    // released.
    assert!(tokio::time::timeout(watch::PERIOD * 10, watch.as_mut()).await.is_err());
    stop.cancel();
    assert!(tokio::time::timeout(LONG, watch).await.is_ok());
}

#[tokio::test]
async fn pipes_and_devices_are_refused_without_blocking() {
    let home = tempfile::tempdir().expect("a directory");
    let pipe = home.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
    assert!(made.success());
    for path in [pipe.as_path(), Path::new("/dev/zero"), home.path()] {
        let read =
            tokio::time::timeout(LONG, read_component(path)).await.expect("it does not wait");
        let error = with_causes(&read.expect_err("it is refused"));
        assert!(error.contains("no regular file"), "{}: {error}", path.display());
    }
    let file = home.path().join("file");
    fs::write(&file, "a").expect("written");
    assert_eq!(read_component(&file).await.expect("it is read"), b"a");
    let large = sandbox::MAX_COMPONENT_BYTES as u64 + 1;
    fs::File::options()
        .write(true)
        .open(&file)
        .and_then(|file| file.set_len(large))
        .expect("it grows");
    assert!(matches!(read_component(&file).await, Err(LoadError::TooLarge { .. })));
}
