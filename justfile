# The commands of everyday work. `just` lists them.

_default:
    @just --list

# Start everything with sample data
demo *ARGS:
    cargo run -- demo {{ARGS}}

# Run the tests
test *ARGS:
    cargo test {{ARGS}}

# Format, lint, test, document: what CI does, without the outside suites
check:
    cargo fmt --check
    cargo clippy --all-targets --locked -- -D warnings
    cargo test --locked
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps

# Renew the golden files after looking at what changed
accept:
    MERCATO_ACCEPT=1 INSTA_UPDATE=always cargo test --test it
    git diff --stat -- schema.graphql snapshots

# Measure against the floors of the same run
bench *ARGS:
    cargo bench --bench service -- {{ARGS}}

# The suites that need Node and Python
outside:
    cargo build --locked
    bash tests/outside/run.sh
