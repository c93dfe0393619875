use airlock_store::approvals::WaitingCall;

use super::*;

#[test]
fn a_call_is_shown_with_its_arguments_and_without_hidden_characters() {
    let text = r#"{"tool":"fs-write","key":"key \"ann\"","client":"a\u200bgent","arguments":{"path":"/x","size":1.10}}"#;
    let call = WaitingCall {
        id: "call_1".into(),
        asked_ms: 0,
        expires_ms: 3_600_000,
        approved: None,
        decided_by: None,
        reason: None,
        text: text.into(),
    };
    let mut call = document(&call);
    let all = shown(&call);
    let first = "call_1  pending  fs-write  1970-01-01T00:00:00Z  key \"ann\", client a";
    assert!(all.starts_with(first), "{all}");
    assert!(!all.contains('\u{200b}') && all.contains("1.10"), "{all}");
    call.as_object_mut().expect("an object").remove("arguments");
    assert!(shown(&call).contains("sees no arguments"), "nothing is made up");
    call["asked_by"] =
        json!([{"guard": "mail", "reason": "to\u{200b} others"}, {"guard": "spend"}]);
    let asked = "\n  (the guard \"mail\" asks: to\u{27e8}U+200B\u{27e9} others)\n  (the guard \"spend\" asks)\n";
    assert!(shown(&call).contains(asked), "{}", shown(&call));
    call["sources"] = json!(["crm\u{200b}", "web"]);
    call["argument_sources"] = json!({"to": ["crm\u{200b}"]});
    let read = "\n  (made after reading untrusted content from crm\u{27e8}U+200B\u{27e9}, web)\n  (the argument \"to\" may come from crm\u{27e8}U+200B\u{27e9})\n";
    assert!(shown(&call).contains(read), "{}", shown(&call));
}

#[test]
fn no_argument_is_hidden_from_the_person_who_decides() {
    let long = format!("{}rm -rf /{}", "a".repeat(30_000), "b".repeat(30_000));
    let members: Vec<_> = (0..40).map(|n| format!(r#""k{n}":{n}"#)).collect();
    let arguments = format!(r#"{{"long":"{long}",{}}}"#, members.join(","));
    let all = shown(&json!({"id": "call_1", "arguments": arguments}));
    assert!(all.contains(&long) && all.contains("  k39: 39"), "{}", all.len());
}

#[test]
fn a_whole_identifier_is_told_from_a_part_of_one() {
    let digits = "0123456789abcdef0123456789abcdef";
    let id = format!("call_{digits}");
    assert_eq!(whole_id(&id).as_deref(), Some(&*id));
    assert_eq!(whole_id(digits).as_deref(), Some(&*id));
    for part in ["", "call_", &id[..36], "call_0123456789abcdef0123456789abcd/x"] {
        assert_eq!(whole_id(part), None, "{part}");
    }
}

#[tokio::test]
async fn a_command_on_the_store_is_none_of_two_operators() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = airlock_store::Settings::new(directory.path().join("airlock.db"));
    let database = Database::open(settings).await.expect("it is made");
    for (number, required) in [(1_u8, 1), (2, 2)] {
        let text = format!(r#"{{"tool":"t","approvals_required":{required},"arguments":{{}}}}"#);
        let id = format!("call_{number}");
        let life = Duration::from_hours(1);
        let asked = database.ask_approval([0; 32], [number; 32], id, text, life);
        asked.await.expect("it waits");
    }
    let place = WaitingCalls::Stored(database.all_approvals());
    let one = place.decide(&json!({"id": "call_1"}), true).await.expect("it is approved");
    assert_eq!(one, "approved");
    let two = json!({"id": "call_2"});
    let refused = place.decide(&two, true).await.expect_err("it is that of no person");
    assert!(refused.to_string().contains("two operators"), "{refused}");
    let call = place.call("call_2").await.expect("read").expect("a call");
    assert_eq!((&call["state"], &call["approved_by"]), (&json!("pending"), &json!([])));
    assert_eq!(place.decide(&two, false).await.expect("it is denied"), "denied");
}

#[tokio::test]
async fn a_call_is_found_on_a_later_page_and_by_its_identifier() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = airlock_store::Settings::new(directory.path().join("airlock.db"));
    let database = Database::open(settings).await.expect("it is made");
    let text = format!(r#"{{"tool":"t","arguments":{{"a":"{}"}}}}"#, "x".repeat(64_000));
    for owner in 0..4 {
        for call in 0..64 {
            let id = format!("call_{owner:02x}{call:02x}{:028}", 0);
            let life = Duration::from_hours(1);
            let asked = database.ask_approval([owner; 32], [call; 32], id, text.clone(), life);
            asked.await.expect("it waits");
        }
    }
    let place = WaitingCalls::Stored(database.all_approvals());
    let first = place.page(0).await.expect("a page");
    assert!(first.has_more && first.calls.len() < 200);
    let mut count = 0;
    let counting = place.for_each(first, |_| {
        count += 1;
        Ok(())
    });
    counting.await.expect("all pages");
    assert_eq!(count, 256);
    let last = format!("033f{:028}", 0);
    for name in ["033f", &last] {
        let first = place.page(0).await.expect("a page");
        let found = place.named(first, name).await.expect("read");
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!(found[0]["id"], format!("call_{last}"));
    }
}

#[tokio::test]
async fn a_call_that_was_decided_about_is_reported_with_the_decision_and_the_party_that_made_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = airlock_store::Settings::new(directory.path().join("airlock.db"));
    let database = Database::open(settings).await.expect("it is made");
    let place = WaitingCalls::Stored(database.all_approvals());
    for (number, approves, word) in [(1_u8, true, "approved"), (2, false, "denied")] {
        let id = format!("call_{number}");
        let text = r#"{"tool":"t","arguments":{}}"#.to_owned();
        let life = Duration::from_hours(1);
        let asked = database.ask_approval([0; 32], [number; 32], id.clone(), text, life);
        asked.await.expect("it waits");
        place.decide(&json!({"id": id}), approves).await.expect("it is decided about");
        let first = place.page(0).await.expect("a page");
        let named = place.named(first, &id).await.expect("read");
        let told = not_waiting(&id, &named, "").to_string();
        let expected = format!("{id} was {word} already by operator \"command line\"; ");
        assert!(told.starts_with(&expected), "{told}");
    }
    let none = not_waiting("call_3", &[], " --config a.json").to_string();
    assert!(none.contains("call_3 waits") && none.contains("list --config a.json"), "{none}");
    let far = json!({"id": "call_4", "state": "approved", "expires_at_ms": u64::MAX});
    assert!(decision(&far).ends_with(" until 9999-12-31T23:59:59Z"), "{}", decision(&far));
}
