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

# Everything measured beside what else there is; `just bench quick` in a few minutes, `just bench pickup` the way of one request alone.
bench NAME="all" *ARGS:
    cargo bench -p holdfast-tests --bench bench -- {{NAME}} {{ARGS}}

# The roles as processes, one killed, another frozen, and a ledger.
demo *ARGS:
    cargo run --release --bin holdfast -- demo {{ARGS}}

# Everything breaks for so long, and a ledger that no service writes says what became of each request.
soak LENGTH="10m" *ARGS:
    cargo bench -p holdfast-tests --bench soak -- {{LENGTH}} {{ARGS}}

# Random sequences over all scripts beside the plain model, so many steps of them.
walk N="100000":
    HOLDFAST_STEPS={{N}} cargo test -p holdfast-tests --test walk the_scripts_do -- --nocapture

# Scripts with one fault each, all of them or those of one file, as `just mutants claim.lua`: each must be found out by the
# walk. Writes docs/mutants.md anew.
mutants FILE="all":
    HOLDFAST_MUTANTS={{FILE}} HOLDFAST_TABLE=write cargo test -p holdfast-tests --test walk mutant -- --nocapture

# One reader of foreign bytes under libFuzzer, guided by what it covers; a list of names comes without one. Needs a C++ compiler.
fuzz NAME="" SECONDS="60":
    tests/fuzz/run "{{NAME}}" {{SECONDS}}

# All of them, so many seconds each.
fuzz-all SECONDS="60":
    tests/fuzz/run all {{SECONDS}}

# Every state of the model, within some bounds: the whole family, with its figures.
model:
    HOLDFAST_MODEL=full cargo test --release -p holdfast-model --test explore -- --nocapture --test-threads 1

# The shipped worker under scripted clocks, networks and gateways, so many plays of each kind.
schedules N="1000":
    HOLDFAST_PLAYS={{N}} cargo test -p holdfast-schedules -- --nocapture

# 50 requests to a real model on CPU, a worker killed on the way.
realmodel:
    cargo test -p holdfast-tests --test realmodel

# What a failover costs at each level of durability, so many rounds of each: ten minutes a round; or some, as `just failover 3 paused`.
failover *ROUNDS:
    cargo test -p holdfast-tests --bench failover -- {{ROUNDS}}

# The tests that speak to Redis on every server, or on those that are named, as `just matrix redis-8`.
matrix *SERVERS:
    tests/matrix.sh {{SERVERS}}

# Everything in deploy/: rendered, checked, started, and the image replayed. Needs kustomize or kubectl, and root.
deploy:
    cargo test -p holdfast-tests --test deploy
