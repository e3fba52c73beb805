/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/panic_unwind/2cf87e5162197a38/out/panic_unwind-2cf87e5162197a38.d: /root/.rustup/toolchains/nightly-x86_64-unknown-linux-gnu/lib/rustlib/src/rust/library/panic_unwind/src/lib.rs /root/.rustup/toolchains/nightly-x86_64-unknown-linux-gnu/lib/rustlib/src/rust/library/panic_unwind/src/gcc.rs

/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/panic_unwind/2cf87e5162197a38/out/libpanic_unwind-2cf87e5162197a38.rlib: /root/.rustup/toolchains/nightly-x86_64-unknown-linux-gnu/lib/rustlib/src/rust/library/panic_unwind/src/lib.rs /root/.rustup/toolchains/nightly-x86_64-unknown-linux-gnu/lib/rustlib/src/rust/library/panic_unwind/src/gcc.rs

/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/panic_unwind/2cf87e5162197a38/out/libpanic_unwind-2cf87e5162197a38.rmeta: /root/.rustup/toolchains/nightly-x86_64-unknown-linux-gnu/lib/rustlib/src/rust/library/panic_unwind/src/lib.rs /root/.rustup/toolchains/nightly-x86_64-unknown-linux-gnu/lib/rustlib/src/rust/library/panic_unwind/src/gcc.rs

/root/.rustup/toolchains/nightly-x86_64-unknown-linux-gnu/lib/rustlib/src/rust/library/panic_unwind/src/lib.rs:
/root/.rustup/toolchains/nightly-x86_64-unknown-linux-gnu/lib/rustlib/src/rust/library/panic_unwind/src/gcc.rs:
