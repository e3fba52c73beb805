#!/usr/bin/env bash
# Compares matrix factorization: hemiola and LIBMF, in turn, on synthetic ratings and (with HEMIOLA_DATA) on
# MovieLens-1M; hemiola and implicit on MovieLens-1M as events. Prints tables; --write puts them into
# benchmarks/results.
set -euo pipefail
cd "$(dirname "$0")/.."
libmf_version=${LIBMF_VERSION:-0.9.2}
implicit_version=${IMPLICIT_VERSION:-0.7.3}

venv=target/benchmarks/mf
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet numpy zstandard "implicit==$implicit_version"
# The published package has no vector instructions. Its source supports them, so it is built with them here.
if [ ! -f "$venv/libmf.so" ]; then
    source=$(mktemp -d)
    "$venv/bin/pip" install --quiet setuptools wheel
    "$venv/bin/pip" download --quiet --no-deps --no-build-isolation --no-binary libmf "libmf==$libmf_version" --dest "$source"
    tar -xf "$source"/libmf-*.tar.gz -C "$source"
    g++ -O3 -march=native -ffast-math -std=c++11 -pthread -shared -fPIC -DUSEAVX \
        "$source"/libmf-*/src_cpp/libmf_interface.cpp "$source"/libmf-*/src_cpp/mf.cpp -o "$venv/libmf.so"
    cp -r "$source"/libmf-*/libmf "$venv"/lib/python*/site-packages/
    rm -rf "$source"
fi
cargo build --quiet --release --bin hemiola
export LIBMF_OBJ=$PWD/$venv/libmf.so LIBMF_VERSION=$libmf_version IMPLICIT_VERSION=$implicit_version
exec "$venv/bin/python" -W ignore benchmarks/mf.py "$@"
