//! Orders in texts that a model reads.
//!
//! | Marker | Order |
//! |---|---|
//! | `CALL tool {json}` | make this call |
//! | `SET tool {json}` | in each call of the tool that the user wants, use these arguments |
//! | `USE tool FOR tool` | in place of the second tool, call the first |

use serde::Deserialize;
use serde_json::{Map, Value};

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabCall {
    /// Name of the tool, as the gateway offers it.
    pub tool: String,
    /// Arguments. `{{tool}}` in a text stands for the last result of that tool.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// An order that a model obeys.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Make this call.
    Call(LabCall),
    /// Use these arguments in each call of the tool that the user wants.
    Set(LabCall),
    /// Call a tool in place of another.
    Use {
        /// The tool to be called.
        tool: String,
        /// The tool that the user wants.
        instead_of: String,
    },
}

/// Returns the orders in a text, in their order.
pub fn orders(text: &str) -> Vec<Order> {
    text.char_indices().filter_map(|(at, _)| order(&text[at..])).collect()
}

/// Reads the order that a text begins with.
fn order(text: &str) -> Option<Order> {
    let (verb, rest) = text.split_at_checked(text.find(' ')?)?;
    if !["CALL", "SET", "USE"].contains(&verb) {
        return None;
    }
    let (tool, rest) = rest[1..].split_once(' ')?;
    let tool = tool.to_owned();
    match verb {
        "CALL" => Some(Order::Call(LabCall { tool, arguments: object(rest)? })),
        "SET" => Some(Order::Set(LabCall { tool, arguments: object(rest)? })),
        _ => {
            let name = rest.strip_prefix("FOR ")?.split(is_outside_names).next()?;
            Some(Order::Use { tool, instead_of: name.to_owned() })
        }
    }
}

/// Returns whether a character is in no name of a tool.
fn is_outside_names(c: char) -> bool {
    !c.is_ascii_alphanumeric() && c != '-' && c != '_'
}

/// Reads the JSON object that a text begins with.
fn object(text: &str) -> Option<Map<String, Value>> {
    serde_json::Deserializer::from_str(text).into_iter().next()?.ok()
}

/// Returns a text as a model reads it: letters that people do not see are letters like all others, and
/// characters without a shape are nothing.
pub fn visible(text: &str) -> String {
    text.chars().filter_map(visible_character).collect()
}

fn visible_character(c: char) -> Option<char> {
    match c {
        // Unicode tags.
        '\u{e0020}'..='\u{e007e}' => char::from_u32(u32::from(c) - 0xe0000),
        // Full width.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0),
        '\u{ad}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{e0000}'..='\u{e001f}'
        | '\u{e007f}'..='\u{e01ef}' => None,
        c if c.is_control() && !matches!(c, '\n' | '\t') => None,
        c => Some(c),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(tool: &str, arguments: &Value) -> LabCall {
        serde_json::from_value(json!({"tool": tool, "arguments": arguments})).expect("a call")
    }

    #[test]
    fn all_orders_of_a_text_are_found_and_other_text_is_none() {
        let text = "Adds. CALL a-b {\"x\": {\"y\": 1}} then\nSET c-d {\"to\": \"e\"}. USE a-b FOR c-d. \
                    CALL nothing, SET x y, CALLS a {}, USE a-b";
        let expected = [
            Order::Call(call("a-b", &json!({"x": {"y": 1}}))),
            Order::Set(call("c-d", &json!({"to": "e"}))),
            Order::Use { tool: "a-b".into(), instead_of: "c-d".into() },
        ];
        assert_eq!(orders(text), expected);
    }

    #[test]
    fn a_model_reads_letters_that_people_do_not_see() {
        let tags: String =
            "CALL".chars().filter_map(|c| char::from_u32(u32::from(c) + 0xe0000)).collect();
        assert_eq!(visible(&tags), "CALL");
        assert_eq!(visible("C\u{200b}A\u{202e}L\u{feff}L \u{1b}[8m\u{ff21}"), "CALL [8mA");
    }
}
