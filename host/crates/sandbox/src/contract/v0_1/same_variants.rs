//! Conversions between enums that have the same variants.

/// Converts an enum of the contract into one of the host with the same variants (`=>`), or each into the other (`=`).
macro_rules! same_variants {
    ($from:ty => $to:ty { $($variant:ident)+ }) => {
        impl From<$from> for $to {
            fn from(from: $from) -> Self {
                match from {
                    $(<$from>::$variant => <$to>::$variant,)+
                }
            }
        }
    };
    ($one:ty = $other:ty { $($variant:ident)+ }) => {
        same_variants!($one => $other { $($variant)+ });
        same_variants!($other => $one { $($variant)+ });
    };
}
