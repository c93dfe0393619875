//! Items → chat messages.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use super::{
    builtin::ClientTools,
    content,
    items::{self, Step},
    output::Round,
    reasoning::Reasoning,
};
use airlock_agent::recall::note;
use airlock_conversation::read::{Path, Untranslatable, excerpt};
use airlock_model::{Object, object};

/// Translates the items of the previous Responses and those of a request, after the instructions of
/// the request. Fails if an item is invalid, or if a call of a client's tool has no output or an
/// output no call.
pub(super) fn translate(
    instructions: Option<String>,
    earlier: Vec<Value>,
    input: Vec<Value>,
    client_tools: &mut ClientTools<'_>,
) -> Result<Vec<Value>, Untranslatable> {
    let mut steps = Vec::with_capacity(earlier.len() + input.len());
    let path = Path::Member(&Path::Root, "input");
    for item in earlier {
        let step = read(item, &path, client_tools);
        steps.push(step.map_err(Untranslatable::in_previous_response)?);
    }
    for (index, item) in input.into_iter().enumerate() {
        steps.push(read(item, &path.element(index), client_tools)?);
    }
    let mut assembly = Assembly::new(outputs(&mut steps));
    // Every server knows the role `system`. OpenAI's API converts it to `developer` if the model
    // requires that.
    assembly.messages.extend(instructions.map(|text| json!({"role": "system", "content": text})));
    for step in steps {
        assembly.add(step)?;
    }
    assembly.finish()
}

fn read(
    item: Value,
    path: &Path<'_>,
    client_tools: &mut ClientTools<'_>,
) -> Result<Step, Untranslatable> {
    let step = items::translate(item, path)?;
    if let Step::Dropped(kind) = &step {
        client_tools.drop_item(kind, path)?;
    }
    Ok(step)
}

/// Outputs of the client's tool calls by the identifier of the call, in order: some servers use the
/// same identifiers in every response.
type Outputs = BTreeMap<String, VecDeque<Value>>;

fn outputs(steps: &mut [Step]) -> Outputs {
    let mut outputs = Outputs::new();
    for step in steps {
        if let Step::Output { id, output } = step {
            outputs.entry(id.clone()).or_default().push_back(output.take());
        }
    }
    outputs
}

/// Messages so far.
struct Assembly {
    messages: Vec<Value>,
    turn: Turn,
    outputs: Outputs,
}

/// The assistant message that is being assembled.
#[derive(Default)]
struct Turn {
    content: Option<Value>,
    members: Object,
    reasoning: Reasoning,
    calls: Vec<Value>,
    /// Tool messages with the outputs of `calls`.
    outputs: Vec<Value>,
    /// True if a call is of a client's tool, so that its output is a later item.
    awaits_output: bool,
    /// Round of the calls; `None` if it is not known.
    round: Option<Round>,
}

impl Assembly {
    fn new(outputs: Outputs) -> Self {
        Self { messages: Vec::new(), turn: Turn::default(), outputs }
    }

    fn add(&mut self, step: Step) -> Result<(), Untranslatable> {
        match step {
            Step::Message(message) => {
                self.end_turn();
                self.messages.push(message.into());
            }
            Step::Assistant(content, members) => self.add_content(content, members),
            Step::Reasoning(reasoning) => self.add_reasoning(reasoning),
            Step::Call { id, call, output, round } => {
                self.set_round(round);
                self.add_call(&id, call, output)?;
            }
            // The output was added with its call. A call after it belongs to the next round.
            Step::Output { .. } if !self.turn.calls.is_empty() => self.end_turn(),
            Step::Output { .. } | Step::Dropped(_) | Step::Nothing => {}
        }
        Ok(())
    }

    /// Adds text of the model. Text between a client's call and its output belongs to the message
    /// of the call, because no other message may stand between the call and its output.
    fn add_content(&mut self, content: Value, members: Object) {
        let is_next = if self.turn.calls.is_empty() {
            self.turn.content.is_some()
        } else {
            !self.turn.awaits_output
        };
        if is_next {
            self.end_turn();
        }
        self.turn.members.extend(members);
        self.turn.content = Some(match self.turn.content.take() {
            Some(earlier) => content::join(earlier, content),
            None => content,
        });
    }

    fn add_reasoning(&mut self, reasoning: Reasoning) {
        let has_content = self.turn.content.is_some() || !self.turn.calls.is_empty();
        if has_content && !self.turn.awaits_output {
            self.end_turn();
        }
        self.turn.reasoning.append(reasoning);
    }

    /// Sets the round of the next call. A call of another round begins another message; one whose round
    /// is not known belongs to the message of the call before it.
    fn set_round(&mut self, round: Option<Round>) {
        let Some(round) = round else { return };
        if self.turn.round.as_ref().is_some_and(|earlier| round.differs_from(earlier)) {
            self.end_turn();
        }
        self.turn.round = Some(round);
    }

    fn add_call(
        &mut self,
        id: &str,
        call: Object,
        output: Option<Value>,
    ) -> Result<(), Untranslatable> {
        self.turn.awaits_output |= output.is_none();
        let output = match output {
            Some(output) => output,
            None => self
                .outputs
                .get_mut(id)
                .and_then(VecDeque::pop_front)
                .ok_or_else(|| unanswered(id))?,
        };
        self.turn.calls.push(call.into());
        self.turn.outputs.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
        Ok(())
    }

    /// Ends the assistant message. Reasoning without content and calls is dropped, and so is the note
    /// about an approval beside calls.
    fn end_turn(&mut self) {
        let Turn { mut content, members, reasoning, calls, outputs, .. } =
            std::mem::take(&mut self.turn);
        if content.is_none() && calls.is_empty() {
            return;
        }
        if !calls.is_empty() {
            content = content.and_then(note::without_approval);
        }
        let mut message = object(json!({"role": "assistant", "content": content}));
        message.extend(members);
        if !calls.is_empty() {
            reasoning.put_into(&mut message);
            message.insert("tool_calls".to_owned(), calls.into());
        }
        self.messages.push(message.into());
        self.messages.extend(outputs);
    }

    fn finish(mut self) -> Result<Vec<Value>, Untranslatable> {
        self.end_turn();
        match self.outputs.iter().find(|(_, outputs)| !outputs.is_empty()) {
            None => Ok(self.messages),
            Some((id, _)) => Err(unmatched(id)),
        }
    }
}

fn unanswered(id: &str) -> Untranslatable {
    no_match(format!("No tool output found for function call {}.", excerpt(id)))
}

fn unmatched(id: &str) -> Untranslatable {
    no_match(format!("No tool call found for function call output with call_id {}.", excerpt(id)))
}

/// Returns the error that OpenAI's API has for calls and outputs that do not match.
fn no_match(message: String) -> Untranslatable {
    Untranslatable { code: "invalid_value", param: "input".to_owned(), message }
}
