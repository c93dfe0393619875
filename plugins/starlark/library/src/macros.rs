//! Macros for the parts that the values of the library share.

/// Shows values of scripts as fixed texts.
macro_rules! shown_as {
    ($($value:ty => $text:literal),+ $(,)?) => {$(
        impl ::std::fmt::Display for $value {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str($text)
            }
        }
    )+};
}

/// Allocates values that hold others. They are never frozen: the only module of a run ends with it.
macro_rules! never_frozen {
    ($($value:ident),+) => {$(
        impl<'v> ::starlark::values::AllocValue<'v> for $value<'v> {
            fn alloc_value(
                self,
                heap: ::starlark::values::Heap<'v>,
            ) -> ::starlark::values::Value<'v> {
                heap.alloc_complex_no_freeze(self)
            }
        }
    )+};
}

pub(crate) use never_frozen;
pub(crate) use shown_as;
