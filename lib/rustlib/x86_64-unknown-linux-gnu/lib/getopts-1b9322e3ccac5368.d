/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/getopts/1b9322e3ccac5368/out/getopts-1b9322e3ccac5368.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/getopts-0.2.24/src/lib.rs

/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/getopts/1b9322e3ccac5368/out/libgetopts-1b9322e3ccac5368.rlib: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/getopts-0.2.24/src/lib.rs

/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/getopts/1b9322e3ccac5368/out/libgetopts-1b9322e3ccac5368.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/getopts-0.2.24/src/lib.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/getopts-0.2.24/src/lib.rs:
