//! Components that are refused before any of their code runs for a caller, each with a reason that
//! names the defect.

use airlock_tests::{
    Client, Embedded, Setup,
    misdeeds::{Unloadable, unloadable},
    wat::WELL_BEHAVED,
};

/// Offers components to a gateway. Each must be refused for its own reason, and a valid component
/// next to them must work.
async fn are_refused(components: &[Unloadable]) {
    let mut setup = Setup::new();
    let good = Client::text(&setup, "good", &WELL_BEHAVED);
    setup = setup.client(good);
    for Unloadable { name, component, .. } in components {
        let file = setup.file(&format!("{name}.wasm"), component);
        setup = setup.client(Client::wasm(name, file).trusted());
    }
    let gateway = Embedded::start(setup).await;
    assert_eq!(gateway.call("good-run", "{}").await.text(), "ok");
    let mut wrong = Vec::new();
    for Unloadable { name, does, says, .. } in components {
        match gateway.failure(name) {
            None => wrong.push(format!("{name}, which {does}, was loaded")),
            Some(reason) if !reason.contains(says) => {
                wrong.push(format!("{name}: {reason}\n  lacks {says:?}"));
            }
            Some(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    gateway.emptied().await;
    gateway.stop().await;
}

#[tokio::test]
async fn every_unloadable_component_is_refused_for_its_own_reason() {
    are_refused(&unloadable()).await;
}

#[tokio::test]
async fn native_code_is_refused_as_a_plugin() {
    // The native code comes from the same engine that would load it.
    let directory = tempfile::tempdir().expect("a directory");
    let setup = Setup::new();
    let client = Client::text(&setup, "good", &WELL_BEHAVED);
    let cache = directory.path().join("cache");
    let gateway = Embedded::with(
        setup.client(client),
        |sandbox| sandbox.cache = Some(cache.clone()),
        |builder| builder,
    )
    .await;
    gateway.stop().await;
    let native = std::fs::read_dir(&cache)
        .expect("it was made")
        .filter_map(|entry| std::fs::read(entry.ok()?.path()).ok());
    let native = native.max_by_key(Vec::len).expect("something was compiled");
    let native = Unloadable {
        name: "native",
        does: "is native code",
        component: native,
        says: "not a WebAssembly component",
    };
    are_refused(&[native]).await;
}
