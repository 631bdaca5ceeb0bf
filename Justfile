# One list of recipes, the same words as in the README and the docs. Each line is a plain command,
# so that nobody needs just.

# Unit tests, the walk, real processes.
test:
    cargo test --workspace

# What a change must pass before its tests are looked at.
lint:
    cargo fmt --all --check
    cargo deny --config .cargo/deny.toml check --hide-inclusion-graph bans licenses sources
    cargo clippy --workspace --all-targets --locked -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace --locked

# The hard cases at full length; `test` runs them shortened.
cases:
    CASES_FULL=1 cargo test -p holdfast-tests --test cases
