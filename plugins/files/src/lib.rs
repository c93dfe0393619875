//! Reads, writes, lists and searches files in the directories that the operator granted. The host
//! enforces the grants; this plugin reports to a model which paths it may use and why an operation
//! failed.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod create;
mod grants;
pub mod list;
pub mod read;
pub mod search;
pub mod write;

airlock_guest::plugin!(
    read::read_file,
    write::write_file,
    create::create_directory,
    list::list_directory,
    search::search_files,
);

#[cfg(test)]
mod tests {
    use airlock_guest::{Descriptor, Tool};

    use super::*;

    #[test]
    fn every_tool_says_what_each_argument_is_and_what_it_answers() {
        let tools: [Descriptor; 5] = [
            read::read_file::descriptor(),
            write::write_file::descriptor(),
            create::create_directory::descriptor(),
            list::list_directory::descriptor(),
            search::search_files::descriptor(),
        ];
        for tool in tools {
            let arguments = tool.input_schema.get("properties").and_then(|all| all.as_object());
            for (name, argument) in arguments.unwrap() {
                assert!(argument.get("description").is_some(), "{}: {name}", tool.name);
            }
            assert!(tool.output_schema.is_some(), "{}", tool.name);
        }
    }
}
