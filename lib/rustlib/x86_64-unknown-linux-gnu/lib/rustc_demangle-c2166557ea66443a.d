/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/rustc-demangle/c2166557ea66443a/out/rustc_demangle-c2166557ea66443a.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rustc-demangle-0.1.28/src/lib.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rustc-demangle-0.1.28/src/legacy.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rustc-demangle-0.1.28/src/v0.rs

/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/rustc-demangle/c2166557ea66443a/out/librustc_demangle-c2166557ea66443a.rlib: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rustc-demangle-0.1.28/src/lib.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rustc-demangle-0.1.28/src/legacy.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rustc-demangle-0.1.28/src/v0.rs

/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/rustc-demangle/c2166557ea66443a/out/librustc_demangle-c2166557ea66443a.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rustc-demangle-0.1.28/src/lib.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rustc-demangle-0.1.28/src/legacy.rs /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rustc-demangle-0.1.28/src/v0.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rustc-demangle-0.1.28/src/lib.rs:
/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rustc-demangle-0.1.28/src/legacy.rs:
/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rustc-demangle-0.1.28/src/v0.rs:
