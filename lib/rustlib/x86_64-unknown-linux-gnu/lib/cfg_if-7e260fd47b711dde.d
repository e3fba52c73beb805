/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/cfg-if/7e260fd47b711dde/out/cfg_if-7e260fd47b711dde.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/cfg-if-1.0.4/src/lib.rs

/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/cfg-if/7e260fd47b711dde/out/libcfg_if-7e260fd47b711dde.rlib: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/cfg-if-1.0.4/src/lib.rs

/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/cfg-if/7e260fd47b711dde/out/libcfg_if-7e260fd47b711dde.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/cfg-if-1.0.4/src/lib.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/cfg-if-1.0.4/src/lib.rs:
