//! Conversions between enums that have the same variants.

/// Converts between an enum of this crate and one of the contract, which have the same variants.
macro_rules! same_variants {
    ($own:ty = $wit:ty { $($variant:ident)+ }) => {
        impl From<$own> for $wit {
            fn from(own: $own) -> Self {
                match own {
                    $(<$own>::$variant => Self::$variant,)+
                }
            }
        }

        impl From<$wit> for $own {
            fn from(wit: $wit) -> Self {
                match wit {
                    $(<$wit>::$variant => Self::$variant,)+
                }
            }
        }
    };
}
