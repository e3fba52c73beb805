//! The target that `HEMIOLA_FUZZ_TARGET` names, under libFuzzer. Default: `frame`.
#![no_main]

use hemiola_fuzz::{PreparedTarget, targets};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static TARGET: PreparedTarget = {
        let name = std::env::var("HEMIOLA_FUZZ_TARGET").unwrap_or_else(|_| "frame".to_owned());
        targets::find(&name).and_then(|target| target.prepare()).expect("the target is known")
    };
}

fuzz_target!(|input: &[u8]| {
    TARGET.with(|target| {
        let _accepted = target.accepts(input);
    });
});
