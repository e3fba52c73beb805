//! The methods of builders.

/// Methods of a builder that keep one of its settings each.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, $name: $type) -> Self {
            self.settings.$name = $name;
            self
        }
    )*};
}

pub(crate) use setters;
