//! The function under `#[tool]`: its parameters, its return type and its doc comment.

use proc_macro2::Ident;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, ItemFn, Lit, Meta, Pat, PatIdent, PatType, ReturnType,
    Type, TypeReference, parse_quote,
};

use crate::field;

pub(super) struct Signature {
    /// One expression per line of the doc comment.
    pub(super) docs: Vec<Expr>,
    pub(super) inputs: Vec<Input>,
    pub(super) answer: ReturnForm,
}

/// One parameter.
pub(super) enum Input {
    Argument(Box<Argument>),
    Context,
}

pub(super) struct Argument {
    /// Doc comments, `#[serde(…)]` and `#[schemars(…)]`.
    pub(super) attrs: Vec<Attribute>,
    /// `#[arg(…)]`.
    pub(super) options: field::Options,
    pub(super) ident: Ident,
    pub(super) ty: Type,
}

pub(super) enum ReturnForm {
    /// A type that converts to an output.
    Value(Type),
    /// A type named `Result`, of any crate.
    Result(Type),
}

impl Signature {
    pub(super) fn arguments(&self) -> impl Iterator<Item = &Argument> {
        self.inputs.iter().filter_map(|input| match input {
            Input::Argument(argument) => Some(&**argument),
            Input::Context => None,
        })
    }
}

/// Parses the function, and removes from its parameters the attributes that the compiler would
/// refuse there.
pub(super) fn parse(function: &mut ItemFn) -> syn::Result<Signature> {
    let mut errors = Vec::new();
    check_modifiers(function, &mut errors);
    let docs = docs(&function.attrs);
    if docs.iter().all(is_blank) {
        errors.push(Error::new_spanned(
            &function.sig.ident,
            "a tool needs a doc comment: it is the description that the model reads",
        ));
    }
    let mut inputs = Vec::new();
    for input in &mut function.sig.inputs {
        match parse_input(input) {
            Ok(Input::Context) if inputs.iter().any(|input| matches!(input, Input::Context)) => {
                errors.push(Error::new_spanned(input, "the context is already a parameter"));
            }
            Ok(input) => inputs.push(input),
            Err(error) => errors.push(error),
        }
    }
    let answer = parse_answer(&function.sig.output);
    let all = errors.into_iter().reduce(|mut all, error| {
        all.combine(error);
        all
    });
    match all {
        Some(error) => Err(error),
        None => Ok(Signature { docs, inputs, answer }),
    }
}

fn check_modifiers(function: &ItemFn, errors: &mut Vec<Error>) {
    let sig = &function.sig;
    if let Some(token) = &sig.asyncness {
        errors.push(Error::new_spanned(
            token,
            "a tool is not `async`: each call has an instance of its own, and may block",
        ));
    }
    if !matches!(sig.safety, syn::Safety::Default) {
        errors.push(Error::new_spanned(&sig.safety, "a tool is a safe function"));
    }
    if let Some(abi) = &sig.abi {
        errors.push(Error::new_spanned(abi, "a tool is a plain Rust function"));
    }
    if let Some(variadic) = &sig.variadic {
        errors.push(Error::new_spanned(variadic, "a tool has a fixed number of parameters"));
    }
    if !sig.generics.params.is_empty() {
        let params = &sig.generics.params;
        errors.push(Error::new_spanned(
            params,
            "a tool is not generic: its schema is that of one type",
        ));
    } else if let Some(clause) = &sig.generics.where_clause {
        errors.push(Error::new_spanned(
            clause,
            "a tool is not generic: its schema is that of one type",
        ));
    }
}

fn parse_input(input: &mut FnArg) -> syn::Result<Input> {
    let parameter = match input {
        FnArg::Typed(parameter) => parameter,
        FnArg::Receiver(receiver) => {
            return Err(Error::new_spanned(receiver, "a tool is a free function, without `self`"));
        }
    };
    let options = field::take(&mut parameter.attrs, "arg", &parameter.ty)?;
    let attrs = take_attrs(parameter)?;
    if is_context(&parameter.ty)? {
        return Ok(Input::Context);
    }
    let Pat::Ident(PatIdent { by_ref: None, ident, subpat: None, .. }) = &*parameter.pat else {
        return Err(Error::new_spanned(
            &parameter.pat,
            "a parameter is a name, which the argument gets; take the value apart in the body",
        ));
    };
    check_type(&parameter.ty)?;
    let ty = (*parameter.ty).clone();
    let ident = ident.clone();
    Ok(Input::Argument(Box::new(Argument { attrs, options, ident, ty })))
}

fn take_attrs(parameter: &mut PatType) -> syn::Result<Vec<Attribute>> {
    let attrs = std::mem::take(&mut parameter.attrs);
    let unknown = attrs
        .iter()
        .find(|attr| !["doc", "serde", "schemars"].iter().any(|name| attr.path().is_ident(name)));
    match unknown {
        Some(attr) => Err(Error::new_spanned(
            attr,
            "a parameter takes doc comments, `#[arg(…)]`, `#[serde(…)]` and `#[schemars(…)]` only",
        )),
        None => Ok(attrs),
    }
}

fn is_context(ty: &Type) -> syn::Result<bool> {
    const BY_REFERENCE: &str = "the context is borrowed: take it as `&Context`";
    match ty {
        Type::Reference(TypeReference { mutability, elem, .. }) if ends_in(elem, "Context") => {
            match mutability {
                Some(_) => Err(Error::new_spanned(ty, BY_REFERENCE)),
                None => Ok(true),
            }
        }
        _ if ends_in(ty, "Context") => Err(Error::new_spanned(ty, BY_REFERENCE)),
        _ => Ok(false),
    }
}

fn check_type(ty: &Type) -> syn::Result<()> {
    let message = match ty {
        Type::Reference(_) | Type::Ptr(_) | Type::Slice(_) => {
            "an argument is owned: take `String` for a text, `Vec<T>` for a list"
        }
        Type::ImplTrait(_) | Type::TraitObject(_) => {
            "an argument has one type: its schema is made from it"
        }
        Type::FnPtr(_) | Type::Never(_) | Type::Infer(_) => {
            "an argument is a type that JSON can hold"
        }
        _ => return Ok(()),
    };
    Err(Error::new_spanned(ty, message))
}

fn parse_answer(output: &ReturnType) -> ReturnForm {
    match output {
        ReturnType::Default => ReturnForm::Value(parse_quote!(())),
        ReturnType::Type(_, ty) if ends_in(ty, "Result") => ReturnForm::Result((**ty).clone()),
        ReturnType::Type(_, ty) => ReturnForm::Value((**ty).clone()),
    }
}

fn ends_in(ty: &Type, name: &str) -> bool {
    match ty {
        Type::Path(path) => path.path.segments.last().is_some_and(|segment| segment.ident == name),
        Type::Group(group) => ends_in(&group.elem, name),
        Type::Paren(paren) => ends_in(&paren.elem, name),
        _ => false,
    }
}

fn docs(attrs: &[Attribute]) -> Vec<Expr> {
    let lines = attrs.iter().filter(|attr| attr.path().is_ident("doc"));
    lines
        .filter_map(|attr| match &attr.meta {
            Meta::NameValue(doc) => Some(doc.value.clone()),
            Meta::Path(_) | Meta::List(_) => None, // `#[doc(hidden)]`
        })
        .collect()
}

/// Returns whether a doc line is empty. A line from a macro, such as `include_str!`, counts as not
/// empty.
fn is_blank(line: &Expr) -> bool {
    match line {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => text.value().trim().is_empty(),
        _ => false,
    }
}
