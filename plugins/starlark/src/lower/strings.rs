//! Texts, and texts with expressions in them.

use std::fmt::Write as _;

use ruff_python_ast::{
    ConversionFlag, ExprFString, FStringPart, InterpolatedElement, InterpolatedStringElement,
    InterpolatedStringElements,
};
use ruff_text_size::Ranged;

use super::{Lowering, OWN};

impl<'a> Lowering<'a> {
    /// Writes a string literal.
    pub(super) fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.push("\\\""),
                '\\' => self.push("\\\\"),
                '\n' => self.push("\\n"),
                '\r' => self.push("\\r"),
                '\t' => self.push("\\t"),
                c if c.is_control() => {
                    write!(self.out, "\\u{:04x}", u32::from(c)).expect("a String takes text");
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    /// Writes an f-string as a call with its parts.
    pub(super) fn f_string(&mut self, it: &'a ExprFString) {
        self.push(&format!("{OWN}cat("));
        let mut first = true;
        for part in &it.value {
            match part {
                FStringPart::Literal(text) => {
                    self.comma(&mut first);
                    self.string(text);
                }
                FStringPart::FString(it) => self.elements(&it.elements, &mut first),
            }
        }
        self.push(")");
    }

    fn comma(&mut self, first: &mut bool) {
        if !std::mem::take(first) {
            self.push(", ");
        }
    }

    fn elements(&mut self, elements: &'a InterpolatedStringElements, first: &mut bool) {
        for element in elements {
            match element {
                InterpolatedStringElement::Literal(it) => {
                    self.comma(first);
                    self.string(&it.value);
                }
                InterpolatedStringElement::Interpolation(it) => self.interpolation(it, first),
            }
        }
    }

    fn interpolation(&mut self, it: &'a InterpolatedElement, first: &mut bool) {
        if let Some(debug) = &it.debug_text {
            self.comma(first);
            let text =
                format!("{}{}{}", debug.leading(), self.text_of(&*it.expression), debug.trailing());
            self.string(&text);
        }
        self.comma(first);
        let from = self.out.len();
        let repr = it.debug_text.is_some() && it.format_spec.is_none();
        let convert = match it.conversion {
            ConversionFlag::Repr => Some("repr"),
            ConversionFlag::Ascii => Some("ascii"),
            ConversionFlag::None if repr => Some("repr"),
            // What is formatted is the text, not the value.
            ConversionFlag::Str if it.format_spec.is_some() => Some("cat"),
            ConversionFlag::None | ConversionFlag::Str => None,
        };
        if it.format_spec.is_some() {
            self.push(&format!("{OWN}format("));
        }
        if let Some(convert) = convert {
            self.push(&format!("{OWN}{convert}("));
        }
        self.expression(&it.expression);
        if convert.is_some() {
            self.push(")");
        }
        if let Some(spec) = &it.format_spec {
            self.push(&format!(", {OWN}cat("));
            self.elements(&spec.elements, &mut true);
            self.push("))");
        }
        self.map.add(from..self.out.len(), it.expression.range());
    }
}
