//! The syntax of a script: its tree, its tokens and its names.
//!
//! Changes are decided on these, never on the text. The text only says where lines end, because a
//! change keeps every line where it is.

use std::borrow::Cow;
use std::collections::HashSet;

use monty_types::CodeLoc;
use ruff_python_ast::token::{Token, TokenKind, Tokens};
use ruff_python_ast::{Expr, ModModule, Stmt};
use ruff_python_parser::Parsed;
use ruff_text_size::{Ranged, TextRange};

use super::names::Names;
use super::source::Edit;

/// A script that parses.
pub(super) struct Syntax<'a> {
    source: &'a str,
    pub(super) body: &'a [Stmt],
    tokens: &'a Tokens,
    pub(super) names: Names<'a>,
}

impl<'a> Syntax<'a> {
    /// Reads a script that has the names `given` before its first statement.
    pub(super) fn new(
        source: &'a str,
        parsed: &'a Parsed<ModModule>,
        given: HashSet<&'a str>,
    ) -> Self {
        let body = &parsed.syntax().body;
        Self { source, body, tokens: parsed.tokens(), names: Names::new(body, given) }
    }

    /// Returns the text of a node.
    pub(super) fn text(&self, node: &impl Ranged) -> &'a str {
        &self.source[node.range().to_std_range()]
    }

    /// Returns the text of a node; `None` if it is on several lines.
    pub(super) fn line(&self, node: &impl Ranged) -> Option<&'a str> {
        Some(self.text(node)).filter(|text| !text.contains('\n'))
    }

    /// Returns the line breaks in a range, for what stands in its place.
    pub(super) fn breaks(&self, range: TextRange) -> String {
        "\n".repeat(self.text(&range).matches('\n').count())
    }

    /// Returns the place of a node as the reader of a script counts.
    pub(super) fn place(&self, node: &impl Ranged) -> CodeLoc {
        let before = &self.source[..node.start().to_usize()];
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
        CodeLoc::new(
            u32::try_from(line).unwrap_or(u32::MAX - 1),
            u32::try_from(column).unwrap_or(u32::MAX - 1),
        )
    }

    /// Iterates over the tokens in a range, without comments and line breaks in brackets, and without
    /// those of no text at its end.
    pub(super) fn tokens(&self, range: TextRange) -> impl Iterator<Item = &'a Token> {
        let first = self.tokens.partition_point(|token| token.start() < range.start());
        let tokens = self.tokens[first..].iter();
        tokens
            .take_while(move |token| token.start() < range.end() && token.end() <= range.end())
            .filter(|token| !token.kind().is_trivia())
    }

    /// Returns the place of the first token of a kind in a range.
    pub(super) fn token(&self, kind: TokenKind, range: TextRange) -> Option<TextRange> {
        self.tokens(range).find(|token| token.kind() == kind).map(Ranged::range)
    }

    /// Returns whether the script has a token of a kind.
    pub(super) fn has(&self, kind: TokenKind) -> bool {
        self.tokens.iter().any(|token| token.kind() == kind)
    }

    /// Returns whether the script has a name anywhere: of a variable, an attribute, a module.
    pub(super) fn mentions(&self, name: &str) -> bool {
        let mut names = self.tokens.iter().filter(|token| token.kind() == TokenKind::Name);
        names.any(|token| token.range().len().to_usize() == name.len() && self.text(token) == name)
    }

    /// Returns the change that replaces a node; `None` if it is on several lines: those after it would
    /// move.
    pub(super) fn replace(
        &self,
        node: &impl Ranged,
        with: impl Into<Cow<'static, str>>,
    ) -> Option<Edit> {
        self.line(node).map(|_| Edit::replace(node.range(), with))
    }

    /// Returns the changes that replace an operator by a call: `a | b` becomes `open a , b)`.
    pub(super) fn operator(
        &self,
        whole: &impl Ranged,
        [left, right]: [&Expr; 2],
        operator: TokenKind,
        open: &'static str,
    ) -> Option<[Edit; 3]> {
        let operator = self.token(operator, between(left, right))?;
        let [open, close] = Edit::wrap(whole, open);
        Some([open, Edit::replace(operator, ","), close])
    }
}

/// Returns whether an expression is one of these names.
pub(super) fn is_name(expression: &Expr, names: &[&str]) -> bool {
    matches!(expression, Expr::Name(name) if names.contains(&name.id.as_str()))
}

/// Returns the range between two nodes, of which the first ends before the second.
pub(super) fn between(left: &impl Ranged, right: &impl Ranged) -> TextRange {
    TextRange::new(left.end(), right.start())
}
