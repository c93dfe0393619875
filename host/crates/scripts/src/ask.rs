//! Asks a person about the calls of a script: the question to a client that can be asked, and its
//! answer.

use serde_json::{Value, json};

use airlock_core::{
    door::{Approval, Chain, Origin},
    tool::{
        CallError, ClientName, ErrorKind, InputRequired, OWN_ASKER, Question, QuestionKind,
        Suspension, ToolError, ToolName,
    },
};
use airlock_strings::visible_line;

/// Name of the question about the calls of a script.
pub(super) const QUESTION: &str = "approval";
/// Maximum bytes of a question: a few pages, which a person can still read in a form. Calls that do not
/// fit are not asked about.
pub(super) const MAX_QUESTION: usize = 16 << 10;

/// Reads the answer to the question about the calls of a run. Fails if nothing was decided.
pub(super) fn approves(id: &str, answer: Option<&str>) -> Result<bool, CallError> {
    let answer: Value = answer.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    match answer["action"].as_str() {
        Some("accept") => Ok(true),
        Some("decline") => Ok(false),
        // The user has decided nothing, and the run waits.
        _ => {
            let message = format!(
                "the question was neither accepted nor declined; the run {id} is still suspended"
            );
            Err(ToolError::new(ErrorKind::Denied, message).with_code("undecided").into())
        }
    }
}

/// Returns whether a caller approves the calls that it was shown by sending their state back: it is a
/// person's program, and cannot be asked in another way.
pub(super) fn is_approver(chain: &Chain) -> bool {
    matches!(
        chain.starter(),
        Origin::Caller | Origin::McpClient(Approval::Given | Approval::ByPerson)
    )
}

/// Returns whether the caller takes a question about the calls of a script.
pub(super) fn can_be_asked(chain: &Chain) -> bool {
    matches!(chain.starter(), Origin::McpClient(Approval::Given | Approval::ByPerson))
        && chain.capabilities().questions.has(QuestionKind::Form)
}

/// Returns the end of a script that has stopped for a decision: the question, if the caller can be
/// asked and every call fits into it, and else the suspension.
pub(super) fn stopped(chain: &Chain, suspension: Suspension) -> CallError {
    let is_question = !suspension.pending.is_empty() && suspension.in_doubt.is_empty();
    let question = if is_question && can_be_asked(chain) { question(&suspension) } else { None };
    match (ClientName::parse(OWN_ASKER), question) {
        (Ok(client), Some(question)) => {
            let token = suspension.token;
            let asked = InputRequired { client, questions: vec![question], token };
            CallError::needs_input(ToolName::own(super::meta::EXECUTE), Box::new(asked))
        }
        _ => suspension.into(),
    }
}

