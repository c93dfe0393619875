//! Instructions for a person about a run that has stopped for a decision.

use std::fmt::Write as _;

use airlock_core::tool::Suspension;
use airlock_strings::visible_line;

/// Longest list of calls in instructions, in bytes: some 250 lines, which a person reads before
/// deciding. The others are counted.
const MAX_INSTRUCTIONS: usize = 16 << 10;

/// Returns the calls to decide about with their arguments, and how a person decides. For a caller
/// that gets text alone.
pub(crate) fn instructions(suspension: &Suspension) -> String {
    let mut text = String::new();
    for (title, calls) in [
        ("Waits for an approval", &suspension.pending),
        ("May have been made", &suspension.in_doubt),
    ] {
        let mut left_out = 0;
        for call in calls {
            let sources = call.source_lines().into_iter().map(|line| format!("({line})"));
            let lines = sources.chain(call.lines()).collect::<Vec<_>>().join("\n  ");
            let tool = visible_line(&call.tool);
            let read = if call.sources.is_empty() {
                String::new()
            } else {
                format!(", after reading untrusted content from {}", call.sources)
            };
            let asked = match &call.asked_by {
                asked if asked.is_empty() => String::new(),
                asked => format!("; {asked}"),
            };
            let call = format!("{title}: {tool} ({}){read}{asked}\n  {lines}", call.position);
            if left_out > 0 || text.len() + call.len() > MAX_INSTRUCTIONS {
                left_out += 1;
            } else {
                text.push_str(call.trim_end());
                text.push('\n');
            }
        }
        if left_out > 0 {
            let _ = writeln!(text, "{title}: {left_out} more calls, which are not shown here");
        }
    }
    let run = &suspension.run;
    let (action, command) = if suspension.in_doubt.is_empty() {
        ("approve` or `/deny", "approve")
    } else {
        ("resolve", "show")
    };
    let _ = write!(
        text,
        "\nNothing runs until a person decides: `POST /v1/runs/{run}/{action}` of the gateway, or \
         `airlock runs {command} {run}` for a run without a virtual key. The run then goes on from where it \
         stopped; `GET /v1/runs/{run}` has its result. Do not run the script again: that begins a second run."
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::{
        run::Position,
        tool::{GuardQuestions, RunCall, SourceSet, SourcesByPath},
    };

    fn calls(arguments: &[String]) -> Vec<RunCall> {
        (1..)
            .zip(arguments)
            .map(|(block, arguments)| RunCall {
                position: Position { block, branch: 0 },
                tool: "rec-write".to_owned(),
                arguments: arguments.clone(),
                sources: SourceSet::default(),
                argument_sources: None,
                manifest: Vec::new(),
                asked_by: GuardQuestions::new(),
            })
            .collect()
    }

    fn suspension(pending: Vec<RunCall>, in_doubt: Vec<RunCall>) -> Suspension {
        let run = "run_1".to_owned();
        let token = "run_1.1".to_owned();
        Suspension { run, token, completed: Vec::new(), pending, in_doubt }
    }

    #[test]
    fn instructions_have_the_arguments_and_the_ways_to_decide() {
        let pending = calls(&[r#"{"n":3}"#.to_owned(), "{}".to_owned()]);
        let text = instructions(&suspension(pending, Vec::new()));
        let expected = "Waits for an approval: rec-write (1)\n  n: 3\nWaits for an approval: rec-write (2)\n\n";
        assert!(text.starts_with(expected), "{text}");
        for part in ["/v1/runs/run_1/approve`", "`airlock runs approve run_1`"] {
            assert!(text.contains(part), "{text}");
        }
        let mut asked = calls(&["{}".to_owned()]);
        asked[0].asked_by.push("mail".into(), "to others");
        let text = instructions(&suspension(asked, Vec::new()));
        let expected = "rec-write (1); the guard \"mail\" asks: to others\n";
        assert!(text.contains(expected), "{text}");
        let mut followed = calls(&[r#"{"n":3}"#.to_owned()]);
        followed[0].sources = SourceSet::from_iter(["web"]);
        let stored = r#"{"read":["web"],"arguments":{"n":["web"]}}"#;
        followed[0].argument_sources = SourcesByPath::from_stored(Some(stored));
        let text = instructions(&suspension(followed, Vec::new()));
        let expected = "(1), after reading untrusted content from web\n  (the argument \"n\" may come from web)\n  n: 3\n";
        assert!(text.contains(expected), "{text}");
        let text = instructions(&suspension(Vec::new(), calls(&[r#"{"n":3}"#.to_owned()])));
        assert!(text.starts_with("May have been made: rec-write (1)\n  n: 3\n"), "{text}");
        assert!(text.contains("/v1/runs/run_1/resolve`"), "{text}");
    }

    #[test]
    fn instructions_are_bounded_and_count_the_calls_that_are_left_out() {
        let long: Vec<_> = (0..60).map(|_| format!(r#"{{"a":{}}}"#, "7".repeat(1_000))).collect();
        let text = instructions(&suspension(calls(&long), Vec::new()));
        assert!(text.len() < MAX_INSTRUCTIONS + 1_000, "{}", text.len());
        let shown = text.matches("rec-write").count();
        assert!(text.contains(&format!(": {} more calls, which are not shown here", 60 - shown)));
    }
}
