//! Enums of the file that have the variants of an enum of the settings.

/// An enum of the file with the variants of one of the settings.
pub(super) trait SameVariants<S> {
    /// Returns the same variant of the settings.
    fn same(self) -> S;
}

/// Converts an enum of the file into one of the settings with the same variants. Only the first has
/// the texts of the schema, and only the second is known to the module that acts on it.
macro_rules! same_variants {
    ($file:ty => $settings:ty { $($variant:ident),+ }) => {
        impl $crate::resolve::same_variants::SameVariants<$settings> for $file {
            fn same(self) -> $settings {
                match self {
                    $(<$file>::$variant => <$settings>::$variant,)+
                }
            }
        }
    };
}

pub(super) use same_variants;
