//! English stop words.
//!
//! The list is our own and short: articles, pronouns, prepositions, conjunctions, auxiliary verbs
//! and their contractions. Words that are frequent in one collection only (`said` in news) are
//! better dropped by `--max-df`.

use std::collections::BTreeSet;

const ENGLISH: &str = "
a an the
i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its itself we us our ours ourselves
they them their theirs themselves one ones
this that these those there here who whom whose which what when where why how
and or but nor so yet if then else than because although though while whereas unless until since as whether
of at by for with without about against between among into through during before after above below over under to from up down in out on off
onto upon toward towards across along around behind beside besides beyond within via per again further once
am is are was were be been being do does did done doing have has had having will would shall should can could may might must ought
not no none any all some each every both few more most much many other others another such own same only just also too very quite rather
even ever never always often still already however therefore thus hence instead perhaps maybe
get gets got let lets
aren't can't cannot couldn't didn't doesn't don't hadn't hasn't haven't isn't mightn't mustn't needn't shan't shouldn't wasn't weren't won't wouldn't
i'm i've i'll i'd you're you've you'll you'd he's he'll he'd she's she'll she'd it's it'll it'd we're we've we'll we'd they're they've they'll they'd
that's that'll there's here's what's who's where's when's how's let's
";

/// Returns the stop words of English.
pub(super) fn english() -> BTreeSet<String> {
    ENGLISH.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_holds_each_word_once_in_lower_case() {
        let list = english();
        assert_eq!(list.len(), ENGLISH.split_whitespace().count());
        assert!(list.iter().all(|word| *word == word.to_lowercase()));
        assert!(list.contains("the") && list.contains("don't") && !list.contains("ship"));
    }
}
