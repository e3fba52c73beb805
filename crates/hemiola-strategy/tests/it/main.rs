//! Strategies as a user meets them: made, saved, edited, refused, compared and explained.

mod files;
mod refusals;
