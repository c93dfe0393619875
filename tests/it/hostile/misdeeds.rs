//! The whole list of [`misdeeds`], all configured in one gateway.

use airlock_tests::{Embedded, Setup, misdeeds, wat::WELL_BEHAVED};

#[tokio::test(flavor = "multi_thread")]
async fn every_misdeed_is_stopped_by_its_own_limit_and_leaves_nothing_behind() {
    let gateway = Embedded::start(misdeeds::configure(Setup::new())).await;
    let mut wrong = Vec::new();
    for misdeed in misdeeds::all() {
        if let Some(reason) = gateway.failure(misdeed.name) {
            wrong.push(format!("{}: not loaded: {reason}", misdeed.name));
            continue;
        }
        let ended = gateway.call(&misdeed.tool(), &misdeed.arguments()).await;
        if !misdeed.is_stopped_by(ended.text()) {
            wrong.push(format!("{}, which {}: {:?}", misdeed.name, misdeed.does, ended.answer));
        }
        gateway.emptied().await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    gateway.stop().await;
}

#[tokio::test]
async fn the_plugin_that_all_written_misdeeds_vary_works() {
    let setup = Setup::new();
    let client = airlock_tests::Client::text(&setup, "good", &WELL_BEHAVED);
    let gateway = Embedded::start(setup.client(client)).await;
    assert_eq!(gateway.failure("good"), None);
    assert_eq!(gateway.call("good-run", "{}").await.text(), "ok");
    gateway.emptied().await;
    gateway.stop().await;
}
