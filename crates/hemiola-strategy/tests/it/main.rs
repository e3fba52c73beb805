//! Strategies from a user's point of view: built, saved, edited, rejected, compared and explained.

mod files;
mod refusals;
