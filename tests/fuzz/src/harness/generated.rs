//! Chunks that are made from an input: valid JSON in the shape of the API, with values of other types
//! in every place. Mutated text seldom has two deltas of the same call; this has little else.

use serde_json::{Value, json};

use super::Object;

/// Deepest nesting of an arbitrary value.
const DEPTH: usize = 3;

/// Makes values of the bytes of an input. Without bytes, every value is the plainest.
pub(super) struct Generator<'a>(std::slice::Iter<'a, u8>);

impl<'a> Generator<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Self(input.iter())
    }

    /// Makes the next chunk; `None` after the last byte.
    pub(super) fn chunk(&mut self) -> Option<Value> {
        if self.0.len() == 0 {
            return None;
        }
        if self.pick(32) == 1 {
            return Some(Value::Object(self.object(0)));
        }
        let mut chunk = Object::new();
        let choices = self.list(Self::choice);
        self.member(&mut chunk, "choices", 15, |_| choices);
        self.member(&mut chunk, "id", 2, |_| json!("chunk"));
        self.member(&mut chunk, "usage", 2, |this| this.value(0));
        self.member(&mut chunk, "x", 1, |this| this.value(0));
        Some(chunk.into())
    }

    fn choice(&mut self) -> Value {
        let mut choice = Object::new();
        self.member(&mut choice, "index", 12, |this| this.one_of(&[json!(0), json!(1), json!(7)]));
        self.member(&mut choice, "delta", 14, Self::delta);
        self.member(&mut choice, "message", 1, Self::delta);
        self.member(&mut choice, "finish_reason", 2, |this| {
            this.one_of(&["stop".into(), "".into()])
        });
        self.member(&mut choice, "logprobs", 1, |this| json!({"content": this.value(0)}));
        choice.into()
    }

    fn delta(&mut self) -> Value {
        let mut delta = Object::new();
        self.member(&mut delta, "tool_calls", 11, |this| this.list(Self::call));
        self.member(&mut delta, "role", 2, |_| json!("assistant"));
        self.member(&mut delta, "content", 5, Self::content);
        self.member(&mut delta, "reasoning_content", 2, |_| json!("r"));
        self.member(&mut delta, "x", 1, |this| this.value(0));
        delta.into()
    }

    fn content(&mut self) -> Value {
        match self.pick(4) {
            0 | 1 => self.one_of(&["a".into(), "".into(), "é\"\\\n".into()]),
            _ => self.list(|this| {
                let kind = this.one_of(&["text".into(), "thinking".into(), "image_url".into()]);
                let mut part = Object::from_iter([("type".to_owned(), kind)]);
                this.member(&mut part, "text", 8, |_| json!("p"));
                this.member(&mut part, "thinking", 4, |this| {
                    this.list(|_| json!({"type": "text", "text": "t"}))
                });
                part.into()
            }),
        }
    }

    fn call(&mut self) -> Value {
        let mut call = Object::new();
        let indices = [json!(0), json!(1), json!(2), json!(9), json!(u64::MAX)];
        self.member(&mut call, "index", 11, |this| this.one_of(&indices));
        let long = "a".repeat(300).into();
        let ids = ["a".into(), "b".into(), "call_1".into(), "".into(), long];
        self.member(&mut call, "id", 7, |this| this.one_of(&ids));
        self.member(&mut call, "type", 4, |this| {
            this.one_of(&["function".into(), "custom".into()])
        });
        self.member(&mut call, "function", 13, Self::function);
        self.member(&mut call, "custom", 1, Self::function);
        call.into()
    }

    fn function(&mut self) -> Value {
        let mut function = Object::new();
        self.member(&mut function, "name", 7, |this| {
            this.one_of(&["f".into(), "g".into(), "".into()])
        });
        self.member(&mut function, "arguments", 12, |this| {
            this.one_of(&["{".into(), "}".into(), "".into(), json!({"a": "\""})])
        });
        function.into()
    }

    /// Adds a member in `sixteenths` of all cases, with a value of another type in some of them.
    fn member(
        &mut self,
        object: &mut Object,
        name: &str,
        sixteenths: usize,
        make: impl FnOnce(&mut Self) -> Value,
    ) {
        let picked = self.pick(256);
        if picked % 16 < sixteenths {
            let value = if picked >= 240 { self.value(0) } else { make(self) };
            object.insert(name.to_owned(), value);
        }
    }

    fn list(&mut self, mut make: impl FnMut(&mut Self) -> Value) -> Value {
        let length = [1, 1, 2, 3, 1, 0, 2, 5][self.pick(8)];
        (0..length).map(|_| if self.pick(64) == 1 { self.value(0) } else { make(self) }).collect()
    }

    fn value(&mut self, depth: usize) -> Value {
        let scalars = [json!(null), json!(0), json!(true), json!(1e9), json!(""), json!("x")];
        match self.pick(if depth < DEPTH { 10 } else { 6 }) {
            6 => json!([]),
            7 => (0..self.pick(6)).map(|_| self.value(depth + 1)).collect(),
            8 | 9 => self.object(depth + 1).into(),
            scalar => scalars[scalar].clone(),
        }
    }

    fn object(&mut self, depth: usize) -> Object {
        let names = ["a", "b", "content", "type", "name", "id", "tool_calls", "text", "index"];
        let members = (0..self.pick(9)).map(|_| {
            let name = names[self.pick(names.len())].to_owned();
            (name, self.value(depth + 1))
        });
        members.collect()
    }

    fn one_of(&mut self, values: &[Value]) -> Value {
        values[self.pick(values.len())].clone()
    }

    /// Returns a number below `count`, from the next byte.
    fn pick(&mut self, count: usize) -> usize {
        self.0.next().map_or(0, |byte| usize::from(*byte) % count)
    }
}
