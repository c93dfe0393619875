//! Calls of a script as its source shows them, before the first is made.

use serde::{Deserialize, Serialize};

/// A call of a tool in a namespace, as the source of a script shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceCall {
    /// Name of the global that holds the tool.
    pub namespace: String,
    /// Name of the tool in it.
    pub name: String,
    /// Arguments whose names the source shows, each name once.
    pub arguments: Vec<(String, SourceValue)>,
    /// True if the call may have further arguments.
    pub is_open: bool,
    /// The mistake that the call makes whatever the parameters of its tool are.
    pub mistake: Option<String>,
}

/// The value of an argument, as the source shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceValue {
    /// The source does not show it.
    Unknown,
    /// It has the type of this JSON value; a number or a truth value is this value.
    Known(String),
    /// It is a part of the result of a call of the source.
    Part(ResultPart),
}

/// A part of the result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultPart {
    /// The call, by its position among the calls of the source.
    pub call: u32,
    /// The keys that lead to the part; none for the whole result.
    pub keys: Vec<String>,
}

/// A call that would fail if the script reached it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrongCall {
    /// The call, by its position among the calls of the source.
    pub call: u32,
    /// The failure in one line, as if the call had been made.
    pub message: String,
    /// A valid form, if the message does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// True if the tool would refuse the arguments, false if the script would fail by itself.
    pub by_tool: bool,
}

impl SourceCall {
    /// Returns the bytes that the guest has written for the call.
    pub(crate) fn bytes(&self) -> usize {
        let arguments = self.arguments.iter().map(|(name, value)| name.len() + value.bytes());
        let mistake = self.mistake.as_ref().map_or(0, String::len);
        self.namespace.len() + self.name.len() + mistake + arguments.sum::<usize>()
    }

    /// Returns the number of values that the guest has written for the call: the call, its arguments, and keys.
    pub(crate) fn values(&self) -> usize {
        let arguments = self.arguments.iter().map(|(_, value)| 1 + value.keys());
        1 + arguments.sum::<usize>()
    }
}

impl SourceValue {
    fn keys(&self) -> usize {
        match self {
            Self::Unknown | Self::Known(_) => 0,
            Self::Part(part) => part.keys.len(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Unknown => 0,
            Self::Known(json) => json.len(),
            Self::Part(part) => part.keys.iter().map(String::len).sum(),
        }
    }
}

impl WrongCall {
    /// Returns the bytes that the guest receives.
    pub(crate) fn bytes(&self) -> usize {
        self.message.len() + self.hint.as_ref().map_or(0, String::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_and_keys_count_although_they_are_empty() {
        let part = ResultPart { call: 0, keys: vec![String::new(); 3] };
        let call = SourceCall {
            namespace: String::new(),
            name: String::new(),
            arguments: vec![
                (String::new(), SourceValue::Unknown),
                (String::new(), SourceValue::Part(part)),
            ],
            is_open: false,
            mistake: None,
        };
        assert_eq!((call.values(), call.bytes()), (6, 0));
    }
}
