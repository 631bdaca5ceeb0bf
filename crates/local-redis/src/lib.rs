//! Finds or fetches a redis-server or valkey-server and runs it privately.