/// Returns the question about the calls of a script: a form without fields. To accept it is to
/// approve the calls, to decline it is to deny them. `None` if the calls do not fit: nothing is
/// approved that was not shown.
fn question(suspension: &Suspension) -> Option<Question> {
    let mut message = String::from("The script wants to make these calls. Approve them?\n");
    for call in &suspension.pending {
        let arguments = call.lines().into_iter();
        let mut lines = vec![format!("- {}", visible_line(&call.tool))];
        if !call.sources.is_empty() {
            lines.push(format!("  (untrusted content was read before, from {})", call.sources));
        }
        lines.extend(call.source_lines().into_iter().map(|line| format!("  ({line})")));
        if !call.asked_by.is_empty() {
            lines.push(format!("  ({})", call.asked_by));
        }
        for line in lines.into_iter().chain(arguments.map(|line| format!("  {line}"))) {
            message.push('\n');
            message.push_str(&line);
        }
        if message.len() > MAX_QUESTION {
            return None;
        }
    }
    let params = json!({
        "mode": "form",
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": {},
        },
    });
    Some(Question {
        key: QUESTION.to_owned(),
        kind: QuestionKind::Form,
        params: params.as_object().cloned().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::{
        run::Position,
        tool::{GuardQuestions, RunCall, SourceSet, SourcesByPath},
    };

    fn message(arguments: &[String]) -> Option<String> {
        message_about(calls(arguments))
    }

    fn calls(arguments: &[String]) -> Vec<RunCall> {
        let calls = (1..).zip(arguments).map(|(at, arguments)| RunCall {
            position: Position { block: 1, branch: at },
            tool: "rec-write".to_owned(),
            arguments: arguments.clone(),
            sources: SourceSet::default(),
            argument_sources: None,
            manifest: Vec::new(),
            asked_by: GuardQuestions::new(),
        });
        calls.collect()
    }

    fn message_about(pending: Vec<RunCall>) -> Option<String> {
        let suspension = Suspension {
            run: "run_1".to_owned(),
            token: "run_1.1".to_owned(),
            completed: Vec::new(),
            pending,
            in_doubt: Vec::new(),
        };
        let asked = question(&suspension)?;
        Some(asked.params["message"].as_str().expect("a text").to_owned())
    }

    #[test]
    fn the_sources_of_each_argument_are_shown_before_the_arguments() {
        let mut asked = calls(&[json!({"to": "ann"}).to_string()]);
        asked[0].sources = SourceSet::from_iter(["crm", "web"]);
        let stored = r#"{"read":["crm","web"],"arguments":{"body":["crm","web"],"to":["crm"]}}"#;
        asked[0].argument_sources = SourcesByPath::from_stored(Some(stored));
        let message = message_about(asked.clone()).expect("it fits");
        let expected = "\n- rec-write\n  (untrusted content was read before, from crm, web)\n  (the argument \"body\" may come from crm, web)\n  (the argument \"to\" may come from crm)\n  to: \"ann\"";
        assert!(message.ends_with(expected), "{message}");
        // Nothing is approved whose sources do not fit.
        let long: Vec<_> = (0..600).map(|n| format!(r#""argument-{n}":["crm"]"#)).collect();
        let stored = format!(r#"{{"read":["crm"],"arguments":{{{}}}}}"#, long.join(","));
        asked[0].argument_sources = SourcesByPath::from_stored(Some(&stored));
        assert_eq!(message_about(asked), None);
    }

    #[test]
    fn a_long_argument_hides_no_call_after_it() {
        let long = json!({"text": "x".repeat(17 << 10), "path": "/tmp"}).to_string();
        let message = message(&[long, json!({"n": 2}).to_string()]).expect("it fits");
        assert!(message.contains("[15410 characters are not shown]"), "{message}");
        assert!(message.ends_with("\n- rec-write\n  n: 2"), "{message}");
        assert!(message.contains("\n  path: \"/tmp\"\n"), "{message}");
    }

    #[test]
    fn each_of_sixty_calls_has_its_lines() {
        let calls: Vec<_> = (0..60).map(|n| json!({"n": n}).to_string()).collect();
        let message = message(&calls).expect("they fit");
        for n in 0..60 {
            assert!(message.contains(&format!("\n- rec-write\n  n: {n}")), "{message}");
        }
    }

    #[test]
    fn calls_that_do_not_fit_are_not_asked_about() {
        let head = "The script wants to make these calls. Approve them?\n\n- rec-write\n  a: ";
        let member = format!("{}\n  b: ", "7".repeat(2_000));
        // Eight members of the longest length, and one that ends at the limit.
        let rest = MAX_QUESTION - head.len() - 8 * member.len();
        assert_eq!(message(&[nine_members(rest)]).expect("it fits").len(), MAX_QUESTION);
        assert_eq!(message(&[nine_members(rest + 1)]), None);
        assert_eq!(message(&[nine_members(rest), "{}".to_owned()]), None);
    }

    /// Returns arguments with eight members of 2,000 digits, and one of `rest`.
    fn nine_members(rest: usize) -> String {
        let members: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
            .iter()
            .enumerate()
            .map(|(at, name)| {
                let digits = if at < 8 { 2_000 } else { rest };
                format!(r#""{name}":{}"#, "7".repeat(digits))
            })
            .collect();
        format!("{{{}}}", members.join(","))
    }

    #[test]
    fn an_argument_cannot_imitate_a_call() {
        let forged = json!({"a\n- rec-read": "b\n- rec-read"}).to_string();
        let message = message(&[forged]).expect("it fits");
        assert_eq!(message.matches("\n- ").count(), 1, "{message}");
    }

    #[test]
    fn only_an_acceptance_approves() {
        assert!(matches!(approves("run_1", Some(r#"{"action":"accept"}"#)), Ok(true)));
        assert!(matches!(approves("run_1", Some(r#"{"action":"decline"}"#)), Ok(false)));
        for undecided in [None, Some(r#"{"action":"cancel"}"#), Some("accept")] {
            let error = approves("run_1", undecided).expect_err("nothing is decided").to_string();
            assert!(error.ends_with("the run run_1 is still suspended"), "{error}");
        }
    }
}
