//! Calls of a script as its source shows them, before the first is made.
//!
//! Each executor finds them in its syntax tree (`syntax/calls.rs`, which both compile with their own version of
//! the parser). What is wrong with them is decided where the schemas are: see [`Catalogue::check`].
//!
//! [`Catalogue::check`]: crate::Catalogue::check

use std::{fmt::Write as _, ops::Range};

use crate::{Failure, FailureKind};

/// A call of a tool in a namespace, as the source shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Bytes of the tool's name in the source, with its namespace.
    pub range: Range<usize>,
}

/// The value of an argument, as the source shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceValue {
    /// The source does not show it.
    Unknown,
    /// It has the type of this JSON value; a number or a truth value is this value.
    Known(String),
    /// It is a part of the result of a call of the source.
    Part {
        /// The call, by its position among the calls of the source.
        call: u32,
        /// The keys that lead to the part; none for the whole result.
        keys: Vec<String>,
    },
}

/// A call that would fail if the script reached it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongCall {
    /// The call, by its position among the calls of the source.
    pub call: u32,
    /// The failure in one line, as if the call had been made.
    pub message: String,
    /// A valid form, if the message does not have it.
    pub hint: Option<String>,
    /// True if the tool would refuse the arguments, false if the script would fail by itself.
    pub by_tool: bool,
}

/// A place in a script as a failure names it, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcePlace {
    /// The line.
    pub line: u32,
    /// The column in it.
    pub column: u32,
}

/// Creates the failure of a script that does not run because of its calls; `None` if none of them is
/// wrong. `show` writes the place of a range of the source, and returns it.
pub fn refused_calls(
    calls: &[SourceCall],
    wrong: &[WrongCall],
    mut show: impl FnMut(&mut String, &Range<usize>) -> SourcePlace,
) -> Option<Failure> {
    let mut rendered = String::new();
    let mut first = None;
    for wrong in wrong {
        let Some(call) = calls.get(wrong.call as usize) else { continue };
        let _ = writeln!(rendered, "error: {}", wrong.message);
        let place = show(&mut rendered, &call.range);
        if let Some(hint) = &wrong.hint {
            let _ = writeln!(rendered, "hint: {hint}");
        }
        first.get_or_insert((wrong, place));
    }
    let (WrongCall { message, by_tool, .. }, place) = first?;
    rendered.push_str("note: the script has not run, and no call was made\n");
    let message = match wrong.len() - 1 {
        0 => message.clone(),
        more => format!("{message} (and {more} more in this script)"),
    };
    Some(Failure {
        kind: if *by_tool { FailureKind::Tool } else { FailureKind::Runtime },
        message,
        line: Some(place.line),
        column: Some(place.column),
        rendered,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(range: Range<usize>) -> SourceCall {
        SourceCall {
            namespace: "files".into(),
            name: "read".into(),
            arguments: Vec::new(),
            is_open: false,
            mistake: None,
            range,
        }
    }

    fn wrong(call: u32, hint: Option<&str>, by_tool: bool) -> WrongCall {
        let message = format!("files.read: wrong {call}");
        WrongCall { call, message, hint: hint.map(Into::into), by_tool }
    }

    fn failure(calls: &[SourceCall], wrong: &[WrongCall]) -> Option<Failure> {
        refused_calls(calls, wrong, |out, range| {
            let _ = writeln!(out, "at {range:?}");
            SourcePlace { line: u32::try_from(range.start).expect("a short script"), column: 2 }
        })
    }

    #[test]
    fn a_refusal_shows_every_wrong_call_and_is_about_the_first() {
        let calls = [call(1..3), call(5..9)];
        let both = [wrong(0, Some("write it"), true), wrong(1, None, false)];
        let failed = failure(&calls, &both).expect("a failure");
        assert_eq!(failed.message, "files.read: wrong 0 (and 1 more in this script)");
        assert_eq!(
            (failed.kind, failed.line, failed.column),
            (FailureKind::Tool, Some(1), Some(2))
        );
        let rendered = "error: files.read: wrong 0\nat 1..3\nhint: write it\nerror: files.read: wrong 1\nat 5..9\nnote: the script has not run, and no call was made\n";
        assert_eq!(failed.rendered, rendered);
        let failed = failure(&calls, &both[1..]).expect("a failure");
        assert_eq!((failed.kind, &*failed.message), (FailureKind::Runtime, "files.read: wrong 1"));
        assert_eq!(failure(&calls, &[]), None);
        assert_eq!(failure(&calls, &[wrong(2, None, true)]), None, "no call of the script");
    }
}
