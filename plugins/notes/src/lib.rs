//! Keeps notes from one conversation to the next, in a store that the operator granted.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod add;
pub mod delete;
pub mod list;
mod note;
pub mod read;
pub mod search;
mod shelf;
mod time;
pub mod update;

airlock_guest::plugin!(
    add::add_note,
    list::list_notes,
    search::search_notes,
    read::read_note,
    update::update_note,
    delete::delete_note,
);

#[cfg(test)]
mod tests {
    use airlock_guest::{Descriptor, ErrorKind, Tool, serde_json::json, testing::Host};

    use super::*;

    #[test]
    fn every_tool_says_what_each_argument_is_and_what_it_answers() {
        let tools: [Descriptor; 6] = [
            add::add_note::descriptor(),
            list::list_notes::descriptor(),
            search::search_notes::descriptor(),
            read::read_note::descriptor(),
            update::update_note::descriptor(),
            delete::delete_note::descriptor(),
        ];
        for tool in tools {
            let arguments = tool.input_schema.get("properties").and_then(|all| all.as_object());
            for (name, argument) in arguments.unwrap() {
                assert!(argument.get("description").is_some(), "{}: {name}", tool.name);
            }
            assert!(tool.output_schema.is_some(), "{}", tool.name);
        }
    }

    #[test]
    fn notes_are_kept_in_the_store_that_was_granted() {
        let host = Host::new().kv("notes");
        let added = host.call::<add::add_note>(json!({ "title": "Milk" })).unwrap();
        assert_eq!(added.structured_content.unwrap()["id"], 1);
        let read = host.call::<read::read_note>(json!({ "id": 1 })).unwrap();
        assert!(read.first_text().unwrap().starts_with("# Milk\n"));
        assert_eq!(host.store("notes").keys("note/").count(), 1);
        host.call::<delete::delete_note>(json!({ "id": 1 })).unwrap();
        assert_eq!(host.store("notes").keys("note/").count(), 0);
    }

    #[test]
    fn a_store_that_was_not_granted_is_an_error_with_its_code() {
        let error = Host::new().call::<list::list_notes>(json!({})).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Internal, Some("kv_no_such_store")));
    }

    #[test]
    fn a_full_store_is_too_large() {
        let host = Host::new().kv_with_quota("notes", 400);
        let error = host
            .call::<add::add_note>(json!({ "title": "a", "text": "x".repeat(200) }))
            .unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::TooLarge, Some("kv_quota_exceeded")));
    }
}
