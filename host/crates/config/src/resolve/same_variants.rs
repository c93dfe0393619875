//! Enums of the file that have the variants of an enum of the settings.

/// Converts an enum of the file into one of the settings with the same variants. Only the first has
/// the texts of the schema, and only the second is known to the module that acts on it.
macro_rules! same_variants {
    ($file:ty => $settings:ty { $($variant:ident),+ }) => {
        impl From<$file> for $settings {
            fn from(value: $file) -> Self {
                match value {
                    $(<$file>::$variant => Self::$variant,)+
                }
            }
        }
    };
}

pub(super) use same_variants;
