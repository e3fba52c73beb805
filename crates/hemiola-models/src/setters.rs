//! Setter methods of the settings builders.

/// Defines one builder method per setting; each stores its argument in `self.settings`.
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
