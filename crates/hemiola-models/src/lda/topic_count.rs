//! Packed topic and count: 32 bits where both take 16, 64 bits otherwise.

use std::fmt;

/// Topic with its count, packed into one integer.
pub(super) trait TopicCount: Copy + Default + Send + Sync + fmt::Debug + PartialEq + 'static {
    /// Storage type of the topics of tokens.
    type Topic: Copy + Default + Send + Sync + fmt::Debug + PartialEq + 'static;

    fn new(topic: usize, count: u32) -> Self;
    fn topic(self) -> usize;
    fn count(self) -> u32;
    /// Returns the entry with its count incremented.
    fn more(self) -> Self;
    /// Returns the entry with its count decremented.
    fn less(self) -> Self;
    fn kept(topic: usize) -> Self::Topic;
    fn of(topic: Self::Topic) -> usize;
}

impl TopicCount for u32 {
    type Topic = u16;

    #[inline(always)]
    fn new(topic: usize, count: u32) -> Self {
        debug_assert!(topic <= 0xffff && count <= 0xffff);
        (topic as Self) << 16 | count
    }
    #[inline(always)]
    fn topic(self) -> usize {
        (self >> 16) as usize
    }
    #[inline(always)]
    fn count(self) -> u32 {
        self & 0xffff
    }
    #[inline(always)]
    fn more(self) -> Self {
        debug_assert!(self.count() < 0xffff);
        self + 1
    }
    #[inline(always)]
    fn less(self) -> Self {
        debug_assert!(self.count() > 0);
        self - 1
    }
    #[inline(always)]
    fn kept(topic: usize) -> u16 {
        topic as u16
    }
    #[inline(always)]
    fn of(topic: u16) -> usize {
        topic as usize
    }
}

impl TopicCount for u64 {
    type Topic = u32;

    #[inline(always)]
    fn new(topic: usize, count: u32) -> Self {
        (topic as Self) << 32 | Self::from(count)
    }
    #[inline(always)]
    fn topic(self) -> usize {
        (self >> 32) as usize
    }
    #[inline(always)]
    fn count(self) -> u32 {
        self as u32
    }
    #[inline(always)]
    fn more(self) -> Self {
        debug_assert!(self.count() < u32::MAX);
        self + 1
    }
    #[inline(always)]
    fn less(self) -> Self {
        debug_assert!(self.count() > 0);
        self - 1
    }
    #[inline(always)]
    fn kept(topic: usize) -> u32 {
        topic as u32
    }
    #[inline(always)]
    fn of(topic: u32) -> usize {
        topic as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_and_count_round_trip() {
        let narrow = <u32 as TopicCount>::new(65_535, 65_534).more();
        assert_eq!((narrow.topic(), TopicCount::count(narrow)), (65_535, 65_535));
        let wide = <u64 as TopicCount>::new(70_000, 1_000_000).less();
        assert_eq!((wide.topic(), TopicCount::count(wide)), (70_000, 999_999));
    }
}
