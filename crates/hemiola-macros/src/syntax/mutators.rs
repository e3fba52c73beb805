//! Methods known to change their receiver.
//!
//! `w[u].push(x)` writes and `w[u].len()` reads, but a macro sees no signatures: it knows methods
//! by name. A method that is missing here counts as reading, and the expansion passes it a shared
//! reference. If it does change its receiver, the compiler rejects the loop and the user writes
//! `(&mut w[u]).method()`. A gap in this list costs the user two words, never a race. For that
//! reason names with both meanings (`str::replace`, `OnceLock::set`) are left out.

/// Sorted for binary search.
const MUTATORS: &[&str] = &[
    "add", // of accumulators
    "add_assign",
    "append",
    "as_mut",
    "as_mut_slice",
    "borrow_mut",
    "chunk_by_mut",
    "chunks_exact_mut",
    "chunks_mut",
    "clear",
    "clone_from",
    "clone_from_slice",
    "copy_from_slice",
    "copy_within",
    "dedup",
    "dedup_by",
    "dedup_by_key",
    "deref_mut",
    "div_assign",
    "drain",
    "entry",
    "extend",
    "extend_from_slice",
    "extend_from_within",
    "fill",
    "fill_with",
    "first_mut",
    "get_mut",
    "get_or_insert",
    "get_or_insert_with",
    "insert",
    "insert_str",
    "iter_mut",
    "last_mut",
    "mul_assign",
    "next",
    "next_back",
    "peek_mut",
    "pop",
    "pop_back",
    "pop_first",
    "pop_front",
    "pop_last",
    "push",
    "push_back",
    "push_front",
    "push_str",
    "rchunks_mut",
    "rem_assign",
    "remove",
    "resize",
    "resize_with",
    "retain",
    "retain_mut",
    "reverse",
    "rotate_left",
    "rotate_right",
    "select_nth_unstable",
    "select_nth_unstable_by",
    "select_nth_unstable_by_key",
    "sort",
    "sort_by",
    "sort_by_cached_key",
    "sort_by_key",
    "sort_unstable",
    "sort_unstable_by",
    "sort_unstable_by_key",
    "split_at_mut",
    "split_first_mut",
    "split_last_mut",
    "split_off",
    "sub_assign",
    "swap",
    "swap_remove",
    "swap_with_slice",
    "take",
    "truncate",
    "values_mut",
];

/// Returns whether a method of this name changes its receiver.
pub(crate) fn changes_its_receiver(method: &str) -> bool {
    MUTATORS.binary_search(&method).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_can_be_searched() {
        assert!(MUTATORS.is_sorted());
        assert!(MUTATORS.iter().all(|method| changes_its_receiver(method)));
        assert!(!changes_its_receiver("len"));
    }
}
