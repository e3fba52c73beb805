/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/rustc-literal-escaper/bd14899cfe9ad9a4/out/rustc_literal_escaper-bd14899cfe9ad9a4.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rustc-literal-escaper-0.0.8/src/lib.rs

/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/rustc-literal-escaper/bd14899cfe9ad9a4/out/librustc_literal_escaper-bd14899cfe9ad9a4.rlib: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rustc-literal-escaper-0.0.8/src/lib.rs

/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/rustc-literal-escaper/bd14899cfe9ad9a4/out/librustc_literal_escaper-bd14899cfe9ad9a4.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rustc-literal-escaper-0.0.8/src/lib.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rustc-literal-escaper-0.0.8/src/lib.rs:
