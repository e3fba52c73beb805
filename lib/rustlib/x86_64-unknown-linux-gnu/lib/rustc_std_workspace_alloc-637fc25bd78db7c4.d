/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/rustc-std-workspace-alloc/637fc25bd78db7c4/out/rustc_std_workspace_alloc-637fc25bd78db7c4.d: /root/.rustup/toolchains/nightly-x86_64-unknown-linux-gnu/lib/rustlib/src/rust/library/rustc-std-workspace-alloc/lib.rs

/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/rustc-std-workspace-alloc/637fc25bd78db7c4/out/librustc_std_workspace_alloc-637fc25bd78db7c4.rlib: /root/.rustup/toolchains/nightly-x86_64-unknown-linux-gnu/lib/rustlib/src/rust/library/rustc-std-workspace-alloc/lib.rs

/tmp/rustc-build-sysroot-sdTNf3/target/x86_64-unknown-linux-gnu/custom_sysroot/build/rustc-std-workspace-alloc/637fc25bd78db7c4/out/librustc_std_workspace_alloc-637fc25bd78db7c4.rmeta: /root/.rustup/toolchains/nightly-x86_64-unknown-linux-gnu/lib/rustlib/src/rust/library/rustc-std-workspace-alloc/lib.rs

/root/.rustup/toolchains/nightly-x86_64-unknown-linux-gnu/lib/rustlib/src/rust/library/rustc-std-workspace-alloc/lib.rs:
