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
    use airlock_guest::{Descriptor, ErrorKind, Tool};

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
    fn without_a_store_the_error_is_unavailable() {
        let error = list::list_notes(None, None, 20).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Unavailable, Some("kv_unavailable")));
    }
}
