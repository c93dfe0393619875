//! Counts, searches and queries text, JSON and CSV. Every tool is a pure function of its arguments
//! and makes no host call.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod pattern;
pub mod query;
pub mod table;
pub mod words;

airlock_guest::plugin!(
    words::word_count,
    pattern::regex_find,
    query::json_query,
    table::csv_to_json,
);

#[cfg(test)]
mod tests {
    use airlock_guest::{Descriptor, Tool};

    use super::*;

    #[test]
    fn every_tool_says_what_each_argument_is_and_what_it_answers() {
        let tools: [Descriptor; 4] = [
            words::word_count::descriptor(),
            pattern::regex_find::descriptor(),
            query::json_query::descriptor(),
            table::csv_to_json::descriptor(),
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
