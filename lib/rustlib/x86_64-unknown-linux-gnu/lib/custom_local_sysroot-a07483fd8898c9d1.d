/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/custom-local-sysroot/a07483fd8898c9d1/out/custom_local_sysroot-a07483fd8898c9d1.d: lib.rs

/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/custom-local-sysroot/a07483fd8898c9d1/out/libcustom_local_sysroot-a07483fd8898c9d1.rlib: lib.rs

/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/custom-local-sysroot/a07483fd8898c9d1/out/libcustom_local_sysroot-a07483fd8898c9d1.rmeta: lib.rs

lib.rs:
