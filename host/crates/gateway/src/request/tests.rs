use super::*;
use airlock_core::tool::{CallError, ClientName};

fn names(names: &[&str]) -> Vec<String> {
    collected(names.iter().copied())
}

fn client(name: &str) -> ClientName {
    ClientName::parse(name).expect("a name")
}

#[test]
fn without_a_choice_everything_is_selected_and_an_empty_list_selects_nothing() {
    let all = Choices::default().filter().expect("good names");
    assert!(all.is_none() && !all.is_of_operator());
    let choices = Choices { clients: Some(names(&[])), ..Choices::default() };
    let none = choices.filter().expect("good names");
    assert!(none.names_tools() && !none.admits_client(&client("fs")));
}

#[test]
fn the_selection_is_that_of_the_headers_and_the_operators_own() {
    let choices = Choices {
        sender: SenderChoice::Operator,
        clients: Some(names(&["fs", "web"])),
        tools: Some(names(&["fs-*"])),
        excluded: Some(names(&["fs-write"])),
        language: Some(ScriptLanguage::Python),
        ..Choices::default()
    };
    let filter = choices.filter().expect("good names");
    let headers = Filter::parse(Some("fs,web"), Some("fs-*")).excluding(Some("fs-write"));
    let expected = headers.with_language(Some(ScriptLanguage::Python));
    assert_ne!(filter, expected, "it is the operator's own");
    assert_eq!(filter, expected.for_operator());
}

#[test]
fn a_name_that_would_be_several_is_refused() {
    for choices in [
        Choices { clients: Some(names(&["fs", "web,*"])), ..Choices::default() },
        Choices { tools: Some(names(&["web,*"])), ..Choices::default() },
        Choices { excluded: Some(names(&["web,*"])), ..Choices::default() },
    ] {
        let refused = choices.filter().expect_err("it is refused");
        assert!(matches!(&refused, RequestError::Name(name) if name == "web,*"), "{refused}");
    }
}

#[test]
fn a_credential_is_not_shown() {
    let choices =
        Choices { sender: SenderChoice::Key(Secret::new("sk-bf-1")), ..Choices::default() };
    let shown = format!("{choices:?}");
    assert!(!shown.contains("sk-bf-1"), "{shown}");
}

#[test]
fn the_code_of_an_error_is_that_of_the_http_api() {
    let error = RequestError::from(CallError::busy());
    assert_eq!((error.code().as_str(), error.call_error().is_some()), ("airlock.busy", true));
    assert_eq!(RequestError::UnknownKey.code(), "invalid_api_key");
    assert_eq!(RequestError::NotWaiting("call_1".to_owned()).code(), "approval_not_found");
}
